"""What is measured. One `Case` is one row group of the table: which servers, which figures, how, and what is wanted.

A new case is one more entry in `CASES`. `measure` gets a freshly started server and returns its figures by name.
"""

from __future__ import annotations

from functools import partial

from benchmarks.case import MIB, P50, P99, RATE, SMALL_FILE_BYTES, Bench, Case, Figure, Goal, Sample
from benchmarks.load import Result
from benchmarks.servers import Running
from benchmarks.upkeep import UPKEEP

# Peers get less time than bytes: what takes streamd a second takes them ten.
PEER_SECONDS = 5.0
_BOUNDED_BY_BYTES = ("limit", "streamd")


def _sample(result: Result, *figures: Figure) -> Sample:
    return {**{each.name: getattr(result, each.name) for each in figures}, "load_cpu_share": result.cpu_share}


def publish(bench: Bench, server: Running, *, size: int, total_bytes: int = 256 * MIB) -> Sample:
    """Pipelined publish on one connection, each message acknowledged."""
    seconds = 0.0 if server.name in _BOUNDED_BY_BYTES else bench.seconds(PEER_SECONDS)
    messages = bench.messages(total_bytes, size)
    return _sample(bench.load.run(server, "publish", size=size, messages=messages, seconds=seconds), RATE)


def one_at_a_time(bench: Bench, server: Running, *, connections: int, size: int = 100, seconds: float = 5) -> Sample:
    """Each connection publishes a message, waits for its acknowledgement, publishes the next."""
    result = bench.load.run(server, "ping", size=size, connections=connections, seconds=bench.seconds(seconds))
    return _sample(result, RATE, P50, P99)


def read(bench: Bench, server: Running, *, size: int, total_bytes: int = 256 * MIB) -> Sample:
    """Publish, then read all of it back on a new connection, each message by itself, pipelined."""
    seconds = 0.0 if server.name in _BOUNDED_BY_BYTES else bench.seconds(PEER_SECONDS)
    stored = bench.load.run(server, "publish", size=size, messages=bench.messages(total_bytes, size), seconds=seconds)
    return _sample(bench.load.run(server, "read", size=size, messages=stored.messages), RATE)


def memory_through(bench: Bench, server: Running, *, total_bytes: int, size: int = 1_000) -> Sample:
    """Resident memory before, and after many bytes went in and came out again."""
    messages = bench.messages(total_bytes, size)
    sample = {"start_mb": server.memory_bytes() / 1e6}
    bench.load.run(server, "publish", size=size, messages=messages, timeout_seconds=600)
    sample["published_mb"] = server.memory_bytes() / 1e6
    bench.load.run(server, "read", size=size, messages=messages, timeout_seconds=600)
    sample["read_mb"] = server.memory_bytes() / 1e6
    return sample


def memory_topics(bench: Bench, server: Running, *, topics: int) -> Sample:
    """Resident memory before, and after many topics were created, and how fast that went."""
    sample = {"start_mb": server.memory_bytes() / 1e6}
    result = bench.load.run(server, "topics", messages=topics, topic="t")
    sample["topics_mb"] = server.memory_bytes() / 1e6
    sample["rate"] = result.rate
    return sample


_MILLION = Goal("rate", 1_000_000, at_least=True)
_HALF_OF_LIMIT = Goal("rate", 0.5, at_least=True, against="limit")

CASES: tuple[Case, ...] = (
    Case(
        "publish-100",
        "publish 100 B, pipelined, 1 connection",
        (RATE,),
        partial(publish, size=100),
        goals=(_MILLION, _HALF_OF_LIMIT, Goal("rate", 6.0, at_least=True, against="redis")),
    ),
    Case(
        "publish-1k",
        "publish 1 KB, pipelined, 1 connection",
        (RATE,),
        partial(publish, size=1_000),
        goals=(_HALF_OF_LIMIT,),
    ),
    Case(
        "publish-10k",
        "publish 10 KB, pipelined, 1 connection",
        (RATE,),
        partial(publish, size=10_000),
        goals=(_HALF_OF_LIMIT,),
    ),
    Case(
        "read-100",
        "read 100 B, pipelined, 1 connection",
        (RATE,),
        partial(read, size=100),
        goals=(_MILLION,),
    ),
    Case(
        "single-1",
        "publish 100 B, one at a time, 1 connection",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=1, seconds=10),
        goals=(
            Goal("p50_us", 2.0, at_least=False, against="limit"),
            Goal("p99_us", 5.0, at_least=False, against="limit"),
        ),
        file_bytes=SMALL_FILE_BYTES,
    ),
    Case(
        "single-10",
        "publish 100 B, one at a time, 10 connections",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=10),
        file_bytes=SMALL_FILE_BYTES,
    ),
    Case(
        "single-200",
        "publish 100 B, one at a time, 200 connections",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=200),
        goals=(Goal("rate", 0.5, at_least=True, against="redis"),),
        file_bytes=2 * SMALL_FILE_BYTES,
    ),
    Case(
        "single-1000",
        "publish 100 B, one at a time, 1,000 connections",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=1_000),
        file_bytes=2 * SMALL_FILE_BYTES,
    ),
    Case(
        "smq-push",
        "SMQ, push 100 B, pipelined, 1 connection",
        (RATE,),
        partial(publish, size=100),
        servers=("streamd",),
        goals=(Goal("rate", 600_000, at_least=True),),
        service="smq",
    ),
    Case(
        "smq-pull",
        "SMQ, pull 100 B, pipelined, 1 connection",
        (RATE,),
        partial(read, size=100),
        servers=("streamd",),
        goals=(Goal("rate", 600_000, at_least=True),),
        service="smq",
    ),
    Case(
        "memory-through",
        "resident memory, 5 GB through in 1 KB messages",
        (
            Figure("start_mb", "at the start", "MB"),
            Figure("published_mb", "after publishing", "MB"),
            Figure("read_mb", "after reading back", "MB"),
        ),
        partial(memory_through, total_bytes=5_000_000_000),
        servers=("streamd",),
        rounds_max=1,
    ),
    Case(
        "memory-topics",
        "resident memory, 100,000 topics",
        (
            Figure("start_mb", "at the start", "MB"),
            Figure("topics_mb", "with the topics", "MB"),
            Figure("rate", "topics created/s", "/s"),
        ),
        partial(memory_topics, topics=100_000),
        servers=("streamd",),
        goals=(Goal("topics_mb", 300, at_least=False),),
        rounds_max=1,
    ),
    *UPKEEP,
)


def chosen(names: list[str]) -> list[Case]:
    """The cases of these names (``publish-1k``) or kinds (``publish``); all where none is given.

    KeyError names a stranger.
    """
    for name in names:
        if not any(name in (case.name, case.kind) for case in CASES):
            raise KeyError(name)
    return [case for case in CASES if not names or case.name in names or case.kind in names]
