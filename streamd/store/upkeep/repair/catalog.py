"""What can be saved of a damaged catalog: every row whose checksum is right, and what others tell of the rest.

Each row is judged alone. A damaged row of `packs` is made again from the file, one of `extents` from the block that it
named. A damaged row of `segments` is taken as it is read, held against the segment's extents: its name may be wrong,
which is said. Levels, groups and attributes stand nowhere else: a damaged one goes, which is said too. Where SQLite
can't read the file at all, rows are looked for in its pages, and the packs tell of the rest.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final

from streamd.store.disk import IDisk
from streamd.store.errors import BadName, StoreUnusable, UnknownVersion
from streamd.store.names import check_name
from streamd.store.packs.catalog import FILE_NAME, Row
from streamd.store.packs.rowsum import META, PARTS, TOTAL_MODULUS, UNREADABLE, CatalogDamaged, checked, row_sum, summed
from streamd.store.upkeep.repair.clues import Clues, Place
from streamd.store.upkeep.repair.kept import Step
from streamd.store.upkeep.repair.packs import Packs
from streamd.store.upkeep.repair.pages import read_pages
from streamd.store.upkeep.repair.salvage import Tables, ends, made_whole
from streamd.store.wal import SUFFIX as WAL_SUFFIX

TABLES: Final = ("segments", "packs", *PARTS, "extents")
_READABLE: Final = (1, 2)

_LOST: Final = {
    "levels": "the ack level of a writer: what it sends again may be stored twice",
    "groups": "the position of a reader group: it begins anew",
    "attributes": "an attribute",
    "reached": "which broadcasts segment {id} has had: it receives the first ones again",
}


@dataclass
class Rows:
    """The rows that a catalog will have."""

    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    covered: tuple[int, int, int] = (1, 0, 0)
    pack: int = 0
    steps: list[Step] = field(default_factory=list)

    def extents(self) -> list[Row]:
        """Where records are, by segment and number."""
        return sorted(Row(*row) for row in self.tables["extents"])


def read_rows(disk: IDisk, directory: str, store: bytes, packs: Packs, clues: Clues) -> Rows:
    """All rows that are right, or can be made right; also where SQLite can't read the file."""
    path = os.path.join(directory, FILE_NAME)
    exam = _Exam(path, store, packs, clues)
    try:
        database = disk.database(path, writable=False, immutable=True)
        try:
            exam.wrong = [text for (text,) in database.execute("PRAGMA integrity_check") if text != "ok"]
            meta = dict(database.execute("SELECT key, value FROM meta").fetchall())
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            tables = {
                table: database.execute(f"SELECT * FROM {table}").fetchall() if table in names else []
                for table in TABLES
            }
        finally:
            database.close()
    except UNREADABLE as error:
        return exam.salvage(f"SQLite can't read it: {error}", *read_pages(disk, path))
    if exam.is_earlier(meta):
        if (disk.stamp(path + WAL_SUFFIX) or (0,))[0]:
            raise lost_commits(path, "cut off")
        wrong = "it is of an earlier time: its WAL is damaged or gone"
        return exam.salvage(wrong, *read_pages(disk, path))
    return exam.run(meta, tables)


def lost_commits(path: str, damage: str) -> StoreUnusable:
    """The error for a WAL of which a part is gone that other files rely on."""
    return StoreUnusable(
        f"{path}{WAL_SUFFIX}: {damage}, and the catalog without what is lost there does not fit the other files. This "
        "can't be repaired, and nothing was changed. Restore a backup"
    )


