"""Scans of all segments, of which there may be a million, a few in each turn of the reactor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Cooperator
from twisted.python.failure import Failure

from streamd.access.permits import Permits
from streamd.connections.core import Core
from streamd.store import NoSuchSegment, Segment
from streamd.store.usage import Usage

PAGE_ROWS: Final = 50
PAGES_MAX: Final = 100
"""The last page of segments: people search rather than turn more pages."""

GROUPS_NAMED: Final = 100
"""How many reader groups are told of by name: those that are furthest behind."""

SORTS: Final[dict[str, Callable[[Segment], Any]]] = {
    "name": lambda segment: segment.name,
    "recent": lambda segment: (-segment.modified, segment.name),
    "size": lambda segment: (segment.first_offset - segment.offset, segment.name),
    "messages": lambda segment: (segment.first_number - segment.number, segment.name),
    "lag": lambda segment: (-lag_of(segment), segment.name),
    "sealed": lambda segment: (not segment.sealed, segment.name),
}
"""The orders of segments: by name, last written first, most first. With a minus in front the other way round."""

# What was found is good for so long.
_FRESH_SECONDS: Final = 5.0

# Looked at in one turn of the reactor: some tenths of a millisecond.
_SEGMENTS_AT_ONCE: Final = 500

# The same where rules have to be asked about each: a hundred patterns take some microseconds.
_JUDGED_AT_ONCE: Final = 100

# Answers that are remembered, each of a page at most; a page that is open has two questions.
_ANSWERS_MAX: Final = 1000

Sight = Callable[[str], object] | None
"""A predicate on names: whether the peer may know of such a segment; None where it may know of all."""

T = TypeVar("T")


class Query(NamedTuple):
    """Which segments a page shows."""

    search: str = ""
    sort: str = "name"
    page: int = 1


class Found(NamedTuple):
    """One page of the segments of a query."""

    segments: list[Segment]
    total: int
    """How many segments there are on all pages."""
    pages: int


class Lag(NamedTuple):
    """The lag of a reader group."""

    segment: Segment
    group: str
    position: int
    records: int


class Groups(NamedTuple):
    """The reader groups of all segments together, and those with the largest lag."""

    total: int
    lag_records: int
    lag_records_max: int
    worst: list[Lag]


class Survey:
    """Answers questions about all segments, and shares each answer for a moment among those who ask the same.

    Peers that match the same rules of access share answers too. No peer is shown segments that it may not know of.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._answers: dict[object, _Answer[Any]] = {}
        # One step in each turn: everybody else has theirs between two.
        self._cooperator = Cooperator(
            terminationPredicateFactory=lambda: lambda: True, scheduler=lambda call: core.clock.callLater(0, call)
        )

    def segments(self, query: Query, permits: Permits) -> Deferred[Found]:
        """One page of the segments whose name contains the words of the query, in its order, regardless of case."""
        sight = permits.sight()

        def find(names: list[str]) -> Deferred[Found]:
            pages: list[Found] = []
            return self._cooperator.coiterate(self._find(query, names, pages)).addCallback(lambda _: pages[0])

        return self._answer((query, sight), lambda: self._names(sight).addCallback(find))

    def groups(self, permits: Permits | None = None) -> Deferred[Groups]:
        """All reader groups of the segments that a peer may know of, or of all segments."""
        sight = None if permits is None else permits.sight()

        def look() -> Deferred[Groups]:
            totals: list[Groups] = []
            return self._cooperator.coiterate(self._sum_up(sight, totals)).addCallback(lambda _: totals[0])

        return self._answer(("groups", sight), look)

    def _names(self, sight: Sight) -> Deferred[list[str]]:
        """The names that a peer may know of: computed once, whatever is then searched for among them."""
        if sight is None:
            return succeed(self._core.store.names())
        names: list[str] = []

        def look() -> Deferred[list[str]]:
            return self._cooperator.coiterate(self._judge(sight, names)).addCallback(lambda _: names)

        return self._answer(("names", sight), look)

    def _judge(self, sight: Callable[[str], object], visible: list[str]) -> Iterator[None]:
        names = iter(self._core.store.names())
        while some := list(islice(names, _JUDGED_AT_ONCE)):
            visible += filter(sight, some)
            yield

    def usage(self) -> Deferred[Usage]:
        """The disk usage of the store."""
        return self._answer("usage", self._core.store.usage)

    def _answer(self, question: object, look: Callable[[], Deferred[T]]) -> Deferred[T]:
        """A fresh answer, or one that is being computed, or a new one."""
        now = self._core.clock.seconds()
        known = self._answers.get(question)
        if known is None or known.is_stale(now):
            # What nobody asks for any more is not kept: the names that somebody may know of can be many.
            self._answers = {key: answer for key, answer in self._answers.items() if not answer.is_stale(now)}
            while len(self._answers) >= _ANSWERS_MAX:
                self._answers.pop(next(iter(self._answers)))
            known = self._answers[question] = _Answer(self._core)
            known.wait_for(look())
        return known.share()

    def _find(self, query: Query, names: list[str], pages: list[Found]) -> Iterator[None]:
        key, falls = SORTS[query.sort.removeprefix("-")], query.sort.startswith("-")
        wanted = min(query.page, PAGES_MAX) * PAGE_ROWS
        words = query.search.casefold()
        count = 0
        best: list[Segment] = []
        left = iter(names)
        while some := list(islice(left, _SEGMENTS_AT_ONCE)):
            for name in some:
                if words and words not in name.casefold():
                    continue
                try:
                    best.append(self._core.store.find(name))
                except NoSuchSegment:
                    continue
                count += 1
            if len(best) > 2 * wanted + _SEGMENTS_AT_ONCE:
                best = sorted(best, key=key, reverse=falls)[:wanted]
            yield
        best = sorted(best, key=key, reverse=falls)
        pages.append(Found(best[wanted - PAGE_ROWS : wanted], count, min(-(-count // PAGE_ROWS), PAGES_MAX)))

    def _sum_up(self, sight: Sight, totals: list[Groups]) -> Iterator[None]:
        count = lag_records = 0
        worst: list[Lag] = []
        segments = iter(self._core.store.grouped())
        while some := list(islice(segments, _SEGMENTS_AT_ONCE if sight is None else _JUDGED_AT_ONCE)):
            known = some if sight is None else [segment for segment in some if sight(segment.name)]
            lags = [lag for segment in known if not segment.hidden for lag in lags_of(segment)]
            count += len(lags)
            lag_records += sum(lag.records for lag in lags)
            worst = nlargest(GROUPS_NAMED, worst + lags, key=lambda lag: lag.records)
            yield
        totals.append(Groups(count, lag_records, worst[0].records if worst else 0, worst))


def lag_of(segment: Segment) -> int:
    """The lag of the reader group that is furthest behind; -1 where there is none."""
    return max([each.lag(segment.number) for each in (segment.groups or {}).values()], default=-1)


def lags_of(segment: Segment) -> list[Lag]:
    """The lag of each reader group of a segment."""
    return [
        Lag(segment, name, acknowledged.position, acknowledged.lag(segment.number))
        for name, acknowledged in (segment.groups or {}).items()
    ]


class _Answer(Generic[T]):
    """An answer that is known or being computed, and those who wait for it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiting: list[Deferred[T]] = []
        self._result: T | Failure | None = None
        self.found_at: float | None = None
        """When the answer was found; None while it is being computed."""

    def is_stale(self, now: float) -> bool:
        """Whether the answer is too old."""
        return self.found_at is not None and now - self.found_at >= _FRESH_SECONDS

    def wait_for(self, looked: Deferred[T]) -> None:
        """Take the answer from this Deferred."""
        looked.addBoth(self._answered)

    def share(self) -> Deferred[T]:
        """A Deferred of its own with the answer."""
        shared: Deferred[T] = Deferred()
        if self.found_at is None:
            self._waiting.append(shared)
        else:
            _fire(shared, self._result)
        return shared

    def _answered(self, result: T | Failure) -> None:
        self._result = result
        self.found_at = self._core.clock.seconds()
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            _fire(waiter, result)


def _fire(deferred: Deferred[Any], result: Any) -> None:
    (deferred.errback if isinstance(result, Failure) else deferred.callback)(result)
