"""The catalog is made of footers: of one after the other while the compactor works, or of all of them at once.

What a footer changes is the same in both ways. One after the other: states of segments take the place of those before,
extents are added. At once: the state in the newest footer counts, and the extents are those of the packs in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamd.store.packs import pack
from streamd.store.packs.catalog import BROADCAST_PACK, STATE, Catalog, Moved, Row
from streamd.store.packs.database import PARTS
from streamd.store.packs.footer import Footer, PackRows
from streamd.store.packs.inforce import PackSet

RowsOf = Callable[[str], Iterable[tuple[Any, ...]]]
"""The rows of a footer, by table."""

Progress = Callable[[int, int], None]
"""Called with the packs that are done, and how many there are."""


def apply_footer(catalog: Catalog, footer: Footer, rows: RowsOf) -> None:
    """Let the catalog follow a pack that was written on top of it."""
    number, told = footer.mark.number, footer.told
    with catalog:
        if told.is_merged:
            # States are as they were: it says nothing new.
            catalog.drop_packs(told.replaces)
            catalog.add_extents(row for row in map(Row._make, rows("extents")) if row.pack == number)
        else:
            apply_changes(catalog, rows)
        catalog.add_pack(number, footer.blocks_end - pack.FILE_HEADER.size, footer.blocks)
        catalog.set_covered(*told.covered)
        catalog.set_mark(footer.mark)
        catalog.count_live()


def apply_changes(catalog: Catalog, rows: RowsOf) -> None:
    """What a fold changes; inside a transaction."""
    for moved in {Moved(*row[:-1]) for row in rows("moves")}:
        catalog.move_extents(moved)
    for (segment,) in rows("dropped"):
        catalog.drop_segment(segment)
    catalog.put_states(rows)
    catalog.add_extents(map(Row._make, rows("extents")))


def catch_up(catalog: Catalog, packs: PackSet) -> bool:
    """Apply the footers that the catalog has not; False where it is not behind by packs that follow each other."""
    behind: list[Footer] = []
    number = packs.mark.number
    while not behind or behind[-1].told.before != catalog.mark:
        if number not in packs.footers:
            return False
        behind.append(packs.footers[number])
        number = behind[-1].told.before.number
    for footer in reversed(behind):
        apply_footer(catalog, footer, packs.rows(footer.mark.number).rows)
    return True


def make_catalog(catalog: Catalog, packs: PackSet, progress: Progress = lambda done, total: None) -> None:
    """Make all of the catalog again, in one transaction. StoreCorrupt where a footer is damaged."""
    with catalog:
        catalog.clear()
        firsts = _states(catalog, packs)
        moves = _moves(packs)
        for done, number in enumerate(sorted(packs.footers)):
            progress(done, len(packs.footers))
            footer = packs.footers[number]
            catalog.add_extents(_extents(packs, number, firsts, moves))
            catalog.add_pack(number, footer.blocks_end - pack.FILE_HEADER.size, footer.blocks)
        for each in packs.adopted.values():
            catalog.add_pack(each.number, each.bytes, each.blocks)
        catalog.set_covered(*packs.covered)
        catalog.set_mark(packs.mark)
        catalog.count_live()
    progress(len(packs.footers), len(packs.footers))


def _states(catalog: Catalog, packs: PackSet) -> dict[int, int]:
    """Take up the state of all segments; returns the first record of each."""
    firsts: dict[int, int] = {}
    gone: set[int] = set()
    whole = packs.whole
    for number in sorted(packs.footers, reverse=True):
        if number < whole:
            break
        rows = packs.rows(number)
        gone.update([segment for (segment,) in rows.rows("dropped")])
        fresh: set[int] = set()
        catalog.add_rows("segments", _newest(rows, firsts, gone, fresh))
        for table in PARTS:
            catalog.add_rows(table, (row for row in rows.rows(table) if row[0] in fresh))
    return firsts


def _newest(rows: PackRows, firsts: dict[int, int], gone: set[int], fresh: set[int]) -> Iterator[tuple[Any, ...]]:
    for row in rows.rows(STATE[0]):
        if row[0] not in firsts and row[0] not in gone:
            firsts[row[0]] = row[5]
            fresh.add(row[0])
            yield row


def _moves(packs: PackSet) -> dict[int, Moved]:
    """What became of segments that were published while older packs had their records."""
    return {row[0]: Moved(*row[:-1]) for number in packs.footers for row in packs.rows(number).rows("moves")}


def _extents(packs: PackSet, number: int, firsts: dict[int, int], moves: dict[int, Moved]) -> Iterator[Row]:
    """Where the records of a pack are, as they count now."""
    seen = {number, BROADCAST_PACK, *packs.adopted}
    for row in map(Row._make, packs.rows(number).rows("extents")):
        if row.segment in moves:
            row = moves[row.segment].row(row)
        if row.pack in seen and row.number + row.records > firsts.get(row.segment, 1 << 63):
            yield row
