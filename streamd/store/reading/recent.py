"""The records of a few extents that were read last, checked and taken apart, for those who read one after the other.

An entry of the journal, or a block of a pack, may hold thousands of records, and is read and checked as a whole. Who
asks for them one by one would have that done each time. What a record of a segment holds never changes, wherever it is
stored, so nothing kept here becomes wrong; whether the segment and the record are still there is for who asks to see.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from itertools import accumulate
from typing import Final

from streamd.batch import Batch, Buffer
from streamd.store.records.offsets import span
from streamd.views import Run

FEW_RECORDS: Final = 16
"""Who asks for more than so many at once has no need of this."""

_BYTES_MAX: Final = 4 << 20
_PIECE_BYTES_MAX: Final = 512 << 10


class _Piece:
    """One run, and where each of its records ends."""

    __slots__ = ("_ends", "_run", "end", "first", "size")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ends: array[int] | None = None
        self.first = run.number
        self.end = run.number + run.batch.count
        # With its lengths, and the ends.
        self.size = run.batch.size + 8 * run.batch.count

    def _find_ends(self) -> array[int]:
        # Not before somebody comes for a second one.
        ends = self._ends = array("I", accumulate(self._run.batch.lengths))
        return ends

    def record(self, number: int) -> tuple[int, Buffer]:
        """The tag and the bytes of record `number`, which is one of these."""
        ends = self._ends or self._find_ends()
        at = number - self.first
        return self._run.tag, self._run.batch.payload[ends[at - 1] if at else 0 : ends[at]]

    def part(self, number: int, records_max: int, bytes_max: int) -> Run:
        """Records from `number` on, which is one of these: one at least, then up to the limits."""
        run = self._run
        batch = run.batch
        ends = self._ends or self._find_ends()
        first = number - run.number
        begin = ends[first - 1] if first else 0
        last = min(first + records_max, len(ends))
        while last > first + 1 and ends[last - 1] - begin > bytes_max:
            last -= 1
        part = Batch(batch.lengths[first:last], batch.payload[begin : ends[last - 1]])
        return Run(number, run.offset + span(run.tag, first, begin), run.timestamp, run.tag, part)


class Recent:
    """Some pieces of some segments: the newest, up to a number of bytes."""

    def __init__(self, bytes_max: int = _BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._pieces: dict[int, tuple[list[int], list[_Piece]]] = {}
        """By the id of the segment, in the order of their numbers: the first number of each, and each."""
        self._order: deque[tuple[int, int]] = deque()

    def find(self, id: int, number: int, records_max: int, bytes_max: int) -> Run | None:
        """Records of a segment from `number` on, where they are here."""
        found = self._pieces.get(id)
        if found is None:
            return None
        firsts, pieces = found
        at = bisect_right(firsts, number) - 1
        if at < 0 or number >= pieces[at].end:
            return None
        return pieces[at].part(number, records_max, bytes_max)

    def one(self, id: int, number: int) -> tuple[int, Buffer] | None:
        """The tag and the bytes of one record of a segment, where it is here."""
        found = self._pieces.get(id)
        if found is None:
            return None
        firsts, pieces = found
        at = bisect_right(firsts, number) - 1
        piece = pieces[at]
        return piece.record(number) if at >= 0 and number < piece.end else None

    def add(self, id: int, run: Run) -> None:
        """Keep a run, unless it is too large, or so small that it is read as quickly again."""
        piece = _Piece(run)
        if run.batch.count < 2 or piece.size > min(_PIECE_BYTES_MAX, self._bytes_max):
            return
        firsts, pieces = self._pieces.setdefault(id, ([], []))
        at = bisect_right(firsts, piece.first)
        if at and pieces[at - 1].end > piece.first:
            # It is here, as a whole or in part.
            return
        firsts.insert(at, piece.first)
        pieces.insert(at, piece)
        self._order.append((id, piece.first))
        self._bytes += piece.size
        while self._bytes > self._bytes_max:
            self._drop(*self._order.popleft())

    def _drop(self, id: int, first: int) -> None:
        firsts, pieces = self._pieces[id]
        at = bisect_right(firsts, first) - 1
        self._bytes -= pieces[at].size
        del firsts[at], pieces[at]
        if not pieces:
            del self._pieces[id]
