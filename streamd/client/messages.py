"""The client for everyday work: publish messages, follow a topic, share work in a reader group.

It reconnects by itself. Messages are published with a writer's id and a sequence, so one that is sent again after a
lost connection is stored once. While one batch of a topic is on its way, what is published meanwhile becomes the next.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID, uuid4

from streamd.batch import Batch
from streamd.client.core.commands import Commands, Feed, command
from streamd.client.core.connection import Driver, MakeDriver
from streamd.client.core.reconnecting import Reconnecting
from streamd.client.core.session import Answer, Steps
from streamd.client.errors import ClientError, Refused
from streamd.client.storage import READ_BYTES, StorageRefused, ToolsSession
from streamd.client.target import Target
from streamd.wire import tools as wire
from streamd.wire import work
from streamd.wire.tools import Code, SegmentInfo

T = TypeVar("T")
S = TypeVar("S", bound="SubscriptionFeed[Any]")
R = TypeVar("R", bound="RecordBase")

RECONNECT_SECONDS_MAX: Final = 60.0
PREFETCH: Final = 100

# How long one request for messages waits; the daemon may be silent no longer than reply_seconds_max.
_POLL_SECONDS: Final = 10.0
_BATCH_BYTES: Final = 1 << 20

Start = Literal["earliest", "latest"] | int


class _Place(NamedTuple):
    """What a record needs to be acknowledged."""

    segment: int
    group: str


class RecordBase:
    """A message of a topic: where it stands, since when, and what it says."""

    __slots__ = {
        "_client": "",
        "_place": "",
        "topic": "The topic it is in.",
        "offset": "Its number in the topic, from 0.",
        "time": "When it was stored, in seconds since 1970.",
        "data": "What was published.",
        "deliveries": "How often it was delivered to the reader group, this time included.",
    }

    def __init__(
        self,
        client: MessagesCommands[Any],
        place: _Place,
        topic: str,
        offset: int,
        time: float,
        data: bytes,
        often: int,
    ) -> None:
        self._client = client
        self._place = place
        self.topic = topic
        self.offset = offset
        self.time = time
        self.data = data
        self.deliveries = often

    def __repr__(self) -> str:
        return f"<Record {self.offset} of {self.topic!r}, {len(self.data)} bytes>"

    def _settle(self, make: Callable[..., Any], *more: object) -> Steps[None]:
        if not self._place.group:
            raise ValueError("only what a reader group delivers is acknowledged: subscribe with group=NAME")
        return self._client._settle(self._place, self.offset, make, *more)

    def _ack(self) -> Steps[None]:
        return self._settle(work.AcknowledgeRecords)

    def _nack(self, delay: float | None, error: str) -> Steps[None]:
        return self._settle(work.RefuseRecords, -1 if delay is None else int(1000 * delay), error)


class _Outbox:
    """What is published to one topic, and not stored yet."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.waiting: deque[tuple[list[bytes], int, Answer[int | None]]] = deque()
        self.sending = False
        self.sequence: int | None = None
        """How many messages of this writer are stored; None where that has to be asked."""


