"""Delayed messages: stored at once, and published to their topic at their time.

They wait on disk, in hidden segments that stand for spans of time, and memory does not grow with how many they are::

    delayed/86400/20689        messages that are due on one day
    delayed/3600/496537        … in one hour
    delayed/60/29792223        … in one minute
    delayed/1/1787533380       … in one second

A message goes to the finest span that is near enough. When the time of a span comes close, its messages are moved to
finer spans; those of a second are sorted by their time, and published. Each step is one frame that appends to where the
messages go and acknowledges them where they were, so a crash neither loses nor repeats one.

A record of such a segment is when it is due (microseconds since 1970) and the id of the topic's segment, 8 bytes each,
and the message.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from heapq import heappop, heappush
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.batch import Batch
from streamd.groups.returned import Range, ranges_of
from streamd.store.commit.levels import Append
from streamd.store.errors import NoSuchSegment, SegmentSealed, StoreError
from streamd.store.names import DELAYED

if TYPE_CHECKING:
    from streamd.connections.core import Core
    from streamd.store import Appended, Segment, Store

WIDTHS: Final = (1, 60, 3600, 86400)
"""The spans of time, in seconds."""

_HEADER: Final = Struct(">QQ")
_GROUP: Final = "due"
_MICROSECONDS: Final = 1_000_000

# A message goes to a span that begins at most so many spans of its width from now.
_NEAR_SPANS: Final = 64

# How long before it begins a span's messages are moved, or sorted.
_AHEAD_SECONDS: Final = {1: 2.0, 60: 20.0, 3600: 120.0, 86400: 600.0}

# Read, moved or published in one step: others have their turns between.
_RECORDS_AT_ONCE: Final = 2000
_BYTES_AT_ONCE: Final = 1 << 20

# After a step that failed, for want of room most likely.
_AGAIN_SECONDS: Final = 1.0


class Span(NamedTuple):
    """A span of time."""

    width: int
    ordinal: int

    @property
    def name(self) -> str:
        """The name of its hidden segment."""
        return f"{DELAYED}{self.width}/{self.ordinal}"

    @property
    def begin(self) -> float:
        """When it begins, in seconds since 1970."""
        return float(self.width * self.ordinal)

    @property
    def due(self) -> float:
        """When there is something to do with it."""
        return self.begin - _AHEAD_SECONDS[self.width]


def span_for(due: float, now: float, widths: tuple[int, ...] = WIDTHS) -> Span:
    """The span for a message that is due at that time."""
    for width in widths:
        if due // width - now // width < _NEAR_SPANS:
            return Span(width, int(due // width))
    return Span(widths[-1], int(due // widths[-1]))


def span_of(name: str) -> Span | None:
    """The span that a hidden segment stands for, if any."""
    if not name.startswith(DELAYED):
        return None
    width, _, index = name.removeprefix(DELAYED).partition("/")
    is_one = width.isdecimal() and index.isdecimal() and int(width) in WIDTHS
    return Span(int(width), int(index)) if is_one else None


class _Second:
    """The messages of one second, by their time: microseconds in the second, and record number, in one integer."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.read = 0
        """How many records of its segment are known here."""
        self._keys: list[int] = []
        """A heap."""

    def add(self, due: int, number: int) -> None:
        """Know a record that is due at this time (microseconds since 1970)."""
        heappush(self._keys, max(due - self.span.ordinal * _MICROSECONDS, 0) << 40 | number)

    def next_due(self) -> float | None:
        """When the next message is due."""
        return self.span.begin + (self._keys[0] >> 40) / _MICROSECONDS if self._keys else None

    def pop(self, now: float) -> int | None:
        """The number of the next message that is due by now."""
        due = self.next_due()
        return None if due is None or due > now else heappop(self._keys) & ((1 << 40) - 1)


