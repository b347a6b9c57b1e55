"""The catalog's tables, and the checksums of their rows: SQLite has none, and a flipped bit must never be served.

Every row carries in its last column the CRC32C of the columns before it, as text: integers in decimal, texts and blobs
as they are, a space between two. The sum of those of extents, and that of all other tables, modulo 2^63, are in `meta`,
so that a row that is gone is noticed too.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, Self

from crc32c import crc32c

from streamd.store.disk import IDisk
from streamd.store.errors import SAVE, StoreUnusable, UnknownVersion
from streamd.store.packs.settle import open_settled
from streamd.store.room import is_full

FILE_NAME: Final = "catalog.sqlite"
VERSION: Final = 3

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

META: Final = ("format", "covered", "file", "timestamp", "pack", "total", "store", "footer", "extents")
"""Keys of `meta`, in the order of its checksum. The last two are new in format 3."""

FORMAT_2: Final = 2
"""The last format in which the catalog was more than an index."""

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
    "meta": b"%d %d %d %d %d %d %b %d %d",
    "meta 2": b"%d %d %d %d %d %d %b",
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


def meta_sum(meta: Mapping[str, Any]) -> int:
    """The checksum of `meta`."""
    if meta["format"] <= FORMAT_2:
        return row_sum("meta 2", [meta[key] for key in META[:-2]])
    return row_sum("meta", [meta[key] for key in META])


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


_READABLE: Final = (1, FORMAT_2, VERSION)
_ROWS_AT_ONCE: Final = 10_000


class NoCatalog(StoreUnusable):
    """There is none yet, or one without its tables."""


class CatalogFull(StoreUnusable):
    """There is no room to open the catalog for writing; it can be read."""


class Database:
    """A SQLite file whose rows have checksums. Who opened it `writable` writes inside `with`: all of it, or nothing."""

    def __init__(
        self,
        disk: IDisk,
        directory: str,
        store: bytes,
        *,
        writable: bool,
        immutable: bool = False,
        is_settled: bool = False,
    ) -> None:
        """`is_settled`: it is more than an index, so what it says must be on the medium, and stay there."""
        self.path = os.path.join(directory, FILE_NAME)
        self._total = 0
        self._extents_total = 0
        self._parts: tuple[str, ...] = PARTS
        self.is_settled = is_settled
        self._database: sqlite3.Connection | None = None
        try:
            if is_settled:
                self._database = open_settled(disk, self.path)
            else:
                self._database = disk.database(self.path, writable=writable, immutable=immutable, is_index=True)
            self._prepare(disk, directory, store, writable or is_settled)
        except (*UNREADABLE, OSError) as error:
            if self._database is None and _is_full(error):
                raise CatalogFull(f"{self.path}: {error}. Free some room") from error
            self.close()
            if isinstance(error, OSError):
                raise
            raise StoreUnusable(f"{self.path}: {error}. {SAVE}") from error

    @property
    def _db(self) -> sqlite3.Connection:
        if self._database is None:
            raise StoreUnusable(f"{self.path}: closed. What it says is not known before it is opened again")
        return self._database

    def _prepare(self, disk: IDisk, directory: str, store: bytes, writable: bool) -> None:
        if not self._has_meta():
            if not writable:
                raise NoCatalog(f"{self.path}: there is no catalog here yet")
            with self:
                self._execute(SCHEMA + SCHEMA_2)
                for key, value in zip(META, (VERSION, 1, 0, 0, 0, 0, store, 0, 0), strict=True):
                    self._set(key, value)
        meta = self._meta()
        if meta.get("format") not in _READABLE:
            raise UnknownVersion(
                f"{self.path}: the catalog has format {meta.get('format')}, this streamd reads up to {VERSION}"
            )
        if meta.get("store") != store:
            raise StoreUnusable(f"{self.path}: this catalog belongs to another store")
        try:
            is_right = meta_sum(meta) == meta["crc"]
        except (KeyError, TypeError, AttributeError):
            is_right = False
        if not is_right:
            raise CatalogDamaged(self.path, "meta", "it does not match its checksum")
        if meta["format"] == 1 and writable:
            with self:
                self._execute(SCHEMA_2)
                self._set("format", FORMAT_2)
        elif meta["format"] == 1:
            self._parts = PARTS[:-1]

    def _execute(self, script: str) -> None:
        # Not `executescript`, which commits what came before.
        for statement in script.split(";\n"):
            self._db.execute(statement)

    def _has_meta(self) -> bool:
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()
        return bool(tables)

    def __enter__(self) -> Self:
        self._db.execute("BEGIN IMMEDIATE")
        self._total = self._get("total") if self._has_meta() else 0
        self._extents_total = (self._get("extents") or 0) if self._has_meta() else 0
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._set("total", self._total % TOTAL_MODULUS)
                if self._get("format") == VERSION:
                    self._set("extents", self._extents_total % TOTAL_MODULUS)
                self._set("crc", meta_sum(self._meta()))
                self._db.commit()
            else:
                self._db.rollback()
        except BaseException:
            # Who opens it anew finds out how far it goes.
            self.close()
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything that is asked inside comes from one state. Keep it short: the WAL can't be emptied meanwhile."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.rollback()

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Copy all of it into another database, as it is at one moment."""
        self._db.backup(target)
        target.commit()

    def close(self) -> None:
        """Let go of it."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _meta(self) -> dict[str, Any]:
        # In one statement: a reader outside may meet a commit of the compactor between two.
        return dict(self._db.execute("SELECT key, value FROM meta").fetchall())

    def _get(self, key: str) -> Any:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def _set(self, key: str, value: object) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    # -- rows and their checksums --------------------------------------------------------------------------------------

    def add_rows(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows, which count in the total of their kind."""
        every = iter(rows)
        while with_sums := [summed(table, row) for row in islice(every, _ROWS_AT_ONCE)]:
            marks = ", ".join("?" * len(with_sums[0]))
            self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", with_sums)
            sums = sum([row[-1] for row in with_sums])
            if table == "extents":
                self._extents_total += sums
            else:
                self._total += sums

    def _remove(self, table: str, which: str, *values: object) -> None:
        """Remove rows, which no longer count."""
        gone = self._db.execute(f"DELETE FROM {table} WHERE {which} RETURNING crc", values).fetchall()
        self._total -= sum([crc for (crc,) in gone])

    def _rows(self, table: str, rest: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows, each checked, without their checksums."""
        for row in self._db.execute(f"SELECT * FROM {table} {rest}", values):
            yield checked(self.path, table, row)


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return is_full(error)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
