"""Pravega's port: the documented protocol, today's where a connection opens with Hello, and the messages for tools.

As documented: append blocks over a stream, stored exactly once by ack level, and reads by offset that wait at the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from weakref import proxy

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from streamd.access.permits import WRITE, NotAllowed
from streamd.connections.base import Reply
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.interfaces import RequestError
from streamd.protocols.pravega.names import check_no_table
from streamd.protocols.pravega.reading import READ_BYTES_MAX as READ_BYTES_MAX
from streamd.protocols.pravega.reading import TailReading
from streamd.protocols.pravega.today import Today
from streamd.protocols.pravega.tools import Storage
from streamd.protocols.pravega.writers import Writers
from streamd.settings import setting
from streamd.store import (
    LevelGap,
    NoSuchSegment,
    RecordsTruncated,
    Segment,
    SegmentExists,
    SegmentSealed,
)
from streamd.store.errors import level_of
from streamd.tables import fill
from streamd.wire.fields import Message
from streamd.wire.pravega import documented
from streamd.wire.pravega.appends import Append
from streamd.wire.pravega.documented import Name, Type
from streamd.wire.pravega.today import TodayMessage

# Writers that may share one connection.
_WRITERS_MAX: Final = 10_000


class PravegaProtocol(TailReading):
    """One connection: any number of writers, each set up for one segment, and any number of reads."""

    name = "pravega"

    def __init__(self, core: Core, settings: PravegaSettings) -> None:
        super().__init__(core, documented.PravegaCodec(core.limits.message_bytes_max), settings.tail_seconds_max)
        self._writers: dict[bytes, tuple[Segment, Name]] = {}
        # Weakly: the two would keep each other in memory.
        self._storage = Storage(core, proxy(self))
        self._writer_seconds_max = settings.writer_seconds_max
        self._today: Today | None = None
        """Set by Hello: what is spoken from then on."""

    def perform(self, request: documented.Incoming) -> Reply:
        action = _ACTIONS.get(type(request))
        if action is None and isinstance(request, TodayMessage | Append):
            if self._today is None:
                self._today = Today(self.core, proxy(self))
                Writers.of(self.core).start(self._writer_seconds_max)
            return self._today.perform(request)
        if action is None:
            return self._storage.perform(request, self.reply_bytes_max * 8)
        return action(self, request)

    def refused(self, request: documented.Incoming, error: RequestError) -> bytes | None:
        if isinstance(request, TodayMessage | Append):
            assert self._today is not None
            return self._today.refused(request, error)
        if isinstance(request, Message):
            return self._storage.refused(request, error)
        if isinstance(request, documented.AppendBlock):
            name = self._writers[request.writer][1]
        elif isinstance(request, documented.KeepAlive):
            raise error
        else:
            assert isinstance(request, documented.SetupAppend | documented.ReadSegment | documented.CreateSegment)
            name = request.name
        if isinstance(error, NoSuchSegment | NotAllowed):
            # The document has no word for what is forbidden. As far as this peer goes the segment is not there.
            return documented.named(Type.NO_SUCH_SEGMENT, name)
        if isinstance(error, SegmentSealed):
            return documented.named(Type.SEGMENT_IS_SEALED, name)
        if isinstance(error, SegmentExists):
            return documented.named(Type.SEGMENT_EXISTS, name)
        if isinstance(error, RecordsTruncated):
            return documented.truncated(name, error.first_offset)
        # A gap, a bad name, a full disk: the document has no word for it.
        self.give_up(str(error), level_of(error))
        return None

    # -- appending -----------------------------------------------------------------------------------------------------

    def _setup(self, request: documented.SetupAppend) -> Reply:
        if len(self._writers) >= _WRITERS_MAX and request.writer not in self._writers:
            self.give_up(f"more than {_WRITERS_MAX} writers on one connection")
            return None
        self.allow(WRITE, request.name.text)
        segment = check_no_table(self.core.store.find(request.name.text))
        if segment.sealed:
            raise SegmentSealed(segment.name)
        self._writers[request.writer] = (segment, request.name)
        level = (segment.levels or {}).get(request.writer, 0)
        return documented.append_setup(request.name, request.writer, level)

    def _append(self, block: documented.AppendBlock) -> Reply:
        if block.writer not in self._writers:
            self.give_up("an append whose setup was refused")
            return None
        segment = self._writers[block.writer][0]
        self.allow(WRITE, segment.name)
        # What is on its way to the disk counts: where that fails, so does what is built on it.
        level = segment.claimed_level(block.writer) or 0
        # Else it came before, and takes no more room.
        fresh = block.end > level
        reply = documented.data_appended(block.writer, block.end if fresh else level)
        if fresh:
            above = block.above(level) if level else block
            if above is None or above.offset > level:
                # Something is missing before it, or the level is not the start of an event in it.
                raise LevelGap(level, block.offset, block.end)
            block = above
            self.allow_write(segment, block.batch)
        # What the writer had stored before is not counted again.
        stored = self.promise(reply, block.batch if fresh else None)
        self.core.store.append_for(
            stored, segment, block.batch, writer=block.writer, expected=block.offset, level=block.end
        )
        return stored

    def _create(self, request: documented.CreateSegment) -> Reply:
        self.allow_create(request.name.text)
        return self.core.store.create(request.name.text), documented.named(Type.SEGMENT_CREATED, request.name)

    def _keep_alive(self, request: documented.KeepAlive) -> Reply:
        return documented.message(Type.KEEP_ALIVE, request.data)

    def _read(self, request: documented.ReadSegment) -> Reply:
        name, offset = request.name, request.offset
        return self.read_tail(
            request,
            name.text,
            lambda at_tail, at_end, data: documented.segment_read(name, offset, at_tail, at_end, data),
        )

    @property
    def is_waiting(self) -> bool:
        return super().is_waiting or self._storage.work.is_waiting

    def hurry(self) -> None:
        super().hurry()
        if self.is_closed:
            # Before those who wait are woken: they would be given messages that nobody takes.
            self._storage.work.leave()
        self._storage.work.hurry()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        if self._today is not None:
            self._today.lost()


_ACTIONS: Final[dict[type, Callable[[PravegaProtocol, Any], Reply]]] = {
    documented.SetupAppend: PravegaProtocol._setup,
    documented.AppendBlock: PravegaProtocol._append,
    documented.ReadSegment: PravegaProtocol._read,
    documented.CreateSegment: PravegaProtocol._create,
    documented.KeepAlive: PravegaProtocol._keep_alive,
}


@dataclass(frozen=True)
class PravegaSettings:
    """``[pravega]``, beside the endpoint."""

    tail_seconds_max: float = setting(10.0, "how long a read waits at the tail before it is answered empty", least=0.0)
    writer_seconds_max: float = setting(
        604800.0, "a writer of a stream that was not seen for so long is forgotten; 0: never", least=0.0
    )


class PravegaFactory(StreamFactory):
    """Makes Pravega connections."""

    name = PravegaProtocol.name

    def __init__(self, core: Core, settings: PravegaSettings) -> None:
        super().__init__(core)
        self._settings = settings

    def drain(self) -> Deferred[None]:
        """End all connections, and forget no more writers."""
        Writers.of(self.core).stop()
        return super().drain()

    def build(self) -> PravegaProtocol:
        return PravegaProtocol(self.core, self._settings)


def configure(table: Mapping[str, object]) -> PravegaSettings:
    """The settings of one ``[pravega]`` table."""
    return fill(PravegaSettings, table)


def factory(core: Core, settings: object) -> PravegaFactory:
    """The factory for one endpoint."""
    assert isinstance(settings, PravegaSettings)
    return PravegaFactory(core, settings)
