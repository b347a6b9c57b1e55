"""Pravega's append blocks over a stream: exactly-once appends by ack level, reads by offset that wait at the tail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from weakref import proxy

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from streamd.access.permits import READ, WRITE, NotAllowed
from streamd.batch import Buffer
from streamd.config import fill
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.connections.order import Steps
from streamd.protocols.pravega.tools import Storage
from streamd.settings import setting
from streamd.store import (
    LevelGap,
    NoSuchSegment,
    RecordsTruncated,
    Run,
    Segment,
    SegmentExists,
    SegmentSealed,
    StoreError,
)
from streamd.store.errors import level_of
from streamd.store.records.offsets import TAG_RAW
from streamd.wire import pravega
from streamd.wire.fields import Message
from streamd.wire.pravega import Name, Type

READ_BYTES_MAX: Final = 2 << 20
"""One read is answered with at most so much."""

# Reads that may wait at the tail on one connection; each costs some memory and a timer.
_WAITING_MAX: Final = 1024

# Writers that may share one connection.
_WRITERS_MAX: Final = 10_000


class TailRead(NamedTuple):
    """A read, and the time by which it is answered at the latest, with what there is then."""

    request: pravega.ReadSegment
    until: float
    size: int = 64
    reads: bool = True


class PravegaProtocol(StreamProtocol):
    """One connection: any number of writers, each set up for one segment, and any number of reads."""

    name = "pravega"

    def __init__(self, core: Core, settings: PravegaSettings) -> None:
        super().__init__(core, pravega.PravegaCodec(core.limits.message_bytes_max))
        self._settings = settings
        self._writers: dict[bytes, tuple[Segment, Name]] = {}
        self._waiting: dict[Deferred[None], None] = {}
        """Reads at the tail, in the order in which they were asked."""
        # Weakly: the two would keep each other in memory.
        self._storage = Storage(core, proxy(self))

    def perform(self, request: pravega.Incoming | TailRead | Steps) -> Reply:
        action = _ACTIONS.get(type(request))
        if action is None:
            return self._storage.perform(request, self.reply_bytes_max * 8)
        return action(self, request)

    def refused(self, request: pravega.Incoming | TailRead | Steps, error: StoreError) -> bytes | None:
        if isinstance(request, TailRead):
            request = request.request
        if isinstance(request, Steps):
            assert isinstance(request.request, Message), "what Pravega itself asks for is done in one step"
            return self._storage.refused(request.request, error)
        if isinstance(request, Message):
            return self._storage.refused(request, error)
        if isinstance(request, pravega.AppendBlock):
            name = self._writers[request.writer][1]
        elif isinstance(request, pravega.KeepAlive):
            raise error
        else:
            name = request.name
        if isinstance(error, NoSuchSegment | NotAllowed):
            # The document has no word for what is forbidden. As far as this peer goes the segment is not there.
            return pravega.named(Type.NO_SUCH_SEGMENT, name)
        if isinstance(error, SegmentSealed):
            return pravega.named(Type.SEGMENT_IS_SEALED, name)
        if isinstance(error, SegmentExists):
            return pravega.named(Type.SEGMENT_EXISTS, name)
        if isinstance(error, RecordsTruncated):
            return pravega.truncated(name, error.first_offset)
        # A gap, a bad name, a full disk: the document has no word for it.
        self.give_up(str(error), level_of(error))
        return None

    # -- appending -----------------------------------------------------------------------------------------------------

    def _setup(self, request: pravega.SetupAppend) -> Reply:
        if len(self._writers) >= _WRITERS_MAX and request.writer not in self._writers:
            self.give_up(f"more than {_WRITERS_MAX} writers on one connection")
            return None
        self.allow(WRITE, request.name.text)
        segment = self.core.store.find(request.name.text)
        if segment.sealed:
            raise SegmentSealed(segment.name)
        self._writers[request.writer] = (segment, request.name)
        level = (segment.levels or {}).get(request.writer, 0)
        return pravega.append_setup(request.name, request.writer, level)

    def _append(self, block: pravega.AppendBlock) -> Reply:
        if block.writer not in self._writers:
            self.give_up("an append whose setup was refused")
            return None
        segment = self._writers[block.writer][0]
        self.allow(WRITE, segment.name)
        # What is on its way to the disk counts: where that fails, so does what is built on it.
        level = segment.claimed_level(block.writer) or 0
        # Else it came before, and takes no more room.
        fresh = block.end > level
        reply = pravega.data_appended(block.writer, block.end if fresh else level)
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

    def _create(self, request: pravega.CreateSegment) -> Reply:
        self.allow_create(request.name.text)
        return self.core.store.create(request.name.text), pravega.named(Type.SEGMENT_CREATED, request.name)

    def _keep_alive(self, request: pravega.KeepAlive) -> Reply:
        return pravega.message(Type.KEEP_ALIVE, request.data)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, request: pravega.ReadSegment) -> Reply:
        return self._read_until(TailRead(request, self.core.clock.seconds() + self._settings.tail_seconds_max))

    def _read_until(self, tail: TailRead) -> Reply:
        request = tail.request
        self.allow(READ, request.name.text)
        segment = self.core.store.find(request.name.text)
        if request.offset >= segment.offset and not segment.sealed:
            if tail.until <= self.core.clock.seconds():
                return self._segment_read([], segment, request, 0)
            self._wait_at_tail(segment, tail)
            return None
        bytes_max = max(1, min(request.length, READ_BYTES_MAX, self.reply_bytes_max * 8))
        runs = self.read_at(segment, request.offset, bytes_max=bytes_max)
        return runs.addCallback(self._segment_read, segment, request, bytes_max)

    def _segment_read(self, runs: list[Run], segment: Segment, request: pravega.ReadSegment, bytes_max: int) -> bytes:
        data = [part for run in runs for part in _run_parts(run)]
        if runs:
            # The first run begins with the record that holds the offset.
            data = _within(data, request.offset - runs[0].offset, bytes_max)
        read_bytes = sum(map(len, data))
        self.traffic.read(sum([run.batch.count for run in runs]), read_bytes)
        at_tail = request.offset + read_bytes >= segment.offset
        return pravega.segment_read(request.name, request.offset, at_tail, at_tail and segment.sealed, data)

    def _wait_at_tail(self, segment: Segment, tail: TailRead) -> None:
        """Ask again when there is something, or when the time is over, and hold nobody up meanwhile.

        It is asked in its turn, and not answered from here: a thousand of them may wake up at once, for a peer that
        takes none of their answers.
        """
        if len(self._waiting) >= _WAITING_MAX:
            self.give_up(f"more than {_WAITING_MAX} reads wait at the tail")
            return
        # A record, not a byte, is what the store can wait for; an offset beyond the end waits for more than one.
        waiting = self.core.store.wait(segment, segment.number)
        self._waiting[waiting] = None
        over = self.core.clock.callLater(tail.until - self.core.clock.seconds(), waiting.cancel)

        def done(result: object) -> None:
            del self._waiting[waiting]
            if over.active():
                over.cancel()
            if isinstance(result, Failure):
                result.trap(CancelledError)
                self.later(tail._replace(until=0.0))
            else:
                self.later(tail)

        waiting.addBoth(done)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def hurry(self) -> None:
        for waiting in list(self._waiting):
            waiting.cancel()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self.hurry()


def _run_parts(run: Run) -> list[Buffer]:
    """Records as the bytes of the segment: events, or what came raw."""
    return [run.batch.payload] if run.tag & TAG_RAW else pravega.event_parts(run.batch)


def _within(parts: list[Buffer], skip: int, bytes_max: int) -> list[Buffer]:
    """The bytes behind the first `skip`, at most so many, without a copy."""
    found: list[Buffer] = []
    for part in parts:
        if bytes_max > 0 and skip < len(part):
            found.append(memoryview(part)[skip : skip + bytes_max])
            bytes_max -= len(found[-1])
        skip = max(0, skip - len(part))
    return found


_ACTIONS: Final[dict[type, Callable[[PravegaProtocol, Any], Reply]]] = {
    pravega.SetupAppend: PravegaProtocol._setup,
    pravega.AppendBlock: PravegaProtocol._append,
    pravega.ReadSegment: PravegaProtocol._read,
    TailRead: PravegaProtocol._read_until,
    pravega.CreateSegment: PravegaProtocol._create,
    pravega.KeepAlive: PravegaProtocol._keep_alive,
    Steps: PravegaProtocol.in_steps,
}


@dataclass(frozen=True)
class PravegaSettings:
    """``[pravega]``, beside the endpoint."""

    tail_seconds_max: float = setting(10.0, "how long a read waits at the tail before it is answered empty", least=0.0)


class PravegaFactory(StreamFactory):
    """Makes Pravega connections."""

    def __init__(self, core: Core, settings: PravegaSettings) -> None:
        super().__init__(core)
        self._settings = settings

    def build(self) -> PravegaProtocol:
        return PravegaProtocol(self.core, self._settings)


def configure(table: Mapping[str, object]) -> PravegaSettings:
    """The settings of one ``[pravega]`` table."""
    return fill(PravegaSettings, table)


def factory(core: Core, settings: object) -> PravegaFactory:
    """The factory for one endpoint."""
    assert isinstance(settings, PravegaSettings)
    return PravegaFactory(core, settings)
