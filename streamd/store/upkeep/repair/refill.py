"""Records that packs have lost, from the journal files that they were folded from, where these are still there.

A journal file goes only after its fold is committed, and later than that where the daemon was not told. So when a pack
is gone or damaged, or its extents are, the journal may have it all. An append says which record it begins with. What
was fanned out or broadcast takes its place from its neighbours: from what is before it, from what is behind it, or from
the end of the segment at `covered`. Where files are missing or damaged, nothing is concluded across that.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from streamd.batch import Batch
from streamd.store.directory import JOURNAL, PACKS
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.journal.frame import FILE_HEADER, FileHeader, Kind, decode_file_header
from streamd.store.journal.writer import file_name
from streamd.store.packs import pack
from streamd.store.packs.catalog import BROADCAST_PACK, Catalog, Row
from streamd.store.packs.fold import Packing, Source, journal_numbers
from streamd.store.records import blocks
from streamd.store.records.extent import BROADCAST, Extent
from streamd.store.records.fetch import extent_batch
from streamd.store.records.offsets import span
from streamd.store.segments.broadcasts import Broadcast, Numbered
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import Segment
from streamd.store.upkeep.repair.journal import JournalEntry, entries
from streamd.store.upkeep.repair.packs import Places

Place = tuple[int, int]
"""The number and the offset of a record."""


class Part(NamedTuple):
    """Records that stand together in the journal, as one segment has them."""

    extent: Extent
    """Where they stand; their number and offset count only where `is_placed`."""
    is_placed: bool = False
    is_shared: bool = False
    """Whether other segments have them too."""
    followed: Place | None = None
    """Where they are in the broadcast segment, which alone has them."""
    published: int = 0
    """When they became the segment's, where that was later than they were written."""

    def at(self, place: Place) -> Part:
        """With its place in the segment."""
        return self._replace(extent=self.extent._replace(number=place[0], offset=place[1]), is_placed=True)

    @property
    def place(self) -> Place:
        """Where it begins."""
        return self.extent.number, self.extent.offset

    @property
    def size(self) -> Place:
        """How many numbers and offsets it takes."""
        return self.extent.count, span(self.extent.tag, self.extent.count, self.extent.size)


class Refilled(NamedTuple):
    """Records of a part that fill a gap of a segment."""

    segment: int
    number: int
    offset: int
    records: int
    skipped: int
    """How many records of the part come before these."""
    part: Part

    @property
    def followed(self) -> Place | None:
        """Where these are in the broadcast segment, where that has them."""
        if self.part.followed is None:
            return None
        return self.part.followed[0] + self.skipped, self.part.followed[1] + self.offset - self.part.extent.offset


_NOWHERE = Extent(0, 0, 0, 0, 0, 0, 0, 0, 0)
_GAP = Part(_NOWHERE)
"""Something is missing here."""


