"""What can be saved of damaged packs: every block whose checksum is right.

Records of a segment follow each other without a gap. So a segment that has lost some in the middle is truncated behind
them: its readers are told, as after any truncation, and no number is ever given to another record. What could still be
read before the loss is written down first. Packs with damage in them are written again without it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from streamd.store.directory import PACKS
from streamd.store.disk import IDisk
from streamd.store.packs import pack
from streamd.store.packs.catalog import BROADCAST_PACK, Catalog, Row
from streamd.store.records.blocks import BLOCK_HEADER, Piece, block_crc, block_pieces
from streamd.store.segments.broadcasts import Broadcast, Numbered
from streamd.store.segments.segment import Segment
from streamd.store.upkeep.repair.kept import Kept

Places = set[tuple[int, int]]
"""Blocks, by pack and position."""


class Hole(NamedTuple):
    """A segment that has lost records, and the first record that it will have."""

    segment: int
    name: str
    lost: list[tuple[int, int]]
    first_number: int
    first_offset: int
    rows: list[Row]
    """The extents before that which can still be read, and go all the same."""
    is_broadcast: bool = False
    """Whether others refer to what it has."""

    @property
    def where(self) -> str:
        """The records that are lost."""
        return ", ".join(f"{first} to {end - 1}" for first, end in self.lost)


class Packs:
    """The packs of a store, as they are."""

    def __init__(self, disk: IDisk, directory: str) -> None:
        self._disk = disk
        self._directory = os.path.join(directory, PACKS)
        names = [pack.FILE_NAME.fullmatch(name) for name in disk.list_directory(self._directory)]
        self.numbers = [int(found[1]) for found in names if found]

    def path(self, number: int) -> str:
        """Where a pack is, or should be."""
        return os.path.join(self._directory, pack.file_name(number))

    def pieces(self, row: Row) -> list[Piece]:
        """The records of an extent; none where they can't be read."""
        try:
            file = self._disk.open(self.path(row.pack), writable=False)
        except FileNotFoundError:
            return []
        try:
            data = file.read(row.position, row.length)
        except OSError:
            return []
        finally:
            file.close()
        return list(block_pieces(data)) if _is_whole(data, row.length, row.crc) else []

    def bad(self, catalog: Catalog) -> Places:
        """The blocks that the catalog names and nobody can read."""
        found: Places = set()
        seen: Places = set()
        for each in catalog.packs():
            for row in catalog.extents_of_packs([each.number]):
                place = (row.pack, row.position)
                if place not in seen and not self.pieces(row):
                    found.add(place)
                seen.add(place)
        return found


def _is_whole(data: bytes | bytearray | memoryview, length: int, crc: int) -> bool:
    if len(data) != length or length < BLOCK_HEADER.size:
        return False
    return block_crc(data) == crc == int(BLOCK_HEADER.unpack_from(data)[0])


# -- holes -------------------------------------------------------------------------------------------------------------


def find_holes(catalog: Catalog, bad: Places) -> list[Hole]:
    """The segments that have lost records; the broadcast segment, which others refer to, first."""
    rows: dict[int, list[Row]] = {}
    for each in catalog.packs():
        for row in catalog.extents_of_packs([each.number]):
            rows.setdefault(row.segment, []).append(row)
    for row in catalog.references():
        rows.setdefault(row.segment, []).append(row)
    broadcast = (0, 0)
    holes = []
    for segment in catalog.segments():
        hole = _hole(segment, sorted(rows.get(segment.id, [])), bad, broadcast)
        if isinstance(segment, Broadcast):
            broadcast = segment.first_number, segment.first_offset
            if hole is not None:
                broadcast = hole.first_number, hole.first_offset
        if hole is not None:
            holes.append(hole)
    return holes


def _hole(segment: Segment, rows: list[Row], bad: Places, broadcast: tuple[int, int]) -> Hole | None:
    lost: list[tuple[int, int]] = []
    at, first_offset = segment.first_number, segment.first_offset
    for row in rows:
        end = row.number + row.records
        if row.number > at:
            lost.append((at, row.number))
            first_offset = row.offset
        if row.pack == BROADCAST_PACK and broadcast[0] > row.position + max(segment.first_number - row.number, 0):
            gone = min(broadcast[0] - row.position, row.records)
            lost.append((max(row.number, segment.first_number), row.number + gone))
            # Where only some of them are lost, the others begin where those of the broadcast segment do.
            first_offset = row.offset + broadcast[1] - row.length if gone < row.records else -1
        elif (row.pack, row.position) in bad:
            lost.append((max(row.number, segment.first_number), end))
            first_offset = -1
        elif first_offset < 0:
            first_offset = row.offset
        at = end
    if at < segment.own_number:
        lost.append((at, segment.own_number))
        first_offset = -1
    if first_offset < 0:
        first_offset = segment.own_offset
    if isinstance(segment, Numbered) and not segment.sealed and segment.seen_number < broadcast[0]:
        lost.append((segment.own_number, segment.own_number + broadcast[0] - segment.seen_number))
        first_offset = segment.own_offset + broadcast[1] - segment.seen_offset
    if not lost:
        return None
    first = lost[-1][1]
    own = [row for row in rows if row.pack != BROADCAST_PACK and row.number < first]
    readable = [row for row in own if (row.pack, row.position) not in bad]
    return Hole(segment.id, segment.name, lost, first, first_offset, readable, isinstance(segment, Broadcast))


def close_holes(catalog: Catalog, packs: Packs, holes: list[Hole], kept: Kept) -> None:
    """Truncate segments behind what they have lost. What can be read before that is kept."""
    for hole in holes:
        _keep_records(packs, hole, kept)
    kept.sync()
    with catalog:
        for hole in holes:
            segment = catalog.segment(hole.segment)
            assert segment is not None
            segment.truncated(hole.first_number, hole.first_offset)
            catalog.put_segment(segment)


def _keep_records(packs: Packs, hole: Hole, kept: Kept) -> None:
    for row in hole.rows:
        number = row.number
        for piece in packs.pieces(row):
            kept.records(hole.name, number, max(piece.timestamp, row.timestamp), piece.tag, piece.batch)
            number += piece.batch.count