class SubscriptionFeed(Feed[R], Generic[R]):
    """The messages of a topic as they come: all of them, or those that a reader group gives to this member."""

    def __init__(self, client: MessagesCommands[Any], topic: str, group: str, start: Start, prefetch: int) -> None:
        self._client = client
        self._messages = client
        self._topic = topic
        self._group = group
        self._start = start
        self._prefetch = prefetch
        self._number: int | None = None
        self._connections = client._reconnecting()
        self._id: int | None = None
        self._unread: deque[R] = deque()

    async def _fill(self) -> bool:
        while not self._unread and not self._connections.is_closed:
            if not await self._connections.carry_out(self._group_step if self._group else self._read_step):
                return False
        return bool(self._unread)

    def waiting(self) -> list[R]:
        """Return the messages that have come already, and take them: for work that is done in batches."""
        records = list(self._unread)
        self._unread.clear()
        return records

    async def _segment(self, session: ToolsSession) -> SegmentInfo:
        """The topic: by name the first time, and then by its id, so that another one of the name is none."""
        if self._id is not None:
            return (await session.request(wire.Segments, wire.DescribeSegment, self._id)).segments[0]
        return await find(session, self._topic)

    async def _group_step(self, session: ToolsSession) -> bool:
        """Take messages as a member of the group. Returns whether there may be more."""
        if self._id is None:
            self._id = (await self._segment(session)).id
        latest = self._start == "latest"
        limits = (latest, self._prefetch, READ_BYTES, int(1000 * self._messages._poll_seconds))
        taken = await session.request(work.RecordsTaken, work.TakeRecords, self._id, self._group, *limits)
        self._messages._worked()
        deliveries = iter(taken.deliveries)
        for run in taken.runs:
            self._add(run, deliveries)
        if not taken.runs:
            return not (await self._segment(session)).sealed
        return True

    async def _read_step(self, session: ToolsSession) -> bool:
        """Read the next messages, and wait for them where there are none. Returns whether there may be more."""
        info = await self._segment(session)
        self._id = info.id
        if self._number is None:
            places = {"earliest": info.first_number, "latest": info.number}
            self._number = self._start if isinstance(self._start, int) else places[self._start]
        number = max(self._number, info.first_number)
        if number >= info.number:
            if info.sealed:
                return False
            await session.request(
                work.Done, work.AwaitRecord, info.id, number, int(1000 * self._messages._poll_seconds)
            )
            self._messages._worked()
            return True
        read = await session.request(wire.RecordsRead, wire.ReadRecords, info.id, number, self._prefetch, READ_BYTES)
        self._messages._worked()
        for run in read.runs:
            self._add(run, iter(()))
            self._number = run.number + run.batch.count
        return True

    def _add(self, run: wire.Run, deliveries: Iterable[int]) -> None:
        assert self._id is not None
        place, often = _Place(self._id, self._group), iter(deliveries)
        make, since = self._messages._record_type, run.timestamp / 1e6
        for number, record in enumerate(run.batch.records(), run.number):
            data = bytes(record)
            self._unread.append(make(self._messages, place, self._topic, number, since, data, next(often, 1)))

    async def _end(self) -> None:
        if self._connections.is_closed:
            return
        if self._id is not None and self._group:
            id = self._id

            async def leave(session: ToolsSession) -> None:
                await session.request(work.Done, work.LeaveGroup, id, self._group)

            try:
                await self._connections.carry_out_once(leave)
            except ClientError:
                pass  # who is gone is no member either
        await self._connections.close()


async def find(session: ToolsSession, topic: str) -> SegmentInfo:
    """The topic of a name; StorageRefused where there is none."""
    found = (await session.request(wire.Segments, wire.NameSegments, (topic,))).segments
    if not found:
        raise StorageRefused(Code.NO_SUCH_SEGMENT, topic)
    return found[0]