class _Exam:
    def __init__(self, path: str, store: bytes, packs: Packs, clues: Clues) -> None:
        self._path = path
        self._store = store
        self._packs = packs
        self._clues = clues
        self._rows = Rows()
        self.wrong: list[str] = []

    def is_earlier(self, meta: dict[str, Any]) -> bool:
        """Whether the journal begins behind what the catalog covers, and packs have what lies between."""
        begin, covered, known = self._clues.begin(), meta.get("covered"), meta.get("pack")
        if begin is None or not isinstance(covered, int) or not isinstance(known, int):
            return False
        return covered < begin and known < self._packs.highest

    def salvage(self, error: str, meta: dict[str, Any], found: Tables) -> Rows:
        """It can't be used: the rows are those that its pages hold, and what the packs tell beside them."""
        meta = {} if self.is_earlier(meta) else meta
        tables = made_whole(found, self._packs, is_newest=bool(meta))
        names = sum(not row[9] for row in tables["segments"])
        self._step(
            error,
            f"it is made again from its pages, where {names} segments are found with their names, and from the packs",
            "reader groups, ack levels and attributes that are not found there, and truncations and deletions: records "
            "that were dropped may be back",
        )
        _, file, _ = (0, meta["file"], 0) if meta else self._clues.covered(ends(tables))
        self._reach(tables, self._clues.places(file))
        return self.run(meta, tables)

    def _reach(self, tables: Tables, places: dict[int, Place]) -> None:
        """Segments stand where the journal goes on with them; those that only the journal knows are there, too."""
        known = {row[0]: row[:-1] for row in tables["segments"]}
        first = {row[0]: (row[1], row[2]) for row in sorted(tables["extents"], reverse=True)}
        for id, place in sorted(places.items()):
            row = known.get(id)
            if place.number is None and (row is not None or id in first):
                continue  # the row or the extents tell how far it goes
            if row is not None and (place.number or 0) <= row[7]:
                continue
            if row is None:
                number, offset = place.number or 0, place.offset
                name = f"recovered-{id}"
                # Where packs have records of it, it begins with those.
                row = (id, name, 0, 0, 0, *first.get(id, (number, offset)), number, offset, int(place.is_hidden))
                self._step(f"the row of segment {id} is missing", f"it gets the name {name!r}", "its name")
            known[id] = (*row[:7], max(place.number or 0, row[7]), place.offset or row[8], row[9])
        tables["segments"] = [summed("segments", row) for row in known.values()]

    def run(self, meta: dict[str, Any], tables: dict[str, list[tuple[Any, ...]]]) -> Rows:
        for text in self.wrong:
            self._step(f"SQLite says: {text}", "all rows that are right are copied into a new catalog", "")
        self._meta(meta, tables)
        bad: dict[str, list[tuple[Any, ...]]] = {}
        for table, rows in tables.items():
            self._rows.tables[table] = []
            for row in rows:
                try:
                    self._rows.tables[table].append(checked(self._path, table, row))
                except CatalogDamaged:
                    bad.setdefault(table, []).append(row)
        for table in PARTS:
            for row in bad.get(table, ()):
                self._step(f"a row of {table}", "it goes", _LOST[table].format(id=row[0]))
        self._pack_rows(bad.get("packs", []))
        self._fill_gaps(len(bad.get("extents", ())))
        self._segments(bad.get("segments", []))
        self._strays()
        return self._rows

    def _step(self, damage: str, action: str, lost: str) -> None:
        self._rows.steps.append(Step(self._path, damage, action, lost))

    # -- meta ----------------------------------------------------------------------------------------------------------

    def _meta(self, meta: dict[str, Any], tables: dict[str, list[tuple[Any, ...]]]) -> None:
        try:
            right = row_sum("meta", [meta[key] for key in META]) == meta["crc"]
        except (KeyError, TypeError, AttributeError):
            right = False
        self._rows.pack = self._packs.highest
        if right:
            if meta["format"] not in _READABLE:
                raise UnknownVersion(f"{self._path}: the catalog has format {meta['format']}, which is not known here")
            if meta["store"] != self._store:
                raise StoreUnusable(f"{self._path}: this catalog belongs to another store")
            self._rows.covered = meta["covered"], meta["file"], meta["timestamp"]
            self._rows.pack = max(meta["pack"], self._packs.highest)
            sums = [row[-1] for table, rows in tables.items() if table != "extents" for row in rows]
            if sum(each for each in sums if isinstance(each, int)) % TOTAL_MODULUS != meta["total"]:
                self._step("rows are missing, or have another checksum", "the others are taken", "which is not known")
            return
        self._rows.covered = self._clues.covered(ends(tables))
        sequence, file, _ = self._rows.covered
        self._step("the table meta", f"it is made again: up to journal file {file}, sequence {sequence}", "")

    # -- packs and extents ---------------------------------------------------------------------------------------------

    def _pack_rows(self, bad: list[tuple[Any, ...]]) -> None:
        """A pack that extents name has a row; one that is damaged or missing is made again from the file."""
        known = {row[0] for row in self._rows.tables["packs"]}
        named = {row[6] for row in self._rows.tables["extents"]} - {0}
        for number in sorted(named - known):
            found = self._packs.measure(number)
            self._rows.tables["packs"].append((number, *found))
            self._step(f"the row of pack {number}", "it is made again from the file", "")
        for row in bad:
            if row[0] not in named:
                self._step(f"a row of packs, {row[0]!r}, which nobody needs", "it goes", "")

    def _fill_gaps(self, damaged: int) -> None:
        """Extents that are damaged or missing, from the blocks of the packs."""
        rows: dict[int, list[Row]] = {}
        for row in self._rows.extents():
            rows.setdefault(row.segment, []).append(row)
        made: list[Row] = []
        for id, *_, first_number, _, number, _, _ in self._rows.tables["segments"]:
            at = first_number
            for begin, end in [*[(row.number, row.number + row.records) for row in rows.get(id, [])], (number, number)]:
                made += self._packs.between(id, at, begin) if at < begin else []
                at = end
        self._rows.tables["extents"] += [tuple(each) for each in made]
        if damaged or made:
            self._step(
                f"{max(damaged, len(made))} rows of extents",
                f"{len(made)} of them are made again from their blocks",
                "",
            )

    # -- segments ------------------------------------------------------------------------------------------------------

    def _segments(self, bad: list[tuple[Any, ...]]) -> None:
        ends: dict[int, tuple[Row, Row]] = {}
        for each in self._rows.extents():
            ends[each.segment] = (ends[each.segment][0] if each.segment in ends else each, each)
        names = {row[1] for row in self._rows.tables["segments"] if not row[9]}
        for damaged in bad:
            row = damaged[:-1]
            made = self._segment(row, ends.get(row[0]), names)
            if made is None:
                self._step(f"the row of segment {row[0]!r}", "it goes: what it says makes no sense", "the segment")
                continue
            names.add(made[1])
            self._rows.tables["segments"].append(made)
            self._step(
                f"the row of segment {row[0]}",
                f"it is taken with the name {made[1]!r}, and records {made[5]} to {made[7] - 1}: see if that is right",
                "",
            )
        known = {row[0] for row in self._rows.tables["segments"]}
        for id in sorted(ends.keys() - known):
            made = self._segment((id, f"recovered-{id}", 0, 0, 0, -1, 0, 0, 0, 0), ends[id], names)
            assert made is not None
            self._rows.tables["segments"].append(made)
            self._step(f"the row of segment {id} is missing", f"it gets the name {made[1]!r}", "its name")

    def _segment(self, row: tuple[Any, ...], ends: tuple[Row, Row] | None, names: set[str]) -> tuple[Any, ...] | None:
        """A row that can be used, with places that its extents bear out."""
        types = (int, str, int, int, int, int, int, int, int, int)
        if not all(isinstance(value, kind) for value, kind in zip(row, types, strict=True)):
            row = (row[0], f"recovered-{row[0]}", 0, 0, 0, -1, 0, 0, 0, 0)
            if not isinstance(row[0], int) or ends is None:
                return None
        id, name, created, modified, sealed, first_number, first_offset, number, offset, hidden = row
        try:
            if name in names:
                raise ValueError(name)
            if not hidden:
                check_name(name)
        except (BadName, ValueError):
            name = f"recovered-{id}"
        if ends is None:
            if (first_number, first_offset) != (number, offset) or number < 0:
                return None
        else:
            first, last = ends
            number = last.number + last.records
            offset = last.offset + self._packs.span(last) if last.pack else offset
            if not first.number <= first_number <= number or not first.offset <= first_offset <= offset:
                first_number, first_offset = first.number, first.offset
            created, modified = created or first.timestamp, modified or last.last_timestamp
        sealed, hidden = int(bool(sealed)), hidden if hidden in (0, 1, 2) else 0
        return id, name, created, modified, sealed, first_number, first_offset, number, offset, hidden

    def _strays(self) -> None:
        """Rows of segments that are not there."""
        known = {row[0] for row in self._rows.tables["segments"]}
        for table in (*PARTS, "extents"):
            stray = [row for row in self._rows.tables[table] if row[0] not in known]
            if stray:
                self._rows.tables[table] = [row for row in self._rows.tables[table] if row[0] in known]
                self._step(f"{len(stray)} rows of {table} of segments that are not there", "they go", "")
