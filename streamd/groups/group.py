"""A reader group: records that are to be given out, records that came back, and what is acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.groups.returned import Range, Returned
from streamd.store.errors import StoreError
from streamd.store.segments.ranges import Acknowledged

if TYPE_CHECKING:
    from streamd.store import Segment, Store

# Records that are acknowledged by everybody go when there are so many of them: each time costs a frame and a read.
_TRUNCATE_RECORDS: Final = 4096

# While the disk is full. What is over this is given out again after a restart.
_UNNOTED_RANGES_MAX: Final = 1000

# What one entry of the journal can hold, with room for the name.
_RANGES_AT_ONCE: Final = 8192


def _nobody() -> None:
    """The default for `Group.on_returned`: nothing happens."""


class Group:
    """One reader group of one segment. Its members take records, and then acknowledge them or give them back."""

    _log = Logger()

    def __init__(self, store: Store, segment: Segment, name: str, *, consumes: bool = False) -> None:
        self._store = store
        self.segment = segment
        self.name = name
        self.consumes = consumes
        """Whether acknowledged records are removed from the segment: the group is a queue."""
        self.on_returned: Callable[[], None] = _nobody
        """Called when records were given back."""
        self._truncating = False
        known = self.acknowledged
        self._next = known.position if known is not None else segment.first_number
        self._done = known.ranges if known is not None else []
        """Ranges above the position that were acknowledged before this process started: not to be given out."""
        self._returned = Returned()
        self._unnoted: list[Range] = []
        """Acknowledged ranges that the store could not take. They are written with the next ones."""

    @property
    def acknowledged(self) -> Acknowledged | None:
        """What is acknowledged on disk; None where the group has never acknowledged anything."""
        return (self.segment.groups or {}).get(self.name)

    @property
    def returned_records(self) -> int:
        """How many records came back and wait for the next member that takes."""
        return self._returned.records

    @property
    def available_records(self) -> int:
        """About how many records can be taken. Some of them may have been acknowledged before a restart."""
        new = self.segment.number - max(self._next, self.segment.first_number)
        return self._returned.records + max(new, 0)

    def begin_at(self, number: int) -> None:
        """Give out nothing below `number`: for a group that is new."""
        self._next = number

    def move_to(self, number: int) -> None:
        """Give out everything from `number` on, whatever was given out before."""
        self._next = number
        self._done = []
        self._returned = Returned()
        self._unnoted = []

    def hold(self, numbers: Iterable[int]) -> None:
        """Do not give these out: somebody else gives them back at their time."""
        self._done = sorted([*self._done, *((number, number + 1) for number in numbers)])

    def take(self, count: int) -> Range | None:
        """Take up to `count` committed records that no member has, returned ones first; None where there are none."""
        self._returned.skip_to(self.segment.first_number)
        if self._returned:
            return self._returned.pop(count)
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
        """Put records back whose member is gone: they are the next to be taken, in order."""
        if first < end:
            self._returned.add(first, end)
            self.on_returned()

    def withdraw(self, number: int) -> None:
        """Remove a record that came back: the member that had it has acknowledged it after all."""
        self._returned.remove(number)

    def acknowledge(self, first: int, end: int) -> Deferred[Any]:
        """Acknowledge records; fires when that is on disk. What can't be written now is written with the next ones."""
        ranges, self._unnoted = [*self._unnoted, (first, end)], []
        return self.note(ranges).addErrback(self._not_noted, ranges)

    def note(self, ranges: Sequence[Range]) -> Deferred[Any]:
        """Acknowledge ranges of records; fires when that is on disk. Where it fails, nothing is acknowledged."""
        noted = [
            self._store.acknowledge(self.segment, self.name, ranges[at : at + _RANGES_AT_ONCE])
            for at in range(0, len(ranges), _RANGES_AT_ONCE)
        ]
        done: Deferred[Any] = noted[0] if len(noted) == 1 else gatherResults(noted, consumeErrors=True)
        if self.consumes:
            done.addCallback(lambda _: self._truncate())
        return done

    def _not_noted(self, failure: Failure, ranges: list[Range]) -> Failure:
        """Keep ranges for the next write: one record that is never acknowledged would keep all later ones stored."""
        unnoted = self._unnoted
        for first, end in ranges:
            if unnoted and unnoted[-1][1] == first:
                unnoted[-1] = (unnoted[-1][0], end)
            elif len(unnoted) < _UNNOTED_RANGES_MAX:
                unnoted.append((first, end))
        return failure

    def _truncate(self) -> None:
        """Remove the records from the beginning up to the group's position."""
        known = self.acknowledged
        if known is None or self._truncating or self.segment.deleted:
            return
        everything = known.position == self.segment.number
        if known.position - self.segment.first_number < (1 if everything else _TRUNCATE_RECORDS):
            return
        self._truncating = True
        try:
            done = self._store.truncate(self.segment, known.position)
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


class PrivateGroup(Group):
    """The group of one reader that gets every record: it has no name, and nothing of it is on disk."""

    def __init__(self, store: Store, segment: Segment) -> None:
        self._acknowledged = Acknowledged(segment.first_number)
        super().__init__(store, segment, "")

    @property
    def acknowledged(self) -> Acknowledged:
        """What is acknowledged, for as long as the reader is connected."""
        return self._acknowledged

    def begin_at(self, number: int) -> None:
        """Give out nothing below `number`."""
        super().begin_at(number)
        self._acknowledged.skip_to(number)

    def note(self, ranges: Sequence[Range]) -> Deferred[Any]:
        """Acknowledge ranges of records, in memory and at once."""
        self._acknowledged.skip_to(self.segment.first_number)
        self._acknowledged.add(ranges)
        return succeed(None)
