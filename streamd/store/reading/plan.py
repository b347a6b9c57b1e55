"""Reading records back: from extents to runs, a few large reads at a time, checksums verified.

Planning and decoding are separate from fetching: the reactor tries with what the page cache holds, and a thread does
the same again where that is not enough.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from crc32c import crc32c

from streamd.batch import LENGTH_TYPE, Batch, Buffer
from streamd.store.disk import IDiskFile
from streamd.store.errors import ReadFailed, RecordsTruncated
from streamd.store.journal.frame import EVENT_HEADER_BYTES, TAG_RAW, span
from streamd.store.packs.pack import block_crc, block_pieces
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import BROADCAST, PACKS, Extent, Segment
from streamd.views import Run as Run

# Extents that lie close together are fetched with one call: small commits are 130 bytes apart.
_GAP_BYTES_MAX: Final = 4096
_FETCH_BYTES_MAX: Final = 1 << 20
# Each costs some microseconds: a read of many small commits must not hold the reactor up.
_EXTENTS_MAX: Final = 512


class Want(NamedTuple):
    """What a reader asked for."""

    number: int | None
    offset: int | None
    bytes_max: int
    records_max: int


def plan(segment: Segment, want: Want) -> list[Extent] | None:
    """The extents in memory that hold what is wanted: at least one where there is anything, then up to the byte limit.

    None where they are in a pack, and so in the catalog.
    """
    at_number, at_offset = check_retained(segment, want)
    # Only by what was asked for: empty raw records have numbers, and take no offsets.
    if at_number >= segment.number if want.number is not None else at_offset >= segment.offset:
        return []
    tail = segment.tail(want.number, want.offset)
    if tail is not None:
        return [tail]
    index = segment.index
    if index is None:
        return None
    row = index.row_of_number(at_number) if want.number is not None else index.row_of_offset(at_offset)
    if row < 0:
        return None
    return enough((index.extent(each) for each in range(row, min(len(index), row + _EXTENTS_MAX))), want)


def check_retained(segment: Segment, want: Want) -> tuple[int, int]:
    """Where a read begins: the number or the offset that is wanted counts. RecordsTruncated where that is gone."""
    at_number = want.number if want.number is not None else segment.first_number
    at_offset = want.offset if want.offset is not None else segment.first_offset
    if at_number < segment.first_number or at_offset < segment.first_offset:
        raise RecordsTruncated(segment.first_number, segment.first_offset)
    return at_number, at_offset


def enough(extents: Iterable[Extent], want: Want) -> list[Extent]:
    """So many of these extents as are worth fetching at once."""
    found: list[Extent] = []
    size = 0
    for extent in extents:
        if extent.is_reference:
            # It stands for another segment: who reads it reads that.
            return found or [extent]
        if found:
            # The first one is not counted: who knows how much of it lies before the place that is wanted.
            size += extent.size
        found.append(extent)
        if size >= want.bytes_max or (
            want.number is not None and extent.number + extent.count - want.number >= want.records_max
        ):
            break
    return found


def source_of(extent: Extent, segments: Segments) -> Segment:
    """The segment whose records an extent stands for. KeyError where a fold has just dropped it."""
    return segments.broadcast if extent.tag & BROADCAST else segments.by_id[extent.position]


def _first(extent: Extent) -> tuple[int, int]:
    """The number and the offset that the first record of a reference has in the segment that it stands for."""
    return (extent.position, extent.length) if extent.tag & BROADCAST else (0, 0)


def source_want(extent: Extent, want: Want) -> Want:
    """What is wanted, as the segment counts that `extent` stands for."""
    number, offset = _first(extent)
    if want.number is not None:
        return want._replace(number=want.number - extent.number + number)
    assert want.offset is not None
    return want._replace(offset=want.offset - extent.offset + offset)


def own_runs(extent: Extent, runs: Sequence[Run]) -> list[Run]:
    """Runs of the segment that `extent` stands for, up to its end, as those of the one that has the extent."""
    number, offset = _first(extent)
    published = 0 if extent.tag & BROADCAST else extent.timestamp
    found: list[Run] = []
    for run in runs:
        left = number + extent.count - run.number
        if left <= 0:
            break
        found.append(
            Run(
                run.number - number + extent.number,
                run.offset - offset + extent.offset,
                max(run.timestamp, published),
                run.tag,
                run.batch if run.batch.count <= left else run.batch.part(0, left),
            )
        )
    return found


def own_place(extent: Extent, inner: Extent) -> Extent:
    """An extent of the segment that `extent` stands for, where it begins in the one that has that; never before it."""
    number, offset = _first(extent)
    return inner._replace(
        number=max(inner.number - number, 0) + extent.number, offset=max(inner.offset - offset, 0) + extent.offset
    )


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
