"""Compaction: closed journal files become a pack; packs are merged when that pays.

Order is everything. A pack is synced, footer and all, before it has its name, and with its name it is in force. Only
then is the catalog changed, which follows, and may the journal files, or the packs that were merged, go. After a crash
anywhere the footers tell which files count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from streamd.batch import Buffer
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import ReadFailed
from streamd.store.journal.replay import Replay
from streamd.store.journal.writer import FILE_NAME, file_name
from streamd.store.packs import pack
from streamd.store.packs.catalog import BROADCAST_PACK, STATE, Catalog, Pack, Row
from streamd.store.packs.footer import COLUMNS, NO_MARK, Adopted, Footer, Told
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.making import RowsOf, apply_footer
from streamd.store.packs.opening import Opened
from streamd.store.packs.packing import Packing, Source
from streamd.store.packs.states import state_rows
from streamd.store.packs.touched import Touched
from streamd.store.records import blocks
from streamd.store.records.extent import PUBLISHED
from streamd.store.records.fetch import extent_batch, fetch
from streamd.store.room import file_bytes_max
from streamd.store.segments.segment import Segment

# Extents whose bodies are fetched together.
_FETCH: Final = 256

# Packs that are merged at a time, and when: so many of about the same size, with blocks that are small on average.
_MERGE_PACKS: Final = 8
_TIER_PACKS: Final = 4
_TIER_FACTOR: Final = 4
_SMALL_BLOCK_BYTES: Final = 64 << 10
_SMALL_PACK_BYTES: Final = 16 << 20
# A pack of which less than this is needed is written again.
_LIVE_LEAST: Final = 0.8
# There is a new checkpoint when the footers since the last one have so many times the state that it has.
_CHECKPOINT_FACTOR: Final = 3


class Folded(NamedTuple):
    """What a fold did."""

    file: int
    """The last journal file that is in a pack now."""
    pack: int | None
    pack_bytes: int


class Folder:
    """Folds journal files and merges packs. One at a time has a store's catalog open for writing."""

    checkpoint_bytes: int = 4 << 20
    """Less state than this in footers is no reason for a checkpoint."""

    def __init__(self, disk: IDisk, journal: str, packs: str, store: bytes, opened: Opened) -> None:
        self._disk = disk
        self._journal = journal
        self._packs = packs
        self._store = store
        self._catalog: Catalog = opened.catalog
        self._set: PackSet = opened.packs

    # -- journal files -------------------------------------------------------------------------------------------------

    def step(self, last: int) -> int:
        """The last journal file of the next fold on the way to `last`: its pack must not be too large for the disk."""
        limit = min(self._pack_bytes_max, self._disk.free_bytes(self._packs) // 2)
        step = size = 0
        for number in journal_numbers(self._disk, self._journal):
            if self._catalog.covered[1] < number <= last:
                size += (self._disk.stamp(os.path.join(self._journal, file_name(number))) or (0,))[0]
                if step and size > limit:
                    return step
                step = number
        return last

    @property
    def _pack_bytes_max(self) -> int:
        """How large a pack is made on this disk. It must be possible to write one again when the disk is full."""
        return file_bytes_max(self._disk, self._packs)

    def fold(self, last: int) -> Folded:
        """Fold all files up to `last`, which must have a successor. What was folded before changes nothing."""
        sequence, file, _ = self._catalog.covered
        touched, covered = self.replay(last)
        if covered[1] == file:
            return Folded(max(file, last), None, 0)
        if covered[0] == sequence:
            # No entry in them: nothing to tell, and nothing to remember but which files they were.
            with self._catalog:
                self._catalog.set_covered(*covered)
            return Folded(covered[1], None, 0)
        writer = self.writer()
        try:
            told = Told(self._set.mark, covered, ((sequence, covered[0]),))
            footer = self._finish(writer, told, self.fold_rows(touched, writer))
        except BaseException:
            writer.abandon()
            raise
        return Folded(covered[1], footer.mark.number, footer.size)

    def replay(self, last: int) -> tuple[Touched, tuple[int, int, int]]:
        """What the files up to `last` leave of the segments that they name, and what is covered with them."""
        sequence, file, timestamp = self._catalog.covered
        numbers = [number for number in journal_numbers(self._disk, self._journal) if number > file]
        touched = Touched(self._catalog)
        replay = Replay(self._disk, self._journal, self._store, touched)
        replay.sequence, replay.timestamp = sequence, timestamp
        headers = [replay.header(number) for number in numbers]
        for header, successor in pairwise(headers):
            if header.number <= last:
                replay.closed(header, successor)
                file = header.number
        return touched, (replay.sequence, file, replay.timestamp)

    def fold_rows(self, touched: Touched, writer: pack.PackWriter) -> RowsOf:
        """Write the records into a pack; gives the rows of its footer."""
        moved = {each.source: each for each in touched.moved}
        packed = self._pack_segments(touched, writer)
        moved_rows = (moved[row.segment].row(row) if row.segment in moved else row for row in packed)
        extents = [row for row in moved_rows if touched.needs(row)]
        live, dropped, moves = touched.live, touched.dropped, touched.moves

        def rows(table: str) -> Iterator[tuple[Any, ...]]:
            others: dict[str, Sequence[tuple[Any, ...]]] = {"extents": extents, "dropped": dropped, "moves": moves}
            if table in others:
                return iter(others[table])
            return (row for segment in live for row in state_rows(table, segment))

        return rows

    def writer(self) -> pack.PackWriter:
        """A new pack in the making."""
        return pack.PackWriter(self._disk, self._packs, self._catalog.next_pack, self._store)

    def _finish(self, writer: pack.PackWriter, told: Told, rows: RowsOf) -> Footer:
        """The pack gets its footer and its name, and is in force from then on; the catalog follows."""
        for table in COLUMNS:
            writer.add_rows(table, rows(table))
        footer = writer.finish(told)
        self._set.add(footer)
        apply_footer(self._catalog, footer, rows)
        return footer

    def _pack_segments(self, touched: Touched, writer: pack.PackWriter) -> Iterator[Row]:
        files: dict[int, IDiskFile] = {}
        shared: dict[tuple[int, int], pack.Block] = {}
        for id in sorted(touched.known):
            segment = touched.known[id]
            if segment.deleted or segment.index is None:
                continue
            yield from Packing(writer, segment.id).run(self._sources(segment, touched.shared, files), shared)

    def _sources(self, segment: Segment, shared: set[tuple[int, int]], files: dict[int, IDiskFile]) -> Iterator[Source]:
        assert segment.index is not None
        for first in range(0, len(segment.index), _FETCH):
            rows = range(first, min(first + _FETCH, len(segment.index)))
            extents = [each for row in rows if not (each := segment.index.extent(row)).tag & PUBLISHED]
            own = [extent for extent in extents if not extent.is_reference]
            for extent in own:
                if extent.file not in files:
                    path = os.path.join(self._journal, file_name(extent.file))
                    files[extent.file] = self._disk.open(path, writable=False)
            found = fetch(own, files, lambda file, position, length: file.read(position, length))
            assert found is not None
            bodies = iter(found)
            for extent in extents:
                if extent.is_reference:
                    yield Source(extent.number, extent.offset, [], None, broadcast=extent)
                    continue
                body = next(bodies)
                piece = blocks.Piece(extent.tag, extent.timestamp, extent_batch(extent, body))
                place = (extent.file, extent.position)
                yield Source(extent.number, extent.offset, [piece], place if place in shared else None)

    # -- packs ---------------------------------------------------------------------------------------------------------

    def leftovers(self) -> list[int]:
        """Packs that were merged by a compactor which died before it could say so: nobody needs their files."""
        for name in self._disk.list_directory(self._packs):
            if not pack.FILE_NAME.fullmatch(name):
                self._disk.unlink(os.path.join(self._packs, name))
        return self._set.spare

    def choose(self) -> list[int]:
        """The packs that are best merged now, and that there is room to merge; none where all is well."""
        packs = [each for each in self._catalog.packs() if each.number != self._set.whole]
        largest, free = self._pack_bytes_max, self._disk.free_bytes(self._packs)
        # What gives room back goes first, and most of all what needs none for that. It may take all there is.
        dead = sorted([each for each in packs if each.live < each.bytes * _LIVE_LEAST], key=lambda each: each.live)
        if chosen := self._up_to(dead, largest, free):
            return self._with_whole(chosen)
        small = [each for each in packs if self._is_small(each, largest)]
        for _, tier in groupby(sorted(small, key=self._tier), key=self._tier):
            alike = list(tier)
            # What only tidies up leaves room for the others.
            if len(alike) >= _TIER_PACKS and len(chosen := self._up_to(alike, largest, free // 4)) > 1:
                return self._with_whole(chosen)
        return []

    def merge(self, packs: Sequence[int], *, is_whole: bool = False) -> int:
        """Write what is live in these packs into one that replaces them; returns its number.

        `is_whole`: it is a checkpoint, with the state of all segments. It must be where one of these is.
        """
        packs = self._with_whole(packs)
        footers = [self._set.footers[number] for number in packs if number in self._set.footers]
        is_whole = is_whole or any(footer.told.is_whole for footer in footers)
        adopted = [each for each in self._set.adopted.values() if each.number not in packs]
        files: dict[int, IDiskFile] = {}
        writer = self.writer()
        try:
            extents = list(self.merge_rows(packs, writer, files))
            extents += self._references(footers)
            if is_whole and adopted:
                extents += self._catalog.extents_of_packs([each.number for each in adopted])
            told = Told(
                self._set.mark,
                self._catalog.covered,
                self._set.ranges(packs),
                tuple(packs),
                tuple(adopted) if is_whole else (),
                is_whole,
                is_merged=True,
            )
            return self._finish(writer, told, self._merged_rows(footers, packs, extents, is_whole)).mark.number
        except BaseException:
            writer.abandon()
            raise

    def _with_whole(self, packs: Sequence[int]) -> list[int]:
        """Packs, and the checkpoint where that has adopted one of them: it alone says that they count."""
        is_adopted = not self._set.adopted.keys().isdisjoint(packs)
        return sorted({*packs, self._set.whole} if is_adopted else packs)

    def _merged_rows(self, footers: list[Footer], packs: Sequence[int], extents: list[Row], is_whole: bool) -> RowsOf:
        """The rows of a merged pack: what its packs said of segments, as it is now."""
        numbers = [footer.mark.number for footer in footers]
        named = {row[0] for number in numbers for row in self._set.rows(number).rows("segments")}
        gone = {row[0] for number in numbers for row in self._set.rows(number).rows("dropped")}
        gone |= named - {row[0] for row in self._catalog.state_rows("segments", named)}
        in_force = (self._set.footers.keys() | self._set.adopted.keys()) - set(packs)
        moves = [row for number in numbers for row in self._set.rows(number).rows("moves") if row[-1] in in_force]

        def rows(table: str) -> Iterator[tuple[Any, ...]]:
            if table in STATE:
                return self._catalog.state_rows(table, None if is_whole else named - gone)
            if table == "dropped":
                return iter([] if is_whole else [(id,) for id in sorted(gone)])
            return iter(moves if table == "moves" else extents)

        return rows

    def _references(self, footers: list[Footer]) -> Iterator[Row]:
        """What these footers say of records of the broadcast segment, as far as it is needed."""
        for footer in footers:
            for row in map(Row._make, self._set.rows(footer.mark.number).rows("extents")):
                if row.pack == BROADCAST_PACK and self._catalog.has_reference(row.segment, row.number):
                    yield row

    # -- the state of all ----------------------------------------------------------------------------------------------

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether footers have so much state by now that all of it is better written down once."""
        whole = self._set.whole
        state_bytes = sum([each.state_bytes for number, each in self._set.footers.items() if number >= whole])
        last = self._set.footers[whole].state_bytes if whole else 0
        if state_bytes <= max(self.checkpoint_bytes, _CHECKPOINT_FACTOR * last):
            return False
        return state_bytes < self._disk.free_bytes(self._packs) // 4

    def checkpoint(self) -> tuple[list[int], int]:
        """Write the state of all segments down, in place of packs that have nothing else; returns these, and it."""
        empty = [number for number, footer in self._set.footers.items() if footer.told.is_whole or not footer.blocks]
        return sorted(empty), self.merge(sorted(empty), is_whole=True)

    def adopt(self) -> int:
        """Bring a store of an earlier format over: a checkpoint says all that the catalog alone knew until now."""
        packs = [Adopted(each.number, each.bytes, each.blocks) for each in self._catalog.packs()]
        covered = self._catalog.covered
        told = Told(NO_MARK, covered, ((1, covered[0]),), (), tuple(packs), is_whole=True, is_merged=True)
        writer = self.writer()
        try:
            number = self._finish(writer, told, all_rows(self._catalog)).mark.number
        except BaseException:
            writer.abandon()
            raise
        self._set.spare = [each for each in self._set.without if each not in self._set.adopted]
        return number

    def merge_rows(self, packs: Sequence[int], writer: pack.PackWriter, files: dict[int, IDiskFile]) -> Iterator[Row]:
        """Write what is live in some packs into another one; gives the extents as they are there."""
        rows = list(self._catalog.extents_of_packs(packs))
        seen: dict[tuple[int, int], int] = {}
        for row in rows:
            seen[row.pack, row.position] = seen.get((row.pack, row.position), 0) + 1
        several = {place for place, count in seen.items() if count > 1}
        shared: dict[tuple[int, int], pack.Block] = {}
        for segment, own in groupby(rows, key=lambda row: row.segment):
            sources = (self._block(row, several, shared, files) for row in own)
            yield from Packing(writer, segment).run(sources, shared)

    def _block(
        self,
        row: Row,
        several: set[tuple[int, int]],
        shared: dict[tuple[int, int], pack.Block],
        files: dict[int, IDiskFile],
    ) -> Source:
        place = (row.pack, row.position)
        if place in shared:
            # It is in the new pack already, for another segment.
            return Source(row.number, row.offset, [], place, row.timestamp)
        if row.pack not in files:
            path = os.path.join(self._packs, pack.file_name(row.pack))
            files[row.pack] = self._disk.open(path, writable=False)
        data: Buffer = files[row.pack].read(row.position, row.length)
        if len(data) != row.length or blocks.block_crc(data) != row.crc:
            raise ReadFailed(f"pack {row.pack} at {row.position}: {row.length} bytes do not match their checksum")
        pieces = list(blocks.block_pieces(data))
        if place in several:
            return Source(row.number, row.offset, pieces, place, row.timestamp)
        # Records that were published later than they were written have the time of that, which only the row tells.
        pieces = [piece._replace(timestamp=max(piece.timestamp, row.timestamp)) for piece in pieces]
        return Source(row.number, row.offset, pieces, None)

    # -- what to merge -------------------------------------------------------------------------------------------------

    def _size(self, each: Pack) -> int:
        """The bytes of a file that a merge has to write again, as long as all of it is live."""
        footer = self._set.footers.get(each.number)
        return each.bytes if footer is None else footer.size

    def _is_small(self, each: Pack, largest: int) -> bool:
        size = self._size(each)
        if size >= largest // 2:
            return False
        return size < _SMALL_PACK_BYTES or each.bytes < _SMALL_BLOCK_BYTES * each.blocks

    def _tier(self, each: Pack) -> int:
        tier = 0
        size = self._size(each) >> 20
        while size:
            size //= _TIER_FACTOR
            tier += 1
        return tier

    def _up_to(self, packs: Sequence[Pack], largest: int, free: int) -> list[int]:
        """The first few of these packs: as many as make one that is not too large, and that there is room for."""
        chosen: list[int] = []
        size = 0
        for each in packs[:_MERGE_PACKS]:
            size += each.live + self._size(each) - each.bytes
            if size > free or (chosen and size > largest):
                break
            chosen.append(each.number)
        return chosen


def all_rows(catalog: Catalog) -> RowsOf:
    """All that a catalog knows, as rows of a footer."""

    def rows(table: str) -> Iterator[tuple[Any, ...]]:
        if table == "extents":
            return catalog.all_extents()
        return catalog.state_rows(table) if table in STATE else iter(())

    return rows


def journal_numbers(disk: IDisk, directory: str) -> list[int]:
    """The numbers of the journal files that are there."""
    return [int(match[1]) for name in disk.list_directory(directory) if (match := FILE_NAME.fullmatch(name))]
