"""The catalog's tables, and the checksums of their rows: SQLite has none, and a flipped bit must never be served.

Every row carries in its last column the CRC32C of the columns before it, as text: integers in decimal, texts and blobs
as they are, a space between two. The sum of those of all tables but extents, modulo 2^63, is in `meta`, so that a row
that is gone is noticed too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from crc32c import crc32c

from streamd.store.errors import SAVE, StoreUnusable

SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE segments (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
    sealed INTEGER NOT NULL, first_number INTEGER NOT NULL, first_offset INTEGER NOT NULL,
    number INTEGER NOT NULL, offset INTEGER NOT NULL, hidden INTEGER NOT NULL, crc INTEGER NOT NULL
);
CREATE TABLE levels (
    segment INTEGER NOT NULL, writer BLOB NOT NULL, level INTEGER NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (segment, writer)
) WITHOUT ROWID;
CREATE TABLE groups (
    segment INTEGER NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL, ranges BLOB NOT NULL,
    crc INTEGER NOT NULL, PRIMARY KEY (segment, name)
) WITHOUT ROWID;
CREATE TABLE attributes (
    segment INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (segment, key)
) WITHOUT ROWID;
CREATE TABLE packs (
    number INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, live INTEGER NOT NULL, blocks INTEGER NOT NULL,
    crc INTEGER NOT NULL
);
CREATE TABLE extents (
    segment INTEGER NOT NULL, number INTEGER NOT NULL, offset INTEGER NOT NULL, count INTEGER NOT NULL,
    timestamp INTEGER NOT NULL, last_timestamp INTEGER NOT NULL,
    pack INTEGER NOT NULL, position INTEGER NOT NULL, length INTEGER NOT NULL, block_crc INTEGER NOT NULL,
    crc INTEGER NOT NULL, PRIMARY KEY (segment, number)
) WITHOUT ROWID;
CREATE INDEX extents_pack ON extents (pack);
"""

SCHEMA_2: Final = """
CREATE TABLE reached (
    segment INTEGER PRIMARY KEY, number INTEGER NOT NULL, offset INTEGER NOT NULL, crc INTEGER NOT NULL
);
CREATE INDEX segments_broadcast ON segments (hidden) WHERE hidden = 2;
"""
"""What format 2 has beside all that format 1 had."""

PARTS: Final = ("levels", "groups", "attributes", "reached")
"""Tables with what belongs to a segment. The last one is new in format 2."""

META: Final = ("format", "covered", "file", "timestamp", "pack", "total", "store")
"""Keys of `meta`, in the order of its checksum."""

TOTAL_MODULUS: Final = 1 << 63

UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises for a damaged file; the second where its own message can't be read either."""

_FORMATS: Final = {
    "segments": b"%d %b %d %d %d %d %d %d %d %d",
    "levels": b"%d %b %d",
    "groups": b"%d %b %d %b",
    "attributes": b"%d %b %b",
    "reached": b"%d %d %d",
    "packs": b"%d %d %d %d",
    "extents": b"%d %d %d %d %d %d %d %d %d %d",
    "meta": b"%d %d %d %d %d %d %b",
}

_WITH_NAMES: Final = ("segments", "groups")
"""Tables whose second column is text."""


class CatalogDamaged(StoreUnusable):
    """A row of the catalog is not what was written."""

    def __init__(self, path: str, table: str, what: str) -> None:
        super().__init__(f"{path}: damaged in its table {table!r}: {what}. {SAVE}")


def row_sum(table: str, row: Iterable[Any]) -> int:
    """The checksum of a row's columns. A column that has another type than it should raises an error."""
    columns = tuple(row)
    if table in _WITH_NAMES:
        columns = (columns[0], columns[1].encode(), *columns[2:])
    return crc32c(_FORMATS[table] % columns)


def summed(table: str, row: Iterable[Any]) -> tuple[Any, ...]:
    """The row with its checksum behind it."""
    columns = tuple(row)
    return (*columns, row_sum(table, columns))


def checked(path: str, table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The columns of a row, without the checksum behind them, which matches."""
    try:
        if row_sum(table, row[:-1]) == row[-1]:
            return row[:-1]
    except (TypeError, AttributeError):
        pass  # a number that is none any more, a text that is a blob
    raise CatalogDamaged(path, table, f"row {row[0]!r} does not match its checksum")
