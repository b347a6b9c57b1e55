"""SMQ, FastStreamDB and Pravega, streamd alone but for the disk: messages, contents, messages to all, large events.

FastStreamDB answers no enqueue. Behind the last one the load generator asks whether the stream is there: that question
reads, so its answer comes when everything before it is on disk, and with it the clock stops.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.case import MIB, P50, P99, RATE, Bench, Case, Figure, Goal, Measure, Sample, alone, at_least, at_most
from benchmarks.measure import one_at_a_time, publish, read
from benchmarks.servers import Running
from benchmarks.watch import off_and_on, reactor_seconds

_EVENT_HEADER_BYTES = 8


def to_all(bench: Bench, server: Running, *, streams: int, messages: int) -> Sample:
    """What the reactor works for each stream that a message to all of them reaches."""
    count = bench.count(streams)
    bench.load.run(server, "topics", messages=count)
    before = reactor_seconds(server)
    result = bench.load.run(server, "everybody", messages=messages)
    used = reactor_seconds(server) - before
    return {"reactor_ns": used * 1e9 / count / messages, "streams_per_second": result.rate * count}


def stall(bench: Bench, server: Running, *, streams: int, seconds: float) -> Sample:
    """The longest that another connection waits for its pong: with nothing else to do, and beside messages to all."""
    bench.load.run(server, "topics", messages=bench.count(streams))
    each = bench.seconds(seconds)
    idle = bench.load.run(server, "ping", seconds=each)
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(bench.load.run, server, "ping", seconds=each)
        sent = 0
        while not beside.done() or not sent:
            bench.load.run(server, "everybody", messages=1)
            sent += 1
    return {"idle_ms": idle.max_us / 1e3, "stall_ms": beside.result().max_us / 1e3, "sent": sent}


def read_bytes(bench: Bench, server: Running, *, size: int) -> Sample:
    """Read a segment just written, which the page cache holds; the bytes are those of the segment, headers included."""
    sample = read(bench, server, size=size)
    return {**sample, "mb": sample["rate"] * (_EVENT_HEADER_BYTES + size) / 1e6}


def large(bench: Bench, server: Running, *, size: int, total_bytes: int) -> Sample:
    """Large events, with compaction off and on; `limit`, which has none, says what the disk takes meanwhile."""

    def mb_per_second() -> float:
        messages = bench.messages(total_bytes // 4, size)
        return bench.load.run(server, "publish", size=size, messages=messages, timeout_seconds=600).rate * size / 1e6

    if server.name == "limit":
        rates = [mb_per_second() for _ in range(4)]
        return {"off": (rates[0] + rates[3]) / 2, "on": (rates[1] + rates[2]) / 2}
    return off_and_on(server, mb_per_second).sample()


def _case(name: str, title: str, measure: Measure, *figures: Figure, goals: tuple[Goal, ...] = ()) -> Case:
    """A case of the protocol that its name begins with."""
    return alone(name, title, measure, *figures, goals=goals, service=name.partition("-")[0])


def _rate(name: str, title: str, measure: Measure, wanted: float = 0) -> Case:
    """One that gives messages a second."""
    return _case(name, title, measure, RATE, goals=(at_least("rate", wanted),) if wanted else ())


_PUBLISH = partial(publish, size=100)
_READ = partial(read, size=100)
_TAKE = partial(read, size=100, mode="take")


def _single(name: str, title: str, measure: Measure) -> Case:
    """One of 200 connections that send one message at a time: SESP's rate is in `single-200`."""
    return _case(name, f"{title}, one at a time, 200 connections", measure, RATE, P50, P99)


def pull_one_at_a_time(bench: Bench, server: Running) -> Sample:
    """A million messages wait; each connection pulls one after the other."""
    bench.load.run(server, "publish", size=100, messages=bench.count(1_000_000))
    return one_at_a_time(bench, server, connections=200, mode="fetch")


_ONE_AT_A_TIME = partial(one_at_a_time, connections=200)

PROTOCOLS: tuple[Case, ...] = (
    _single("smq-single-push", "SMQ, push 100 B", _ONE_AT_A_TIME),
    _single("smq-single-pull", "SMQ, pull 100 B", pull_one_at_a_time),
    _single("faststream-single", "FastStreamDB, enqueue 100 B and a ping", partial(_ONE_AT_A_TIME, mode="confirm")),
    _single("pravega-single", "Pravega, an event of 100 B in a block", _ONE_AT_A_TIME),
    _rate("smq-push", "SMQ, push 100 B, pipelined, 1 connection", _PUBLISH, 600_000),
    _rate("smq-pull", "SMQ, pull 100 B, pipelined, 1 connection", _READ, 600_000),
    _rate("faststream-enqueue", "FastStreamDB, enqueue 100 B, pipelined, 1 connection", _PUBLISH, 1_200_000),
    _rate("faststream-peek", "FastStreamDB, contents of a stream with 100 B messages", _READ),
    _rate("faststream-take", "FastStreamDB, the same, and they are removed", _TAKE),
    _case(
        "faststream-all",
        "FastStreamDB, 100 B to each of 10,000 streams",
        partial(to_all, streams=10_000, messages=100),
        Figure("reactor_ns", "reactor, for each stream", "ns", 1),
        Figure("streams_per_second", "streams reached/s", "/s"),
        goals=(at_most("reactor_ns", 1_000),),
    ),
    _case(
        "faststream-stall",
        "FastStreamDB, a ping beside messages to 100,000 streams",
        partial(stall, streams=100_000, seconds=10),
        Figure("idle_ms", "longest wait, idle", "ms", 1),
        Figure("stall_ms", "longest wait, beside them", "ms", 1),
        Figure("sent", "messages to all meanwhile", ""),
        goals=(at_most("stall_ms", 20.0),),
    ),
    _rate("pravega-append", "Pravega, 100 B events in blocks of 32 KiB, 1 writer", _PUBLISH, 1_500_000),
    *(
        _case(
            f"pravega-read-{name}",
            f"Pravega, read {title} events just written",
            partial(read_bytes, size=size),
            Figure("mb", "MB/s", "/s"),
            RATE,
            goals=(at_least("mb", 500),),
        )
        for name, title, size in (("100", "100 B", 100), ("10k", "10 KB", 10_000))
    ),
    Case(
        "pravega-large",
        "Pravega, 100 KB events beside what the disk takes",
        (Figure("off", "MB/s, compaction off", "/s"), Figure("on", "MB/s, compaction on", "/s")),
        partial(large, size=100_000, total_bytes=1024 * MIB),
        servers=("limit", "streamd"),
        goals=(at_least("off", 0.8, "limit"), at_least("on", 0.4, "limit")),
        service="pravega",
        rounds_max=2,
    ),
)
