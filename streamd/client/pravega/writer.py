"""Writers of Pravega's segments: every event once, in order, over lost connections and restarts of the daemon.

A writer is 16 bytes of its own. The daemon keeps its ack level: how many bytes of this writer it has stored. Whatever
happens to the connection, the level tells which events are to be sent again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypedDict
from uuid import UUID, uuid4

from streamd.client.core.commands import Commands, command
from streamd.client.core.connection import MakeDriver
from streamd.client.core.reconnecting import RECONNECT_SECONDS_MAX, Reconnecting
from streamd.client.core.session import chunks
from streamd.client.pravega.backlog import Backlog
from streamd.client.pravega.session import PravegaSession, refused
from streamd.client.target import Target
from streamd.wire.client.pravega import (
    AppendSetup,
    DataAppended,
    NoSuchSegment,
    Reply,
    SegmentIsSealed,
    name_of,
    request_bytes,
)
from streamd.wire.pravega.documented import SetupAppend

UNACKNOWLEDGED_BYTES_MAX: Final = 8 << 20


class WriterOptions(TypedDict, total=False):
    """What a writer takes beside its segment, by name."""

    writer_id: UUID
    """Which writer it is, by default a new one. With the id of an earlier writer it goes on where that was."""
    replay: bool
    """Whether the writer is given the same events again, from its first one on: it skips those that are stored."""
    unacknowledged_bytes_max: int
    """How much is kept that is not acknowledged, by default 8 MiB. The writer waits when there is more."""
    reconnect_seconds_max: float
    """How long the writer tries to connect again while nothing is stored, by default 60 s."""


class WriterSession(PravegaSession):
    """A connection of a writer. The writer's next connection takes over the backlog."""

    def __init__(self, target: Target, segment: str, backlog: Backlog) -> None:
        super().__init__(target)
        self._name = name_of(segment)
        self._backlog = backlog
        self._sent = 0

    async def opening(self) -> None:
        """Ask for the ack level; what is below it is not sent again."""
        writer = self._backlog.writer.bytes

        def accepts(reply: Reply) -> bool:
            if isinstance(reply, AppendSetup):
                return reply.writer == writer
            return isinstance(reply, (NoSuchSegment, SegmentIsSealed))

        reply = await self.ask(SetupAppend(writer, self._name), accepts)
        if not isinstance(reply, AppendSetup):
            raise refused(reply)
        self._backlog.resume(reply.level)
        self._sent = reply.level

    async def settle(self, bytes_max: int) -> None:
        """Send what this connection has not sent yet, and wait until no more than this is not acknowledged."""
        for block in self._backlog.following(self._sent):
            self.send(request_bytes(block))
            self._sent = block.end
        await self.until(lambda: self._backlog.held_bytes <= bytes_max)

    def _received(self, replies: list[Reply]) -> None:
        others: list[Reply] = []
        for reply in replies:
            if isinstance(reply, DataAppended) and reply.writer == self._backlog.writer.bytes:
                self._backlog.acknowledge(reply.level)
            elif isinstance(reply, (NoSuchSegment, SegmentIsSealed)) and not self._asked:
                # In place of an acknowledgement: nothing more can be written.
                raise refused(reply)
            else:
                others.append(reply)
        super()._received(others)


class WriterCommands(Commands):
    """Appends events to a segment, on a connection of its own which is made again when it is lost.

    When the writer connects it learns how much of it is stored.
    """

    def __init__(
        self,
        target: Target,
        make_driver: MakeDriver,
        segment: str,
        *,
        writer_id: UUID | None = None,
        replay: bool = False,
        unacknowledged_bytes_max: int = UNACKNOWLEDGED_BYTES_MAX,
        reconnect_seconds_max: float = RECONNECT_SECONDS_MAX,
    ) -> None:
        super().__init__(target, make_driver)
        self._backlog = backlog = Backlog(writer_id or uuid4(), replay=replay)
        self._bytes_max = unacknowledged_bytes_max
        self._connections = Reconnecting(
            lambda: WriterSession(target, segment, backlog),
            target,
            make_driver(),
            reconnect_seconds_max,
            lambda: backlog.acknowledged,
        )

    @property
    def id(self) -> UUID:
        """Which writer it is. Keep the id, and a later writer can go on from here."""
        return self._backlog.writer

    @property
    def acknowledged(self) -> int:
        """How many bytes of this writer are on disk: its ack level."""
        return self._backlog.acknowledged

    @property
    def written(self) -> int:
        """How many bytes this writer has written: its ack level when all of it is on disk."""
        return self._backlog.end

    @command
    async def write(self, events: Iterable[bytes]) -> None:
        """Append events, in order. They are on their way when this returns, and on disk after `flush`.

        The writer waits only while too much is not acknowledged. A connection that is lost is made again, and what may
        be missing is sent again; ConnectionLost comes when nothing was stored for `reconnect_seconds_max`. What was
        taken from `events` is kept even then, and `flush` tries again; of an iterator, the rest can still be written.
        """
        if not self._backlog.is_placed:
            await self._open()
        for chunk in chunks(events):
            self._backlog.add(chunk)
            await self._settle(self._bytes_max)

    @command
    async def flush(self) -> None:
        """Wait until all that was written is on disk."""
        await self._settle(0)

    async def _open(self) -> None:
        await self._settle(self._bytes_max)

    async def _close(self) -> None:
        if not self._connections.is_closed:
            try:
                if self._backlog.held_bytes:
                    await self._settle(0)
            finally:
                await self._abort()

    async def _abort(self) -> None:
        await self._connections.close()

    async def _settle(self, bytes_max: int) -> None:
        await self._connections.carry_out(lambda session: session.settle(bytes_max))
