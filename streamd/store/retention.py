"""Retention: what is kept of a segment, by rules on its name, enforced in the background.

A rule's limits are for what is retained: once a segment is over one, its oldest records go, in a TRUNCATE frame like
any other, so replay never asks a clock. The first rule whose pattern fits a name counts. With `archived_only` nothing
goes that the archive's reader group has not passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.task import Cooperator, SchedulerStopped
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.loop import Loop
from streamd.metrics import LoopCounts, RetentionCounts
from streamd.patterns import matcher
from streamd.settings import RetentionRule
from streamd.store.believed import MICROSECONDS, StoreTime
from streamd.store.errors import StoreError
from streamd.store.names import DELAYED
from streamd.store.segments.segment import Segment

if TYPE_CHECKING:
    from streamd.store.store import Store

# Records may be older than their limit by so much of it.
_AGE_SLACK: Final = 0.02


class Retention:
    """Goes over all segments again and again, a few at a time."""

    _log = Logger()

    def __init__(
        self,
        store: Store,
        rules: Sequence[RetentionRule],
        *,
        interval_seconds: float,
        hidden_seconds_max: float,
        clock: Any,
        now: Callable[[], float],
        loops: LoopCounts | None = None,
    ) -> None:
        self._store = store
        self._interval_seconds = interval_seconds
        self._hidden_seconds_max = hidden_seconds_max
        self._clock = clock
        self._now = now
        self._cooperator = Cooperator(scheduler=lambda call: clock.callLater(0, call))
        self._loop = Loop("retention", self._tick, clock, loops)
        self._asked: dict[int, float] = {}
        """When to look for old records in a segment again."""
        self._read: dict[int, float] = {}
        """When a segment was read, where that may keep it."""
        self._since = 0.0
        """What was read before that is not known."""
        self._time = StoreTime(lambda: store.timestamp)
        self.counted = RetentionCounts()
        self._use(rules)

    def replace(self, rules: Sequence[RetentionRule]) -> None:
        """Go by other rules from now on. The same ones change nothing."""
        if tuple(rules) != self._rules:
            self._use(rules)
            self._asked.clear()
            self._since = self._now()

    def _use(self, rules: Sequence[RetentionRule]) -> None:
        self._rules = tuple(rules)
        self._patterns = [matcher(rule.pattern) for rule in self._rules]
        self._idle_seconds_max = max((rule.idle_seconds_max for rule in self._rules), default=0.0)

    def start(self) -> None:
        """Begin, after one interval."""
        self._since = self._now()
        self._loop.start(self._interval_seconds, now=False)

    def stop(self) -> None:
        """Leave it at that."""
        self._loop.stop()
        self._cooperator.stop()

    def rule(self, name: str) -> RetentionRule | None:
        """The rule for a segment of that name."""
        return next((rule for fits, rule in zip(self._patterns, self._rules, strict=True) if fits(name)), None)

    def note_read(self, segment: Segment) -> None:
        """Somebody reads it, in a protocol where that keeps a segment as a write does."""
        if self._idle_seconds_max:
            self._read[segment.id] = self._now()

    def _tick(self) -> Deferred[None]:
        # `stop` ends a sweep in the middle.
        return self.sweep().addErrback(lambda failure: failure.trap(SchedulerStopped) and None)

    def sweep(self) -> Deferred[None]:
        """Look at every segment once; fires when all is on disk."""
        return self._cooperator.coiterate(self._sweep()).addCallback(self._swept)

    def _swept(self, _: object) -> None:
        self.counted.sweeps += 1
        self._store.tidy()

    def _sweep(self) -> Iterator[Deferred[None] | None]:
        now = self._clock.seconds()
        self._asked = {id: again for id, again in self._asked.items() if again > now}
        long_ago = self._now() - self._idle_seconds_max
        self._read = {id: read for id, read in self._read.items() if read > long_ago}
        for segment in self._store.hidden_segments():
            # Delayed messages wait for their time, however long that is.
            if not segment.name.startswith(DELAYED):
                yield self._guard(self._expire, segment, self._hidden_seconds_max)
        try:
            yield from self._trim_broadcasts()
        except Exception:
            self._loop.failed(Failure())
        for name in self._store.names() if self._rules else ():
            yield self._guard(self._apply, name)

    def _guard(self, work: Callable[..., Deferred[None] | None], *args: Any) -> Deferred[None] | None:
        """Do something for one segment. Whatever goes wrong with that one, the others have their turn."""
        try:
            done = work(*args)
        except Exception:
            self._loop.failed(Failure())
            return None
        return None if done is None else done.addErrback(self._loop.failed)

    def _apply(self, name: str) -> Deferred[None] | None:
        """Do for a segment what its rule says."""
        rule = self.rule(name)
        if rule is None:
            return None
        try:
            segment = self._store.find(name)
        except StoreError:
            return None
        idle_seconds_max = rule.idle_seconds_max
        was_read = self._read.get(segment.id, self._since) > self._now() - idle_seconds_max
        if was_read or droppable(segment, rule) < segment.number:
            idle_seconds_max = 0.0
        return self._expire(segment, idle_seconds_max) or self._trim(segment, rule)

    def _trim_broadcasts(self) -> Iterator[Deferred[None] | None]:
        """Drop what was broadcast and every segment that received it has truncated, or is gone."""
        broadcasts = self._store.broadcasts
        needed = broadcasts.number
        if broadcasts.first_number == needed:
            return
        for segment in self._store.numbered():
            own = None if segment.deleted else segment.needed_number
            if own is not None:
                needed = min(needed, own)
                if needed <= broadcasts.first_number:
                    return
            yield None
        trimmed = self._store.trim_broadcasts(needed).addErrback(self._refused, broadcasts)
        yield trimmed.addErrback(self._loop.failed)

    def _expire(self, segment: Segment, idle_seconds_max: float) -> Deferred[None] | None:
        if not idle_seconds_max or self._age(segment.modified) <= idle_seconds_max * MICROSECONDS:
            return None
        self._log.info("{segment} was idle for {seconds} s and is deleted", segment=segment, seconds=idle_seconds_max)
        try:
            return self._store.delete(segment).addCallbacks(self._deleted, self._refused, errbackArgs=(segment,))
        except StoreError:
            return None

    def _deleted(self, _: None) -> None:
        self.counted.deletions += 1

    def _trim(self, segment: Segment, rule: RetentionRule) -> Deferred[None] | None:
        number = segment.number - rule.records_max if rule.records_max else 0
        offset = segment.offset - rule.bytes_max if rule.bytes_max else 0
        age_seconds_max = rule.age_seconds_max
        if age_seconds_max and self._asked.get(segment.id, 0.0) > self._clock.seconds():
            age_seconds_max = 0.0
        if number <= segment.first_number and offset <= segment.first_offset and not age_seconds_max:
            return None
        if droppable(segment, rule) <= segment.first_number:
            return None
        trimmed = Deferred.fromCoroutine(self._truncate(segment, rule, number, offset, age_seconds_max))
        return trimmed.addErrback(self._refused, segment)

    async def _truncate(
        self, segment: Segment, rule: RetentionRule, number: int, offset: int, age_seconds_max: float
    ) -> None:
        first = await self._first_kept(segment, number, offset, age_seconds_max)
        # Asked for only now: the group may have been put back while records were looked at.
        first = min(first, droppable(segment, rule))
        if first > segment.first_number:
            before = segment.first_number
            await self._store.truncate(segment, first)
            self.counted.truncated_records += max(segment.first_number - before, 0)
        elif age_seconds_max:
            # Nothing is old enough. To ask again at each sweep, of each idle segment, would be most of the work.
            self._asked[segment.id] = self._clock.seconds() + age_seconds_max * _AGE_SLACK

    async def _first_kept(self, segment: Segment, number: int, offset: int, age_seconds_max: float) -> int:
        """The first record that every limit allows to stay."""
        first = max(number, segment.first_number)
        if offset > segment.first_offset:
            runs = await self._store.read_at(segment, offset, bytes_max=1, records_max=1)
            first = max(first, runs[0].number if runs else segment.number)
        if age_seconds_max:
            first = max(first, await self._first_young(segment, int(age_seconds_max * MICROSECONDS)))
        return first

    async def _first_young(self, segment: Segment, age: int) -> int:
        """The first record that is not older than that, or one a little before it."""
        now = self._clock_now()
        ahead = self._time.at(now) - age
        if ahead > now:
            # Records whose time is yet to come were stored while the clock was wrong. Where some of them are old by the
            # store's time, so is all before them.
            old = await self._store.number_at(segment, ahead)
            if old > await self._store.number_at(segment, now + 1):
                return old
        return await self._store.number_at(segment, now - age)

    def _age(self, timestamp: int) -> int:
        now = self._clock_now()
        return (self._time.at(now) if timestamp > now else now) - timestamp

    def _clock_now(self) -> int:
        return int(self._now() * MICROSECONDS)

    def _refused(self, failure: Failure, segment: Segment) -> None:
        """It was deleted in between, or the disk is full: the next sweep tries again."""
        failure.trap(StoreError)
        self._log.debug("retention of {segment}: {reason}", segment=segment, reason=failure.getErrorMessage())


def droppable(segment: Segment, rule: RetentionRule) -> int:
    """Records below this number may go, as far as the archive is concerned."""
    if not rule.archived_only:
        return segment.number
    group = (segment.groups or {}).get(rule.archive_group)
    return segment.first_number if group is None else group.position
