"""Fujin over QUIC, beside a bare QUIC server that only receives.

Load and server are both Python, and the load has as much to do for a message as the server. So beside what is reached
in a second stands what the server's own thread works for each message, which does not depend on how fast the load is.
"""

from __future__ import annotations

from functools import partial
from typing import TypedDict, Unpack

from benchmarks.case import MIB, P50, P99, RATE, SMALL_FILE_BYTES, Bench, Case, Figure, Sample, alone, at_least, at_most
from benchmarks.load import QuicKind, run_quic
from benchmarks.measure import sampled
from benchmarks.servers import Running
from benchmarks.watch import reactor_seconds

_MESSAGES = 600_000
_PUSHED = 400_000
_SECONDS = 5.0

# Small enough that some of them are filled.
_FILE_BYTES = 16 * MIB

_SERVER = Figure("server_us", "server's work for each", "µs", 2)
_LOAD = Figure("load_us", "load's work for each", "µs", 2)
_HANDSHAKES = Figure("rate", "handshakes/s", "/s")


class _Load(TypedDict, total=False):
    """How much is loaded."""

    messages: int
    seconds: float
    datagram_bytes: int


def write(bench: Bench, server: Running, *, datagram_bytes: int) -> Sample:
    """Batched writes on one stream, each answered when it is on disk."""
    return _worked(server, "write", messages=bench.count(_MESSAGES), datagram_bytes=datagram_bytes)


def push(bench: Bench, server: Running) -> Sample:
    """One subscriber, for which messages are there: only what is pushed is timed."""
    messages = bench.count(_PUSHED)
    run_quic(server, "write", messages=messages)
    return _worked(server, "subscribe", messages=messages)


def single(bench: Bench, server: Running) -> Sample:
    """One writer, which waits for each answer."""
    return sampled(run_quic(server, "single", seconds=bench.seconds(2 * _SECONDS)), RATE, P50, P99)


def handshakes(bench: Bench, server: Running) -> Sample:
    """New connections, eight at a time."""
    return _worked(server, "handshakes", seconds=bench.seconds(_SECONDS))


def _worked(server: Running, kind: QuicKind, **load: Unpack[_Load]) -> Sample:
    """What was reached in a second, what the server's thread worked for each, and the load for each."""
    before = reactor_seconds(server)
    result = run_quic(server, kind, **load)
    used = reactor_seconds(server) - before
    per_message = 1e6 / result.messages
    return {
        **sampled(result, RATE),
        _SERVER.name: used * per_message,
        _LOAD.name: result.cpu_seconds * per_message,
    }


FUJIN: tuple[Case, ...] = (
    *(
        Case(
            f"fujin-write{name}",
            f"Fujin, write 100 B in batches, 1 stream{title}",
            (RATE, _SERVER, _LOAD),
            partial(write, datagram_bytes=datagram_bytes),
            servers=("sink", "streamd"),
            goals=(at_least("rate", 0.6, "sink"), at_most("server_us", 1.6, "sink")),
            file_bytes=_FILE_BYTES,
            service="fujin",
        )
        for name, title, datagram_bytes in (("", "", 1_200), ("-16k", ", datagrams of 16 KB", 16_000))
    ),
    alone(
        "fujin-push",
        "Fujin, 100 B pushed to 1 subscriber",
        push,
        RATE,
        _SERVER,
        _LOAD,
        file_bytes=_FILE_BYTES,
        service="fujin",
    ),
    alone(
        "fujin-single",
        "Fujin, write 100 B, one at a time, 1 stream",
        single,
        RATE,
        P50,
        P99,
        file_bytes=SMALL_FILE_BYTES,
        service="fujin",
    ),
    Case(
        "fujin-handshakes",
        "QUIC, handshakes, 8 at a time",
        (_HANDSHAKES, _SERVER, _LOAD),
        handshakes,
        servers=("sink", "streamd"),
        service="fujin",
    ),
)