class Refill:
    """What the journal files up to the last one that is folded tell of some segments."""

    def __init__(self, disk: IDisk, directory: str, store: bytes, covered: tuple[int, int, int]) -> None:
        self._disk = disk
        self._directory = os.path.join(directory, JOURNAL)
        self._packs = os.path.join(directory, PACKS)
        self._store = store
        self._covered, last, _ = covered
        self._numbers = [number for number in journal_numbers(disk, self._directory) if number <= last]
        self._files: dict[int, IDiskFile] = {}

    def __enter__(self) -> Refill:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}

    def plan(self, catalog: Catalog, segments: set[int], bad: Places) -> list[Refilled]:
        """What the journal has of records that no extent leads to, or only one that nobody can read."""
        if not self._numbers or not segments:
            return []
        known = Segments()
        known.load(catalog.segments())
        parts = _Parts(known, segments, self._entries(), self._covered)
        rows: dict[int, list[Row]] = {}
        for row in _rows(catalog):
            if row.segment in segments and (row.pack, row.position) not in bad:
                rows.setdefault(row.segment, []).append(row)
        return [
            refilled
            for id in sorted(segments)
            for refilled in self._fill(id, parts.of(id), _gaps(known.by_id[id], rows.get(id, [])))
        ]

    def _fill(self, segment: int, parts: list[Part], gaps: list[Place]) -> Iterator[Refilled]:
        for first, end in gaps:
            for part in parts:
                begin = part.extent.number
                if begin + part.extent.count <= first or begin >= end:
                    continue
                skipped, last = max(first - begin, 0), min(end - begin, part.extent.count)
                offset = part.extent.offset
                if skipped:
                    batch = self._batch(part).part(0, skipped)
                    offset += span(part.extent.tag, skipped, batch.size)
                yield Refilled(segment, begin + skipped, offset, last - skipped, skipped, part)

    def _batch(self, part: Part) -> Batch:
        file = self._open(part.extent.file)
        return extent_batch(part.extent, file.read(part.extent.position, part.extent.length))

    # -- files ---------------------------------------------------------------------------------------------------------

    def _entries(self) -> Iterator[tuple[int, JournalEntry]]:
        """Every entry that counts, with its file: a file ends where the next one begins."""
        end = self._covered
        ends: list[tuple[int, int]] = []
        for number in reversed(self._numbers):
            ends.append((number, end))
            end = self._begin(number, end)
        for number, end in reversed(ends):
            with suppress(OSError):  # what the disk can't read is missing
                yield from ((number, entry) for entry in entries(self._open(number), FILE_HEADER.size, end))

    def _begin(self, number: int, end: int) -> int:
        with suppress(OSError):
            header = decode_file_header(bytes(self._open(number).read(0, FILE_HEADER.size)))
            if isinstance(header, FileHeader) and header.number == number:
                return header.sequence
            for entry in entries(self._open(number), FILE_HEADER.size):
                return entry.sequence
        return end

    def _open(self, number: int) -> IDiskFile:
        if number not in self._files:
            self._files[number] = self._disk.open(os.path.join(self._directory, file_name(number)), writable=False)
        return self._files[number]

    # -- doing it ------------------------------------------------------------------------------------------------------

    def apply(self, catalog: Catalog, refilled: Sequence[Refilled], bad: Places) -> None:
        """Write the records into a new pack, and let the catalog know; what can't be read there is forgotten."""
        if not refilled:
            return
        writer = pack.PackWriter(self._disk, self._packs, catalog.next_pack, self._store)
        shared: dict[tuple[int, int], pack.Block] = {}
        rows: list[Row] = []
        try:
            for segment, some in groupby(refilled, key=lambda each: each.segment):
                rows += Packing(writer, segment).run(map(self._source, some), shared)
            if writer.blocks:
                writer.finish()
            else:
                writer.abandon()
        except BaseException:
            writer.abandon()
            raise
        with catalog:
            take_up(catalog, refilled, rows, bad)
            if writer.blocks:
                catalog.add_pack(writer.number, writer.size, writer.blocks)
            catalog.count_live()

    def _source(self, refilled: Refilled) -> Source:
        part, number, offset = refilled.part, refilled.number, refilled.offset
        if (followed := refilled.followed) is not None:
            extent = part.extent._replace(number=number, offset=offset, count=refilled.records, tag=BROADCAST)
            extent = extent._replace(position=followed[0], length=followed[1])
            return Source(number, offset, [], None, broadcast=extent)
        batch = self._batch(part).part(refilled.skipped, refilled.skipped + refilled.records)
        piece = blocks.Piece(part.extent.tag, part.extent.timestamp, batch)
        if part.is_shared and batch.count == part.extent.count:
            return Source(number, offset, [piece], (part.extent.file, part.extent.position), part.published)
        return Source(number, offset, [piece._replace(timestamp=max(piece.timestamp, part.published))], None)


def planned_rows(refilled: Iterable[Refilled], number: int) -> list[Row]:
    """Rows as the catalog will have them, but for the places in the pack of this number."""
    rows = []
    for at, each in enumerate(refilled):
        place = (number, at, 1) if each.followed is None else (BROADCAST_PACK, *each.followed)
        times = each.part.extent.timestamp, each.part.extent.timestamp
        rows.append(Row(each.segment, each.number, each.offset, each.records, *times, *place, 0))
    return rows


def take_up(catalog: Catalog, refilled: Iterable[Refilled], rows: Iterable[Row], bad: Places) -> None:
    """Note where the records are now, in place of extents that can't be read."""
    segments = {each.segment for each in refilled}
    for row in list(_rows(catalog)):
        if row.segment in segments and (row.pack, row.position) in bad:
            catalog.drop_extent(row)
    catalog.add_extents(rows)


def _rows(catalog: Catalog) -> Iterator[Row]:
    """All extents, by segment and number."""
    numbers = [each.number for each in catalog.packs()]
    yield from sorted([*catalog.extents_of_packs(numbers), *catalog.references()])


def _gaps(segment: Segment, rows: Iterable[Row]) -> list[Place]:
    """The records of a segment that no row leads to."""
    found = []
    at = segment.first_number
    for row in rows:
        if row.number > at:
            found.append((at, row.number))
        at = max(at, row.number + row.records)
    if at < segment.own_number:
        found.append((at, segment.own_number))
    return found


