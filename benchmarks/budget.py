"""What a message costs: the work of the reactor's thread for each, of every stream protocol, and where it goes.

Messages a second depend on the disk, the load generator and the neighbours. The work of one thread for one message
depends on them far less, so a change that costs a microsecond shows here. `--against REV` gives the same figures of
another revision, measured in turn with these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.case import MIB, SMALL_FILE_BYTES, Bench, Case, Figure, Sample, alone
from benchmarks.load import Mode, Result
from benchmarks.servers import Running

_CONNECTIONS = 200
_SECONDS = 5.0
_PRELOADED_BYTES = 128 * MIB

FIGURES = (
    Figure("reactor_us", "reactor's thread, for each message", "µs", 2),
    Figure("kernel_us", "of that in the kernel", "µs", 2),
    Figure("others_us", "other threads, for each message", "µs", 2),
    Figure("switches", "times that it slept, for each message", "", 3),
)


@dataclass(frozen=True)
class Work:
    """What the threads of a server have worked so far."""

    reactor_seconds: float
    others_seconds: float
    user_ticks: int
    system_ticks: int
    switches: int


def work(server: Running) -> Work:
    """Ask the kernel. The reactor's is the first thread; its time is exact, and split by ticks of some milliseconds."""
    process = server.process.pid
    tasks = Path(f"/proc/{process}/task")
    seconds = {
        each.name: int((each / "schedstat").read_text().split()[0]) / 1e9 for each in tasks.iterdir() if each.is_dir()
    }
    first = tasks / str(process)
    fields = (first / "stat").read_text().rpartition(")")[2].split()
    slept = next(
        line for line in (first / "status").read_text().splitlines() if line.startswith("voluntary_ctxt_switches")
    )
    reactor = seconds.pop(str(process))
    return Work(reactor, sum(seconds.values()), int(fields[11]), int(fields[12]), int(slept.split()[1]))


def measured(server: Running, load: Result, before: Work) -> Sample:
    """The figures of one load."""
    after = work(server)
    reactor_us = (after.reactor_seconds - before.reactor_seconds) / load.messages * 1e6
    user, system = after.user_ticks - before.user_ticks, after.system_ticks - before.system_ticks
    return {
        "reactor_us": reactor_us,
        "kernel_us": reactor_us * system / max(1, user + system),
        "others_us": (after.others_seconds - before.others_seconds) / load.messages * 1e6,
        "switches": (after.switches - before.switches) / load.messages,
        "load_cpu_share": load.cpu_share,
    }


def one_at_a_time(bench: Bench, server: Running, *, mode: Mode, stored: bool = False) -> Sample:
    """Each of 200 connections sends one, and waits for the answer; `stored`: to what was stored beforehand."""
    if stored:
        bench.load.run(server, "publish", messages=bench.messages(_PRELOADED_BYTES, 100))
    before = work(server)
    load = bench.load.run(server, mode, connections=_CONNECTIONS, seconds=bench.seconds(_SECONDS))
    return measured(server, load, before)


def pipelined(bench: Bench, server: Running) -> Sample:
    """One connection, which waits for nothing."""
    before = work(server)
    load = bench.load.run(server, "publish", messages=bench.messages(256 * MIB, 100))
    return measured(server, load, before)


def _single(service: str, name: str, title: str, mode: Mode, *, stored: bool = False) -> Case:
    # What is stored beforehand would be tens of files of the small kind.
    size = {} if stored else {"file_bytes": 2 * SMALL_FILE_BYTES}
    return alone(
        f"budget-{service}-{name}",
        f"work for {title}, one at a time, {_CONNECTIONS} connections",
        partial(one_at_a_time, mode=mode, stored=stored),
        *FIGURES,
        service=service,
        **size,  # type: ignore[arg-type]
    )


def _pipelined(service: str, title: str) -> Case:
    return alone(
        f"budget-{service}-pipelined",
        f"work for {title}, pipelined, 1 connection",
        pipelined,
        *FIGURES,
        service=service,
    )


BUDGET: tuple[Case, ...] = (
    _single("sesp", "publish", "SESP, publish 100 B", "ping"),
    _single("sesp", "read", "SESP, read 100 B", "fetch", stored=True),
    _pipelined("sesp", "SESP, publish 100 B"),
    _single("smq", "push", "SMQ, push 100 B", "ping"),
    _single("smq", "pull", "SMQ, pull 100 B", "fetch", stored=True),
    _pipelined("smq", "SMQ, push 100 B"),
    _single("faststream", "enqueue", "FastStreamDB, enqueue 100 B and a ping", "confirm"),
    _pipelined("faststream", "FastStreamDB, enqueue 100 B"),
    _single("pravega", "append", "Pravega, an event of 100 B in a block", "ping"),
    _pipelined("pravega", "Pravega, events of 100 B in blocks"),
)
