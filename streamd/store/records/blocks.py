"""A block of a pack: records of one segment, or shared by several, with one checksum.

`streamd.store.packs.pack` has the bytes as a table.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from streamd.batch import LENGTH_TYPE, Batch, Buffer
from streamd.store.errors import ReadFailed

BLOCK_HEADER: Final = Struct("<IIQQQII")
assert BLOCK_HEADER.size == 40
RUN: Final = Struct("<IHHQ")
assert RUN.size == 16


class Piece(NamedTuple):
    """Records on their way into a block: those of one run of the source."""

    tag: int
    timestamp: int
    batch: Batch


def block_pieces(block: Buffer) -> Iterator[Piece]:
    """The records of a block whose checksum was found right, run by run, without a copy of the payload.

    ReadFailed where its runs are not those of its records: who wrote that had a bug, or meant it.
    """
    view = memoryview(block)
    if len(view) < BLOCK_HEADER.size:
        raise ReadFailed("the block is shorter than its header")
    *_, count, runs = BLOCK_HEADER.unpack_from(view)
    at = BLOCK_HEADER.size
    if at + RUN.size * runs + 4 * count > len(view):
        raise ReadFailed(f"the block has no room for {runs} runs and {count} lengths")
    table = list(RUN.iter_unpack(view[at : at + RUN.size * runs]))
    if sum([records for records, *_ in table]) != count or not table:
        raise ReadFailed(f"the runs of the block are not those of its {count} records")
    at += RUN.size * runs
    lengths = array(LENGTH_TYPE)
    lengths.frombytes(view[at : at + 4 * count])
    payload = view[at + 4 * count :]
    if len(table) == 1:
        yield Piece(table[0][1], table[0][3], Batch(lengths, payload))
        return
    ends = list(accumulate(lengths, initial=0))
    first = 0
    for records, tag, _, timestamp in table:
        last = first + records
        yield Piece(tag, timestamp, Batch(lengths[first:last], payload[ends[first] : ends[last]]))
        first = last


def block_crc(block: Buffer) -> int:
    """The checksum that a block must carry."""
    return crc32c(memoryview(block)[4:])