class _Parts:
    """The entries of the journal as parts of segments."""

    def __init__(
        self, known: Segments, wanted: set[int], entries: Iterable[tuple[int, JournalEntry]], covered: int
    ) -> None:
        self._known = known
        self._parts: dict[int, list[Part]] = {}
        # Only these are asked for: all others receive what is broadcast too, and there may be a million of them.
        self._following = {id for id in wanted if isinstance(known.by_id[id], Numbered)}
        self._sealed: set[int] = set()
        self._payload = _GAP
        sequence = None
        for file, entry in entries:
            if sequence is not None and entry.sequence != sequence:
                self._interrupt()
            sequence = entry.sequence + 1
            self._take(file, entry)
        if sequence != covered:
            self._interrupt()

    def of(self, id: int) -> list[Part]:
        """The parts of a segment that have their place."""
        segment = self._known.by_id[id]
        parts = self._parts.get(id, [])
        if segment.sealed and id not in self._sealed:
            # It was sealed before all of this.
            parts = [part for part in parts if part.followed is None]
        end = Part(_NOWHERE).at((segment.number, segment.offset))
        return [part for part in _placed([*parts, end]) if part.extent.count]

    def _add(self, id: int, part: Part) -> None:
        self._parts.setdefault(id, [_GAP]).append(part)

    def _interrupt(self) -> None:
        for parts in self._parts.values():
            parts.append(_GAP)

    def _take(self, file: int, entry: JournalEntry) -> None:
        _, sequence, timestamp, position, body = entry
        header = entry.header
        place = header.number, header.offset
        extent = Extent(*place, timestamp, file, position, header.length, header.count, header.crc, header.tag)
        if header.kind == Kind.CREATE:
            self._parts[header.segment] = [Part(_NOWHERE, is_placed=True)]
        elif header.kind == Kind.APPEND:
            self._add(header.segment, Part(extent, is_placed=True))
            if isinstance(self._known.by_id.get(header.segment), Broadcast):
                for id in self._following:
                    if id < sequence:
                        self._add(id, Part(extent, followed=place))
        elif header.kind == Kind.PAYLOAD:
            self._payload = Part(extent, is_shared=True)
        elif header.kind == Kind.FANOUT:
            for id in _ids(body):
                self._add(id, self._payload)
        elif header.kind == Kind.LEFT_OUT:
            for id in self._following.intersection(_ids(body)):
                self._leave_out(id, header.number)
        elif header.kind == Kind.PUBLISH:
            self._publish(header.segment, place, timestamp, *_ids(body))
        elif header.kind == Kind.SEAL:
            self._following.discard(header.segment)
            self._sealed.add(header.segment)

    def _leave_out(self, id: int, records: int) -> None:
        """The last so many records that were broadcast are not for this one."""
        parts = self._parts.get(id, [])
        while records > 0 and parts and parts[-1].followed is not None:
            records -= parts.pop().extent.count

    def _publish(self, target: int, place: Place, timestamp: int, source: int) -> None:
        """All records of the source are the target's now, from this place on."""
        self._add(target, Part(_NOWHERE).at(place))
        parts = self._parts.get(source, [_GAP])
        for part in _placed(parts):
            moved = part.extent.number + place[0], part.extent.offset + place[1]
            self._add(target, part._replace(published=timestamp).at(moved))
        if _GAP in parts:
            # How many there are is not known.
            self._add(target, _GAP)


def _placed(parts: list[Part]) -> list[Part]:
    """Those whose place is known, from their own entry or from their neighbours."""
    found = _follow(parts)
    return [part for part in reversed(_follow(found[::-1], back=True)) if part.is_placed]


def _follow(parts: list[Part], *, back: bool = False) -> list[Part]:
    """Give parts the places that follow from those before them in the list; none where what comes then denies them."""
    found: list[Part] = []
    guessed: list[int] = []
    at: Place | None = None
    for part in parts:
        number, offset = part.size
        if at is not None and back:
            at = at[0] - number, at[1] - offset
        if part.is_placed:
            if at not in (None, part.place):
                for each in guessed:
                    found[each] = _GAP
            at, guessed = part.place, []
        elif part is _GAP:
            at = None
        elif at is not None:
            guessed.append(len(found))
            part = part.at(at)
        if at is not None and not back:
            at = at[0] + number, at[1] + offset
        found.append(part)
    return found


def _ids(body: memoryview) -> array[int]:
    ids = array("Q")
    ids.frombytes(body[: len(body) // 8 * 8])
    return ids
