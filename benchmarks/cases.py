"""What is measured. One `Case` is one row group of the table: which servers, which figures, how, and what is wanted.

A new case is one more entry in `CASES`. `measure` gets a freshly started server and returns its figures by name.
"""

from __future__ import annotations

from functools import partial

from benchmarks.budget import BUDGET
from benchmarks.case import (
    P50,
    P99,
    RATE,
    SMALL_FILE_BYTES,
    Case,
    Figure,
    alone,
    at_least,
    at_most,
)
from benchmarks.fujin import FUJIN
from benchmarks.groups import GROUPS
from benchmarks.measure import idle, memory_through, memory_topics, one_at_a_time, publish, read, read_one_at_a_time
from benchmarks.pravega import PRAVEGA
from benchmarks.protocols import PROTOCOLS
from benchmarks.spark import SPARK
from benchmarks.spark_archive import SPARK_ARCHIVE
from benchmarks.upkeep import UPKEEP

_MILLION = at_least("rate", 1_000_000)
_MOST_OF_LIMIT = at_least("rate", 0.6, "limit")
_NOT_BEHIND = (at_most("p50_us", 1.0, "redis"), at_most("p99_us", 1.3, "redis"))
_AHEAD = (at_least("rate", 1.0, "redis"), at_most("p99_us", 1.3, "redis"))

CASES: tuple[Case, ...] = (
    Case(
        "publish-100",
        "publish 100 B, pipelined, 1 connection",
        (RATE,),
        partial(publish, size=100),
        goals=(_MILLION, _MOST_OF_LIMIT, at_least("rate", 10.0, "redis")),
    ),
    Case(
        "publish-1k",
        "publish 1 KB, pipelined, 1 connection",
        (RATE,),
        partial(publish, size=1_000),
        goals=(_MOST_OF_LIMIT,),
    ),
    Case(
        "publish-10k",
        "publish 10 KB, pipelined, 1 connection",
        (RATE,),
        partial(publish, size=10_000),
        goals=(_MOST_OF_LIMIT,),
    ),
    Case(
        "publish-many",
        "publish 100 B, pipelined, 200 connections",
        (RATE,),
        partial(publish, size=100, connections=200),
        servers=("limit", "streamd", "redis"),
        goals=(_MILLION,),
    ),
    Case("read-100", "read 100 B, pipelined, 1 connection", (RATE,), partial(read, size=100), goals=(_MILLION,)),
    Case(
        "single-1",
        "publish 100 B, one at a time, 1 connection",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=1, seconds=10),
        goals=_NOT_BEHIND,
        file_bytes=SMALL_FILE_BYTES,
    ),
    Case(
        "single-10",
        "publish 100 B, one at a time, 10 connections",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=10),
        goals=_NOT_BEHIND,
        file_bytes=SMALL_FILE_BYTES,
    ),
    Case(
        "single-200",
        "publish 100 B, one at a time, 200 connections",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=200),
        goals=_AHEAD,
        file_bytes=2 * SMALL_FILE_BYTES,
    ),
    Case(
        "single-1000",
        "publish 100 B, one at a time, 1,000 connections",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=1_000),
        goals=_AHEAD,
        file_bytes=2 * SMALL_FILE_BYTES,
    ),
    Case(
        "read-single",
        "read 100 B, one at a time, 200 connections",
        (RATE, P50, P99),
        partial(read_one_at_a_time, connections=200, messages=200_000),
        servers=("streamd", "redis"),
        goals=(at_least("rate", 1.0, "redis"),),
    ),
    *PROTOCOLS,
    *FUJIN,
    *PRAVEGA,
    alone(
        "memory-through",
        "resident memory, 5 GB through in 1 KB messages",
        partial(memory_through, total_bytes=5_000_000_000),
        Figure("start_mb", "at the start", "MB"),
        Figure("published_mb", "after publishing", "MB"),
        Figure("read_mb", "after reading back", "MB"),
        rounds_max=1,
    ),
    *(
        alone(
            f"memory-{name}",
            f"resident memory, {title}",
            partial(memory_topics, topics=topics),
            Figure("start_mb", "at the start", "MB"),
            Figure("topics_mb", "with all of them", "MB"),
            Figure("rate", "created/s", "/s"),
            goals=(at_most("topics_mb", mb_max),),
            service=service,
            rounds_max=1,
        )
        for name, title, topics, mb_max, service in (
            ("topics", "100,000 topics", 100_000, 300, "sesp"),
            ("streams", "a million FastStreamDB streams", 1_000_000, 1_074, "faststream"),
        )
    ),
    alone(
        "idle-connections",
        "10,000 connections that say nothing",
        partial(idle, connections=10_000),
        Figure("idle_mb", "resident memory with them", "MB"),
        Figure("idle_ms", "processor time in 5 seconds", "ms", 1),
        goals=(at_most("idle_mb", 150), at_most("idle_ms", 20)),
        settings="[limits]\nconnections_max = 10100\n",
        rounds_max=1,
    ),
    *UPKEEP,
    *BUDGET,
    *GROUPS,
    *SPARK,
    *SPARK_ARCHIVE,
)


def chosen(names: list[str]) -> list[Case]:
    """The cases of these names (``publish-1k``) or kinds (``publish``); all where none is given.

    KeyError names a stranger.
    """
    for name in names:
        if not any(name in (case.name, case.kind) for case in CASES):
            raise KeyError(name)
    return [case for case in CASES if not names or case.name in names or case.kind in names]
