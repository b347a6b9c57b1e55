"""Pravega as it is spoken today: what a connection that opens with Hello says, and what it is answered.

The frame is the documented one (`streamd.wire.pravega.documented`): type int32, length int32, payload, big endian.
Each message is a list of fields (`streamd.wire.fields`), so that neither end can forget one: the Rust client decodes
fixed structures. A request id, chosen by the client, is repeated in the reply. The messages of table segments are in
`streamd.wire.pravega.tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from streamd.batch import Buffer
from streamd.wire import WireError
from streamd.wire.fields import Field, Fixed, Flag, Layout, Many, Number, Row, Text, framed, values_of

HELLO: Final = -127

VERSION_HIGH: Final = 17
VERSION_LOW: Final = 5

NEVER: Final = -(1 << 63)
"""In the place of a number that there is not: the event number of a writer that never wrote, an absent attribute."""

_ATTRIBUTES_MAX: Final = 1000


class Data(Field[Buffer]):
    """A length (int32) and so many bytes, as a view of the message."""

    def put(self, value: Buffer, parts: list[Buffer]) -> None:
        parts += (len(value).to_bytes(4), value)

    def take(self, data: bytes, at: int) -> tuple[Buffer, int]:
        size, at = COUNT.take(data, at)
        if at + size > len(data):
            raise WireError("a message ends inside one of its fields")
        return memoryview(data)[at : at + size], at + size


class Rest(Field[Any]):
    """A field that older or newer clients leave out: where the message has ended before it, a default."""

    def __init__(self, field: Field[Any], default: object) -> None:
        self._field = field
        self._default = default

    def put(self, value: Any, parts: list[Buffer]) -> None:
        self._field.put(value, parts)

    def take(self, data: bytes, at: int) -> tuple[Any, int]:
        return (self._default, at) if at == len(data) else self._field.take(data, at)


LONG: Final = Number("q")
INT: Final = Number("i")
COUNT: Final = Number("i", least=0)
OFFSET: Final = Number("q", least=0)
BYTE: Final = Number("B")
TEXT: Final = Text()
ID: Final = Fixed(16)
FLAG: Final = Flag()
DATA: Final = Data()


class TodayMessage(Layout):
    """A request or a reply, with a field for each attribute."""


class TodayChange(TodayMessage):
    """A request that need not see this connection's earlier writes: many are on their way to the disk at once."""

    reads = False


def encode(message: TodayMessage) -> bytes:
    """A message with its header."""
    return framed(message.type, message.fields, values_of(message))


def decode(kind: type[TodayMessage], payload: bytes) -> TodayMessage:
    """The message of this kind in a payload. Fields that it does not know, at the end, are for newer servers."""
    at = 0
    values: list[object] = []
    for field in kind.fields:
        value, at = field.take(payload, at)
        values.append(value)
    return kind(*values)


def named(kind: int, id: int, name: str, *rest: tuple[Field[Any], object]) -> bytes:
    """A reply that begins with the request's id and the segment's name."""
    return framed(kind, [LONG, TEXT, *[field for field, _ in rest]], [id, name, *[value for _, value in rest]])


# -- requests ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello(TodayMessage):
    """The versions that the other end speaks."""

    type = HELLO
    fields = (INT, INT)

    high: int
    low: int


@dataclass(frozen=True)
class SetupAppend(TodayMessage):
    """A writer wants to append to a segment, and to know the number of its last event."""

    type = 1
    fields = (LONG, ID, TEXT, TEXT)

    id: int
    writer: bytes
    name: str
    token: str


@dataclass(frozen=True)
class ReadSegment(TodayMessage):
    """Read from an offset on, and where there is nothing yet, wait for it."""

    type = 9
    fields = (TEXT, OFFSET, COUNT, TEXT, LONG)

    name: str
    offset: int
    length: int
    token: str
    id: int


@dataclass(frozen=True)
class Named(TodayMessage):
    """A request about one segment, with nothing else to it."""

    fields = (LONG, TEXT, TEXT)

    id: int
    name: str
    token: str


@dataclass(frozen=True)
class GetStreamSegmentInfo(Named):
    """Where a segment begins and ends, and whether it is sealed."""

    type = 11


@dataclass(frozen=True)
class SealSegment(Named):
    """Take no more."""

    type = 28


@dataclass(frozen=True)
class DeleteSegment(Named):
    """Remove a segment."""

    type = 30


@dataclass(frozen=True)
class CreateSegment(TodayChange):
    """Make a segment. Rate and scale type are for a Pravega that scales."""

    type = 20
    fields = (LONG, TEXT, INT, BYTE, TEXT, Rest(LONG, 0))

    id: int
    name: str
    rate: int
    scale: int
    token: str
    rollover: int


@dataclass(frozen=True)
class CreateTransientSegment(TodayChange):
    """Make a segment that is to be merged into this one: for an event that is too large for one message."""

    type = 40
    fields = (LONG, ID, TEXT, TEXT)

    id: int
    writer: bytes
    name: str
    token: str


@dataclass(frozen=True)
class UpdateSegmentPolicy(TodayMessage):
    """How a segment scales: here none does."""

    type = 32
    fields = (LONG, TEXT, INT, BYTE, TEXT)

    id: int
    name: str
    rate: int
    scale: int
    token: str


@dataclass(frozen=True)
class GetAttribute(TodayMessage):
    """A number that belongs to a segment, by its id. That of a writer is its last event number."""

    type = 34
    fields = (LONG, TEXT, ID, TEXT)

    id: int
    name: str
    attribute: bytes
    token: str


@dataclass(frozen=True)
class UpdateAttribute(TodayMessage):
    """Set such a number, where it is the expected one."""

    type = 36
    fields = (LONG, TEXT, ID, LONG, LONG, TEXT)

    id: int
    name: str
    attribute: bytes
    value: int
    expected: int
    token: str


@dataclass(frozen=True)
class TruncateSegment(TodayMessage):
    """Drop what lies below an offset."""

    type = 38
    fields = (LONG, TEXT, OFFSET, TEXT)

    id: int
    name: str
    offset: int
    token: str


@dataclass(frozen=True)
class LocateOffset(TodayMessage):
    """The first place at or behind an offset where an event begins."""

    type = 41
    fields = (LONG, TEXT, OFFSET, TEXT)

    id: int
    name: str
    offset: int
    token: str


class AttributeUpdate(NamedTuple):
    """An attribute that changes with a merge. Types: 0 none, 1 replace, 2 if greater, 3 add, 4 if equal."""

    attribute: bytes
    type: int
    value: int
    expected: int


@dataclass(frozen=True)
class MergeSegments(TodayMessage):
    """Make all that one segment holds the next bytes of another."""

    type = 58
    fields = (LONG, TEXT, TEXT, TEXT, Rest(Many(Row(AttributeUpdate, ID, BYTE, LONG, LONG), _ATTRIBUTES_MAX), ()))

    id: int
    name: str
    source: str
    token: str
    updates: Sequence[AttributeUpdate]


REQUESTS: Final[dict[int, type[TodayMessage]]] = {
    each.type: each
    for each in (
        Hello,
        SetupAppend,
        ReadSegment,
        GetStreamSegmentInfo,
        SealSegment,
        DeleteSegment,
        CreateSegment,
        CreateTransientSegment,
        UpdateSegmentPolicy,
        GetAttribute,
        UpdateAttribute,
        TruncateSegment,
        LocateOffset,
        MergeSegments,
    )
}