class Delayed:
    """Takes messages for later, and publishes them at their time."""

    _log = Logger()

    def __init__(self, core: Core, now: Callable[[], float] = time.time) -> None:
        self._core = core
        self._store: Store = core.store
        self._now = now
        self._known: dict[Span, Segment] = {}
        self._seconds: dict[Span, _Second] = {}
        self._timer: IDelayedCall | None = None
        self._running = False
        self._busy = False
        self.published = 0
        """How many messages were published at their time since the start."""

    @classmethod
    def of(cls, core: Core) -> Delayed:
        """The one that all endpoints of all protocols share."""
        delayed: Delayed = core.shared.setdefault(("delayed", ""), cls(core))
        return delayed

    @property
    def waiting(self) -> int:
        """How many messages wait for their time."""
        return sum(_left(segment) for segment in self._known.values())

    # -- taking --------------------------------------------------------------------------------------------------------

    def put(
        self, target: Segment, batch: Batch, due: int, *, writer: bytes | None = None, expected: int = 0, level: int = 0
    ) -> Deferred[Appended]:
        """Keep records until they are due (microseconds since 1970). Fires when they are on disk.

        With a writer they count for its ack level in the topic at once, as with `Store.append`.
        """
        now = self._now()
        stored = target.claimed_level(writer) if writer is not None else None
        if due <= now * _MICROSECONDS or (writer is not None and (stored or 0) >= level > 0):
            return self._store.append(target, batch, writer=writer, expected=expected, level=level)
        if target.claimed_sealed or target.claimed_deleted:
            # The store knows whether that is so already, or only on its way to the disk.
            return self._store.append(target, batch)
        span = span_for(due / _MICROSECONDS, now)
        segment = self._segment(span)
        header = _HEADER.pack(due, target.id)
        waiting = Append(segment, Batch.of([header + bytes(record) for record in batch.records()]))
        parts = [waiting]
        if writer is not None:
            parts.append(Append(target, Batch.of([]), writer=writer, expected=expected, level=level))
        stored_all = self._store.append_all(parts)
        return stored_all.addCallback(self._kept, span, [due] * batch.count)

    def _kept(self, places: list[Appended], span: Span, dues: list[int]) -> Appended:
        second = self._seconds.get(span)
        if second is not None:
            self._add(second, dues, places[0].number)
        delay = max(self._due(span) - self._now(), 0.0)
        if self._timer is None or self._core.clock.seconds() + delay < self._timer.getTime():
            self._schedule()
        return places[0]

    def _add(self, second: _Second, dues: list[int], first: int) -> None:
        """Know records from `first` on, unless there are others before them that have to be read."""
        if second.read == first:
            for number, due in enumerate(dues, first):
                second.add(due, number)
            second.read = first + len(dues)

    def _segment(self, span: Span) -> Segment:
        """The hidden segment of a span, made where it is not there; it can be appended to before it is on disk."""
        segment = self._store.find_claimed(span.name, hidden=True)
        if segment is None:
            # Where this fails, so does what is appended behind it, and that is told.
            self._store.create(span.name, hidden=True).addErrback(lambda failure: failure.trap(StoreError) and None)
            segment = self._store.find_claimed(span.name, hidden=True)
            assert segment is not None
        self._known[span] = segment
        return segment

    # -- time ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to publish: what an earlier process has kept, too."""
        for segment in self._store.hidden_segments():
            span = span_of(segment.name)
            if span is not None:
                self._known[span] = segment
        self._running = True
        self._schedule()

    def stop(self) -> None:
        """Publish nothing more."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        """Wake up when there is something to do next."""
        if not self._running or self._busy:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dues = [self._due(span) for span in self._known]
        if dues:
            self._timer = self._core.clock.callLater(max(min(dues) - self._now(), 0.0), self._work)

    def _due(self, span: Span) -> float:
        """When there is something to do with a span next."""
        segment, second = self._known[span], self._seconds.get(span)
        if second is None:
            # One that is empty is let go when its time is over.
            return span.due if _left(segment) else span.begin + span.width
        if second.read < segment.number:
            return span.due
        due = second.next_due()
        return span.begin + span.width if due is None else due

    def _work(self) -> None:
        self._timer = None
        self._busy = True
        Deferred.fromCoroutine(self._work_on()).addBoth(self._worked)

    def _worked(self, result: Any) -> None:
        self._busy = False
        if isinstance(result, Failure):
            if not result.check(StoreError):
                self._log.failure("delayed messages can't be published", result)
            if self._running:
                self._timer = self._core.clock.callLater(_AGAIN_SECONDS, self._work)
        else:
            self._schedule()

    async def _work_on(self) -> None:
        """Do what is due: the earliest span first."""
        for span in sorted(self._known, key=lambda span: span.begin):
            if self._due(span) > self._now() or not self._running:
                continue
            segment = self._known[span]
            if segment.deleted or not segment.committed:
                if segment.deleted:
                    self._forget(span)
                continue
            if span.width > WIDTHS[0]:
                await self._split(span, segment)
            else:
                await self._publish(span, segment)
            if not _left(segment) and self._now() >= span.begin + span.width and segment.number == segment.next_number:
                self._forget(span)
                await self._store.delete(segment)
            await self._turn()

    def _forget(self, span: Span) -> None:
        self._known.pop(span, None)
        self._seconds.pop(span, None)

    def _turn(self) -> Deferred[None]:
        turn: Deferred[None] = Deferred()
        self._core.clock.callLater(0, turn.callback, None)
        return turn

    # -- moving --------------------------------------------------------------------------------------------------------

    async def _split(self, span: Span, segment: Segment) -> None:
        """Move the messages of a span to finer ones."""
        finer = WIDTHS[: WIDTHS.index(span.width)]
        acknowledged = (segment.groups or {}).get(_GROUP)
        number = segment.first_number if acknowledged is None else acknowledged.position
        while number < segment.number and self._running:
            records = await self._read(segment, number)
            now = self._now()
            moved: dict[Span, list[tuple[int, bytes]]] = {}
            acknowledged = (segment.groups or {}).get(_GROUP)
            for at, record in enumerate(records, number):
                if acknowledged is not None and at in acknowledged:
                    continue
                due = _HEADER.unpack_from(record)[0]
                moved.setdefault(span_for(due / _MICROSECONDS, now, finer), []).append((at, record))
            for target, some in moved.items():
                into = self._segment(target)
                first = into.next_number
                batch = Batch.of([record for _, record in some])
                await self._hand_over(segment, [at for at, _ in some], into, batch)
                second = self._seconds.get(target)
                if second is not None:
                    self._add(second, [_HEADER.unpack_from(record)[0] for _, record in some], first)
            number += len(records)
            await self._turn()

    async def _publish(self, span: Span, segment: Segment) -> None:
        """Publish what is due of one second, in the order of its time."""
        second = self._seconds.get(span)
        if second is None:
            second = self._seconds[span] = _Second(span)
        acknowledged = (segment.groups or {}).get(_GROUP)
        while second.read < segment.number:
            first = second.read
            dues = [_HEADER.unpack_from(record)[0] for record in await self._read(segment, first)]
            for at, due in enumerate(dues, first):
                # Some may have been added meanwhile, and some been published by an earlier process.
                if at >= second.read and (acknowledged is None or at not in acknowledged):
                    second.add(due, at)
            second.read = max(second.read, first + len(dues))
            await self._turn()
        while self._running:
            numbers: list[int] = []
            while len(numbers) < _RECORDS_AT_ONCE and (number := second.pop(self._now())) is not None:
                numbers.append(number)
            if not numbers:
                return
            try:
                await self._publish_some(segment, numbers)
            except StoreError:
                # They are read again from the disk.
                del self._seconds[span]
                raise
            await self._turn()

    async def _publish_some(self, segment: Segment, numbers: list[int]) -> None:
        """Publish these messages, which stand in the order of their time."""
        records: dict[int, bytes] = {}
        for first, end in ranges_of(sorted(numbers)):
            while first < end:
                read = await self._read(segment, first, end - first)
                records.update(enumerate(read, first))
                first += len(read)
        by_target: dict[int, list[int]] = {}
        for number in numbers:
            by_target.setdefault(_HEADER.unpack_from(records[number])[1], []).append(number)
        for id, some in by_target.items():
            batch = Batch.of([records[number][_HEADER.size :] for number in some])
            try:
                await self._hand_over(segment, some, self._store.find_id(id), batch)
                self.published += len(some)
            except (NoSuchSegment, SegmentSealed) as error:
                self._log.error(
                    "{count} delayed messages are dropped, their topic is gone or sealed: {reason}",
                    count=len(some),
                    reason=str(error),
                )
                await self._store.acknowledge(segment, _GROUP, ranges_of(sorted(some)))

    def _hand_over(self, segment: Segment, numbers: list[int], target: Segment, batch: Batch) -> Deferred[None]:
        ranges: list[Range] = ranges_of(sorted(numbers))
        return self._store.hand_over(segment, _GROUP, ranges, target, batch)

    async def _read(self, segment: Segment, number: int, count: int = _RECORDS_AT_ONCE) -> list[bytes]:
        runs = await self._store.read(segment, number, bytes_max=_BYTES_AT_ONCE, records_max=count)
        return [bytes(record) for run in runs for record in run.batch.records()]


def _left(segment: Segment) -> int:
    """How many messages of a span wait."""
    acknowledged = (segment.groups or {}).get(_GROUP)
    if acknowledged is None:
        return segment.number - segment.first_number
    return segment.number - acknowledged.position - sum(end - first for first, end in acknowledged.ranges)
