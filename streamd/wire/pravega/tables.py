"""Pravega's table segments on the wire: keys with versions, and values.

A key is int32 size of what follows, int32 length, bytes, int64 version; a value the same without a version. A key that
comes without bytes may come without its version, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from streamd.batch import Buffer
from streamd.wire import WireError
from streamd.wire.fields import Field, Many, Row
from streamd.wire.pravega.today import (
    BYTE,
    COUNT,
    DATA,
    FLAG,
    INT,
    LONG,
    NEVER,
    TEXT,
    Named,
    Rest,
    TodayChange,
    TodayMessage,
    named,
)

UNCONDITIONAL: Final = NEVER
"""The version of a key that may have any."""

ABSENT: Final = -1
"""The version of a key that must not be there, or is not."""

ENTRIES_MAX: Final = 100_000
"""How many keys one message may have."""


class Key(NamedTuple):
    """A key, and the version that it has, or must have."""

    data: bytes
    version: int


class Entry(NamedTuple):
    """A key and its value."""

    key: Key
    value: bytes


class _Key(Field[Key]):
    def put(self, value: Key, parts: list[Buffer]) -> None:
        size = len(value.data)
        parts += ((12 + size).to_bytes(4), size.to_bytes(4), value.data, value.version.to_bytes(8, signed=True))

    def take(self, data: bytes, at: int) -> tuple[Key, int]:
        body, end = DATA.take(data, at)
        key, at = DATA.take(bytes(body), 0)
        left = len(body) - at
        if left not in (0, 8):
            raise WireError("a table key does not fill its room")
        version = int.from_bytes(body[at:], signed=True) if left else UNCONDITIONAL
        return Key(bytes(key), version), end


class _Value(Field[bytes]):
    def put(self, value: bytes, parts: list[Buffer]) -> None:
        parts += ((4 + len(value)).to_bytes(4), len(value).to_bytes(4), value)

    def take(self, data: bytes, at: int) -> tuple[bytes, int]:
        body, end = DATA.take(data, at)
        value, at = DATA.take(bytes(body), 0)
        if at != len(body):
            raise WireError("a table value does not fill its room")
        return bytes(value), end


_KEYS: Final = Many(_Key(), ENTRIES_MAX)
_ENTRIES: Final = Many(Row(Entry, _Key(), _Value()), ENTRIES_MAX)


@dataclass(frozen=True)
class CreateTable(TodayChange):
    """Make a table segment."""

    type = 70
    fields = (LONG, TEXT, TEXT, Rest(BYTE, 0), Rest(INT, 0), Rest(LONG, 0))

    id: int
    name: str
    token: str
    is_sorted: int
    key_length: int
    rollover: int


@dataclass(frozen=True)
class DeleteTable(TodayMessage):
    """Remove a table segment, maybe only where it is empty."""

    type = 71
    fields = (LONG, TEXT, FLAG, TEXT)

    id: int
    name: str
    if_empty: bool
    token: str


@dataclass(frozen=True)
class GetTableInfo(Named):
    """How large a table is."""

    type = 68


@dataclass(frozen=True)
class UpdateTable(TodayChange):
    """Put entries, all of them or none; with an `offset` that is not negative, only where the table ends there."""

    type = 74
    fields = (LONG, TEXT, TEXT, _ENTRIES, LONG)

    id: int
    name: str
    token: str
    entries: Sequence[Entry]
    offset: int

    @property
    def size(self) -> int:
        return sum([len(key.data) + len(value) + 64 for key, value in self.entries])


@dataclass(frozen=True)
class RemoveKeys(TodayChange):
    """Remove keys, all of them or none."""

    type = 76
    fields = (LONG, TEXT, TEXT, _KEYS, LONG)

    id: int
    name: str
    token: str
    keys: Sequence[Key]
    offset: int


@dataclass(frozen=True)
class ReadTable(TodayMessage):
    """The values of some keys."""

    type = 78
    fields = (LONG, TEXT, TEXT, _KEYS)

    id: int
    name: str
    token: str
    keys: Sequence[Key]


@dataclass(frozen=True)
class ReadKeys(TodayMessage):
    """The next keys of a walk through a table."""

    type = 83
    fields = (LONG, TEXT, TEXT, COUNT, DATA)

    id: int
    name: str
    token: str
    count: int
    after: Buffer


@dataclass(frozen=True)
class ReadEntries(ReadKeys):
    """The next entries of a walk through a table."""

    type = 85


@dataclass(frozen=True)
class ReadDelta(TodayMessage):
    """What was put since a position."""

    type = 88
    fields = (LONG, TEXT, TEXT, LONG, COUNT)

    id: int
    name: str
    token: str
    position: int
    count: int


def updated(id: int, versions: Sequence[int]) -> bytes:
    """The answer to UpdateTable."""
    parts: list[Buffer] = []
    LONG.put(id, parts)
    Many(LONG, ENTRIES_MAX).put(versions, parts)
    return _whole(75, parts)


def removed(id: int, name: str) -> bytes:
    """The answer to RemoveKeys."""
    return named(77, id, name)


def entries(kind: int, id: int, name: str, found: Sequence[Entry], *rest: tuple[Field[Any], object]) -> bytes:
    """An answer with entries: 79 to ReadTable, 86 to ReadEntries, 87 to ReadDelta."""
    return named(kind, id, name, (_ENTRIES, found), *rest)


def keys_read(id: int, name: str, found: Sequence[Key], after: bytes) -> bytes:
    """The answer to ReadKeys."""
    return named(84, id, name, (_KEYS, found), (DATA, after))


def delta(id: int, name: str, found: Sequence[Entry], is_new: bool, at_end: bool, position: int) -> bytes:
    """The answer to ReadDelta; `is_new`: what the client knew of the table before may be gone."""
    return entries(87, id, name, found, (FLAG, is_new), (FLAG, at_end), (LONG, position))


def table_info(id: int, name: str, start: int, length: int, count: int) -> bytes:
    """The answer to GetTableInfo."""
    return named(69, id, name, (LONG, start), (LONG, length), (LONG, count), (INT, 0))


NOT_EMPTY: Final = 80
BAD_VERSION: Final = 82


def refused(kind: int, id: int, name: str) -> bytes:
    """Why a table did not do what was asked: NOT_EMPTY or BAD_VERSION."""
    return named(kind, id, name, (TEXT, ""))


def _whole(kind: int, parts: list[Buffer]) -> bytes:
    whole = b"".join(parts)
    return kind.to_bytes(4) + len(whole).to_bytes(4) + whole


REQUESTS: Final[dict[int, type[TodayMessage]]] = {
    each.type: each
    for each in (
        CreateTable,
        DeleteTable,
        GetTableInfo,
        UpdateTable,
        RemoveKeys,
        ReadTable,
        ReadKeys,
        ReadEntries,
        ReadDelta,
    )
}
