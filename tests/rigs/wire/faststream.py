"""Packets of FastStreamDB, byte by byte."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack
from typing import Any

from streamd.wire.faststream import (
    Enqueue,
)


def single(stream: int, data: bytes) -> bytes:
    return pack("<III", 3, stream, len(data)) + data


def multiple(data: bytes, *streams: int, packet: int = 4) -> bytes:
    return pack("<II", packet, len(data)) + data + pack(f"<I{len(streams)}I", len(streams), *streams)


def to_all(data: bytes) -> bytes:
    return pack("<II", 5, len(data)) + data


def all_except(data: bytes, *streams: int) -> bytes:
    return multiple(data, *streams, packet=6)


def one(packet: int, stream: int) -> bytes:
    return pack("<II", packet, stream)


PING = pack("<I", 0)


WHOLE = b"".join(
    [
        PING,
        one(1, 7),
        one(2, 8),
        single(7, b"one") + single(7, b"") + single(9, b"three"),
        single(7, b"same") * 6,
        multiple(b"many", 1, 2, 2),
        multiple(b"nobody"),
        to_all(b"all"),
        all_except(b"", 4),
        one(7, 7),
        one(8, 7),
        one(9, 2**32 - 1),
    ]
)


def plain(requests: Iterable[Any]) -> list[object]:
    """Requests with enqueues taken apart: however they were cut or joined, this is the same."""
    found: list[object] = []
    for request in requests:
        if isinstance(request, Enqueue):
            found += [(request.stream, bytes(record)) for record in request.batch.records()]
        else:
            found.append(request)
    return found
