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
from streamd.cli.connect import add_server_options, pravega, sesp, storage
from streamd.cli.show import Advance, amount, counted, progress, say
from streamd.cli.values import seconds

_SECONDS: Final = 15.0
_RECORD_BYTES: Final = 100
_AT_ONCE_BYTES: Final = 64 << 10


class Flow(NamedTuple):
    """How much went through."""

    records: int
    bytes: int
    seconds: float

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
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
        description="Publish as fast as it goes, one record at a time, and read it all back. Without --server, on a "
        "daemon of its own.",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=_SECONDS,
        metavar="N",
        help="for each of the two writes (default: %(default)g)",
    )
    parser.add_argument(
        "--size", type=size, default=_RECORD_BYTES, metavar="BYTES", help="of a record (default: %(default)s)"
    )
    parser.add_argument("--dir", metavar="DIR", help="where its store is made (default: the working directory)")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    add_server_options(parser, server_help="measure this daemon, by its Pravega service, not one of its own")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, and show it."""
    with _target(options) as topic:
        wanted = not options.json
        with progress("publish", round(options.seconds), shown=_seconds, rate=False, wanted=wanted) as advance:
            published = _publish(options, topic, advance)
        with progress("one at a time", round(options.seconds), shown=_seconds, rate=False, wanted=wanted) as advance:
            latencies = _one_at_a_time(options, topic, advance)
        with progress("read", published.bytes, wanted=wanted) as advance:
            read = _read(options, topic, advance)
    if options.json:
        told = {name: round(value * 1e6, 1) for name, value in percentiles(latencies).items()}
        print_json(
            {
                "record_bytes": options.size,
                "publish": published.told(),
                "read": read.told(),
                "latency_us": {"count": len(latencies), **told},
            }
        )
        return 0
    _show(options, published, read, latencies)
    return 0


def _seconds(count: float) -> str:
    return f"{count:.0f} s"


@contextmanager
def _target(options: argparse.Namespace) -> Iterator[str]:
    """A topic for it, of the daemon that is asked for, or of one of our own."""
    topic = f"streamctl-bench-{uuid4().hex[:12]}"
    if options.server is None:
        say("starting a daemon of its own; --server ADDRESS measures another one")
        # Its topic goes with it.
        with own_daemon(options.dir or ".") as (server, sesp_server):
            options.server, options.sesp = server, sesp_server
            _create(options, topic)
            yield topic
        return
    _create(options, topic)
    try:
        yield topic
    finally:
        with sesp(options) as admin:
            admin.delete(topic)


def _create(options: argparse.Namespace, topic: str) -> None:
    with storage(options) as client:
        client.create(topic)


class _Clock:
    """Runs for so many seconds, and tells of each whole one."""

    def __init__(self, seconds: float, advance: Advance) -> None:
        self.begin = time.monotonic()
        self._seconds = seconds
        self._advance = advance
        self._told = 0

    def is_over(self) -> bool:
        """Whether it is time to end."""
        passed = time.monotonic() - self.begin
        if passed >= self._told + 1:
            self._advance(int(passed) - self._told)
            self._told = int(passed)
        return passed >= self._seconds


def _publish(options: argparse.Namespace, topic: str, advance: Advance) -> Flow:
    """As fast as it goes, on one connection; the clock stops when all of it is on disk."""
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
    """Each record waits until the one before it is on disk: seconds from sending to the acknowledgement."""
    found = []
    record = [b"x" * options.size]
    with pravega(options) as client, client.writer(topic) as writer:
        clock = _Clock(options.seconds, advance)
        while not clock.is_over():
            begin = time.perf_counter()
            writer.write(record)
            writer.flush()
            found.append(time.perf_counter() - begin)
    return found


def _read(options: argparse.Namespace, topic: str, advance: Advance) -> Flow:
    """All of it, from the first to the last."""
    records = read = 0
    with storage(options) as client:
        info = client.segment(topic)
        begin = time.monotonic()
        for each in client.read(info.id, info.first_number, info.number):
            records += each.batch.count
            read += each.batch.size
            advance(each.batch.size)
        return Flow(records, read, max(time.monotonic() - begin, 1e-9))


def _show(options: argparse.Namespace, published: Flow, read: Flow, latencies: list[float]) -> None:
    for name, flow in (("publish", published), ("read", read)):
        rate = flow.records / flow.seconds
        print(f"{name + ':':9} {rate:>12,.0f} records/s  {amount(flow.bytes / flow.seconds):>10}/s", end="")
        print(f"  ({flow.records:,} in {flow.seconds:.1f} s)")
    print(f"of {counted(options.size, 'byte')} each, on one connection, acknowledged when on disk")
    print(f"latency:  {len(latencies):>12,} records one at a time, each on disk before the next")
    for name, latency in percentiles(latencies).items():
        print(f"  {name:7} {latency * 1000:>10.3f} ms")
    print()
    print("\n".join(plot(latencies)))
