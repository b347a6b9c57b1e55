"""What the store does in the background, measured: compaction, retention, memory, disk use and restart of streamd.

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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import mean
from threading import Event, Thread

from benchmarks.case import MIB, RATE, Bench, Case, Figure, Goal, Sample
from benchmarks.servers import Running, ServerError, resident_bytes

_GB = 1_000_000_000
_LOAD_SECONDS_MAX = 900.0
_SETTLE_SECONDS_MAX = 300.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_HOST = "127.0.0.1"


# -- the compactor, seen from outside ----------------------------------------------------------------------------------


def compactor(server: Running) -> int:
    """The process id of the daemon's compactor."""
    for each in server.children():
        with suppress(OSError):
            if b"streamd.store.compactor" in Path(f"/proc/{each}/cmdline").read_bytes():
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


# -- what is measured --------------------------------------------------------------------------------------------------


def compaction_publish(bench: Bench, server: Running, *, total_bytes: int, size: int = 100) -> Sample:
    """Publish rates with compaction off and on, and read rates from the journal and from packs."""
    half, part = bench.messages(total_bytes // 2, size), bench.messages(256 * MIB, size)

    def publish(topic: str, messages: int) -> float:
        return bench.load.run(
            server, "publish", size=size, messages=messages, topic=topic, timeout_seconds=_LOAD_SECONDS_MAX
        ).rate

    def read(topic: str) -> float:
        return bench.load.run(server, "read", size=size, messages=part, topic=topic).rate

    off, on = [], []
    with stopped(server):
        off.append(publish("packed", half))
    settle(server)
    begun, used = time.monotonic(), cpu_seconds(compactor(server))
    on += [publish("packed", half), publish("packed", half)]
    share = (cpu_seconds(compactor(server)) - used) / (time.monotonic() - begun)
    behind = journal_files(server) - 1
    settle(server)
    with stopped(server):
        off.append(publish("packed", half))
        publish("fresh", part)
        from_journal, from_packs = [], []
        from_journal.append(read("fresh"))
        from_packs += [read("packed"), read("packed")]
        from_journal.append(read("fresh"))
    return {
        "off": mean(off),
        "on": mean(on),
        "ratio": mean(on) / mean(off),
        "behind": behind,
        "share": 100 * share,
        "journal": mean(from_journal),
        "packs": mean(from_packs),
        "read_ratio": mean(from_packs) / mean(from_journal),
    }


def compaction_latency(bench: Bench, server: Running, *, seconds: float, size: int = 1_000) -> Sample:
    """What one connection waits for its reply beside a bulk load, with compaction off and on."""
    each = bench.seconds(seconds)

    def waited() -> float:
        with ThreadPoolExecutor(1) as pool:
            # It begins before and ends after the other.
            bulk = pool.submit(bench.load.run, server, "publish", size=size, seconds=each + 2, topic="bulk")
            time.sleep(1)
            result = bench.load.run(server, "ping", seconds=each, topic="other")
            bulk.result()
        return result.p99_us

    off, on = [], []
    with stopped(server):
        off.append(waited())
    begun, used = time.monotonic(), cpu_seconds(compactor(server))
    on += [waited(), waited()]
    share = (cpu_seconds(compactor(server)) - used) / (time.monotonic() - begun)
    settle(server)
    with stopped(server):
        off.append(waited())
    return {"off": mean(off), "on": mean(on), "ratio": mean(on) / mean(off), "share": 100 * share}


def memory_retention(bench: Bench, server: Running, *, total_bytes: int, size: int = 1_000) -> Sample:
    """The most resident memory and disk room while many bytes go through and few are kept."""
    messages = bench.messages(total_bytes, size)
    with watched(
        daemon=lambda: resident_bytes(server.process.pid),
        compactor=lambda: resident_bytes(compactor(server)),
        disk=lambda: disk_bytes(server),
    ) as highest:
        result = bench.load.run(server, "publish", size=size, messages=messages, timeout_seconds=_LOAD_SECONDS_MAX)
    return {
        "daemon_mb": highest["daemon"] / 1e6,
        "compactor_mb": highest["compactor"] / 1e6,
        "disk_mb_max": highest["disk"] / 1e6,
        "rate": result.rate,
    }


def disk_churn(bench: Bench, server: Running, *, seconds: float, topics: int, topic_bytes: int) -> Sample:
    """Topics come, are filled, cut by retention and go; afterwards, what the disk holds for what can be read."""
    writers, size = 4, 1_000
    written, names = 0, iter(range(1_000_000))
    end = time.monotonic() + bench.seconds(seconds)
    alive: list[str] = []
    while time.monotonic() < end or len(alive) < topics:
        # Several at a time, so that packs hold records of several topics; a third more than retention leaves.
        some = [f"churn-{next(names)}" for _ in range(writers)]
        with ThreadPoolExecutor(writers) as pool:
            messages = bench.messages(topic_bytes * 4 // 3, size)
            loads = [
                pool.submit(bench.load.run, server, "publish", size=size, messages=messages, topic=each)
                for each in some
            ]
            written += sum(each.result().messages for each in loads) * size
        alive += some
        # Not the oldest ones alone: what dies lies between what lives.
        gone = [alive.pop(index) for index in (0, len(alive) // 2, len(alive) // 3, 1) if len(alive) > topics]
        ask(server, *(f"!{each}" for each in gone))
    first = disk_bytes(server) / live_bytes(server)
    time.sleep(5)
    settle(server)
    live = live_bytes(server)
    return {
        "written_mb": written / 1e6,
        "live_mb": live / 1e6,
        "at_once": first,
        "ratio": disk_bytes(server) / live,
    }


def restart(bench: Bench, server: Running, *, total_bytes: int, commits: int) -> Sample:
    """Kill -9 with much stored and as many small commits in the journal as there may be, and start again."""
    stored = bench.messages(total_bytes, 1_000)
    bench.load.run(server, "publish", size=1_000, messages=stored, topic="stored", timeout_seconds=_LOAD_SECONDS_MAX)
    settle(server)
    idle = server.kill_and_restart()
    single = commits // (8 if bench.quick else 1)
    with stopped(server):
        bench.load.run(server, "ping", messages=single, topic="single", timeout_seconds=_LOAD_SECONDS_MAX)
        files = journal_files(server)
        seconds = server.kill_and_restart()
    for topic, messages in (("stored", stored), ("single", single)):
        (told,) = ask(server, f"?{topic}")
        if json.loads(told[1:])["messages"] != messages:
            raise ServerError(f"{topic} had {messages} messages before the restart and has {told} now")
    return {"idle": idle, "seconds": seconds, "files": files, "memory_mb": server.memory_bytes() / 1e6}


def memory_million(bench: Bench, server: Running, *, topics: int) -> Sample:
    """Resident memory with many topics of one small message each, and the restart after it."""
    count = topics // (8 if bench.quick else 1)
    with watched(daemon=lambda: resident_bytes(server.process.pid)) as highest:
        bench.load.run(server, "topics", messages=count, topic="t", timeout_seconds=_LOAD_SECONDS_MAX)
        # Each message takes a connection of its own; more at a time than a listening socket queues would wait for it.
        bench.load.run(
            server, "fill", messages=count, size=10, connections=40, topic="t", timeout_seconds=_LOAD_SECONDS_MAX
        )
        settle(server)
        sample = {"filled_mb": server.memory_bytes() / 1e6}
    sample["highest_mb"] = highest["daemon"] / 1e6
    sample["seconds"] = server.kill_and_restart()
    sample["restarted_mb"] = server.memory_bytes() / 1e6
    return sample


# -- the cases ---------------------------------------------------------------------------------------------------------

_ONLY = ("streamd",)
_OF_A_CORE = Figure("share", "compactor, of one core", "%")
_EVERY_HALF_SECOND = "retention_seconds = 0.5\n"

UPKEEP: tuple[Case, ...] = (
    Case(
        "compaction-publish",
        "publish 100 B, pipelined, 1 GB with compaction on",
        (
            Figure("off", "messages/s, compaction off", "/s"),
            Figure("on", "messages/s, compaction on", "/s"),
            Figure("ratio", "on/off", "", 2),
            Figure("behind", "journal files not folded at the end", ""),
            _OF_A_CORE,
            Figure("journal", "messages read/s from the journal", "/s"),
            Figure("packs", "messages read/s from packs", "/s"),
            Figure("read_ratio", "packs/journal", "", 2),
        ),
        partial(compaction_publish, total_bytes=_GB),
        servers=_ONLY,
        goals=(Goal("ratio", 0.75, at_least=True), Goal("read_ratio", 0.75, at_least=True)),
    ),
    Case(
        "compaction-latency",
        "publish 100 B, one at a time, beside a bulk load",
        (
            Figure("off", "p99, compaction off", "µs"),
            Figure("on", "p99, compaction on", "µs"),
            Figure("ratio", "on/off", "", 2),
            _OF_A_CORE,
        ),
        partial(compaction_latency, seconds=5),
        servers=_ONLY,
        goals=(Goal("ratio", 2.0, at_least=False),),
    ),
    Case(
        "memory-20gb",
        "20 GB through in 1 KB messages, 1 GB kept",
        (
            Figure("daemon_mb", "most memory, daemon", "MB"),
            Figure("compactor_mb", "most memory, compactor", "MB"),
            Figure("disk_mb_max", "most disk", "MB"),
            RATE,
        ),
        partial(memory_retention, total_bytes=20 * _GB),
        servers=_ONLY,
        goals=(Goal("daemon_mb", 250, at_least=False),),
        settings=f'{_EVERY_HALF_SECOND}[[retention]]\npattern = "bench"\nbytes_max = {_GB}\n',
        rounds_max=1,
    ),
    Case(
        "disk-churn",
        "topics filled, cut and deleted for a minute",
        (
            Figure("written_mb", "written", "MB"),
            Figure("live_mb", "live at the end", "MB"),
            Figure("at_once", "disk/live at once", "", 2),
            Figure("ratio", "disk/live some seconds later", "", 2),
        ),
        partial(disk_churn, seconds=60, topics=20, topic_bytes=75_000_000),
        servers=_ONLY,
        goals=(Goal("ratio", 1.3, at_least=False),),
        settings=f'{_EVERY_HALF_SECOND}[[retention]]\npattern = "churn-*"\nbytes_max = 75000000\n',
        rounds_max=1,
    ),
    Case(
        "restart",
        "ready after kill -9, 10 GB stored, 190,000 one-record commits",
        (
            Figure("idle", "with all folded", "s", 2),
            Figure("seconds", "with the full journal", "s", 2),
            Figure("files", "journal files", ""),
            Figure("memory_mb", "memory after it", "MB"),
        ),
        partial(restart, total_bytes=10 * _GB, commits=190_000),
        servers=_ONLY,
        goals=(Goal("seconds", 3.0, at_least=False),),
        # A sync for each commit would take minutes. What recovery finds is the same, but for the last 100 ms.
        settings='sync = "interval"\n',
        rounds_max=1,
    ),
    Case(
        "memory-million",
        "a million topics with a message each",
        (
            Figure("filled_mb", "memory", "MB"),
            Figure("highest_mb", "most memory on the way", "MB"),
            Figure("seconds", "ready after kill -9", "s", 2),
            Figure("restarted_mb", "memory after that", "MB"),
        ),
        partial(memory_million, topics=1_000_000),
        servers=_ONLY,
        goals=(Goal("filled_mb", 1_074, at_least=False),),
        rounds_max=1,
    ),
)
