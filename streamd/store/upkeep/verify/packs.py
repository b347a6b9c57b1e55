"""Checking packs and the catalog: every block and every footer against its checksum, every row against its block."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from streamd.batch import LENGTH_TYPE, Buffer
from streamd.store.directory import PACKS
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import StoreCorrupt, StoreUnusable
from streamd.store.journal.writer import TEMPORARY_SUFFIX
from streamd.store.packs import pack
from streamd.store.packs.catalog import BROADCAST_PACK, Catalog, Pack, Row
from streamd.store.packs.catalog import FILE_NAME as CATALOG_NAME
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.opening import is_old
from streamd.store.packs.readonly import ReadOnlyCatalog
from streamd.store.records import blocks
from streamd.store.records.offsets import span
from streamd.store.segments.broadcasts import Broadcast, Numbered
from streamd.store.segments.segment import Segment
from streamd.store.upkeep.problems import Checked

# How often packs are looked at again because some have just been merged.
_TRIES: Final = 20


class Found(NamedTuple):
    """A block as it is in a pack."""

    length: int
    crc: int
    segment: int
    number: int
    offset: int
    records: int
    timestamp: int
    last_timestamp: int
    span: int


class PackCheck:
    """Checks all packs, and what the catalog says of them."""

    def __init__(self, disk: IDisk, directory: str, store: bytes, checked: Checked, *, is_alone: bool) -> None:
        self._disk = disk
        self._home = directory
        self._directory = os.path.join(directory, PACKS)
        self._store = store
        self._is_alone = is_alone
        self._path = os.path.join(directory, CATALOG_NAME)
        self._checked = checked

    def run(self) -> ReadOnlyCatalog | None:
        """Check all; returns a catalog that can be relied on: without it nothing else can be said of what is folded."""
        self._catalog = ReadOnlyCatalog(self._disk, self._home, self._store, is_alone=self._is_alone, is_judged=True)
        packs = self._footers()
        self._is_old = is_old(self._disk, self._home, packs)
        if not self._judge(packs):
            self._catalog.close()
            if self._is_old:
                # Of an earlier format: nobody else knows what is in them.
                return None
            self._catalog = ReadOnlyCatalog(self._disk, self._home, self._store, is_alone=self._is_alone)
            try:
                self._catalog.make()
                for problem in self._catalog.ask(lambda catalog: list(_gaps(catalog))):
                    self._checked.add(self._directory, 0, problem)
            except StoreUnusable:
                # What is wrong with the packs is told already.
                self._catalog.close()
                return None
        try:
            self._packs()
        except StoreUnusable as error:
            self._checked.add(self._path, 0, str(error).removeprefix(f"{self._path}: "))
            return None
        return self._catalog

    def _footers(self) -> PackSet:
        """Check what packs say of themselves; again, where some were merged meanwhile."""
        for _ in range(_TRIES):
            found: list[StoreCorrupt] = []
            packs = PackSet(self._disk, self._directory, self._store)
            try:
                packs.look()
                found += packs.damaged.values()
                for number in list(packs.footers):
                    found += packs.damaged_rows(number)
                packs.check()
            except StoreCorrupt as error:
                found.append(error)
            except FileNotFoundError:
                continue
            break
        for each in found:
            self._checked.add(each.path, each.position, each.reason)
        return packs

    def _judge(self, packs: PackSet) -> bool:
        """Whether the catalog is as it should be."""
        try:
            problems = self._catalog.ask(lambda catalog: [*catalog.check(), *_gaps(catalog)])
            for problem in problems:
                self._checked.add(self._path, 0, problem)
            mark = self._catalog.ask(lambda catalog: catalog.mark)
        except StoreUnusable as error:
            if not self._is_old and not self._disk.stamp(self._path):
                self._checked.note(self._path, 0, "not there: the next start makes it of the packs")
            else:
                self._checked.add(self._path, 0, str(error).removeprefix(f"{self._path}: "))
            return False
        if self._is_old:
            return not problems
        if mark.number > packs.mark.number:
            # A daemon may have made some meanwhile.
            with suppress(StoreUnusable, FileNotFoundError):
                packs = PackSet(self._disk, self._directory, self._store).read()
        if mark.number > packs.mark.number:
            self._checked.note(self._path, 0, "it is newer than the packs: the next start makes it again")
            return False
        if mark.number < packs.mark.number:
            self._checked.note(self._path, 0, "it lacks the newest packs: the next start brings it up to date")
            return False
        if mark != packs.mark:
            self._checked.note(self._path, 0, "it is of another time: the next start makes it again")
            return False
        return not problems

    def _packs(self) -> None:
        names = self._disk.list_directory(self._directory)
        # Asked for after the list: a pack that is new since then is not an orphan.
        packs = {each.number: each for each in self._catalog.ask(lambda catalog: catalog.packs())}
        for name in names:
            path = os.path.join(self._directory, name)
            match = pack.FILE_NAME.fullmatch(name)
            if match is None and name.endswith(TEMPORARY_SUFFIX):
                self._checked.note(path, 0, "a pack in the making: the next start removes it")
            elif match is None:
                self._checked.add(path, 0, "this file is not part of the store, and stops the start")
            elif int(match[1]) not in packs:
                self._checked.note(path, 0, "another pack has all that is in this one: the next start removes it")
        for each in packs.values():
            self._pack(each)

    def _pack(self, known: Pack) -> None:
        path = os.path.join(self._directory, pack.file_name(known.number))
        rows = self._catalog.ask(lambda catalog: catalog.extents_with_ends(known.number))
        try:
            file = self._disk.open(path, writable=False)
            try:
                self._blocks(path, file, known, rows)
            finally:
                file.close()
        except OSError as error:
            if known.number in {each.number for each in self._catalog.ask(lambda catalog: catalog.packs())}:
                self._checked.add(path, 0, f"the file can't be read: {error}")

    def _blocks(self, path: str, file: IDiskFile, known: Pack, rows: list[tuple[Row, int]]) -> None:
        head = file.read(0, pack.FILE_HEADER.size)
        # Where there is one, what is wrong with the header and the footer is told already.
        size = known.bytes
        if len(head) == pack.FILE_HEADER.size and pack.has_footer(head):
            size += pack.FILE_HEADER.size
        elif (wrong := pack.check_file_header(head, self._store, known.number)) is not None:
            self._checked.add(path, 0, wrong)
        if file.size() < size:
            self._checked.add(path, file.size(), f"the file has {file.size()} bytes, its blocks have {size}")
            size = file.size()
        blocks: dict[int, Found] = {}
        bad: set[int] = set()
        at = pack.FILE_HEADER.size
        while at < size:
            found = self._block(path, file, at, size)
            if found is not None:
                blocks[at] = found
                self._checked.done(found.length, path)
                at += found.length + -found.length % 8
                continue
            bad.add(at)
            # Where the next one begins is not known from here; the catalog knows some that do.
            at = min((row.position for row, _ in rows if row.position > at), default=size)
        if not bad and len(blocks) != known.blocks:
            self._checked.add(path, 0, f"the file has {len(blocks)} blocks, the catalog says {known.blocks}")
        for row, end_offset in rows:
            if row.position not in bad:
                self._row(path, row, end_offset, blocks.get(row.position))
        live = sum({row.position: row.length for row, _ in rows}.values())
        if not live <= known.live <= known.bytes:
            self._checked.add(
                self._path, 0, f"pack {known.number} has {live} live bytes, the catalog says {known.live}"
            )

    def _block(self, path: str, file: IDiskFile, at: int, size: int) -> Found | None:
        head = file.read(at, blocks.BLOCK_HEADER.size)
        if len(head) < blocks.BLOCK_HEADER.size:
            self._checked.add(path, at, "the file ends inside a block")
            return None
        crc, length, segment, number, offset, records, runs = blocks.BLOCK_HEADER.unpack(head)
        if length < blocks.BLOCK_HEADER.size + blocks.RUN.size * runs + 4 * records or at + length > size:
            self._checked.add(path, at, f"the block's header gives a length of {length} bytes")
            return None
        padded = length + -length % 8
        data = memoryview(file.read(at, padded))
        if blocks.block_crc(data[:length]) != crc:
            self._checked.add(path, at, f"the {length} bytes of the block do not match their checksum")
            return None
        if any(data[length:]) or len(data) != padded:
            self._checked.add(path, at + length, "what stands between two blocks is not zero")
        return self._pieces(path, at, data[:length], Found(length, crc, segment, number, offset, records, 0, 0, 0))

    def _pieces(self, path: str, at: int, data: Buffer, found: Found) -> Found | None:
        """What only shows inside: that runs and lengths add up."""
        runs = int(blocks.BLOCK_HEADER.unpack_from(data)[-1])
        table = blocks.BLOCK_HEADER.size + blocks.RUN.size * runs
        lengths = array(LENGTH_TYPE)
        lengths.frombytes(data[table : table + 4 * found.records])
        counts = [count for count, *_ in blocks.RUN.iter_unpack(data[blocks.BLOCK_HEADER.size : table])]
        if not counts or sum(counts) != found.records or table + 4 * found.records + sum(lengths) != found.length:
            self._checked.add(path, at, "the runs and lengths of the block do not add up")
            return None
        pieces = list(blocks.block_pieces(data))
        return found._replace(
            timestamp=pieces[0].timestamp,
            last_timestamp=pieces[-1].timestamp,
            span=sum(span(piece.tag, piece.batch.count, piece.batch.size) for piece in pieces),
        )

    def _row(self, path: str, row: Row, end_offset: int, block: Found | None) -> None:
        where = f"records {row.number} to {row.number + row.records - 1} of segment {row.segment}"
        if block is None:
            self._checked.add(path, row.position, f"no block begins here, where the catalog has {where}")
            return
        if (row.length, row.crc, row.records) != (block.length, block.crc, block.records):
            self._checked.add(path, row.position, f"the catalog has another length, checksum or count for {where}")
        # The block of a published segment still has that one's name and places.
        if block.segment == row.segment and (block.number, block.offset) != (row.number, row.offset):
            self._checked.add(path, row.position, f"the block begins at record {block.number}, the catalog has {where}")
        if row.offset + block.span != end_offset:
            self._checked.add(
                path,
                row.position,
                f"{where} end at offset {row.offset + block.span}, the catalog goes on at {end_offset}",
            )
        if row.timestamp < block.timestamp or row.last_timestamp < block.last_timestamp:
            self._checked.add(path, row.position, f"{where} are later than the catalog says")


def _gaps(catalog: Catalog) -> Iterator[str]:
    """Where the extents of a segment do not follow each other from its first record to its last; and rows of nobody."""
    with catalog.snapshot():
        segments = {segment.id: segment for segment in catalog.segments()}
        packs = {each.number for each in catalog.packs()}
        ends: dict[int, int] = {}
        for id, number, records, in_pack in catalog.places():
            segment = segments.get(id)
            if segment is None:
                yield f"there are extents of segment {id}, which does not exist"
                continue
            if in_pack not in packs and in_pack != BROADCAST_PACK:
                yield f"segment {id}: record {number} is in pack {in_pack}, which the catalog does not know"
            end = ends.get(id)
            if end is None and number > segment.first_number:
                yield f"segment {id}: records {segment.first_number} to {number - 1} are missing"
            elif end is not None and number != end:
                yield f"segment {id}: record {number} follows where {end} is due"
            ends[id] = number + records
        for id, segment in segments.items():
            if ends.get(id, segment.first_number) != segment.own_number:
                end = ends.get(id, segment.first_number)
                yield f"segment {id}: extents end at record {end}, not {segment.own_number}"
        yield from _lost_broadcasts(catalog, segments)
        yield from catalog.strays()


def _lost_broadcasts(catalog: Catalog, segments: dict[int, Segment]) -> Iterator[str]:
    """Where a segment needs records of the broadcast segment that are not there."""
    broadcast = catalog.broadcast() or Broadcast()
    for row in catalog.references():
        first, end = row.position, row.position + row.records
        segment = segments.get(row.segment)
        if (
            segment is None
            or end > broadcast.number
            or max(first, first + segment.first_number - row.number) < (broadcast.first_number)
        ):
            yield f"segment {row.segment}: broadcast records {first} to {end - 1}, its {row.number}, are missing"
    for segment in segments.values():
        if isinstance(segment, Numbered) and segment.seen_number > broadcast.number:
            yield f"segment {segment.id}: it has seen {segment.seen_number} broadcasts of {broadcast.number}"
