"""A reader group's acknowledged records: everything below a position, and ranges above it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class Acknowledged:
    """What a reader group has acknowledged: all below `position`, and disjoint ascending ranges above it.

    Memory follows the number of holes, not of records.
    """

    __slots__ = ("_ends", "_firsts", "position")

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._firsts: list[int] = []
        self._ends: list[int] = []

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The ranges (first, end) above the position; `end` is not part of them."""
        return list(zip(self._firsts, self._ends, strict=True))

    def lag(self, end: int) -> int:
        """How many records are not acknowledged, where `end` is the number that the segment's next record gets."""
        above = sum(self._ends) - sum(self._firsts)
        return max(end - self.position - above, 0)

    def __contains__(self, number: int) -> bool:
        if number < self.position:
            return True
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number < self._ends[at]

    def add(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Acknowledge these (first, end) ranges; what is acknowledged already changes nothing."""
        for first, end in ranges:
            first = max(first, self.position)
            if first >= end:
                continue
            # Every range that touches the new one becomes part of it.
            low = bisect_left(self._ends, first)
            high = bisect_right(self._firsts, end)
            if low < high:
                first = min(first, self._firsts[low])
                end = max(end, self._ends[high - 1])
            self._firsts[low:high] = [first]
            self._ends[low:high] = [end]
        self._settle()

    def skip_to(self, number: int) -> None:
        """Raise the position to `number` where it is below: what was truncated needs no acknowledgement."""
        if number > self.position:
            self.position = number
            keep = bisect_right(self._ends, number)
            del self._firsts[:keep], self._ends[:keep]
            self._settle()

    def _settle(self) -> None:
        if self._firsts and self._firsts[0] <= self.position:
            self.position = max(self.position, self._ends[0])
            del self._firsts[0], self._ends[0]
