"""Segments and records for tools: what there is, records by number in columns, hidden segments and their publication.

These are messages of streamd's own on Pravega's port. Segments are named by their ids: whoever holds one never meets
another segment that was given the name meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from streamd.batch import Batch
from streamd.client.errors import ClientError, Refused
from streamd.client.session import Answer, OrderedSession, Steps
from streamd.wire import WireError
from streamd.wire.storage import (
    RECORDS_MAX,
    AppendRecords,
    By,
    Code,
    DeleteHidden,
    DescribeSegment,
    Existing,
    FindRecord,
    GetGroup,
    GetLevel,
    GroupPosition,
    HiddenDeleted,
    LevelChange,
    LevelFound,
    ListSegments,
    MakeSegment,
    NameSegments,
    Part,
    PublishSegments,
    ReadRecords,
    RecordFound,
    RecordsAppended,
    RecordsRead,
    Refusal,
    Reply,
    Request,
    Run,
    SegmentInfo,
    Segments,
    SegmentsPublished,
    SetGroup,
    SplitPoints,
    SplitRecords,
)
from streamd.wire.storage_client import StorageReplies, request_bytes

R = TypeVar("R", bound=Reply)

READ_BYTES: Final = 2 << 20
"""How much is asked for at once."""

_NUMBER_END: Final = (1 << 63) - 1
_APPEND_BYTES: Final = 2 << 20


class StorageRefused(Refused):
    """The daemon said no. `reason` is its word for it, in the spelling of the documentation."""

    def __init__(self, code: int, text: str, number: int = 0, offset: int = 0) -> None:
        name = Code(code).name if code in set(Code) else f"CODE_{code}"
        reason = name.title().replace("_", "")
        super().__init__(reason, f"{reason}: {text}")
        self.number = number
        """Where records are truncated, the first retained one; where an ack level does not fit, the stored one."""
        self.offset = offset
        """And the offset of that record."""
        self._given = (code, text, number, offset)

    def __reduce__(self) -> tuple[Any, ...]:
        # It crosses process borders, and is made there as it was made here.
        return type(self), self._given


class StorageTruncated(StorageRefused):
    """What was to be read is gone; record `number` is the first that is there."""


class StorageSession(OrderedSession[Reply]):
    """One connection."""

    def __init__(self, reply_bytes_max: int) -> None:
        super().__init__(StorageReplies(reply_bytes_max))
        self._next_id = 0
        self._appended: deque[Answer[RecordsAppended]] = deque()

    def _request(self, kind: type[R], make: Callable[..., Request], *values: object) -> Answer[R]:
        """Ask, and do not wait; the answer is of this kind, or StorageRefused."""
        self._next_id += 1
        id = self._next_id

        def meaning(replies: list[Reply]) -> R:
            (reply,) = replies
            if reply.id != id:
                raise WireError(f"the answer to request {reply.id} where that to {id} is due")
            if isinstance(reply, Refusal):
                refused = StorageTruncated if reply.code == Code.RECORDS_TRUNCATED else StorageRefused
                raise refused(reply.code, reply.text, reply.number, reply.offset)
            if not isinstance(reply, kind):
                raise WireError(f"{type(reply).__name__} in place of {kind.__name__}")
            return reply

        return self._ask(request_bytes(make(id, *values)), 1, meaning)

    # -- what there is -------------------------------------------------------------------------------------------------

    def segments(self, pattern: str = "*") -> Steps[list[SegmentInfo]]:
        """All segments whose name fits a shell pattern, in the order of their creation. Hidden ones are not listed."""
        found: list[SegmentInfo] = []
        after = 0
        while True:
            page = yield from self._request(Segments, ListSegments, pattern, after)
            found += page.segments
            if not page.after:
                return found
            after = page.after

    def named(self, names: Sequence[str]) -> Steps[list[SegmentInfo]]:
        """The segments of these names, as far as there are any."""
        return list((yield from self._request(Segments, NameSegments, tuple(names))).segments)

    def segment(self, which: str | int) -> Steps[SegmentInfo]:
        """One segment, by its name or its id; refused with ``NoSuchSegment``."""
        if isinstance(which, int):
            return (yield from self._request(Segments, DescribeSegment, which)).segments[0]
        found = yield from self.named([which])
        if not found:
            raise StorageRefused(Code.NO_SUCH_SEGMENT, which)
        return found[0]

    # -- records -------------------------------------------------------------------------------------------------------

    def begin_read(self, segment: int, number: int, records_max: int, bytes_max: int) -> Answer[RecordsRead]:
        """Ask for records from this number on, and do not wait."""
        return self._request(RecordsRead, ReadRecords, segment, number, records_max, bytes_max)

    def number_at(self, segment: int, timestamp: int) -> Steps[int]:
        """The first retained record of this time (microseconds since 1970) or later; the next number where none is."""
        return (yield from self._request(RecordFound, FindRecord, segment, By.TIMESTAMP, timestamp)).number

    def offset_of(self, segment: int, number: int) -> Steps[int]:
        """The offset where a record begins."""
        return (yield from self._request(RecordFound, FindRecord, segment, By.NUMBER, number)).offset

    def number_of(self, segment: int, offset: int) -> Steps[int]:
        """The record that holds this offset."""
        return (yield from self._request(RecordFound, FindRecord, segment, By.OFFSET, offset)).number

    def split_points(self, segment: int, first: int, end: int, parts: int) -> Steps[list[int]]:
        """Record numbers between `first` and `end` that make up to `parts` ranges of about the same size in bytes."""
        return list((yield from self._request(SplitPoints, SplitRecords, segment, first, end, parts)).numbers)

    # -- segments ------------------------------------------------------------------------------------------------------

    def create(self, name: str, *, exists_ok: bool = False) -> Steps[SegmentInfo]:
        """Make a segment; with `exists_ok`, take the one that is there."""
        existing = Existing.TAKEN if exists_ok else Existing.REFUSED
        return (yield from self._request(Segments, MakeSegment, name, False, existing)).segments[0]

    def create_hidden(self, name: str, *, replace: bool = False) -> Steps[int]:
        """Make a hidden segment, and tell its id; with `replace`, an empty one in place of the one that is there."""
        existing = Existing.REPLACED if replace else Existing.REFUSED
        return (yield from self._request(Segments, MakeSegment, name, True, existing)).segments[0].id

    def append(self, hidden: int, number: int, batch: Batch) -> Steps[int]:
        """Append to a hidden segment that has `number` records. Returns how many it has then.

        It waits only where too much is on its way; after `flush` all is on disk.
        """
        for piece in _pieces(batch):
            self._appended.append(self._request(RecordsAppended, AppendRecords, hidden, number, piece))
            number += piece.count
            while self._appended and self._asked_bytes >= self.pipelined_bytes_max:
                yield from self._appended.popleft()
        return number

    def flush(self) -> Steps[None]:
        """Wait until all that was appended is on disk."""
        while self._appended:
            yield from self._appended.popleft()

    def publish(self, parts: Iterable[Part], levels: Iterable[LevelChange] = ()) -> Steps[bool]:
        """Make hidden segments part of their targets and raise ack levels, all of it or nothing.

        False where the levels were stored before: then nothing is done.
        """
        published = yield from self._request(SegmentsPublished, PublishSegments, tuple(parts), tuple(levels))
        return not published.again

    def delete_hidden(self, hidden: Iterable[int]) -> Steps[int]:
        """Delete hidden segments, as far as they are there; returns how many were."""
        return (yield from self._request(HiddenDeleted, DeleteHidden, tuple(hidden))).count

    # -- groups and levels ---------------------------------------------------------------------------------------------

    def group(self, segment: int, group: str) -> Steps[int | None]:
        """Where a reader group stands; None where there is none."""
        found = yield from self._request(GroupPosition, GetGroup, segment, group)
        return found.position if found.known else None

    def set_group(self, segment: int, group: str, position: int) -> Steps[int]:
        """Put a reader group at a position, and return it: never below the first retained record."""
        return (yield from self._request(GroupPosition, SetGroup, segment, group, position)).position

    def level(self, segment: int, writer: bytes) -> Steps[int | None]:
        """A writer's ack level; None where it never wrote."""
        found = yield from self._request(LevelFound, GetLevel, segment, writer)
        return found.level if found.known else None


class Records:
    """What blocking and asynchronous readers share: the runs of a range, asked for one piece ahead."""

    def __init__(
        self, session: StorageSession, segment: int, first: int, end: int | None, bytes_max: int = READ_BYTES
    ) -> None:
        self._session = session
        self._segment = segment
        self._number = first
        self._end = end
        self._bytes_max = bytes_max
        self._asked: Answer[RecordsRead] | None = None

    def _some(self) -> Steps[tuple[Run, ...]]:
        """The next runs; none at the end."""
        if self._end is not None and self._number >= self._end:
            return ()
        if self._asked is None:
            self._asked = self._begin()
        read = yield from self._asked
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
        return read.runs

    def _begin(self) -> Answer[RecordsRead]:
        left = _NUMBER_END if self._end is None else self._end - self._number
        return self._session.begin_read(self._segment, self._number, left, self._bytes_max)


def _pieces(batch: Batch) -> Iterator[Batch]:
    """The batch as batches that a message has room for."""
    if batch.size <= _APPEND_BYTES and batch.count <= RECORDS_MAX:
        yield batch
        return
    for part in batch.split(_APPEND_BYTES):
        for first in range(0, part.count, RECORDS_MAX):
            yield part.part(first, first + RECORDS_MAX)
