"""What Pravega, as it is spoken today, answers: replies and errors. Every field is sent, since clients expect each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamd.batch import Buffer
from streamd.wire.pravega.events import HEADER
from streamd.wire.pravega.today import (
    FLAG,
    ID,
    INT,
    LONG,
    TEXT,
    DeleteSegment,
    ReadSegment,
    SealSegment,
    TodayMessage,
    TruncateSegment,
    UpdateSegmentPolicy,
    named,
)


@dataclass(frozen=True)
class AppendSetup(TodayMessage):
    """The number of the last event of a writer that is stored."""

    type = 2
    fields = (LONG, TEXT, ID, LONG)

    id: int
    name: str
    writer: bytes
    number: int


@dataclass(frozen=True)
class DataAppended(TodayMessage):
    """Events up to this number are on disk."""

    type = 7
    fields = (ID, LONG, LONG, LONG, LONG)

    writer: bytes
    number: int
    previous: int
    id: int
    length: int


@dataclass(frozen=True)
class ConditionalCheckFailed(TodayMessage):
    """The segment did not end where the append was to go."""

    type = 8
    fields = (ID, LONG, LONG)

    writer: bytes
    number: int
    id: int


@dataclass(frozen=True)
class SegmentInfo(TodayMessage):
    """The answer to GetStreamSegmentInfo. The time of the last change is in milliseconds since 1970."""

    type = 12
    fields = (LONG, TEXT, FLAG, FLAG, FLAG, LONG, LONG, LONG)

    id: int
    name: str
    exists: bool
    is_sealed: bool
    is_deleted: bool
    modified: int
    end: int
    start: int


SEGMENT_CREATED: Final = 21
DONE: Final = {SealSegment: 29, DeleteSegment: 31, UpdateSegmentPolicy: 33, TruncateSegment: 39}


def attribute(id: int, value: int) -> bytes:
    """The answer to GetAttribute."""
    return HEADER.pack(35, 16) + id.to_bytes(8, signed=True) + value.to_bytes(8, signed=True)


def attribute_updated(id: int, is_done: bool) -> bytes:
    """The answer to UpdateAttribute."""
    return HEADER.pack(37, 9) + id.to_bytes(8, signed=True) + bytes([is_done])


def located(id: int, name: str, offset: int) -> bytes:
    """The answer to LocateOffset."""
    return named(42, id, name, (LONG, offset))


def merged(id: int, target: str, source: str, length: int) -> bytes:
    """The answer to MergeSegments."""
    return named(59, id, target, (TEXT, source), (LONG, length))


def segment_read(request: ReadSegment, at_tail: bool, at_end: bool, data: Sequence[Buffer]) -> bytes:
    """The answer to ReadSegment. Its data, which may be megabytes, comes in parts and is copied once."""
    before: list[Buffer] = []
    TEXT.put(request.name, before)
    LONG.put(request.offset, before)
    FLAG.put(at_tail, before)
    FLAG.put(at_end, before)
    size = sum(map(len, data))
    length = sum(map(len, before)) + 4 + size + 8
    end = request.id.to_bytes(8, signed=True)
    return b"".join([HEADER.pack(10, length), *before, size.to_bytes(4), *data, end])


# -- errors ------------------------------------------------------------------------------------------------------------

_STACK: Final = (TEXT, "")
"""In the place of the stack trace that Pravega sends."""


def sealed(id: int, name: str, offset: int) -> bytes:
    """SegmentIsSealed."""
    return named(51, id, name, _STACK, (LONG, offset))


def exists(id: int, name: str) -> bytes:
    """SegmentAlreadyExists."""
    return named(52, id, name, _STACK)


def no_such_segment(id: int, name: str, offset: int = -1) -> bytes:
    """NoSuchSegment."""
    return named(53, id, name, _STACK, (LONG, offset))


def invalid_event_number(writer: bytes, id: int, number: int) -> bytes:
    """InvalidEventNumber; the connection closes behind it."""
    payload = writer + id.to_bytes(8, signed=True) + bytes(2) + number.to_bytes(8, signed=True)
    return HEADER.pack(55, len(payload)) + payload


def truncated(id: int, name: str, start: int, offset: int) -> bytes:
    """SegmentIsTruncated."""
    return named(56, id, name, (LONG, start), _STACK, (LONG, offset))


def unsupported(id: int, operation: str) -> bytes:
    """OperationUnsupported."""
    return named(57, id, operation, _STACK)


def not_allowed(id: int) -> bytes:
    """AuthTokenCheckFailed, with the code for what no token would help with."""
    payload = id.to_bytes(8, signed=True) + bytes(2) + (-1).to_bytes(4, signed=True)
    return HEADER.pack(60, len(payload)) + payload


def error_message(id: int, name: str, text: str) -> bytes:
    """ErrorMessage: whatever else is wrong with a request, in words."""
    return named(61, id, name, (TEXT, text[:1000]), (INT, -1))
