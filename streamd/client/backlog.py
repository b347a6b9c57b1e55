"""What a Pravega writer keeps until the daemon has acknowledged it, and how it goes on after a lost connection.

A writer is 16 bytes of its own. The daemon keeps its ack level: how many bytes of this writer it has stored. Whatever
happens to the connection, the level tells which events are to be sent again, and which are not: each is stored once.
"""

from __future__ import annotations

import random
from collections import deque
from itertools import islice
from typing import Any, Final, TypedDict
from uuid import UUID, uuid4

from streamd.batch import Batch
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken
from streamd.client.pravega import PravegaSession, refused
from streamd.client.session import Answer, Steps, closed
from streamd.client.target import Target
from streamd.wire.pravega import BLOCK_BYTES_MAX, AppendBlock, Name, SetupAppend
from streamd.wire.pravega_client import (
    AppendSetup,
    DataAppended,
    NoSuchSegment,
    Reply,
    SegmentIsSealed,
    name_of,
    request_bytes,
)

UNACKNOWLEDGED_BYTES_MAX: Final = 8 << 20
RECONNECT_SECONDS_MAX: Final = 60.0


class WriterOptions(TypedDict, total=False):
    """What a writer takes beside its segment, by name."""

    writer_id: UUID
    """Who it is: a new one where nothing is said. As an earlier writer it goes on where that was acknowledged last."""
    replay: bool
    """Whether it is given the same events again, from its first one on: those that are stored are skipped."""
    unacknowledged_bytes_max: int
    """How much is kept that is not acknowledged, 8 MiB where nothing is said. The writer waits when it is more."""
    reconnect_seconds_max: float
    """How long it tries to connect again while nothing is stored, 60 s where nothing is said."""


# What a block costs beside its bytes: a million events of one byte each are not a megabyte.
_BLOCK_BYTES: Final = 512
_DELAY_SECONDS_FIRST: Final = 0.05
_DELAY_SECONDS_MAX: Final = 2.0


class Backlog:
    """The blocks of one writer that are written and not acknowledged."""

    def __init__(self, writer: UUID, *, replay: bool) -> None:
        self.writer = writer
        self.acknowledged = 0
        """How many bytes of this writer are stored: its ack level, as far as we were told."""
        self.held_bytes = 0
        """What the blocks take in memory."""
        self._replay = replay
        self._written: int | None = 0 if replay else None
        self._blocks: deque[AppendBlock] = deque()

    @property
    def is_placed(self) -> bool:
        """Whether it is known where the next block begins."""
        return self._written is not None

    @property
    def end(self) -> int:
        """Where the next block begins."""
        return self._written or 0

    def add(self, events: list[bytes]) -> None:
        """Write a block; what of it is stored already is left out."""
        assert self._written is not None, "not placed yet"
        block = AppendBlock(self.writer.bytes, self._written, Batch.of(events))
        if block.end - block.offset > BLOCK_BYTES_MAX:
            raise ValueError(f"an event of {max(block.batch.lengths)} bytes is too large for a block")
        self._written = block.end
        self._blocks.append(block)
        self.held_bytes += _held(block)
        self.acknowledge(self.acknowledged)

    def resume(self, level: int) -> None:
        """A new connection, and the level it begins with."""
        if self._written is None:
            self._written = level
        if level < self.acknowledged:
            raise ClientError(
                f"the daemon has {level} bytes of this writer and had {self.acknowledged}: "
                "the segment was deleted and made again"
            )
        if level > self._written and not self._replay:
            raise ClientError(f"somebody else writes as {self.writer}: {level} bytes are stored, not {self._written}")
        self.acknowledge(level)

    def acknowledge(self, level: int) -> None:
        """All below is stored, and forgotten here."""
        self.acknowledged = max(self.acknowledged, level)
        while self._blocks and self._blocks[0].offset < level:
            block = self._blocks.popleft()
            self.held_bytes -= _held(block)
            if block.end <= level:
                continue
            rest = block.above(level)
            if rest is None:
                raise ClientError(
                    f"what is written differs from what is stored: no event of {self.writer} ends at {level}"
                )
            self._blocks.appendleft(rest)
            self.held_bytes += _held(rest)

    def following(self, offset: int) -> list[AppendBlock]:
        """The blocks from this offset on."""
        behind = 0
        for block in reversed(self._blocks):
            if block.offset < offset:
                break
            behind += 1
        return list(islice(self._blocks, len(self._blocks) - behind, None))


