"""``streamctl bench``: how fast this machine is, in a minute, and where a record's time goes.

Without ``--server`` a daemon of its own is started, on a directory that is removed afterwards: nobody's data is
touched, and the disk that is measured is the one that the directory is on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import uuid4

from streamd.cli.bench.daemon import own_daemon
from streamd.cli.bench.plot import percentiles, plot
from streamd.cli.command import print_json, size
from streamd.cli.connect import add_server_options, pravega, storage
from streamd.cli.show import Advance, amount, counted, progress, say
from streamd.cli.values import seconds

_SECONDS: Final = 15.0
_RECORD_BYTES: Final = 100
_AT_ONCE_BYTES: Final = 64 << 10


class Flow(NamedTuple):
    """How many records and bytes were processed, in which time."""

    records: int
    bytes: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        rate = self.records / self.seconds
        return {
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(rate),
            "bytes_per_second": round(self.bytes / self.seconds),
        }


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="measure what this machine, or a daemon, can do",
        description="Publish at full speed, then one message at a time, and read everything back. Without --server, on "
        "a temporary daemon.",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=_SECONDS,
        metavar="N",
        help="duration of each of the two writing phases (default: %(default)g)",
    )
    parser.add_argument(
        "--size", type=size, default=_RECORD_BYTES, metavar="BYTES", help="size of a message (default: %(default)s)"
    )
    parser.add_argument(
        "--dir", metavar="DIR", help="where the temporary store is created (default: the working directory)"
    )
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    add_server_options(parser, server_help="measure this daemon, by its Pravega service, instead of a temporary one")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print the result."""
    with _target(options) as topic:
        wanted = not options.json
        with progress("publish", round(options.seconds), shown=_seconds, rate=False, wanted=wanted) as advance:
            published = _publish(options, topic, advance)
        with progress("one at a time", round(options.seconds), shown=_seconds, rate=False, wanted=wanted) as advance:
            latencies = _one_at_a_time(options, topic, advance)
        with progress("read", published.bytes, wanted=wanted) as advance:
            read = _read(options, topic, advance)
    if options.json:
        figures = {name: round(value * 1e6, 1) for name, value in percentiles(latencies).items()}
        print_json(
            {
                "record_bytes": options.size,
                "publish": published.as_json(),
                "read": read.as_json(),
                "latency_us": {"count": len(latencies), **figures},
            }
        )
        return 0
    _show(options, published, read, latencies)
    return 0


def _seconds(count: float) -> str:
    return f"{count:.0f} s"


@contextmanager
def _target(options: argparse.Namespace) -> Iterator[str]:
    """A new topic, on the given daemon or on a temporary one."""
    topic = f"streamctl-bench-{uuid4().hex[:12]}"
    if options.server is None:
        say("starting a temporary daemon; --server ADDRESS measures another one")
        # Its topic goes with it.
        with own_daemon(options.dir or ".") as server:
            options.server = server
            _create(options, topic)
            yield topic
        return
    _create(options, topic)
    try:
        yield topic
    finally:
        with storage(options) as admin:
            admin.delete(admin.segment(topic).id)


def _create(options: argparse.Namespace, topic: str) -> None:
    with storage(options) as client:
        client.create(topic)


class _Clock:
    """Runs for so many seconds, and advances a progress bar at each whole one."""

    def __init__(self, seconds: float, advance: Advance) -> None:
        self.begin = time.monotonic()
        self._seconds = seconds
        self._advance = advance
        self._seconds_shown = 0

    def is_over(self) -> bool:
        """Whether the time is over."""
        passed = time.monotonic() - self.begin
        if passed >= self._seconds_shown + 1:
            self._advance(int(passed) - self._seconds_shown)
            self._seconds_shown = int(passed)
        return passed >= self._seconds


def _publish(options: argparse.Namespace, topic: str, advance: Advance) -> Flow:
    """Publish on one connection as fast as possible; the time ends when everything is on disk."""
    some = [b"x" * options.size] * max(_AT_ONCE_BYTES // (options.size + 8), 1)
    records = 0
    with pravega(options) as client, client.writer(topic) as writer:
        clock = _Clock(options.seconds, advance)
        while not clock.is_over():
            writer.write(some)
            records += len(some)
        writer.flush()
        return Flow(records, records * options.size, time.monotonic() - clock.begin)


def _one_at_a_time(options: argparse.Namespace, topic: str, advance: Advance) -> list[float]:
    """Publish records one by one, each after the one before is on disk; returns the latencies in seconds."""
    latencies = []
    record = [b"x" * options.size]
    with pravega(options) as client, client.writer(topic) as writer:
        clock = _Clock(options.seconds, advance)
        while not clock.is_over():
            begin = time.perf_counter()
            writer.write(record)
            writer.flush()
            latencies.append(time.perf_counter() - begin)
    return latencies


def _read(options: argparse.Namespace, topic: str, advance: Advance) -> Flow:
    """Read all records from the first to the last."""
    records = read = 0
    with storage(options) as client:
        info = client.segment(topic)
        begin = time.monotonic()
        for run in client.read(info.id, info.first_number, info.number):
            records += run.batch.count
            read += run.batch.size
            advance(run.batch.size)
        return Flow(records, read, max(time.monotonic() - begin, 1e-9))


def _show(options: argparse.Namespace, published: Flow, read: Flow, latencies: list[float]) -> None:
    for name, flow in (("publish", published), ("read", read)):
        rate = flow.records / flow.seconds
        print(f"{name + ':':9} {rate:>12,.0f} messages/s  {amount(flow.bytes / flow.seconds):>10}/s", end="")
        print(f"  ({flow.records:,} in {flow.seconds:.1f} s)")
    print(f"of {counted(options.size, 'byte')} each, on one connection, acknowledged when on disk")
    print(f"latency:  {len(latencies):>12,} messages one at a time, each on disk before the next")
    for name, latency in percentiles(latencies).items():
        print(f"  {name:7} {latency * 1000:>10.3f} ms")
    print()
    print("\n".join(plot(latencies)))
