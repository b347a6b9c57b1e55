"""Segments and records for tools: segments, records by number in columns, hidden segments and their publication.

These are messages of streamd's own on Pravega's port. They name a segment by its id, so a tool never meets another
segment that was given the name meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from streamd.batch import Batch
from streamd.client.core.commands import ConnectedCommands, Feed, command, stream
from streamd.client.core.connection import MakeDriver
from streamd.client.core.session import Answer, OrderedSession
from streamd.client.errors import ClientError, Refused
from streamd.client.target import Target
from streamd.wire import WireError
from streamd.wire import tools as wire
from streamd.wire.client.tools import StorageReplies, request_bytes
from streamd.wire.tools import Code, LevelChange, Part, Reply, Request, Run, SegmentInfo

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


class StorageCommands(ConnectedCommands[OrderedSession[Reply]]):
    """Looks at segments, reads records in columns, and publishes what was written to hidden segments."""

    def __init__(self, target: Target, make_driver: MakeDriver) -> None:
        super().__init__(target, make_driver)
        self._next_id = 0
        self._appended: deque[Answer[wire.RecordsAppended]] = deque()

    def _make_session(self) -> OrderedSession[Reply]:
        return OrderedSession(StorageReplies(self._target.reply_bytes_max), self._target)

    def _request(self, kind: type[R], make: Callable[..., Request], *values: object) -> Answer[R]:
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

        return self._session.ask(request_bytes(make(id, *values)), 1, meaning)

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
