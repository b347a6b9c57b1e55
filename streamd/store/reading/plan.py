"""Reading records back: from extents to runs, a few large reads at a time, checksums verified.

Planning and decoding are separate from fetching: the reactor tries with what the page cache holds, and a thread does
the same again where that is not enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from streamd.store.errors import RecordsTruncated
from streamd.store.records.extent import BROADCAST, Extent
from streamd.store.records.fetch import Want
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import Segment
from streamd.views import Run as Run

# Each costs some microseconds: a read of many small commits must not hold the reactor up.
_EXTENTS_MAX: Final = 512


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
