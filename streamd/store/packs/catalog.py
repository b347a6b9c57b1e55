"""The catalog: what the journal is folded into, as of the last compaction. SQLite, one writer: the compactor.

Segments with their ack levels, groups and attributes; packs; and extents, which say where the records of a segment
are. All of it is true for the sequence number `covered`: what the journal says from there on is not in it yet. Every
row has a checksum (`streamd.store.packs.rowsum`), which is checked whenever the row is read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from struct import iter_unpack, pack
from typing import Any, Final, NamedTuple

from streamd.store.disk import IDisk
from streamd.store.errors import SAVE, StoreUnusable, UnknownVersion
from streamd.store.packs.rowsum import (
    META,
    PARTS,
    SCHEMA,
    SCHEMA_2,
    TOTAL_MODULUS,
    UNREADABLE,
    CatalogDamaged,
    checked,
    row_sum,
    summed,
)
from streamd.store.packs.settle import open_settled
from streamd.store.room import is_full
from streamd.store.segments.broadcasts import BROADCASTS, HIDDEN, NOBODY, PLAIN, Broadcast, Numbered, new_segment
from streamd.store.segments.segment import Segment

FILE_NAME: Final = "catalog.sqlite"
VERSION: Final = 2
_READABLE: Final = (1, VERSION)

BROADCAST_PACK: Final = 0
"""In place of a pack, for an extent that stands for records of the broadcast segment: its position is the number of the
first of them there, its length the offset of that."""


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


class NoCatalog(StoreUnusable):
    """There is none yet, or one without its tables."""


class CatalogFull(StoreUnusable):
    """There is no room to open the catalog for writing; it can be read."""


class Catalog:
    """An open catalog. Whoever opened it `writable` is its only writer; changes are made inside `with`: all or none.

    What a writable one says is on the medium, and a crash leaves nothing else: `open_settled` sees to that, and a
    commit that fails closes it. So files may go on its word, and on nobody else's.
    """

    def __init__(self, disk: IDisk, directory: str, store: bytes, *, writable: bool, immutable: bool = False) -> None:
        self.path = os.path.join(directory, FILE_NAME)
        self._thinned: set[int] = set()
        self._total = 0
        self._parts: tuple[str, ...] = PARTS
        self.writable = writable
        self._database: sqlite3.Connection | None = None
        try:
            if writable:
                self._database = open_settled(disk, self.path)
            else:
                self._database = disk.database(self.path, writable=False, immutable=immutable)
            self._prepare(disk, directory, store, writable)
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
                for key, value in zip(META, (VERSION, 1, 0, 0, 0, 0, store), strict=True):
                    self._set(key, value)
            disk.sync_directory(directory)
        meta = self._meta()
        if meta.get("format") not in _READABLE:
            raise UnknownVersion(
                f"{self.path}: the catalog has format {meta.get('format')}, this streamd reads up to {VERSION}"
            )
        if meta.get("store") != store:
            raise StoreUnusable(f"{self.path}: this catalog belongs to another store")
        checked(self.path, "meta", tuple([meta.get(key) for key in (*META, "crc")]))
        if meta["format"] == 1 and writable:
            with self:
                self._execute(SCHEMA_2)
                self._set("format", VERSION)
        elif meta["format"] == 1:
            self._parts = PARTS[:-1]

    def _execute(self, script: str) -> None:
        # Not `executescript`, which commits what came before.
        for statement in script.split(";\n"):
            self._db.execute(statement)

    def _has_meta(self) -> bool:
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()
        return bool(tables)

    def __enter__(self) -> Catalog:
        self._db.execute("BEGIN IMMEDIATE")
        self._total = self._get("total") if self._has_meta() else 0
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._set("total", self._total % TOTAL_MODULUS)
                meta = self._meta()
                self._set("crc", row_sum("meta", [meta[key] for key in META]))
                self._db.commit()
            else:
                self._db.rollback()
        except BaseException:
            # Nobody knows now what a crash would leave. Who opens it anew does.
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

    def _add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows, which count in the total."""
        with_sums = [summed(table, row) for row in rows]
        if with_sums:
            marks = ", ".join("?" * len(with_sums[0]))
            self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", with_sums)
            self._total += sum([row[-1] for row in with_sums])

    def _remove(self, table: str, which: str, *values: object) -> None:
        """Remove rows, which no longer count."""
        gone = self._db.execute(f"DELETE FROM {table} WHERE {which} RETURNING crc", values).fetchall()
        self._total -= sum([crc for (crc,) in gone])

    def _rows(self, table: str, rest: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows, each checked, without their checksums."""
        for row in self._db.execute(f"SELECT * FROM {table} {rest}", values):
            yield checked(self.path, table, row)

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
        """Every segment, with all that belongs to it but its extents: the broadcast segment first, then by id."""
        self._check_total()
        broadcast = self.broadcast()
        if broadcast is not None:
            yield broadcast
        parts = [_grouped(self._rows(table, "ORDER BY segment")) for table in self._parts]
        for row in self._rows("segments", "ORDER BY id"):
            segment = _segment(row)
            if not isinstance(segment, Broadcast):
                _equip(segment, *[part.pop(segment.id, ()) for part in parts])
                yield segment

    def broadcast(self) -> Broadcast | None:
        """The broadcast segment, where there is one yet."""
        row = next(self._rows("segments", f"WHERE hidden = {BROADCASTS}"), None)
        if row is None:
            return None
        segment = _segment(row)
        assert isinstance(segment, Broadcast)
        return segment

    def _check_total(self) -> None:
        """No row is missing, and none is there twice. Whether each is right, `_rows` says."""
        total = 0
        for table in ("segments", "packs", *self._parts):
            # In Python: what a damaged row holds need not be a number.
            total += sum([crc for (crc,) in self._db.execute(f"SELECT crc FROM {table}") if isinstance(crc, int)])
        if total % TOTAL_MODULUS != self._get("total"):
            raise CatalogDamaged(self.path, "segments", "rows are missing, here or in another table")

    def segment(self, id: int) -> Segment | None:
        """One segment, with all that belongs to it but its extents."""
        row = next(self._rows("segments", "WHERE id = ?", id), None)
        if row is None:
            return None
        segment = _segment(row)
        _equip(segment, *[[part[1:] for part in self._rows(table, "WHERE segment = ?", id)] for table in self._parts])
        return segment

    def put_segment(self, segment: Segment) -> None:
        """Note a segment as it is now. Its extents are told apart."""
        self._remove("segments", "id = ?", segment.id)
        self._clear(segment.id)
        own = (
            segment.id,
            segment.name,
            segment.created,
            segment.modified,
            int(segment.sealed),
            segment.first_number,
            segment.first_offset,
            segment.own_number,
            segment.own_offset,
            BROADCASTS if isinstance(segment, Broadcast) else HIDDEN if segment.hidden else PLAIN,
        )
        self._add("segments", [own])
        if isinstance(segment, Numbered) and segment.seen_number:
            self._add("reached", [(segment.id, segment.seen_number, segment.seen_offset)])
        self._add(
            "levels",
            [(segment.id, writer, level) for writer, level in (segment.levels or {}).items()],
        )
        self._add(
            "groups",
            [
                (segment.id, name, group.position, b"".join([pack("<QQ", *each) for each in group.ranges]))
                for name, group in (segment.groups or {}).items()
            ],
        )
        self._add(
            "attributes",
            [(segment.id, key, value) for key, value in (segment.attributes or {}).items()],
        )
        # The second condition says nothing new, but it can use the index.
        first = segment.first_number
        self._drop_extents("segment = ? AND number + count <= ? AND number < ?", segment.id, first, first)

    def drop_segment(self, id: int) -> None:
        """Forget a segment and all that belongs to it."""
        self._clear(id)
        self._drop_extents("segment = ?", id)
        self._remove("segments", "id = ?", id)

    def _drop_extents(self, which: str, *values: int) -> None:
        gone = self._db.execute(f"DELETE FROM extents WHERE {which} RETURNING pack", values)
        self._thinned.update(pack for (pack,) in gone if pack != BROADCAST_PACK)

    def _clear(self, id: int) -> None:
        for table in self._parts:
            self._remove(table, "segment = ?", id)

    # -- for a repair --------------------------------------------------------------------------------------------------

    def fill(self, tables: Mapping[str, Iterable[tuple[Any, ...]]], covered: tuple[int, int, int], pack: int) -> None:
        """Take up the rows of another catalog. This one must be new."""
        for table, rows in tables.items():
            if table == "extents":
                self.add_extents(map(Row._make, rows))
            else:
                self._add(table, rows)
        self.set_covered(*covered)
        self._set("pack", pack)

    def drop_extent(self, row: Row) -> None:
        """Forget where some records are."""
        self._drop_extents("segment = ? AND number = ?", row.segment, row.number)

    # -- extents and packs ---------------------------------------------------------------------------------------------

    def move_extents(self, moved: Moved) -> None:
        """Make the extents of a published segment those of its target."""
        rows = [moved.row(Row(*row)) for row in self._rows("extents", "WHERE segment = ?", moved.source)]
        self._db.execute("DELETE FROM extents WHERE segment = ?", (moved.source,))
        self.add_extents(rows)

    def add_extents(self, rows: Iterable[Row]) -> None:
        """Note where records are."""
        marks = ", ".join("?" * (len(Row._fields) + 1))
        self._db.executemany(f"INSERT INTO extents VALUES ({marks})", (summed("extents", row) for row in rows))

    def extents_from_number(self, segment: int, number: int, limit: int) -> list[Row]:
        """The extent that holds this record, and those behind it."""
        return self._extents(segment, "number", number, limit)

    def extents_from_offset(self, segment: int, offset: int, limit: int) -> list[Row]:
        """The extent that holds this offset, and those behind it."""
        return self._extents(segment, "offset", offset, limit)

    def _extents(self, segment: int, column: str, value: int, limit: int) -> list[Row]:
        # Offsets rise with numbers, so both find the last extent that begins at or below the place.
        rest = (
            f"WHERE segment = ?1 AND number >= coalesce((SELECT max(number) FROM extents WHERE segment = ?1 AND "
            f"{column} <= ?2), 0) ORDER BY number LIMIT ?3"
        )
        found: list[Row] = []
        for row in map(Row._make, self._rows("extents", rest, segment, value, limit)):
            if found and row.number != found[-1].number + found[-1].records:
                # One is missing. Who asks for what it held gets what comes behind, and sees that it is not that.
                break
            found.append(row)
        return found

    def number_at(self, segment: int, timestamp: int) -> int | None:
        """The first record of the first extent that has one of this time or later."""
        rest = "WHERE segment = ? AND last_timestamp >= ? ORDER BY number LIMIT 1"
        row = next(self._rows("extents", rest, segment, timestamp), None)
        return None if row is None else Row(*row).number

    def needed_broadcast(self) -> int | None:
        """The first record of the broadcast segment that an extent stands for."""
        (first,) = self._db.execute(f"SELECT min(position) FROM extents WHERE pack = {BROADCAST_PACK}").fetchone()
        return None if first is None else int(first)

    def references(self) -> Iterator[Row]:
        """The extents that stand for records of the broadcast segment."""
        return map(Row._make, self._rows("extents", "WHERE pack = ?", BROADCAST_PACK))

    def extents_of_packs(self, packs: Iterable[int]) -> Iterator[Row]:
        """All extents in these packs, by segment and number."""
        chosen = list(packs)
        marks = ", ".join("?" * len(chosen))
        rows = self._rows("extents", f"WHERE pack IN ({marks}) ORDER BY segment, number", *chosen)
        return map(Row._make, rows)

    def packs(self) -> list[Pack]:
        """All packs."""
        return [Pack(*row) for row in self._rows("packs", "ORDER BY number")]

    def add_pack(self, number: int, size: int, blocks: int, *, is_thin: bool = False) -> None:
        """Note a pack whose extents are noted too; `is_thin`: it has blocks that nobody needs."""
        if is_thin:
            self._thinned.add(number)
        self._add("packs", [(number, size, size, blocks)])
        self._set("pack", number)

    def drop_packs(self, packs: Iterable[int]) -> None:
        """Forget packs, and the extents that still point there."""
        for number in packs:
            self._db.execute("DELETE FROM extents WHERE pack = ?", (number,))
            self._remove("packs", "number = ?", number)

    def count_live(self) -> None:
        """Find out again how much is needed of packs that lost extents. A block that several share counts once."""
        for number in self._thinned:
            (live,) = self._db.execute(
                "SELECT coalesce(sum(length), 0) FROM (SELECT DISTINCT position, length FROM extents WHERE pack = ?)",
                (number,),
            ).fetchone()
            packs = [Pack(*row)._replace(live=live) for row in self._rows("packs", "WHERE number = ?", number)]
            self._remove("packs", "number = ?", number)
            self._add("packs", packs)
        self._thinned.clear()

    # -- checking ------------------------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """What SQLite itself finds wrong."""
        return [text for (text,) in self._db.execute("PRAGMA integrity_check") if text != "ok"]

    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """Segment, first number, count and pack of every extent, in order."""
        for row in map(Row._make, self._rows("extents", "ORDER BY segment, number")):
            yield row.segment, row.number, row.records, row.pack

    def extents_with_ends(self, pack: int) -> list[tuple[Row, int]]:
        """The extents in a pack, each with the offset at which its segment goes on behind it."""
        query = (
            "SELECT coalesce((SELECT offset FROM extents WHERE segment = ?1 AND number = ?2), "
            "(SELECT offset FROM segments WHERE id = ?1), 0)"
        )
        with self.snapshot():
            rows = [Row(*row) for row in self._rows("extents", "WHERE pack = ? ORDER BY position", pack)]
            ends = [self._db.execute(query, (row.segment, row.number + row.records)).fetchone()[0] for row in rows]
        return list(zip(rows, ends, strict=True))

    def strays(self) -> Iterator[str]:
        """Rows that belong to no segment."""
        for table in self._parts:
            query = f"SELECT DISTINCT segment FROM {table} WHERE segment NOT IN (SELECT id FROM segments)"
            for (segment,) in self._db.execute(query):
                yield f"there are {table} of segment {segment}, which does not exist"

    @property
    def next_pack(self) -> int:
        """A number that no pack has had."""
        return int(self._get("pack")) + 1


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return is_full(error)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for segment, *rest in rows:
        found.setdefault(segment, []).append(tuple(rest))
    return found


def _segment(row: tuple[Any, ...]) -> Segment:
    id, name, created, modified, sealed, first_number, first_offset, number, offset, hidden = row
    segment = Broadcast(id) if hidden == BROADCASTS else new_segment(id, name, NOBODY, hidden=bool(hidden))
    segment.created, segment.modified = created, modified
    segment.sealed = bool(sealed)
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
    reached: Iterable[tuple[Any, ...]] = (),
) -> None:
    for writer, level in levels:
        segment.set_level(writer, level)
    for key, value in attributes:
        segment.set_attribute(key, value)
    for name, position, ranges in groups:
        segment.set_group(name, position)
        segment.group(name).add(iter_unpack("<QQ", ranges))
    for number, offset in reached:
        if isinstance(segment, Numbered):
            segment.seen_number, segment.seen_offset = number, offset
