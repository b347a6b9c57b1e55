"""From extents to records: a few large reads at a time, checksums verified.

Fetching and decoding are apart: the reactor tries with what the page cache holds, and a thread does the same again
where that is not enough. The compactor reads what it folds in the same way.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from crc32c import crc32c

from streamd.batch import LENGTH_TYPE, Batch, Buffer
from streamd.store.disk import IDiskFile
from streamd.store.errors import ReadFailed
from streamd.store.records.blocks import block_crc, block_pieces
from streamd.store.records.extent import PACKS, Extent
from streamd.store.records.offsets import EVENT_HEADER_BYTES, TAG_RAW, span
from streamd.views import Run

# Extents that lie close together are fetched with one call: small commits are 130 bytes apart.
_GAP_BYTES_MAX: Final = 4096
_FETCH_BYTES_MAX: Final = 1 << 20


class Want(NamedTuple):
    """What a reader asked for."""

    number: int | None
    offset: int | None
    bytes_max: int
    records_max: int


Fetch = Callable[[IDiskFile, int, int], Buffer | None]


def fetch(extents: Sequence[Extent], files: dict[int, IDiskFile], read: Fetch) -> list[Buffer] | None:
    """The bodies of the extents; None where `read` could not give one at once."""
    bodies: list[Buffer] = []
    first = 0
    while first < len(extents):
        last = _neighbours(extents, first)
        begin = extents[first].position
        length = extents[last - 1].position + extents[last - 1].length - begin
        try:
            data = read(files[extents[first].file], begin, length)
        except OSError as error:
            raise ReadFailed(f"{describe_place(extents[first])}: {error}") from error
        if data is None:
            return None
        view = memoryview(data)
        bodies += [view[each.position - begin :][: each.length] for each in extents[first:last]]
        first = last
    return bodies


def _neighbours(extents: Sequence[Extent], first: int) -> int:
    """The end of the run of extents from `first` on that one read can fetch."""
    begin = extents[first]
    last = first + 1
    while last < len(extents):
        before, extent = extents[last - 1], extents[last]
        gap = extent.position - before.position - before.length
        if extent.file != begin.file or not 0 <= gap <= _GAP_BYTES_MAX:
            break
        if extent.position + extent.length - begin.position > _FETCH_BYTES_MAX:
            break
        last += 1
    return last


def decode(extents: Sequence[Extent], bodies: Sequence[Buffer], want: Want) -> list[Run]:
    """The wanted records of these extents. ReadFailed where a checksum does not match: such bytes are never served."""
    runs: list[Run] = []
    size_left, records_left = want.bytes_max, want.records_max
    for extent, body in zip(extents, bodies, strict=True):
        try:
            found = extent_runs(extent, body)
        except ReadFailed:
            if runs:
                # What stands before it is good, and is read; who goes on from there meets the error.
                return runs
            raise
        for run in found:
            lengths = run.batch.lengths
            first = 0 if runs else _first_wanted(run, want)
            if first >= len(lengths):
                continue
            last = min(len(lengths), first + records_left)
            size = sum(lengths[first:last])
            if size > size_left:
                last = min(last, run.batch.fitting(first, size_left))
                size = sum(lengths[first:last])
                if runs and size > size_left:
                    return runs
            part = run.batch.part(first, last)
            if part.size != size:
                if runs:
                    return runs
                raise ReadFailed(f"{describe_place(extent)}: the lengths of the records are not those of their bytes")
            offset = run.offset + span(run.tag, first, sum(lengths[:first]))
            runs.append(Run(run.number + first, offset, run.timestamp, run.tag, part))
            size_left -= part.size
            records_left -= part.count
            # Never on to the next run while records of this one are left: they would be skipped.
            if last < len(lengths) or size_left <= 0 or records_left <= 0:
                return runs
    return runs


def extent_runs(extent: Extent, body: Buffer) -> list[Run]:
    """All records of an extent, checked."""
    if extent.file < PACKS:
        batch = extent_batch(extent, body)
        return [Run(extent.number, extent.offset, extent.timestamp, extent.tag, batch)]
    if len(body) != extent.length or block_crc(body) != extent.crc:
        raise _damaged(extent)
    runs: list[Run] = []
    number, offset = extent.number, extent.offset
    try:
        pieces = list(block_pieces(body))
    except ReadFailed as error:
        raise ReadFailed(f"{describe_place(extent)}: {error}") from error
    for tag, timestamp, batch in pieces:
        # Records that were published later than they were written have the time of that, which the extent tells.
        runs.append(Run(number, offset, max(timestamp, extent.timestamp), tag, batch))
        number += batch.count
        offset += span(tag, batch.count, batch.size)
    return runs


def extent_batch(extent: Extent, body: Buffer) -> Batch:
    """The records of an extent in the journal, checked."""
    if len(body) != extent.length or crc32c(body) != extent.crc:
        raise _damaged(extent)
    lengths = array(LENGTH_TYPE)
    lengths.frombytes(body[: 4 * extent.count])
    return Batch(lengths, body[4 * extent.count :])


def _damaged(extent: Extent) -> ReadFailed:
    return ReadFailed(f"{describe_place(extent)}: {extent.length} bytes do not match their checksum")


def describe_place(extent: Extent) -> str:
    """Where an extent is, for a person."""
    kind, number = ("journal file", extent.file) if extent.file < PACKS else ("pack", extent.file - PACKS)
    return f"{kind} {number} at {extent.position}"


def _first_wanted(run: Run, want: Want) -> int:
    """Which record of a run the wanted place falls into; its count where that lies behind it."""
    if want.number is not None:
        return max(want.number - run.number, 0)
    assert want.offset is not None
    overhead = 0 if run.tag & TAG_RAW else EVENT_HEADER_BYTES
    ends = list(accumulate(map(overhead.__add__, run.batch.lengths)))
    return bisect_right(ends, want.offset - run.offset)
