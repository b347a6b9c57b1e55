"""Pravega's client: makes segments, reads their events, and hands out writers."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar, Unpack

from streamd.client.core.commands import Commands, ConnectedCommands, Feed, command
from streamd.client.core.session import Answer, broken
from streamd.client.errors import Refused
from streamd.client.pravega.session import READ_BYTES, PravegaSession, read_reply
from streamd.client.pravega.writer import WriterCommands, WriterOptions
from streamd.wire import WireError
from streamd.wire.client.pravega import Reply, SegmentCreated, SegmentExists, SegmentRead, name_of, whole_events
from streamd.wire.pravega.documented import HEADER, CreateSegment, KeepAlive


class EventFeed(Feed[bytes]):
    """The events of a segment. The next piece of the segment is asked for while the caller works on this one."""

    def __init__(self, client: ConnectedCommands[PravegaSession], segment: str, offset: int, wait: bool) -> None:
        self._client: Commands = client
        self._session = client._session
        self._name = name_of(segment)
        self._wait = wait
        self._end = offset
        self._rest = b""
        self._asked: Answer[Reply] | None = None
        self._at_tail = False
        self._unread_bytes = 0
        self._unread: deque[bytes] = deque()

    @property
    def offset(self) -> int:
        """Where the next event begins: a reader that begins there goes on where this one is."""
        return self._end - len(self._rest) - self._unread_bytes

    def _take(self) -> bytes | None:
        if not self._unread:
            return None
        event = self._unread.popleft()
        self._unread_bytes -= HEADER.size + len(event)
        return event

    async def _fill(self) -> bool:
        while not self._unread:
            if self._at_tail and not self._wait:
                # The next time the reader is asked it looks for what there is then.
                self._at_tail = False
                return False
            if self._asked is None:
                self._asked = self._session.read(self._name, self._end)
            reply = await self._asked
            self._asked = None
            if self._is_last(read_reply(reply)):
                return False
        return True

    def _is_last(self, piece: SegmentRead) -> bool:
        """Add the events of a piece. Returns whether it was the end of the segment."""
        self._end += len(piece.data)
        try:
            events, used = whole_events(self._rest + piece.data, self._session.event_bytes_max)
        except WireError as error:
            raise broken(error)
        self._rest = (self._rest + piece.data)[used:]
        self._unread_bytes += used
        self._unread.extend(events)
        self._at_tail = piece.at_tail
        if not piece.at_tail:
            self._asked = self._session.read(self._name, self._end)
        return piece.at_end and not events


Reader = TypeVar("Reader", bound=EventFeed)
Writer = TypeVar("Writer", bound=WriterCommands)


class PravegaCommands(ConnectedCommands[PravegaSession], Generic[Reader, Writer]):
    """Makes segments, reads bytes of them, and hands out readers and writers of events."""

    _session_type = PravegaSession
    _reader_type: type[Reader]
    _writer_type: type[Writer]

    @command
    async def create(self, segment: str) -> None:
        """Make a segment; Refused with ``SegmentAlreadyExists`` where there is one."""
        name = name_of(segment)

        def accepts(reply: Reply) -> bool:
            return isinstance(reply, (SegmentCreated, SegmentExists)) and reply.name.raw == name.raw

        if isinstance(await self._session.ask(CreateSegment(name), accepts), SegmentExists):
            raise Refused("SegmentAlreadyExists", f"SegmentAlreadyExists: {segment}")

    @command
    async def ping(self) -> None:
        """Ask whether the daemon is there."""
        await self._session.ask(KeepAlive(b""), lambda reply: isinstance(reply, KeepAlive))

    @command
    async def read(self, segment: str, offset: int, length: int = READ_BYTES) -> SegmentRead:
        """Read bytes of a segment from this offset on, at most so many. At the end the daemon waits some seconds.

        The result says whether it reaches the tail, and whether more can ever come.
        """
        return read_reply(await self._session.read(name_of(segment), offset, length))

    def reader(self, segment: str, offset: int = 0, *, wait: bool = True) -> Reader:
        """Return a reader of the events of a segment from this offset on, where one must begin.

        At the end the reader waits for more, until the segment is sealed; with ``wait=False`` it stops there. (A
        segment that has nothing at this offset is waited for all the same, for as long as the daemon does: 10 s, if
        not set.)
        """
        return self._reader_type(self, segment, offset, wait)

    def writer(self, segment: str, **options: Unpack[WriterOptions]) -> Writer:
        """Return a writer that appends each event to a segment exactly once, also over restarts of the daemon."""
        return self._writer_type(self._target, self._make_driver, segment, **options)
