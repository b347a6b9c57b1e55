"""The catalog: an index of what the footers of all packs say. SQLite, one writer: the compactor.

Segments with their ack levels, groups and attributes; packs; and extents, which say where the records of a segment
are. All of it is true for the sequence number `covered`: what the journal says from there on is not in it yet. Every
row has a checksum (`streamd.store.packs.database`), which is checked whenever the row is read.

Nothing depends on it: `streamd.store.packs.making` makes it again. Only in a store of format 1 or 2 that was not
brought over yet it is the one place that knows what is in packs; then each commit is synced, and `settle` applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from streamd.store.packs.database import FILE_NAME as FILE_NAME
from streamd.store.packs.database import FORMAT_2, PARTS, TOTAL_MODULUS, CatalogDamaged, Database
from streamd.store.packs.database import VERSION as VERSION
from streamd.store.packs.database import CatalogFull as CatalogFull
from streamd.store.packs.database import NoCatalog as NoCatalog
from streamd.store.packs.footer import Mark
from streamd.store.packs.states import as_segment, equip, grouped, state_rows
from streamd.store.segments.broadcasts import BROADCASTS, Broadcast
from streamd.store.segments.segment import Segment

STATE: Final = ("segments", *PARTS)
"""The tables with the state of segments."""

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


class Catalog(Database):
    """An open catalog. Whoever opened it `writable` is its only writer; changes are made inside `with`: all or none."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._thinned: set[int] = set()
        super().__init__(*args, **options)

    # -- how far it goes -----------------------------------------------------------------------------------------------

    @property
    def covered(self) -> tuple[int, int, int]:
        """The sequence number that comes next, the last journal file that is folded in, and the last timestamp."""
        row = self._db.execute(
            "SELECT (SELECT value FROM meta WHERE key = 'covered'), (SELECT value FROM meta WHERE key = 'file'), "
            "(SELECT value FROM meta WHERE key = 'timestamp')"
        ).fetchone()
        return int(row[0]), int(row[1]), int(row[2])

    @property
    def mark(self) -> Mark:
        """The last pack that it is made of. That of a catalog which is no index yet is none's."""
        meta = self._meta()
        return Mark(meta["pack"], meta["footer"]) if meta["format"] > FORMAT_2 else Mark(-1)

    def set_mark(self, mark: Mark) -> None:
        """Say what it is made of from now on: it is an index."""
        if self._get("format") != VERSION:
            self._extents_total = self._sum_extents()
        self._set("format", VERSION)
        self._set("pack", mark.number)
        self._set("footer", mark.crc)

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
        parts = [grouped(self._rows(table, "ORDER BY segment")) for table in self._parts]
        for row in self._rows("segments", "ORDER BY id"):
            segment = as_segment(row)
            if not isinstance(segment, Broadcast):
                equip(segment, *[part.pop(segment.id, ()) for part in parts])
                yield segment

    def broadcast(self) -> Broadcast | None:
        """The broadcast segment, where there is one yet."""
        row = next(self._rows("segments", f"WHERE hidden = {BROADCASTS}"), None)
        if row is None:
            return None
        segment = as_segment(row)
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
        if self._get("format") == VERSION and self._sum_extents() % TOTAL_MODULUS != self._get("extents"):
            raise CatalogDamaged(self.path, "extents", "rows are missing")

    def _sum_extents(self) -> int:
        (total,) = self._db.execute("SELECT sum(crc) FROM extents").fetchone()
        return int(total or 0)

    def segment(self, id: int) -> Segment | None:
        """One segment, with all that belongs to it but its extents."""
        row = next(self._rows("segments", "WHERE id = ?", id), None)
        if row is None:
            return None
        segment = as_segment(row)
        equip(segment, *[[part[1:] for part in self._rows(table, "WHERE segment = ?", id)] for table in self._parts])
        return segment

    def put_segment(self, segment: Segment) -> None:
        """Note a segment as it is now. Its extents are told apart."""
        self.put_states(lambda table: state_rows(table, segment))

    def put_states(self, rows: Callable[[str], Iterable[tuple[Any, ...]]]) -> None:
        """Note segments as they are now: `rows` gives those of each table. Their extents are told apart."""
        for row in rows("segments"):
            self._remove("segments", "id = ?", row[0])
            self._clear(row[0])
            # The last condition says nothing new, but it can use the index.
            self._drop_extents("segment = ? AND number + count <= ? AND number < ?", row[0], row[5], row[5])
        for table in STATE:
            self.add_rows(table, rows(table))

    def state_rows(self, table: str, segments: Iterable[int] | None = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a table with the state of these segments, or of all."""
        key = "id" if table == "segments" else "segment"
        if table in PARTS and table not in self._parts:
            return iter(())
        if segments is None:
            return self._rows(table, f"ORDER BY {key}")
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS named (id INTEGER PRIMARY KEY)")
        self._db.execute("DELETE FROM temp.named")
        self._db.executemany("INSERT INTO temp.named VALUES (?)", ((segment,) for segment in segments))
        return self._rows(table, f"WHERE {key} IN temp.named ORDER BY {key}")

    def drop_segment(self, id: int) -> None:
        """Forget a segment and all that belongs to it."""
        self._clear(id)
        self._drop_extents("segment = ?", id)
        self._remove("segments", "id = ?", id)

    def _drop_extents(self, which: str, *values: int) -> None:
        gone = self._db.execute(f"DELETE FROM extents WHERE {which} RETURNING pack, crc", values).fetchall()
        self._thinned.update([pack for pack, _ in gone if pack != BROADCAST_PACK])
        self._extents_total -= sum([crc for _, crc in gone])

    def _clear(self, id: int) -> None:
        for table in self._parts:
            self._remove(table, "segment = ?", id)

    def clear(self) -> None:
        """Forget everything."""
        for table in (*STATE, "packs", "extents"):
            self._db.execute(f"DELETE FROM {table}")
        self._total = self._extents_total = 0
        self._thinned.clear()

    # -- extents and packs ---------------------------------------------------------------------------------------------

    def move_extents(self, moved: Moved) -> None:
        """Make the extents of a published segment those of its target."""
        rows = [moved.row(Row(*row)) for row in self._rows("extents", "WHERE segment = ?", moved.source)]
        self._drop_extents("segment = ?", moved.source)
        self.add_extents(rows)

    def add_extents(self, rows: Iterable[Row]) -> None:
        """Note where records are."""
        self.add_rows("extents", rows)

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

    def has_reference(self, segment: int, number: int) -> bool:
        """Whether this extent stands for records of the broadcast segment, and is needed."""
        rest = f"WHERE segment = ? AND number = ? AND pack = {BROADCAST_PACK}"
        return next(self._rows("extents", rest, segment, number), None) is not None

    def packs_of(self, segment: int) -> list[int]:
        """The packs that have records of a segment."""
        rows = self._db.execute("SELECT DISTINCT pack FROM extents WHERE segment = ? AND pack != 0", (segment,))
        return [number for (number,) in rows]

    def drop_extent(self, row: Row) -> None:
        """Forget where some records are."""
        self._drop_extents("segment = ? AND number = ?", row.segment, row.number)

    def references(self) -> Iterator[Row]:
        """The extents that stand for records of the broadcast segment."""
        return map(Row._make, self._rows("extents", "WHERE pack = ?", BROADCAST_PACK))

    def extents_of_packs(self, packs: Iterable[int]) -> Iterator[Row]:
        """All extents in these packs, by segment and number."""
        chosen = list(packs)
        marks = ", ".join("?" * len(chosen))
        rows = self._rows("extents", f"WHERE pack IN ({marks}) ORDER BY segment, number", *chosen)
        return map(Row._make, rows)

    def all_extents(self) -> Iterator[Row]:
        """All extents, by segment and number."""
        return map(Row._make, self._rows("extents", "ORDER BY segment, number"))

    def packs(self) -> list[Pack]:
        """All packs."""
        return [Pack(*row) for row in self._rows("packs", "ORDER BY number")]

    def add_pack(self, number: int, size: int, blocks: int) -> None:
        """Note a pack whose extents are noted too. `count_live` finds out how much of it is needed."""
        self._thinned.add(number)
        self.add_rows("packs", [(number, size, size, blocks)])

    def drop_packs(self, packs: Iterable[int]) -> None:
        """Forget packs, and the extents that still point there."""
        for number in packs:
            self._drop_extents("pack = ?", number)
            self._thinned.discard(number)
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
            self.add_rows("packs", packs)
        self._thinned.clear()

    # -- checking ------------------------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """What SQLite itself finds wrong."""
        return [text for (text,) in self._db.execute("PRAGMA integrity_check") if text != "ok"]

    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """Segment, first number, count and pack of every extent, in order."""
        for row in self.all_extents():
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
