"""Compaction: closed journal files become a pack and rows of the catalog; packs are merged when that pays.

Order is everything. The pack is synced under its name before the catalog knows it; the catalog's one transaction moves
`covered`; only then may the journal files go. After a crash anywhere: a pack without a row is an orphan and goes, a
journal file at or below `covered` goes, and replay starts above it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from streamd.batch import Buffer
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import ReadFailed
from streamd.store.journal.frame import Header, Kind
from streamd.store.journal.replay import Replay
from streamd.store.journal.writer import FILE_NAME, file_name
from streamd.store.packs import pack
from streamd.store.packs.catalog import BROADCAST_PACK, Catalog, Moved, Pack, Row
from streamd.store.packs.spare import spare_packs
from streamd.store.records import blocks
from streamd.store.records.extent import PUBLISHED, Extent
from streamd.store.records.fetch import extent_batch, fetch
from streamd.store.room import file_bytes_max
from streamd.store.segments.registry import Segments
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


class Folded(NamedTuple):
    """What a fold did."""

    file: int
    """The last journal file that is in the catalog now."""
    pack: int | None
    pack_bytes: int


class Folder:
    """Folds journal files and merges packs. One at a time has a store's catalog open for writing."""

    def __init__(self, disk: IDisk, journal: str, packs: str, store: bytes, catalog: Catalog) -> None:
        self._disk = disk
        self._journal = journal
        self._packs = packs
        self._store = store
        self._catalog = catalog

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
        sequence, file, timestamp = self._catalog.covered
        numbers = [number for number in journal_numbers(self._disk, self._journal) if number > file]
        if not numbers or last < numbers[0]:
            return Folded(max(file, last), None, 0)
        replay = Replay(self._disk, self._journal, self._store, _Touched(self._catalog))
        replay.sequence, replay.timestamp = sequence, timestamp
        headers = [replay.header(number) for number in numbers]
        for header, successor in pairwise(headers):
            if header.number <= last:
                replay.closed(header, successor)
                file = header.number
        touched = replay.segments
        assert isinstance(touched, _Touched)
        moved = {each.source: each for each in touched.moved}

        def needed(writer: pack.PackWriter) -> list[Row]:
            packed = self._pack_segments(touched, writer)
            rows = (moved[row.segment].row(row) if row.segment in moved else row for row in packed)
            return [row for row in rows if touched.needs(row)]

        writer, rows = self._write(needed)
        with self._catalog:
            for each in touched.moved:
                self._catalog.move_extents(each)
            for segment in touched.known.values():
                if segment.deleted or segment.published:
                    self._catalog.drop_segment(segment.id)
                else:
                    self._catalog.put_segment(segment)
            self._catalog.add_extents(rows)
            if writer is not None:
                used = {row.position for row in rows if row.pack == writer.number}
                self._catalog.add_pack(writer.number, writer.size, writer.blocks, is_thin=len(used) < writer.blocks)
            self._catalog.set_covered(replay.sequence, file, replay.timestamp)
            self._catalog.count_live()
        return Folded(file, None, 0) if writer is None else Folded(file, writer.number, writer.size)

    def _write(self, fill: Callable[[pack.PackWriter], list[Row]]) -> tuple[pack.PackWriter | None, list[Row]]:
        """A new pack with what `fill` puts there, synced under its name, and the rows that `fill` gives.

        No pack where none of the rows needs it.
        """
        writer = pack.PackWriter(self._disk, self._packs, self._catalog.next_pack, self._store)
        try:
            rows = fill(writer)
            if any(row.pack == writer.number for row in rows):
                writer.finish()
                return writer, rows
        except BaseException:
            writer.abandon()
            raise
        writer.abandon()
        return None, rows

    def _pack_segments(self, touched: _Touched, writer: pack.PackWriter) -> Iterator[Row]:
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
        """Packs that were merged by a compactor which died before it could say so: nobody needs their files.

        Those whose number is still to be given, left by one that died before its transaction, are removed here.
        """
        spare = spare_packs(self._disk, self._packs, self._catalog)
        new = [pack.file_name(number) for number in spare if number >= self._catalog.next_pack]
        for name in self._disk.list_directory(self._packs):
            if name in new or not pack.FILE_NAME.fullmatch(name):
                self._disk.unlink(os.path.join(self._packs, name))
        return [number for number in spare if number < self._catalog.next_pack]

    def choose(self) -> list[int]:
        """The packs that are best merged now, and that there is room to merge; none where all is well."""
        packs = self._catalog.packs()
        largest, free = self._pack_bytes_max, self._disk.free_bytes(self._packs)
        # What gives room back goes first, and most of all what needs none for that. It may take all there is.
        dead = sorted([each for each in packs if each.live < each.bytes * _LIVE_LEAST], key=lambda each: each.live)
        if chosen := _up_to(dead, largest, free):
            return chosen
        small = [each for each in packs if _is_small(each, largest)]
        for _, tier in groupby(sorted(small, key=_tier), key=_tier):
            alike = list(tier)
            # What only tidies up leaves room for the others.
            if len(alike) >= _TIER_PACKS and len(chosen := _up_to(alike, largest, free // 4)) > 1:
                return chosen
        return []

    def merge(self, packs: Sequence[int]) -> int | None:
        """Write what is live in these packs into one, and forget them. Returns its number, if anything was live."""
        files: dict[int, IDiskFile] = {}
        writer, rows = self._write(lambda writer: list(self._merge_rows(packs, writer, files)))
        with self._catalog:
            self._catalog.drop_packs(packs)
            self._catalog.add_extents(rows)
            if writer is not None:
                self._catalog.add_pack(writer.number, writer.size, writer.blocks)
        return None if writer is None else writer.number

    def _merge_rows(self, packs: Sequence[int], writer: pack.PackWriter, files: dict[int, IDiskFile]) -> Iterator[Row]:
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


class Source(NamedTuple):
    """Records on their way into a pack; `shared` names the place where other segments find them too."""

    number: int
    offset: int
    pieces: list[blocks.Piece]
    shared: tuple[int, int] | None
    timestamp: int = 0
    """Not before this, whatever the pieces say."""
    broadcast: Extent | None = None
    """Nothing to be packed: records of the broadcast segment."""

    @property
    def size(self) -> int:
        return sum([piece.batch.size + 4 * piece.batch.count for piece in self.pieces])


class Packing:
    """Fills blocks with the records of one segment."""

    def __init__(self, writer: pack.PackWriter, segment: int) -> None:
        self._writer = writer
        self._segment = segment
        self._pieces: list[blocks.Piece] = []
        self._size = 0
        self._number = 0
        self._offset = 0
        self._end = -1

    def run(self, sources: Iterable[Source], shared: dict[tuple[int, int], pack.Block]) -> Iterator[Row]:
        for source in sources:
            size = source.size
            if source.broadcast is not None:
                yield from self._close()
                yield self._reference(source.broadcast)
                continue
            if source.shared is not None:
                yield from self._close()
                if source.shared not in shared:
                    shared[source.shared] = self._writer.add(pack.SHARED, 0, 0, source.pieces)
                yield self._row(source.number, source.offset, shared[source.shared], source.timestamp)
                continue
            # What does not follow on what is gathered (a hole where a merge has only some of the packs) begins anew.
            if self._size + size > pack.BLOCK_BYTES or source.number != self._end:
                yield from self._close()
            if not self._pieces:
                self._number, self._offset = source.number, source.offset
            self._pieces += source.pieces
            self._size += size
            self._end = source.number + sum([piece.batch.count for piece in source.pieces])
        yield from self._close()

    def _close(self) -> Iterator[Row]:
        if self._pieces:
            yield self._row(
                self._number,
                self._offset,
                self._writer.add(self._segment, self._number, self._offset, self._pieces),
            )
            self._pieces = []
            self._size = 0

    def _reference(self, extent: Extent) -> Row:
        return Row(
            self._segment,
            extent.number,
            extent.offset,
            extent.count,
            extent.timestamp,
            extent.timestamp,
            BROADCAST_PACK,
            extent.position,
            extent.length,
            0,
        )

    def _row(self, number: int, offset: int, block: pack.Block, timestamp: int = 0) -> Row:
        return Row(
            self._segment,
            number,
            offset,
            block.records,
            max(block.timestamp, timestamp),
            max(block.last_timestamp, timestamp),
            self._writer.number,
            block.position,
            block.length,
            block.crc,
        )


class _Touched(Segments):
    """The segments that the folded files name, each fetched from the catalog when it is first named."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self._catalog = catalog
        self.known: dict[int, Segment] = {}
        self.moved: list[Moved] = []
        # Those who follow it need to know how far it is, whether it is named here or not.
        self.broadcast = catalog.broadcast() or self.broadcast
        self.shared: set[tuple[int, int]] = set()
        """Where payloads stand that went to several segments."""

    def apply(
        self, header: Header, sequence: int, timestamp: int, file: int, position: int, body: Buffer = b""
    ) -> None:
        super().apply(header, sequence, timestamp, file, position, body)
        if header.kind == Kind.PAYLOAD:
            self.shared.add((file, position))
        elif header.kind == Kind.CREATE:
            self.known[sequence] = self.by_id[sequence]
        elif header.kind == Kind.PUBLISH:
            source = int.from_bytes(body, "little")
            self.moved.append(Moved(source, header.segment, header.number, header.offset, timestamp))

    def needs(self, row: Row) -> bool:
        """Whether anybody can still ask for these records: what they were published into may be gone by now."""
        segment = self.known[row.segment]
        return not segment.deleted and row.number + row.records > segment.first_number

    def _segment(self, id: int) -> Segment:
        if id not in self.by_id and id not in self.known:
            segment = self.broadcast if id == self.broadcast.id else self._catalog.segment(id)
            if segment is not None:
                self.by_id[id] = self.known[id] = self.following(segment)
        return super()._segment(id)


def journal_numbers(disk: IDisk, directory: str) -> list[int]:
    """The numbers of the journal files that are there."""
    return [int(match[1]) for name in disk.list_directory(directory) if (match := FILE_NAME.fullmatch(name))]


def _is_small(each: Pack, largest: int) -> bool:
    if each.bytes >= largest // 2:
        return False
    return each.bytes < _SMALL_PACK_BYTES or each.bytes < _SMALL_BLOCK_BYTES * each.blocks


def _tier(each: Pack) -> int:
    tier = 0
    size = each.bytes >> 20
    while size:
        size //= _TIER_FACTOR
        tier += 1
    return tier


def _up_to(packs: Sequence[Pack], largest: int, free: int) -> list[int]:
    """The first few of these packs: as many as make one that is not too large, and that there is room for."""
    chosen: list[int] = []
    size = 0
    for each in packs[:_MERGE_PACKS]:
        size += each.live
        if size > free or (chosen and size > largest):
            break
        chosen.append(each.number)
    return chosen
