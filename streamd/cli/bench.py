"""``streamctl bench``: how fast this machine is, in a minute, and where a message's time goes.

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

from streamd.cli.bench_daemon import own_daemon
from streamd.cli.bench_plot import percentiles, plot
from streamd.cli.command import print_json, size
from streamd.cli.connect import add_server_options, pravega, sesp, storage
from streamd.cli.show import amount, progress, say
from streamd.cli.values import seconds

_SECONDS: Final = 15.0
_MESSAGE_BYTES: Final = 100
_AT_ONCE_BYTES: Final = 64 << 10


class Flow(NamedTuple):
    """How much went through."""

    messages: int
    bytes: int
    seconds: float

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        rate = self.messages / self.seconds
        return {
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(rate),
            "bytes_per_second": round(self.bytes / self.seconds),
        }


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="measure what this machine, or a daemon, can do",
        description="Publish as fast as it goes, one message at a time, and read it all back. Without --server, on a "
        "daemon of its own.",
    )
    parser.add_argument(
        "--seconds", type=seconds, default=_SECONDS, metavar="N", help="for each of the two writes (default: 15)"
    )
    parser.add_argument("--size", type=size, default=_MESSAGE_BYTES, metavar="BYTES", help="of a message (100)")
    parser.add_argument("--dir", metavar="DIR", help="where its store is made (default: the working directory)")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    add_server_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, and show it."""
    with _target(options):
        topic = f"streamctl-bench-{uuid4().hex[:12]}"
        with storage(options) as client:
            client.create(topic)
        try:
            with progress("bench", round(3 * options.seconds), is_bytes=False, wanted=not options.json) as advance:
                published = _publish(options, topic)
                advance(round(options.seconds))
                latencies = _one_at_a_time(options, topic)
                advance(round(options.seconds))
                read = _read(options, topic)
        finally:
            with sesp(options) as admin:
                admin.delete(topic)
    if options.json:
        told = {name: round(value * 1e6, 1) for name, value in percentiles(latencies).items()}
        print_json(
            {
                "message_bytes": options.size,
                "publish": published.told(),
                "read": read.told(),
                "latency_us": {"count": len(latencies), **told},
            }
        )
        return 0
    _show(options, published, read, latencies)
    return 0


@contextmanager
def _target(options: argparse.Namespace) -> Iterator[None]:
    """The daemon that is asked for, or one of our own."""
    if options.server is not None:
        yield
        return
    say("starting a daemon of its own; --server ADDRESS measures another one")
    with own_daemon(options.dir or ".") as (server, sesp_server):
        options.server, options.sesp = server, sesp_server
        yield


def _publish(options: argparse.Namespace, topic: str) -> Flow:
    """As fast as it goes, on one connection; the clock stops when all of it is on disk."""
    some = [b"x" * options.size] * max(_AT_ONCE_BYTES // (options.size + 8), 1)
    messages = 0
    with pravega(options) as client, client.writer(topic) as writer:
        begin = time.monotonic()
        while time.monotonic() < begin + options.seconds:
            writer.write(some)
            messages += len(some)
        writer.flush()
        return Flow(messages, messages * options.size, time.monotonic() - begin)


def _one_at_a_time(options: argparse.Namespace, topic: str) -> list[float]:
    """Each message waits until the one before it is on disk: seconds from sending to the acknowledgement."""
    found = []
    message = [b"x" * options.size]
    with pravega(options) as client, client.writer(topic) as writer:
        end = time.monotonic() + options.seconds
        while (begin := time.perf_counter()) and time.monotonic() < end:
            writer.write(message)
            writer.flush()
            found.append(time.perf_counter() - begin)
    return found


def _read(options: argparse.Namespace, topic: str) -> Flow:
    """All of it, from the first to the last."""
    messages = read = 0
    with storage(options) as client:
        info = client.segment(topic)
        begin = time.monotonic()
        for each in client.read(info.id, info.first_number, info.number):
            messages += each.batch.count
            read += each.batch.size
        return Flow(messages, read, max(time.monotonic() - begin, 1e-9))


def _show(options: argparse.Namespace, published: Flow, read: Flow, latencies: list[float]) -> None:
    for name, flow in (("publish", published), ("read", read)):
        rate = flow.messages / flow.seconds
        print(f"{name + ':':9} {rate:>12,.0f} messages/s  {amount(flow.bytes / flow.seconds):>10}/s", end="")
        print(f"  ({flow.messages:,} of {options.size} bytes in {flow.seconds:.1f} s)")
    print(f"latency:  {len(latencies):>12,} messages one at a time, each on disk before the next")
    for name, latency in percentiles(latencies).items():
        print(f"  {name:7} {latency * 1000:>10.3f} ms")
    print()
    print("\n".join(plot(latencies)))
