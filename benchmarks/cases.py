"""What is measured. One `Case` is one row group of the table: which servers, which figures, how, and what is wanted.

A new case is one more entry in `CASES`. `measure` gets a freshly started server and returns its figures by name.
"""

from __future__ import annotations

from functools import partial

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
from benchmarks.measure import memory_through, memory_topics, one_at_a_time, publish, read
from benchmarks.protocols import PROTOCOLS
from benchmarks.spark import SPARK
from benchmarks.upkeep import UPKEEP

_MILLION = at_least("rate", 1_000_000)
_HALF_OF_LIMIT = at_least("rate", 0.5, "limit")

CASES: tuple[Case, ...] = (
    Case(
        "publish-100",
        "publish 100 B, pipelined, 1 connection",
        (RATE,),
        partial(publish, size=100),
        goals=(_MILLION, _HALF_OF_LIMIT, at_least("rate", 6.0, "redis")),
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
    Case("read-100", "read 100 B, pipelined, 1 connection", (RATE,), partial(read, size=100), goals=(_MILLION,)),
    Case(
        "single-1",
        "publish 100 B, one at a time, 1 connection",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=1, seconds=10),
        goals=(at_most("p50_us", 2.0, "limit"), at_most("p99_us", 5.0, "limit")),
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
        goals=(at_least("rate", 0.5, "redis"),),
        file_bytes=2 * SMALL_FILE_BYTES,
    ),
    Case(
        "single-1000",
        "publish 100 B, one at a time, 1,000 connections",
        (RATE, P50, P99),
        partial(one_at_a_time, connections=1_000),
        file_bytes=2 * SMALL_FILE_BYTES,
    ),
    *PROTOCOLS,
    *FUJIN,
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
    *UPKEEP,
    *SPARK,
)


def chosen(names: list[str]) -> list[Case]:
    """The cases of these names (``publish-1k``) or kinds (``publish``); all where none is given.

    KeyError names a stranger.
    """
    for name in names:
        if not any(name in (case.name, case.kind) for case in CASES):
            raise KeyError(name)
    return [case for case in CASES if not names or case.name in names or case.kind in names]
