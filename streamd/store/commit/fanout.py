"""One batch for many segments: how often it is written, and who receives what of that.

A segment that receives a batch once has one row of its index for it, however many segments do. One that receives it a
million times must not have a million rows, nor make the journal as much larger: so the batch is written once, and once
more for each power of two of copies that somebody needs, as long as those fit into an entry. Who receives it eleven
times has three rows: eight copies, two, and one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from streamd.batch import Batch
from streamd.store.errors import RequestTooLarge
from streamd.store.journal.frame import ENTRY_BYTES_MAX
from streamd.store.segments.segment import Segment

ROWS_MAX: Final = 1 << 14
"""Rows that one request may add to the indexes of all segments together: each takes time, of the compactor's too."""

# So few rows are not worth to write the batch again.
_REPEATED_MAX: Final = 256


class Part(NamedTuple):
    """What is written once, and who receives it; one that stands here twice receives it twice."""

    batch: Batch
    receivers: list[Segment]


def parts_of(batch: Batch, times: Mapping[Segment, int]) -> list[Part]:
    """The parts that a batch with a record in it is written in, for segments that receive it so many times.

    RequestTooLarge where that would be too many rows.
    """
    pieces = list(pieces_of(batch))
    if len(pieces) > 1:
        _check(len(pieces) * sum(times.values()))
        return [Part(piece, receivers) for receivers in _rounds(times) for piece in pieces]
    if sum(times.values()) <= _REPEATED_MAX:
        return [Part(batch, [segment for segment, count in times.items() for _ in range(count)])]
    # The most copies that fit into an entry, as a power of two.
    most = 1 << max(ENTRY_BYTES_MAX // (batch.size + 4 * batch.count), 1).bit_length() - 1
    several = {segment: count for segment, count in times.items() if count > 1}
    _check(len(times) - len(several) + sum(count // most + (count % most).bit_count() for count in several.values()))
    receivers = {1: [segment for segment, count in times.items() if count == 1]}
    for segment, count in several.items():
        whole, left = divmod(count, most)
        if whole:
            receivers.setdefault(most, []).extend([segment] * whole)
        while left:
            copies = left & -left
            receivers.setdefault(copies, []).append(segment)
            left -= copies
    return [
        Part(Batch(batch.lengths * copies, bytes(batch.payload) * copies), receiving)
        for copies, receiving in receivers.items()
        if receiving
    ]


def pieces_of(batch: Batch) -> Iterator[Batch]:
    """The batch as batches that fit into an entry each, or are one record."""
    if batch.size + 4 * batch.count <= ENTRY_BYTES_MAX:
        yield batch
        return
    # Half of the limit is for the lengths of very small records.
    for part in batch.split(ENTRY_BYTES_MAX // 2):
        for first in range(0, part.count, ENTRY_BYTES_MAX // 8):
            yield part.part(first, first + ENTRY_BYTES_MAX // 8)


def _check(rows: int) -> None:
    if rows > ROWS_MAX:
        raise RequestTooLarge(f"{rows} places to put a record at once, {ROWS_MAX} at most")


def _rounds(times: Mapping[Segment, int]) -> Iterator[list[Segment]]:
    """Lists in which no segment stands twice: who receives all pieces again does so behind the first time."""
    left = Counter(times)
    while left:
        yield list(left)
        left = Counter({segment: count - 1 for segment, count in left.items() if count > 1})
