"""A catalog made again from what is left: rows that were found in its pages, and the blocks of the packs.

Rows that are found have the right checksums, but may be of an earlier time: SQLite does not wipe what was removed. So
they are held against each other and against the packs. What blocks the packs hold of segments that no row speaks of
becomes segments with made-up names: better to have records too many, which can be deleted, than to lose them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from streamd.store.packs.catalog import BROADCAST_PACK, Row
from streamd.store.packs.rowsum import summed
from streamd.store.segments.broadcasts import BROADCASTS
from streamd.store.upkeep.repair.packs import Packs

Tables = dict[str, list[tuple[Any, ...]]]

# Of two rows for the same thing the one of the later time: by these columns, which only rise. How many are its key.
_NEWEST: Final[dict[str, tuple[int, Callable[[tuple[Any, ...]], Any]]]] = {
    "packs": (1, lambda row: -row[2]),
    "levels": (2, lambda row: row[2]),
    "groups": (2, lambda row: row[2]),
    "attributes": (2, lambda row: 0),
    "reached": (1, lambda row: row[1]),
    "segments": (1, lambda row: (row[3], row[7])),
}


def made_whole(found: Tables, packs: Packs, *, is_newest: bool) -> Tables:
    """The rows that a catalog can be made of, each thing once, with their checksums.

    Where they are not known to be the newest there were, packs may have records behind those that they tell of.
    """
    tables = {table: _newest(rows, *_NEWEST[table]) for table, rows in found.items() if table != "extents"}
    extents = _fitting(map(Row._make, (row[:-1] for row in found["extents"])), packs)
    if not is_newest:
        for row in tables["segments"]:
            known = extents.setdefault(row[0], [])
            known += packs.between(row[0], max([row[7], *[each.number + each.records for each in known]]), 1 << 63)
    segments = [_reaching(row[:-1], extents.get(row[0], []), packs) for row in tables["segments"]]
    tables["segments"] = [summed("segments", row) for row in _named_once(segments, extents)]
    rows = [row for each in extents.values() for row in each]
    rows += packs.unclaimed({row[0] for row in segments}, {(row.pack, row.position) for row in rows})
    tables["extents"] = [summed("extents", row) for row in rows]
    return tables


def ends(tables: Tables) -> dict[int, int]:
    """Every segment that there is, and the number behind its last record in a pack."""
    found = dict.fromkeys([row[0] for row in tables["segments"] if isinstance(row[0], int)], 0)
    for row in tables["extents"]:
        if all(isinstance(each, int) for each in row[:4]):
            found[row[0]] = max(found.get(row[0], 0), row[1] + row[3])
    return found


def _newest(rows: list[tuple[Any, ...]], key: int, time: Callable[[tuple[Any, ...]], Any]) -> list[tuple[Any, ...]]:
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        known = found.get(row[:key])
        if known is None or time(row) >= time(known):
            found[row[:key]] = row
    return list(found.values())


def _fitting(rows: Iterable[Row], packs: Packs) -> dict[int, list[Row]]:
    """Extents whose block is there, without those that another one took the place of: later packs win."""
    found: dict[int, list[Row]] = {}
    for row in sorted(set(rows), key=lambda row: -row.pack):
        if row.pack != BROADCAST_PACK and not packs.has(row):
            continue
        others = found.setdefault(row.segment, [])
        if all(row.number + row.records <= each.number or each.number + each.records <= row.number for each in others):
            others.append(row)
    return {segment: sorted(each) for segment, each in found.items()}


def _reaching(row: tuple[Any, ...], extents: list[Row], packs: Packs) -> tuple[Any, ...]:
    """The row of a segment, which goes at least as far as its extents do."""
    if not extents or extents[-1].pack == BROADCAST_PACK or row[7] >= extents[-1].number + extents[-1].records:
        return row
    last = extents[-1]
    end = last.number + last.records, last.offset + packs.span(last)
    return (*row[:3], max(row[3], last.last_timestamp), *row[4:7], *end, row[9])


def _named_once(rows: list[tuple[Any, ...]], extents: dict[int, list[Row]]) -> list[tuple[Any, ...]]:
    """A name was given again when the segment that had it was gone: the later one has it."""
    found: list[tuple[Any, ...]] = []
    taken = set()
    for row in sorted(rows, reverse=True):
        if row[9] == BROADCASTS and any(each[9] == BROADCASTS for each in found):
            continue
        if (row[1], row[9]) in taken:
            if row[0] not in extents:
                continue
            row = (row[0], f"recovered-{row[0]}", *row[2:])
        taken.add((row[1], row[9]))
        found.append(row)
    return found
