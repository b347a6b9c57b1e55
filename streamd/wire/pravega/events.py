"""Runs of Pravega's Event messages to records and back: what the documented protocol and today's have in common.

An event is type 0 (int32), length (int32), data, big endian. A record of n bytes is an event of 8 + n.
"""

from __future__ import annotations

from array import array
from itertools import chain
from struct import Struct
from sys import byteorder
from typing import Final

from streamd.batch import LENGTH_TYPE, Batch, Buffer
from streamd.wire import TooLarge, WireError
from streamd.wire.frames import cut, payloads

HEADER: Final = Struct(">ii")
"""The header of every message: type, length."""
assert HEADER.size == 8

EVENT: Final = 0
"""The type of an event."""

# Events from here on are not copied to be put together, but left where they are.
_LARGE_BYTES: Final = 4096


def events(block: bytes | bytearray, event_bytes_max: int) -> Batch:
    """The records of a run of Event messages."""
    if not block:
        return Batch(array(LENGTH_TYPE), b"")
    same = _alike(block, event_bytes_max)
    if same is not None:
        return same
    lengths = array(LENGTH_TYPE)
    parts: list[Buffer] = []
    at, end = 0, len(block)
    unpack = HEADER.unpack_from
    while at < end:
        if at + HEADER.size > end:
            raise WireError("block data ends inside an event's header")
        kind, length = unpack(block, at)
        at += HEADER.size
        if kind or not 0 <= length <= end - at:
            raise WireError("block data is no run of events")
        if length > event_bytes_max:
            raise TooLarge(f"an event of {length} bytes is over the limit of {event_bytes_max}")
        lengths.append(length)
        parts.append(block[at : at + length])
        at += length
    return Batch(lengths, b"".join(parts))


def _alike(block: bytes | bytearray, event_bytes_max: int) -> Batch | None:
    """The records where all events have the same length, which column by column is quickly seen."""
    kind, length = HEADER.unpack_from(block) if len(block) >= HEADER.size else (1, 0)
    frame = HEADER.size + length
    if kind or not 0 < length <= event_bytes_max or len(block) % frame:
        return None
    count = len(block) // frame
    if count == 1 and length < _LARGE_BYTES:
        return Batch.single(bytes(block[HEADER.size :]))
    for column in range(HEADER.size):
        if block[column::frame] != block[column : column + 1] * count:
            return None
    lengths = array(LENGTH_TYPE, (length,)) * count
    if length < _LARGE_BYTES:
        return Batch(lengths, payloads(block, HEADER.size, length))
    view = memoryview(block)
    if count == 1:
        return Batch(lengths, view[HEADER.size :])
    return Batch(lengths, b"".join([view[at + HEADER.size : at + frame] for at in range(0, len(block), frame)]))


def event_parts(batch: Batch) -> list[Buffer]:
    """Records as Event messages, end to end: few buffers where they are small, and no copy where they are large."""
    size = batch.common_size
    if size is not None and 0 < size < _LARGE_BYTES:
        header = HEADER.pack(EVENT, size)
        return [header.join([b"", *some]) for some in cut(batch.payload, 0, size)]
    parts: list[Buffer] = [b""] * (2 * batch.count)
    parts[::2] = chain.from_iterable(cut(_event_headers(batch.lengths), 0, HEADER.size))
    parts[1::2] = batch.records()
    return parts if len(batch.payload) >= _LARGE_BYTES * batch.count else [b"".join(parts)]


def _event_headers(lengths: array[int]) -> bytes:
    """The header of each event: type 0 and the length, which is just a number of 8 bytes, big endian."""
    headers = array("Q", lengths)
    if byteorder == "little":
        headers.byteswap()
    return headers.tobytes()
