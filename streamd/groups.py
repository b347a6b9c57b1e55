"""Reader groups: the records of a segment, each given to one member, and acknowledged for all of them.

What is acknowledged is durable and lives in the segment (`streamd.store.ranges`). What is given out and not
acknowledged yet is known only here: after a crash it is given out again.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.store.errors import StoreError

if TYPE_CHECKING:
    from streamd.store import Segment, Store

Range = tuple[int, int]
"""Records from the first number to the second, which is not part of it."""

# Records that are acknowledged by everybody go when there are so many of them: each time costs a frame and a read.
_TRUNCATE_RECORDS: Final = 4096

# While the disk is full. What is over this is given out again after a restart.
_UNNOTED_RANGES_MAX: Final = 1000


class Group:
    """One reader group of one segment. Its members take, and then acknowledge or give back."""

    _log = Logger()

    def __init__(self, store: Store, segment: Segment, name: str, *, consumes: bool = False) -> None:
        self._store = store
        self.segment = segment
        self.name = name
        self._consumes = consumes
        """Whether what this group has acknowledged is to be removed: a queue."""
        self._truncating = False
        known = (segment.groups or {}).get(name)
        self._next = known.position if known is not None else segment.first_number
        self._done = known.ranges if known is not None else []
        """Acknowledged before this process began, above the position: not to be given out."""
        self._returned: list[Range] = []
        self._unnoted: list[Range] = []
        """Done with, and not on disk: the store could not take it. They go with the next ones."""

    def take(self, count: int) -> Range | None:
        """Up to `count` committed records that nobody has: what came back first. None where there are none."""
        while self._returned:
            first, end = heappop(self._returned)
            first = max(first, self.segment.first_number)
            if first >= end:
                continue
            if end - first > count:
                heappush(self._returned, (first + count, end))
                end = first + count
            return first, end
        self._next = max(self._next, self.segment.first_number)
        while self._done and self._next >= self._done[0][0]:
            self._next = max(self._next, self._done.pop(0)[1])
        end = min(self._next + count, self.segment.number)
        if self._done:
            end = min(end, self._done[0][0])
        if self._next >= end:
            return None
        first, self._next = self._next, end
        return first, end

    def give_back(self, first: int, end: int) -> None:
        """These are the next to be taken, in order: whoever had them is gone."""
        if first < end:
            heappush(self._returned, (first, end))

    def acknowledge(self, first: int, end: int) -> Deferred[None]:
        """These are done with; fires when that is on disk."""
        ranges, self._unnoted = [*self._unnoted, (first, end)], []
        done = self._store.acknowledge(self.segment, self.name, ranges)
        done.addErrback(self._not_noted, ranges)
        if self._consumes:
            done.addCallback(lambda _: self._truncate())
        return done

    def _not_noted(self, failure: Failure, ranges: list[Range]) -> Failure:
        """Remember for the next time: one record that is never acknowledged would keep all behind it in the store."""
        unnoted = self._unnoted
        for first, end in ranges:
            if unnoted and unnoted[-1][1] == first:
                unnoted[-1] = (unnoted[-1][0], end)
            elif len(unnoted) < _UNNOTED_RANGES_MAX:
                unnoted.append((first, end))
        return failure

    def _truncate(self) -> None:
        """Let go of what is acknowledged from the beginning on."""
        group = (self.segment.groups or {}).get(self.name)
        if group is None or self._truncating or self.segment.deleted:
            return
        everything = group.position == self.segment.number
        if group.position - self.segment.first_number < (1 if everything else _TRUNCATE_RECORDS):
            return
        self._truncating = True
        try:
            done = self._store.truncate(self.segment, group.position)
        except StoreError:
            self._truncating = False
            return
        done.addBoth(self._truncated)

    def _truncated(self, result: object) -> None:
        self._truncating = False
        if isinstance(result, Failure):
            # Deleted in between, or the disk is full: the next acknowledgement tries again.
            result.trap(StoreError)
            self._log.debug("{segment}: {reason}", segment=self.segment, reason=result.getErrorMessage())
        else:
            # More may have been acknowledged meanwhile.
            self._truncate()
