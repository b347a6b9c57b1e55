"""Filters of a query that say which topics, offsets and times it is about: what lies outside is not even read.

Spark applies all filters again to what comes out, so nothing here has to be exact but on the safe side.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from streamd.spark.options import microseconds

if TYPE_CHECKING:
    from streamd.spark.daemon import Info, Storage

_ALL: Final = (0, 1 << 63)


class Bounds:
    """What all filters together leave: some topics, one range of offsets, one of times. Neither holds its end."""

    def __init__(self) -> None:
        self.topics: frozenset[str] | None = None
        self.prefixes: list[str] = []
        self.offsets = _ALL
        self.times = _ALL

    def narrow(self, filters: Iterable[Filter]) -> None:
        """Take these filters into account, as far as they say something about topic, offset or timestamp."""
        for each in filters:
            column = getattr(each, "attribute", ())
            if column == ("topic",):
                self._narrow_topics(each)
            elif column == ("offset",):
                self.offsets = _both(self.offsets, _interval(each, int, int))
            elif column == ("timestamp",):
                self.times = _both(self.times, _interval(each, datetime, microseconds))

    def _narrow_topics(self, filter: Filter) -> None:
        if isinstance(filter, StringStartsWith):
            self.prefixes.append(filter.value)
            return
        if isinstance(filter, EqualTo):
            found = frozenset([filter.value])
        elif isinstance(filter, In):
            found = frozenset(filter.value)
        else:
            return
        self.topics = found if self.topics is None else self.topics & found

    def may_have(self, topic: str) -> bool:
        """Whether the query is about this topic."""
        return (self.topics is None or topic in self.topics) and all(map(topic.startswith, self.prefixes))

    def numbers(self, storage: Storage, info: Info, first: int, end: int) -> tuple[int, int]:
        """The part of a range of record numbers that the query is about."""
        first, end = _both((first, end), self.offsets)
        begin, last = self.times
        if begin > _ALL[0] and first < end:
            first = max(first, storage.number_at(info.id, begin))
        if last < _ALL[1] and first < end:
            end = min(end, storage.number_at(info.id, last))
        return first, end


def _both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), min(one[1], other[1])


def _interval(filter: Filter, kind: type, number: Any) -> tuple[int, int]:
    """The whole numbers that a filter lets through."""
    values = filter.value if isinstance(filter, In) else (getattr(filter, "value", None),)
    if not values or not all(isinstance(value, kind) for value in values):
        return _ALL
    numbers = [number(value) for value in values]
    if isinstance(filter, EqualTo | In):
        return min(numbers), max(numbers) + 1
    if isinstance(filter, GreaterThan):
        return numbers[0] + 1, _ALL[1]
    if isinstance(filter, GreaterThanOrEqual):
        return numbers[0], _ALL[1]
    if isinstance(filter, LessThan):
        return _ALL[0], numbers[0]
    if isinstance(filter, LessThanOrEqual):
        return _ALL[0], numbers[0] + 1
    return _ALL
