"""Segments and records for tools: segments, records by number in columns, hidden segments and their publication.

These are messages of streamd's own on Pravega's port. They name a segment by its id, so a tool never meets another
segment that was given the name meanwhile.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from streamd.batch import Batch
from streamd.client.core.commands import ConnectedCommands, Feed, command, stream
from streamd.client.core.connection import MakeDriver
from streamd.client.core.session import Answer, OrderedSession
from streamd.client.errors import ClientError, Refused
from streamd.client.target import Target
from streamd.wire import WireError, work
from streamd.wire import tools as wire
from streamd.wire.client.tools import StorageReplies, request_bytes
from streamd.wire.tools import Code, LevelChange, Part, Reply, Request, Run, SegmentInfo
from streamd.wire.work import GroupInfo

R = TypeVar("R", bound=Reply)

READ_BYTES: Final = 2 << 20
"""How much of a segment is asked for at once."""

_NUMBER_END: Final = (1 << 63) - 1
_APPEND_BYTES: Final = 2 << 20


class StorageRefused(Refused):
    """The daemon refused a request for tools. `reason` is its word for it, in the spelling of the documentation."""

    def __init__(self, code: int, text: str, number: int = 0, offset: int = 0) -> None:
        name = Code(code).name if code in set(Code) else f"CODE_{code}"
        reason = name.title().replace("_", "")
        super().__init__(reason, f"{reason}: {text}")
        self.number = number
        """Where records are truncated, the first retained one; where an ack level does not fit, the stored one."""
        self.offset = offset
        """Where records are truncated, the offset of the first retained one."""
        self._given = (code, text, number, offset)

    def __reduce__(self) -> tuple[Any, ...]:
        # The error crosses process borders, and is made there as it was made here.
        return type(self), self._given


class StorageTruncated(StorageRefused):
    """Records to be read are gone; `number` is the first retained one."""


class ToolsSession(OrderedSession[Reply]):
    """A connection that speaks the messages for tools."""

    def __init__(self, target: Target) -> None:
        super().__init__(StorageReplies(target.reply_bytes_max), target)
        self._next_id = 0

    def request(self, kind: type[R], make: Callable[..., Request], *values: object) -> Answer[R]:
        """Send a request. The answer is a reply of this kind, or StorageRefused."""
        self._next_id += 1
        id = self._next_id

        def meaning(replies: list[Reply]) -> R:
            (reply,) = replies
            if reply.id != id:
                raise WireError(f"the answer to request {reply.id} where that to {id} is due")
            if isinstance(reply, wire.Refusal):
                refused = StorageTruncated if reply.code == Code.RECORDS_TRUNCATED else StorageRefused
                raise refused(reply.code, reply.text, reply.number, reply.offset)
            if not isinstance(reply, kind):
                raise WireError(f"{type(reply).__name__} in place of {kind.__name__}")
            return reply

        return self.ask(request_bytes(make(id, *values)), 1, meaning)


class RunFeed(Feed[Run]):
    """The runs of a range of records. The next piece is asked for while the caller works on this one."""

    def __init__(self, tools: StorageCommands, segment: int, first: int, end: int | None, bytes_max: int) -> None:
        self._tools = tools
        self._segment = segment
        self._number = first
        self._end = end
        self._bytes_max = bytes_max
        self._asked: Answer[wire.RecordsRead] | None = None
        self._unread: deque[Run] = deque()

    async def _fill(self) -> bool:
        if self._end is not None and self._number >= self._end:
            return False
        if self._asked is None:
            self._asked = self._begin()
        read = await self._asked
        self._asked = None
        if self._end is None:
            self._end = read.number
        if not read.runs and self._number < self._end:
            raise ClientError(f"segment {self._segment} has records up to {read.number}, not up to {self._end}")
        if read.runs:
            if read.runs[0].number != self._number:
                raise ClientError(f"segment {self._segment}: record {read.runs[0].number} in place of {self._number}")
            self._number = read.runs[-1].number + read.runs[-1].batch.count
            if self._number < self._end:
                self._asked = self._begin()
        self._unread.extend(read.runs)
        return bool(read.runs)

    def _begin(self) -> Answer[wire.RecordsRead]:
        left = _NUMBER_END if self._end is None else self._end - self._number
        place = (self._segment, self._number, left, self._bytes_max)
        return self._tools._request(wire.RecordsRead, wire.ReadRecords, *place)


class StorageCommands(ConnectedCommands[ToolsSession]):
    """Looks at segments, reads records in columns, and publishes what was written to hidden segments."""

    _session_type = ToolsSession

    def __init__(self, target: Target, make_driver: MakeDriver) -> None:
        super().__init__(target, make_driver)
        self._appended: deque[Answer[wire.RecordsAppended]] = deque()

    def _request(self, kind: type[R], make: Callable[..., Request], *values: object) -> Answer[R]:
        return self._session.request(kind, make, *values)

    # -- segments ------------------------------------------------------------------------------------------------------

    @command
    async def segments(self, pattern: str = "*") -> list[SegmentInfo]:
        """Return all segments whose name fits a shell pattern, in the order of their creation, but for hidden ones."""
        segments: list[SegmentInfo] = []
        after = 0
        while True:
            page = await self._request(wire.Segments, wire.ListSegments, pattern, after)
            segments += page.segments
            if not page.after:
                return segments
            after = page.after

    @command
    async def named(self, names: Sequence[str]) -> list[SegmentInfo]:
        """Return the segments of these names, as far as there are any."""
        return list((await self._request(wire.Segments, wire.NameSegments, tuple(names))).segments)

    @command
    async def segment(self, which: str | int) -> SegmentInfo:
        """Return one segment, by its name or its id; refused with ``NoSuchSegment``."""
        if isinstance(which, int):
            return (await self._request(wire.Segments, wire.DescribeSegment, which)).segments[0]
        segments = (await self._request(wire.Segments, wire.NameSegments, (which,))).segments
        if not segments:
            raise StorageRefused(Code.NO_SUCH_SEGMENT, which)
        return segments[0]

    @command
    async def create(self, name: str, *, exists_ok: bool = False) -> SegmentInfo:
        """Make a segment; with `exists_ok`, take the one that is there."""
        existing = wire.Existing.TAKEN if exists_ok else wire.Existing.REFUSED
        return (await self._request(wire.Segments, wire.MakeSegment, name, False, existing)).segments[0]

    @command
    async def create_all(self, names: Sequence[str]) -> list[SegmentInfo]:
        """Make segments, or take those that are there; all requests are on their way at once."""
        asked = [self._request(wire.Segments, wire.MakeSegment, name, False, wire.Existing.TAKEN) for name in names]
        return [(await answer).segments[0] for answer in asked]

    # -- records -------------------------------------------------------------------------------------------------------

    @stream
    def read(self, segment: int, first: int, end: int | None = None, *, bytes_max: int = READ_BYTES) -> Feed[Run]:
        """Read records `first` to `end` (not included; None: all there are now), about `bytes_max` of them at a time.

        StorageTruncated where they are gone, Refused where the segment is, ClientError where there are not so many.
        The next piece is on its way while the caller works on this one.
        """
        return RunFeed(self, segment, first, end, bytes_max)

    @command
    async def number_at(self, segment: int, timestamp: int) -> int:
        """Return the number of the first retained record of this time (microseconds since 1970) or later.

        Where there is none, the number that the next record gets.
        """
        return (await self._request(wire.RecordFound, wire.FindRecord, segment, wire.By.TIMESTAMP, timestamp)).number

    @command
    async def offset_of(self, segment: int, number: int) -> int:
        """Return the offset where a record begins."""
        return (await self._request(wire.RecordFound, wire.FindRecord, segment, wire.By.NUMBER, number)).offset

    @command
    async def number_of(self, segment: int, offset: int) -> int:
        """Return the number of the record that holds this offset."""
        return (await self._request(wire.RecordFound, wire.FindRecord, segment, wire.By.OFFSET, offset)).number

    @command
    async def split_points(self, segment: int, first: int, end: int, parts: int) -> list[int]:
        """Return record numbers between `first` and `end` that make up to `parts` ranges of about the same size."""
        return list((await self._request(wire.SplitPoints, wire.SplitRecords, segment, first, end, parts)).numbers)

    # -- hidden segments -----------------------------------------------------------------------------------------------

    @command
    async def create_hidden(self, name: str, *, replace: bool = False) -> int:
        """Make a hidden segment and return its id; with `replace`, an empty one in place of the one that is there."""
        existing = wire.Existing.REPLACED if replace else wire.Existing.REFUSED
        return (await self._request(wire.Segments, wire.MakeSegment, name, True, existing)).segments[0].id

    @command
    async def create_hidden_all(self, names: Sequence[str]) -> list[int]:
        """Make empty hidden segments, in place of those that are there; all requests are on their way at once."""
        asked = [self._request(wire.Segments, wire.MakeSegment, name, True, wire.Existing.REPLACED) for name in names]
        return [(await answer).segments[0].id for answer in asked]

    @command
    async def append(self, hidden: int, number: int, batch: Batch) -> int:
        """Append to a hidden segment that has `number` records. Returns how many it has then.

        The client waits only where too much is on its way; after `flush` all is on disk.
        """
        for piece in _pieces(batch):
            self._appended.append(self._request(wire.RecordsAppended, wire.AppendRecords, hidden, number, piece))
            number += piece.count
            while self._appended and self._session.is_full:
                await self._appended.popleft()
        return number

    @command
    async def flush(self) -> None:
        """Wait until all that was appended is on disk."""
        while self._appended:
            await self._appended.popleft()

    @command
    async def publish(self, parts: Iterable[Part], levels: Iterable[LevelChange] = ()) -> bool:
        """Make hidden segments part of their targets and raise ack levels, all of it or nothing.

        Returns False where the levels were stored before: then nothing is done.
        """
        published = await self._request(wire.SegmentsPublished, wire.PublishSegments, tuple(parts), tuple(levels))
        return not published.again

    @command
    async def delete_hidden(self, hidden: Iterable[int]) -> int:
        """Delete hidden segments, as far as they are there; returns how many were."""
        return (await self._request(wire.HiddenDeleted, wire.DeleteHidden, tuple(hidden))).count

    # -- groups and levels ---------------------------------------------------------------------------------------------

    @command
    async def group(self, segment: int, group: str) -> int | None:
        """Return the position of a reader group; None where there is none."""
        stored = await self._request(wire.GroupPosition, wire.GetGroup, segment, group)
        return stored.position if stored.known else None

    @command
    async def set_group(self, segment: int, group: str, position: int) -> int:
        """Put a reader group at a position, and return it: never below the first retained record."""
        return (await self._request(wire.GroupPosition, wire.SetGroup, segment, group, position)).position

    @command
    async def groups(self, pattern: str = "*") -> list[GroupInfo]:
        """Return the reader groups of all topics whose name fits a shell pattern."""
        groups: list[GroupInfo] = []
        after = 0
        while True:
            page = await self._request(work.GroupList, work.ListGroups, pattern, after)
            groups += page.groups
            if not page.after:
                return groups
            after = page.after

    @command
    async def move_group(self, segment: int, group: str, position: int, *, force: bool = False) -> int:
        """Put a reader group at a position, also for its readers; ``GroupBusy`` while there are any, unless `force`."""
        return (await self._request(wire.GroupPosition, work.MoveGroup, segment, group, position, force)).position

    @command
    async def drop_group(self, segment: int, group: str, *, force: bool = False) -> None:
        """Forget a reader group; ``GroupBusy`` while somebody reads in it, unless `force`."""
        await self._request(work.Done, work.DropGroup, segment, group, force)

    @command
    async def set_group_rule(self, segment: int, group: str, rule: str) -> None:
        """Set a reader group's rule, as JSON: ``deliveries_max``, ``retry_seconds``, ``dead_letter``. Empty: none."""
        await self._request(work.Done, work.SetGroupRule, segment, group, rule)

    @command
    async def take(
        self,
        segment: int,
        group: str,
        *,
        records_max: int = 1000,
        bytes_max: int = READ_BYTES,
        seconds: float = 0.0,
        latest: bool = False,
    ) -> work.RecordsTaken:
        """Take records as a member of a reader group, which this connection becomes; wait so long for the first."""
        limits = (latest, records_max, bytes_max, int(1000 * seconds))
        return await self._request(work.RecordsTaken, work.TakeRecords, segment, group, *limits)

    @command
    async def acknowledge(self, segment: int, group: str, numbers: Iterable[int]) -> tuple[int, ...]:
        """Acknowledge records that were taken; returns those that nobody had."""
        settled = await self._request(work.RecordsSettled, work.AcknowledgeRecords, segment, group, tuple(numbers))
        return settled.unknown

    @command
    async def refuse(
        self, segment: int, group: str, numbers: Iterable[int], *, delay: float | None = None, error: str = ""
    ) -> tuple[int, ...]:
        """Give records back, to be delivered again after `delay` seconds, or when the rule says so."""
        milliseconds = -1 if delay is None else int(1000 * delay)
        place = (segment, group, tuple(numbers), milliseconds, error)
        return (await self._request(work.RecordsSettled, work.RefuseRecords, *place)).unknown

    @command
    async def leave(self, segment: int, group: str) -> None:
        """Be no member of a reader group any more. What was taken and not acknowledged goes to others."""
        await self._request(work.Done, work.LeaveGroup, segment, group)

    # -- topics --------------------------------------------------------------------------------------------------------

    @command
    async def store(
        self, segment: int, batch: Batch, *, writer: bytes = work.NO_WRITER, sequence: int = 0, due: int = 0
    ) -> work.RecordsStored:
        """Append records to a topic. With a writer, those below its level are not stored again."""
        return await self._request(work.RecordsStored, work.StoreRecords, segment, writer, sequence, due, batch)

    @command
    async def describe(self, segment: int) -> dict[str, Any]:
        """Return how many writers a topic knows, and its rule of retention."""
        known: dict[str, Any] = json.loads((await self._request(work.TopicDescribed, work.DescribeTopic, segment)).text)
        return known

    @command
    async def seal(self, segment: int) -> None:
        """Let a topic take no more records."""
        await self._request(work.Done, work.SealTopic, segment)

    @command
    async def delete(self, segment: int) -> None:
        """Delete a topic with all that belongs to it."""
        await self._request(work.Done, work.DeleteTopic, segment)

    @command
    async def truncate(self, segment: int, number: int) -> None:
        """Drop the records of a topic below a number."""
        await self._request(work.Done, work.TruncateTopic, segment, number)

    @command
    async def level(self, segment: int, writer: bytes) -> int | None:
        """Return a writer's ack level; None where it never wrote."""
        stored = await self._request(wire.LevelFound, wire.GetLevel, segment, writer)
        return stored.level if stored.known else None


def _pieces(batch: Batch) -> Iterator[Batch]:
    """Yield the batch as batches that a request has room for."""
    if batch.size <= _APPEND_BYTES and batch.count <= wire.RECORDS_MAX:
        yield batch
        return
    for part in batch.split(_APPEND_BYTES):
        for first in range(0, part.count, wire.RECORDS_MAX):
            yield part.part(first, first + wire.RECORDS_MAX)
