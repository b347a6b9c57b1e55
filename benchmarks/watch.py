"""A running streamd seen from outside: its compactor, its threads, its disk room, and what it says of itself.

The compactor is turned off with SIGSTOP, so that on and off are the same daemon on the same data. What is measured with
it off and on is measured in the order off, on, on, off: whatever drifts in between concerns both alike.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from threading import Event, Thread

from benchmarks.servers import Running, ServerError

_SETTLE_SECONDS_MAX = 300.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_HOST = "127.0.0.1"


# -- the compactor, seen from outside ----------------------------------------------------------------------------------


def compactor(server: Running) -> int:
    """The process id of the daemon's compactor."""
    for each in server.children():
        with suppress(OSError):
            if b"streamd.store.packs.compactor" in Path(f"/proc/{each}/cmdline").read_bytes():
                return each
    raise ServerError(f"{server.name} has no compactor")


@contextmanager
def stopped(server: Running) -> Iterator[None]:
    """Let the compactor do nothing."""
    process = compactor(server)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # killed together with its daemon
            os.kill(process, signal.SIGCONT)


def cpu_seconds(process: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def reactor_seconds(server: Running) -> float:
    """The processor time that a server's first thread has used: streamd's reactor. The writer's is not in it."""
    process = server.process.pid
    return int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[0]) / 1e9


def journal_files(server: Running) -> int:
    """How many journal files there are; one of them is being written to."""
    return len(list((server.directory / "data" / "journal").glob("*.journal")))


def settle(server: Running) -> float:
    """Wait until all closed journal files are folded and nothing is left to merge; returns the seconds that took."""
    begun = time.monotonic()
    quiet_since, used = begun, 0.0
    while time.monotonic() < begun + _SETTLE_SECONDS_MAX:
        now, before, used = time.monotonic(), used, cpu_seconds(compactor(server))
        if journal_files(server) > 1 or used > before:
            quiet_since = now
        elif now - quiet_since > 1.0:
            return quiet_since - begun
        time.sleep(0.1)
    raise ServerError(f"compaction had not settled after {_SETTLE_SECONDS_MAX:.0f} s")


@dataclass(frozen=True)
class Compared:
    """A figure with compaction off and on."""

    off: float
    on: float
    share: float
    """How much of one core the compactor used while it was on."""
    behind: int
    """Closed journal files that it had not folded when the load ended."""

    def sample(self) -> dict[str, float]:
        """What every case shows of it."""
        return {"off": self.off, "on": self.on, "ratio": self.on / self.off, "share": 100 * self.share}


def off_and_on(server: Running, measure: Callable[[], float], *, settled: bool = True) -> Compared:
    """Measure with compaction off, on, on and off; `settled`: when it comes on, nothing is left for it to do."""
    off, on = [], []
    with stopped(server):
        off.append(measure())
    if settled:
        settle(server)
    begun, used = time.monotonic(), cpu_seconds(compactor(server))
    on += [measure(), measure()]
    share = (cpu_seconds(compactor(server)) - used) / (time.monotonic() - begun)
    behind = journal_files(server) - 1
    settle(server)
    with stopped(server):
        off.append(measure())
    return Compared(mean(off), mean(on), share, behind)


# -- the daemon, asked by its own protocol -----------------------------------------------------------------------------


def ask(server: Running, *commands: str) -> list[str]:
    """Send SESP commands on a connection of their own; returns the replies."""
    with socket.create_connection((_HOST, server.port), timeout=60) as connection, connection.makefile("rwb") as lines:
        lines.write("".join(f"{each}\n" for each in commands).encode())
        lines.flush()
        return [lines.readline().decode().rstrip("\n") for _ in commands]


def live_bytes(server: Running) -> int:
    """The bytes of all messages that can be read, 8 more for each, as `?NAME` counts them."""
    (names,) = ask(server, "?")
    topics = ask(server, *(f"?{name}" for name in json.loads(names[1:])))
    return sum(json.loads(each[1:])["bytes"] for each in topics)


def disk_bytes(server: Running) -> int:
    """The disk room that the data directory takes, the allocated but unused part of the journal included."""
    total = 0
    for each in (server.directory / "data").rglob("*"):
        with suppress(FileNotFoundError):  # removed meanwhile
            total += each.stat().st_blocks * 512
    return total


@contextmanager
def watched(**what: Callable[[], float | None]) -> Iterator[dict[str, float]]:
    """Ask for some values again and again; the dictionary has the highest of each."""
    highest = dict.fromkeys(what, 0.0)
    ended = Event()

    def watch() -> None:
        while not ended.wait(0.1):
            for name, value in what.items():
                with suppress(ServerError, OSError):
                    highest[name] = max(highest[name], value() or 0.0)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield highest
    finally:
        ended.set()
        thread.join()
