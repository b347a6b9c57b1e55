"""The catalog: what the journal is folded into, as of the last compaction. SQLite, one writer: the compactor.

Segments with their ack levels, groups and attributes; packs; and extents, which say where the records of a segment
are. All of it is true for the sequence number `covered`: what the journal says from there on is not in it yet.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from struct import iter_unpack, pack
from typing import Any, Final, NamedTuple

from streamd.store.disk import IDisk
from streamd.store.errors import StoreUnusable, UnknownVersion
from streamd.store.segment import Segment

FILE_NAME: Final = "catalog.sqlite"
VERSION: Final = 1

_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE segments (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
    sealed INTEGER NOT NULL, first_number INTEGER NOT NULL, first_offset INTEGER NOT NULL,
    number INTEGER NOT NULL, offset INTEGER NOT NULL, hidden INTEGER NOT NULL
);
CREATE TABLE levels (
    segment INTEGER NOT NULL, writer BLOB NOT NULL, level INTEGER NOT NULL, PRIMARY KEY (segment, writer)
) WITHOUT ROWID;
CREATE TABLE groups (
    segment INTEGER NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL, ranges BLOB NOT NULL,
    PRIMARY KEY (segment, name)
) WITHOUT ROWID;
CREATE TABLE attributes (
    segment INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (segment, key)
) WITHOUT ROWID;
CREATE TABLE packs (number INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, live INTEGER NOT NULL, blocks INTEGER NOT NULL);
CREATE TABLE extents (
    segment INTEGER NOT NULL, number INTEGER NOT NULL, offset INTEGER NOT NULL, count INTEGER NOT NULL,
    timestamp INTEGER NOT NULL, last_timestamp INTEGER NOT NULL,
    pack INTEGER NOT NULL, position INTEGER NOT NULL, length INTEGER NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (segment, number)
) WITHOUT ROWID;
CREATE INDEX extents_pack ON extents (pack);
"""


class Row(NamedTuple):
    """One row of `extents`: a block as one segment sees it."""

    segment: int
    number: int
    offset: int
    records: int
    timestamp: int
    last_timestamp: int
    pack: int
    position: int
    length: int
    crc: int


class Moved(NamedTuple):
    """A published segment, and where its records are in its target."""

    source: int
    target: int
    number: int
    offset: int
    timestamp: int

    def row(self, row: Row) -> Row:
        """A row of the source as one of the target."""
        return row._replace(
            segment=self.target,
            number=row.number + self.number,
            offset=row.offset + self.offset,
            timestamp=max(row.timestamp, self.timestamp),
            last_timestamp=max(row.last_timestamp, self.timestamp),
        )


class Pack(NamedTuple):
    """One row of `packs`. `live` is how many of its bytes somebody still needs."""

    number: int
    bytes: int
    live: int
    blocks: int


_COLUMNS: Final = "segment, number, offset, count, timestamp, last_timestamp, pack, position, length, crc"


