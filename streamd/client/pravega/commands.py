"""Pravega's client: makes segments, and hands out readers and writers."""

from __future__ import annotations

from typing import Generic, TypeVar, Unpack

from streamd.client.core.commands import Connected, command
from streamd.client.errors import Refused
from streamd.client.pravega.reader import EventFeed
from streamd.client.pravega.session import READ_BYTES, PravegaSession, read_reply
from streamd.client.pravega.writer import WriterCommands, WriterOptions
from streamd.wire.pravega import CreateSegment, KeepAlive
from streamd.wire.pravega_client import Reply, SegmentCreated, SegmentExists, SegmentRead, name_of

Reader = TypeVar("Reader", bound=EventFeed)
Writer = TypeVar("Writer", bound=WriterCommands)


class PravegaCommands(Connected[PravegaSession], Generic[Reader, Writer]):
    """Makes segments, reads bytes of them, and hands out readers and writers of events."""

    _reader_type: type[Reader]
    _writer_type: type[Writer]

    def _make_session(self) -> PravegaSession:
        return PravegaSession(self._target)

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
