"""Records that were given out and came back: the next to be given out, in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Range = tuple[int, int]
"""A range of records: the first number, and the end, which is not part of it."""


class Returned:
    """A set of numbers as disjoint, ascending ranges. Memory grows with the ranges, not with the numbers."""

    __slots__ = ("_ends", "_firsts", "records")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self.records = 0
        """How many numbers the set has."""

    def __len__(self) -> int:
        """How many ranges the set has."""
        return len(self._firsts)

    def add(self, first: int, end: int) -> None:
        """Add a range. Ranges that touch become one."""
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        if low < high:
            self.records -= sum(self._ends[low:high]) - sum(self._firsts[low:high])
            first = min(first, self._firsts[low])
            end = max(end, self._ends[high - 1])
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]
        self.records += end - first

    def remove(self, number: int) -> None:
        """Remove a number, where the set has it."""
        at = bisect_right(self._firsts, number) - 1
        if at < 0 or number >= self._ends[at]:
            return
        first, end = self._firsts[at], self._ends[at]
        left = [(a, b) for a, b in ((first, number), (number + 1, end)) if a < b]
        self._firsts[at : at + 1] = [a for a, _ in left]
        self._ends[at : at + 1] = [b for _, b in left]
        self.records -= 1

    def pop(self, count: int) -> Range:
        """Remove and return the lowest consecutive numbers, up to `count` of them."""
        first, end = self._firsts[0], self._ends[0]
        if end - first > count:
            end = self._firsts[0] = first + count
        else:
            del self._firsts[0], self._ends[0]
        self.records -= end - first
        return first, end

    def skip_to(self, number: int) -> None:
        """Remove all numbers below `number`."""
        while self._firsts and self._firsts[0] < number:
            self.pop(number - self._firsts[0])


def ranges_of(numbers: Iterable[int]) -> list[Range]:
    """Ascending numbers as ranges; a number that occurs twice counts once."""
    ranges: list[Range] = []
    first = end = -1
    for number in numbers:
        if number == end:
            end += 1
        elif number != end - 1:
            if first >= 0:
                ranges.append((first, end))
            first, end = number, number + 1
    if first >= 0:
        ranges.append((first, end))
    return ranges