class MessagesCommands(Commands, Generic[S]):
    """Publishes to topics and subscribes to them, on connections that are made again when they are lost."""

    _subscription_type: type[S]
    _record_type: Callable[..., Any]

    def __init__(
        self,
        target: Target,
        make_driver: MakeDriver,
        *,
        writer_id: UUID | None = None,
        reconnect_seconds_max: float = RECONNECT_SECONDS_MAX,
    ) -> None:
        super().__init__(target, make_driver)
        self.writer_id = writer_id or uuid4()
        self._seconds_max = reconnect_seconds_max
        self._poll_seconds = min(_POLL_SECONDS, target.reply_seconds_max / 2)
        self._progress = 0
        self._driver: Driver = make_driver()
        self._connections = self._reconnecting(self._driver)
        self._outboxes: dict[str, _Outbox] = {}
        self._ids: dict[str, int] = {}
        self._subscriptions: list[S] = []

    def _reconnecting(self, driver: Driver | None = None) -> Reconnecting[ToolsSession]:
        used = driver or self._make_driver()
        return Reconnecting(
            lambda: ToolsSession(self._target), self._target, used, self._seconds_max, lambda: self._progress
        )

    def _worked(self) -> None:
        self._progress += 1

    async def _ask(self, kind: type[T], make: Callable[..., Any], *values: object) -> T:
        async def ask(session: ToolsSession) -> T:
            return await session.request(kind, make, *values)  # type: ignore[type-var]

        answer = await self._connections.carry_out(ask)
        self._worked()
        return answer

    async def _open(self) -> None:
        await self._ask(wire.Segments, wire.NameSegments, ())

    async def _close(self) -> None:
        for subscription in self._subscriptions:
            await subscription._end()
        await self._connections.close()

    async def _abort(self) -> None:
        await self._close()

    # -- topics --------------------------------------------------------------------------------------------------------

    @command
    async def create(self, topic: str, *, exist_ok: bool = False) -> None:
        """Make a topic; Refused with ``SegmentExists`` where there is one, unless `exist_ok`."""
        existing = wire.Existing.TAKEN if exist_ok else wire.Existing.REFUSED
        made = await self._ask(wire.Segments, wire.MakeSegment, topic, False, existing)
        self._ids[topic] = made.segments[0].id

    @command
    async def topics(self, pattern: str = "*") -> list[str]:
        """Return the names of the topics that fit a shell pattern."""
        names: list[str] = []
        after = 0
        while True:
            page = await self._ask(wire.Segments, wire.ListSegments, pattern, after)
            names += [info.name for info in page.segments]
            if not page.after:
                return names
            after = page.after

    async def _id_of(self, topic: str) -> int:
        if topic not in self._ids:

            async def look(session: ToolsSession) -> SegmentInfo:
                return await find(session, topic)

            self._ids[topic] = (await self._connections.carry_out(look)).id
        return self._ids[topic]

    # -- publishing ----------------------------------------------------------------------------------------------------

    @command
    async def publish(
        self, topic: str, data: bytes | Iterable[bytes], *, at: float | None = None, delay: float | None = None
    ) -> int | None:
        """Publish a message, or several, which follow each other. Returns when they are on disk, with the first offset.

        They are stored once, also where a connection is lost and they are sent again; then the offset is None. With
        `at` (seconds since 1970), or `delay` (seconds from now), they become visible at that time, and have no offset
        before.
        """
        messages = [bytes(data)] if isinstance(data, bytes | bytearray | memoryview) else [bytes(each) for each in data]
        if delay is not None:
            at = time.time() + delay
        outbox = self._outboxes.setdefault(topic, _Outbox(topic))
        answer: Answer[int | None] = Answer(lambda answer: self._driver.until(answer, inf))
        outbox.waiting.append((messages, 0 if at is None else max(int(at * 1e6), 1), answer))
        if not outbox.sending:
            outbox.sending = True
            # Not by this command itself: it may be cancelled, and others wait for what it sends.
            self._driver.spawn(self._send(outbox))
        return await answer

    async def _send(self, outbox: _Outbox) -> None:
        while outbox.waiting:
            parts = [outbox.waiting.popleft()]
            size = sum(map(len, parts[0][0]))
            while outbox.waiting and size < _BATCH_BYTES and outbox.waiting[0][1] == parts[0][1]:
                parts.append(outbox.waiting.popleft())
                size += sum(map(len, parts[-1][0]))
            messages = [message for some, _, _ in parts for message in some]
            try:
                stored = await self._store(outbox, Batch.of(messages), parts[0][1])
            except Exception as error:
                # What became of them is not known, so it is asked before the next ones are sent.
                outbox.sequence = None
                for _, _, answer in parts:
                    answer.fail(error)
                continue
            number = None if stored.again or parts[0][1] else stored.number
            for some, _, answer in parts:
                answer.resolve(number)
                number = None if number is None else number + len(some)
        outbox.sending = False

    async def _store(self, outbox: _Outbox, batch: Batch, due: int) -> work.RecordsStored:
        writer = self.writer_id.bytes
        for is_last in (False, True):
            id = await self._id_of(outbox.topic)
            try:
                if outbox.sequence is None:
                    known = await self._ask(wire.LevelFound, wire.GetLevel, id, writer)
                    outbox.sequence = known.level if known.known else 0
                stored = await self._ask(work.RecordsStored, work.StoreRecords, id, writer, outbox.sequence, due, batch)
            except Refused as error:
                self._ids.pop(outbox.topic, None)
                outbox.sequence = None
                if error.reason != "NoSuchSegment" or is_last:
                    raise
            else:
                outbox.sequence += batch.count
                return stored
        raise AssertionError("the second try ends it")

    # -- subscribing ---------------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, *, group: str = "", start: Start = "earliest", prefetch: int = PREFETCH) -> S:
        """Return the messages of a topic to iterate over, as they come.

        With a `group`, as one of its members: each message goes to one member, and is to be acknowledged with its
        ``ack`` or given back with its ``nack``. Without one, all of them. `start` is where to begin: earliest, latest
        or, without a group, an offset; a group that is there goes on where it was. `prefetch` is how many messages
        are asked for at once. The iteration ends when the topic is sealed and all of it was read.
        """
        if group and isinstance(start, int):
            raise ValueError("a group begins at 'earliest' or 'latest', and then goes on where it was")
        if start not in ("earliest", "latest") and not isinstance(start, int):
            raise ValueError(f"start is 'earliest', 'latest' or an offset, not {start!r}")
        subscription = self._subscription_type(self, topic, group, start, prefetch)
        self._subscriptions.append(subscription)
        return subscription

    @command
    async def ack_all(self, records: Iterable[RecordBase]) -> None:
        """Acknowledge several records, with one request for each group. Returns when that is on disk."""
        numbers: dict[_Place, list[int]] = {}
        for record in records:
            numbers.setdefault(record._place, []).append(record.offset)
        for place, some in numbers.items():
            if not place.group:
                raise ValueError("only what a reader group delivers is acknowledged: subscribe with group=NAME")
            await self._ask(work.RecordsSettled, work.AcknowledgeRecords, place.segment, place.group, tuple(some))

    async def _settle(self, place: _Place, number: int, make: Callable[..., Any], *more: object) -> None:
        await self._ask(work.RecordsSettled, make, place.segment, place.group, (number,), *more)