class Catalog:
    """An open catalog. Whoever opened it `writable` is its only writer; changes are made inside `with`: all or none."""

    def __init__(self, disk: IDisk, directory: str, store: bytes, *, writable: bool) -> None:
        self.path = os.path.join(directory, FILE_NAME)
        self._thinned: set[int] = set()
        try:
            self._db = disk.database(self.path, writable=writable)
            self._prepare(disk, directory, store, writable)
        except sqlite3.Error as error:
            raise StoreUnusable(f"{self.path}: {error}. Restore it from a backup") from error

    def _prepare(self, disk: IDisk, directory: str, store: bytes, writable: bool) -> None:
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()
        if not tables:
            if not writable:
                raise StoreUnusable(f"{self.path}: there is no catalog here yet")
            with self:
                for statement in _SCHEMA.split(";\n"):
                    self._db.execute(statement)
                self._set("format", VERSION)
                self._set("store", store)
                self.set_covered(1, 0, 0)
            disk.sync_directory(directory)
        if self._get("format") != VERSION:
            raise UnknownVersion(
                f"{self.path}: the catalog has format {self._get('format')}, this streamd reads {VERSION}"
            )
        if self._get("store") != store:
            raise StoreUnusable(f"{self.path}: this catalog belongs to another store")

    def __enter__(self) -> Catalog:
        self._db.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._db.commit()
        else:
            self._db.rollback()

    def close(self) -> None:
        """Let go of it."""
        self._db.close()

    def _get(self, key: str) -> Any:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def _set(self, key: str, value: object) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    # -- how far it goes -----------------------------------------------------------------------------------------------

    @property
    def covered(self) -> tuple[int, int, int]:
        """The sequence number that comes next, the last journal file that is folded in, and the last timestamp."""
        row = self._db.execute(
            "SELECT (SELECT value FROM meta WHERE key = 'covered'), (SELECT value FROM meta WHERE key = 'file'), "
            "(SELECT value FROM meta WHERE key = 'timestamp')"
        ).fetchone()
        return int(row[0]), int(row[1]), int(row[2])

    def set_covered(self, sequence: int, file: int, timestamp: int) -> None:
        """Say how far it goes from now on."""
        self._set("covered", sequence)
        self._set("file", file)
        self._set("timestamp", timestamp)

    # -- segments ------------------------------------------------------------------------------------------------------

    def segments(self) -> Iterator[Segment]:
        """Every segment, with all that belongs to it but its extents."""
        groups = _grouped(self._db.execute("SELECT segment, name, position, ranges FROM groups ORDER BY segment"))
        levels = _grouped(self._db.execute("SELECT segment, writer, level FROM levels ORDER BY segment"))
        attributes = _grouped(self._db.execute("SELECT segment, key, value FROM attributes ORDER BY segment"))
        for row in self._db.execute("SELECT * FROM segments ORDER BY id"):
            segment = _segment(row)
            _equip(segment, levels.pop(segment.id, ()), groups.pop(segment.id, ()), attributes.pop(segment.id, ()))
            yield segment

    def segment(self, id: int) -> Segment | None:
        """One segment, with all that belongs to it but its extents."""
        row = self._db.execute("SELECT * FROM segments WHERE id = ?", (id,)).fetchone()
        if row is None:
            return None
        segment = _segment(row)
        _equip(
            segment,
            self._db.execute("SELECT writer, level FROM levels WHERE segment = ?", (id,)),
            self._db.execute("SELECT name, position, ranges FROM groups WHERE segment = ?", (id,)),
            self._db.execute("SELECT key, value FROM attributes WHERE segment = ?", (id,)),
        )
        return segment

    def put_segment(self, segment: Segment) -> None:
        """Note a segment as it is now. Its extents are told apart."""
        self._db.execute(
            "INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                segment.id,
                segment.name,
                segment.created,
                segment.modified,
                int(segment.sealed),
                segment.first_number,
                segment.first_offset,
                segment.number,
                segment.offset,
                int(segment.hidden),
            ),
        )
        self._clear(segment.id)
        self._db.executemany(
            "INSERT INTO levels VALUES (?, ?, ?)",
            [(segment.id, writer, level) for writer, level in (segment.levels or {}).items()],
        )
        self._db.executemany(
            "INSERT INTO groups VALUES (?, ?, ?, ?)",
            [
                (segment.id, name, group.position, b"".join([pack("<QQ", *each) for each in group.ranges]))
                for name, group in (segment.groups or {}).items()
            ],
        )
        self._db.executemany(
            "INSERT INTO attributes VALUES (?, ?, ?)",
            [(segment.id, key, value) for key, value in (segment.attributes or {}).items()],
        )
        self._drop_extents("segment = ? AND number + count <= ?", segment.id, segment.first_number)

    def drop_segment(self, id: int) -> None:
        """Forget a segment and all that belongs to it."""
        self._clear(id)
        self._drop_extents("segment = ?", id)
        self._db.execute("DELETE FROM segments WHERE id = ?", (id,))

    def _drop_extents(self, which: str, *values: int) -> None:
        gone = self._db.execute(f"DELETE FROM extents WHERE {which} RETURNING pack", values)
        self._thinned.update(pack for (pack,) in gone)

    def _clear(self, id: int) -> None:
        for table in ("levels", "groups", "attributes"):
            self._db.execute(f"DELETE FROM {table} WHERE segment = ?", (id,))

    # -- extents and packs ---------------------------------------------------------------------------------------------

    def move_extents(self, moved: Moved) -> None:
        """Make the extents of a published segment those of its target."""
        self._db.execute(
            "UPDATE extents SET segment = :target, number = number + :number, offset = offset + :offset, "
            "timestamp = max(timestamp, :timestamp), last_timestamp = max(last_timestamp, :timestamp) "
            "WHERE segment = :source",
            moved._asdict(),
        )

    def add_extents(self, rows: Iterable[Row]) -> None:
        """Note where records are."""
        self._db.executemany("INSERT INTO extents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def extents_from_number(self, segment: int, number: int, limit: int) -> list[Row]:
        """The extent that holds this record, and those behind it."""
        return self._extents(segment, "number", number, limit)

    def extents_from_offset(self, segment: int, offset: int, limit: int) -> list[Row]:
        """The extent that holds this offset, and those behind it."""
        return self._extents(segment, "offset", offset, limit)

    def _extents(self, segment: int, column: str, value: int, limit: int) -> list[Row]:
        # Offsets rise with numbers, so both find the last extent that begins at or below the place.
        found = self._db.execute(
            f"SELECT {_COLUMNS} FROM extents WHERE segment = :segment AND number >= coalesce("
            f"(SELECT max(number) FROM extents WHERE segment = :segment AND {column} <= :value), 0) "
            "ORDER BY number LIMIT :limit",
            {"segment": segment, "value": value, "limit": limit},
        )
        return [Row(*row) for row in found]

    def number_at(self, segment: int, timestamp: int) -> int | None:
        """The first record of the first extent that has one of this time or later."""
        query = "SELECT min(number) FROM extents WHERE segment = ? AND last_timestamp >= ?"
        found: int | None = self._db.execute(query, (segment, timestamp)).fetchone()[0]
        return found

    def extents_of_packs(self, packs: Iterable[int]) -> Iterator[Row]:
        """All extents in these packs, by segment and number."""
        chosen = list(packs)
        marks = ", ".join("?" * len(chosen))
        query = f"SELECT {_COLUMNS} FROM extents WHERE pack IN ({marks}) ORDER BY segment, number"
        return (Row(*row) for row in self._db.execute(query, chosen))

    def packs(self) -> list[Pack]:
        """All packs."""
        return [Pack(*row) for row in self._db.execute("SELECT number, bytes, live, blocks FROM packs ORDER BY number")]

    def add_pack(self, number: int, size: int, blocks: int) -> None:
        """Note a pack whose extents are noted too."""
        self._db.execute("INSERT INTO packs VALUES (?, ?, ?, ?)", (number, size, size, blocks))
        self._set("pack", number)

    def drop_packs(self, packs: Iterable[int]) -> None:
        """Forget packs, and the extents that still point there."""
        for number in packs:
            self._db.execute("DELETE FROM extents WHERE pack = ?", (number,))
            self._db.execute("DELETE FROM packs WHERE number = ?", (number,))

    def count_live(self) -> None:
        """Find out again how much is needed of packs that lost extents. A block that several share counts once."""
        for number in self._thinned:
            self._db.execute(
                "UPDATE packs SET live = coalesce((SELECT sum(length) FROM "
                "(SELECT DISTINCT position, length FROM extents WHERE pack = ?1)), 0) WHERE number = ?1",
                (number,),
            )
        self._thinned.clear()

    @property
    def next_pack(self) -> int:
        """A number that no pack has had."""
        return int(self._get("pack") or 0) + 1


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for segment, *rest in rows:
        found.setdefault(segment, []).append(tuple(rest))
    return found


def _segment(row: tuple[Any, ...]) -> Segment:
    id, name, created, modified, sealed, first_number, first_offset, number, offset, hidden = row
    segment = Segment(id, name)
    segment.created, segment.modified = created, modified
    segment.sealed, segment.hidden = bool(sealed), bool(hidden)
    segment.first_number, segment.first_offset = first_number, first_offset
    segment.number, segment.offset = number, offset
    segment.committed = True
    segment.unclaim()
    return segment


def _equip(
    segment: Segment,
    levels: Iterable[tuple[Any, ...]],
    groups: Iterable[tuple[Any, ...]],
    attributes: Iterable[tuple[Any, ...]],
) -> None:
    for writer, level in levels:
        segment.set_level(writer, level)
    for key, value in attributes:
        segment.set_attribute(key, value)
    for name, position, ranges in groups:
        segment.set_group(name, position)
        segment.group(name).add(iter_unpack("<QQ", ranges))