def _held(block: AppendBlock) -> int:
    return block.end - block.offset + _BLOCK_BYTES


class WriterSession(PravegaSession):
    """One connection of a writer. Its next one takes over the backlog."""

    def __init__(self, reply_bytes_max: int, segment: str, backlog: Backlog) -> None:
        super().__init__(reply_bytes_max)
        self._name: Name = name_of(segment)
        self._backlog = backlog
        self._sent = 0
        self._waiting: list[Answer[None]] = []

    @property
    def is_waiting(self) -> bool:
        return super().is_waiting or bool(self._waiting)

    def opening(self) -> Steps[None]:
        """Ask for the level; what is below it is not sent again."""
        name, writer = self._name, self._backlog.writer.bytes

        def accepts(reply: Reply) -> bool:
            if isinstance(reply, AppendSetup):
                return reply.writer == writer
            return isinstance(reply, (NoSuchSegment, SegmentIsSealed))

        reply = yield from self._ask(SetupAppend(writer, name), accepts)
        if not isinstance(reply, AppendSetup):
            raise refused(reply)
        self._backlog.resume(reply.level)
        self._sent = reply.level

    def settle(self, bytes_max: int) -> Steps[None]:
        """Send what was not sent on this connection, and wait until no more than this is not acknowledged."""
        for block in self._backlog.following(self._sent):
            self._send(request_bytes(block))
            self._sent = block.end
        while self._backlog.held_bytes > bytes_max:
            answer: Answer[None] = Answer()
            self._waiting.append(answer)
            yield from answer

    def _received(self, replies: list[Reply]) -> None:
        others: list[Reply] = []
        for reply in replies:
            if isinstance(reply, DataAppended) and reply.writer == self._backlog.writer.bytes:
                self._backlog.acknowledge(reply.level)
            elif isinstance(reply, (NoSuchSegment, SegmentIsSealed)) and not self._asked:
                # In place of an acknowledgement: nothing more can be written.
                self.lost(refused(reply))
                return
            else:
                others.append(reply)
        super()._received(others)
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer.resolve(None)

    def _abandoned(self) -> list[Answer[Any]]:
        waiting, self._waiting = self._waiting, []
        return [*super()._abandoned(), *waiting]


class Appender:
    """What blocking and asynchronous writers share."""

    def __init__(
        self,
        target: Target,
        segment: str,
        *,
        writer_id: UUID | None = None,
        replay: bool = False,
        unacknowledged_bytes_max: int = UNACKNOWLEDGED_BYTES_MAX,
        reconnect_seconds_max: float = RECONNECT_SECONDS_MAX,
    ) -> None:
        self._target = target
        self._segment = segment
        self._backlog = Backlog(writer_id or uuid4(), replay=replay)
        self._bytes_max = unacknowledged_bytes_max
        self._reconnect_seconds_max = reconnect_seconds_max
        self._closed = False

    @property
    def id(self) -> UUID:
        """Who it is. Keep it, and a later writer can go on from here."""
        return self._backlog.writer

    @property
    def acknowledged(self) -> int:
        """How many bytes of this writer are on disk: its ack level."""
        return self._backlog.acknowledged

    @property
    def written(self) -> int:
        """How many bytes this writer has written: its ack level when all of it is on disk."""
        return self._backlog.end

    def _new_session(self) -> WriterSession:
        return WriterSession(self._target.reply_bytes_max, self._segment, self._backlog)

    def _new_patience(self) -> Patience:
        if self._closed:
            raise closed()
        return Patience(self._reconnect_seconds_max, self._backlog)


class Patience:
    """When to connect again: soon, then later and later, and never when nothing was stored for too long."""

    def __init__(self, seconds_max: float, backlog: Backlog) -> None:
        self._seconds_max = seconds_max
        self._backlog = backlog
        self._level = backlog.acknowledged
        self._since: float | None = None
        self._delay = _DELAY_SECONDS_FIRST

    def delay(self, error: ConnectionLost, now: float) -> float:
        """How many seconds to wait; raises the error when it is time to give up, or when it is of no use."""
        if self._since is None or self._level != self._backlog.acknowledged:
            self._level, self._since, self._delay = self._backlog.acknowledged, now, _DELAY_SECONDS_FIRST
        if now - self._since > self._seconds_max or isinstance(error, ProtocolBroken):
            raise error
        delay = self._delay * random.uniform(0.5, 1.0)
        self._delay = min(2 * self._delay, _DELAY_SECONDS_MAX)
        return delay
