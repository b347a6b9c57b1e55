"""FastStreamDB over a stream: numbered streams of bytes, fan-out that is written once, contents of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from streamd.access.permits import ADMIN, READ, WRITE, NotAllowed, TopicFull
from streamd.batch import Batch
from streamd.config import fill
from streamd.interfaces import Core
from streamd.protocols.base import Reply, StreamProtocol
from streamd.protocols.factory import StreamFactory
from streamd.store import NoSuchSegment, Run, Segment, StoreError
from streamd.store.frame import EVENT_HEADER_BYTES
from streamd.store.names import NUMBERED
from streamd.wire import faststream

CONTENTS_BYTES_MAX: Final = (1 << 32) - 1
"""What one answer can hold: its size is a u32."""


def segment_name(stream: int) -> str:
    """What a stream is called in the store."""
    return f"{NUMBERED}{stream}"


class Rest(NamedTuple):
    """What is still to be sent of a stream's contents: records from `number` to `end`."""

    segment: Segment
    number: int
    end: int
    take: bool
    size: int = 64
    reads: bool = True


class Takes:
    """Which streams are being taken, and up to where they were: shared by all connections of a store."""

    def __init__(self) -> None:
        self._waiting: dict[Segment, list[Deferred[None]]] = {}
        self._taken: dict[Segment, int] = {}

    def first(self, segment: Segment) -> int:
        """The first record that nobody has taken, also where that is not on disk yet."""
        return max(self._taken.get(segment, 0), segment.first_number)

    def begin(self, segment: Segment) -> Deferred[None] | None:
        """Take a stream alone: None where that is so now, else when it is your turn to try again."""
        if segment not in self._waiting:
            self._waiting[segment] = []
            return None
        turn: Deferred[None] = Deferred()
        self._waiting[segment].append(turn)
        return turn

    def end(self, segment: Segment) -> None:
        """Let the next one try."""
        for turn in self._waiting.pop(segment, []):
            turn.callback(None)

    def taken(self, segment: Segment, end: int) -> None:
        """All below is gone for whoever asks from now on."""
        self._taken[segment] = end

    def removed(self, segment: Segment, end: int) -> None:
        """And it is on disk that it is gone."""
        if self._taken.get(segment) == end:
            del self._taken[segment]


class FastStreamProtocol(StreamProtocol):
    """One connection. Create, delete and enqueue are never answered, whatever happens."""

    name = "faststream"

    def __init__(self, core: Core, takes: Takes) -> None:
        super().__init__(core, faststream.FastStreamCodec(core.limits.message_bytes_max))
        self._takes = takes
        self._taking: Segment | None = None

    def perform(self, request: Any) -> Reply:
        return _ACTIONS[type(request)](self, request)

    def refused(self, request: Any, error: StoreError) -> bytes | None:
        if isinstance(request, Rest):
            # Its size is told, and it can't be given: nothing that follows would be understood.
            self.give_up(f"the contents of {request.segment.name} can't be read: {error}")
        elif isinstance(request, faststream.Contents):
            return faststream.contents_header(0)
        elif isinstance(request, faststream.Check):
            return faststream.state(request.stream, False)
        else:
            self.log.debug("{request} had no effect: {reason}", request=type(request).__name__, reason=str(error))
        return b""

    # -- changing ------------------------------------------------------------------------------------------------------

    def _create(self, request: faststream.Create) -> Reply:
        name = segment_name(request.stream)
        if self.core.store.find_claimed(name) is not None:
            return b""
        self.allow_create(name)
        return self.core.store.create(name), b""

    def _delete(self, request: faststream.Delete) -> Reply:
        self.allow(ADMIN, segment_name(request.stream))
        segment = self.core.store.find_claimed(segment_name(request.stream))
        return b"" if segment is None else (self.core.store.delete(segment), b"")

    def _enqueue(self, request: faststream.Enqueue) -> Reply:
        segment = self.core.store.find_claimed(segment_name(request.stream))
        if segment is None:
            return b""
        try:
            self.allow_write(segment, request.batch)
        except TopicFull:
            if request.batch.count == 1:
                raise
            return self.one_by_one([faststream.Enqueue(request.stream, each) for each in request.batch.singles()])
        self.count_appended(request.batch)
        return self.core.store.append(segment, request.batch), b""

    def _enqueue_many(self, request: faststream.EnqueueMany) -> Reply:
        named = (self.core.store.find_claimed(segment_name(stream)) for stream in request.streams)
        # A sealed one takes nothing, and keeps the others from nothing.
        segments = [each for each in named if each is not None and not each.claimed_sealed]
        record = Batch.of([request.record])
        if not request.all_except and not segments:
            return b""
        if request.all_except:
            if not self.permits.covers(WRITE, NUMBERED):
                raise NotAllowed(f"all of {NUMBERED}")
            return self.core.store.broadcast(record, without=segments).addCallback(self._broadcast, record), b""
        # A stream that the peer may not write to is like one that is not there.
        times = Counter(segments)
        allowed = {segment for segment in times if self._may_write(segment, record, times[segment])}
        if not allowed:
            return b""
        self.count_appended(record)
        return self.core.store.fan_out([segment for segment in segments if segment in allowed], record), b""

    def _broadcast(self, received: bool, record: Batch) -> None:
        """Count what was broadcast, unless there was nobody to receive it."""
        if received:
            self.traffic.appended(record)

    def _may_write(self, segment: Segment, record: Batch, times: int) -> bool:
        try:
            self.allow_write(segment, record, times=times)
        except NotAllowed as error:
            self.note(error)
            return False
        return True

    # -- asking --------------------------------------------------------------------------------------------------------

    def _ping(self, request: faststream.Ping) -> Reply:
        return faststream.PONG

    def _check(self, request: faststream.Check) -> Reply:
        self.allow(READ, segment_name(request.stream))
        try:
            self.core.store.find(segment_name(request.stream))
        except NoSuchSegment:
            return faststream.state(request.stream, False)
        return faststream.state(request.stream, True)

    def _contents(self, request: faststream.Contents) -> Reply:
        self.allow(READ, segment_name(request.stream))
        segment = self.core.store.find(segment_name(request.stream))
        if self.core.store.retention is not None:
            self.core.store.retention.note_read(segment)
        if request.take:
            turn = self._takes.begin(segment)
            if turn is not None:
                # Somebody else is taking it. What is left is ours.
                turn.addCallback(lambda _: self.again(request))
                return turn, b""
            self._taking = segment
        first, end = self._takes.first(segment), segment.number
        if first == end:
            self._end_take(segment)
            return faststream.contents_header(0)
        return Deferred.fromCoroutine(self._begin_contents(segment, first, end, request.take))

    async def _begin_contents(self, segment: Segment, first: int, end: int, take: bool) -> bytes:
        """The header with the size of everything, which then follows piece by piece."""
        store = self.core.store
        begin = (await store.read(segment, first, bytes_max=1, records_max=1))[0].offset
        stop = segment.offset
        while (size := _payload(stop - begin, end - first)) > CONTENTS_BYTES_MAX:
            # Too much for one answer: as many whole records as fit. Each step takes back what the last one was over.
            place = (await store.read_at(segment, stop - (size - CONTENTS_BYTES_MAX), bytes_max=1, records_max=1))[0]
            end, stop = place.number, place.offset
        self.again(Rest(segment, first, end, take))
        return faststream.contents_header(size)

    def _rest(self, request: Rest) -> Reply:
        count = request.end - request.number
        runs = self.core.store.read(request.segment, request.number, bytes_max=self.reply_bytes_max, records_max=count)
        return runs.addCallback(self._told, request)

    def _told(self, runs: list[Run], request: Rest) -> bytes:
        found = sum([run.batch.count for run in runs])
        self.count_read(runs)
        data = b"".join([run.batch.payload for run in runs])
        if request.number + found < request.end:
            self.again(request._replace(number=request.number + found))
        elif request.take and data:
            self.when_sent(lambda sent: self._took(request) if sent == len(data) else None)
        elif request.take:
            self._took(request)
        return data

    def _took(self, request: Rest) -> None:
        """The last byte is with the operating system: what was sent is gone, and nobody waits for the disk."""
        self._takes.taken(request.segment, request.end)
        self._end_take(request.segment)

        def removed(result: object) -> None:
            self._takes.removed(request.segment, request.end)
            if isinstance(result, Failure):
                result.trap(StoreError)

        try:
            self.core.store.truncate(request.segment, request.end).addBoth(removed)
        except StoreError:
            self._takes.removed(request.segment, request.end)

    def _end_take(self, segment: Segment) -> None:
        if self._taking is segment:
            self._taking = None
            self._takes.end(segment)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        if self._taking is not None:
            self._end_take(self._taking)


def _payload(span: int, records: int) -> int:
    """The bytes of so many records that take `span` offsets."""
    return span - EVENT_HEADER_BYTES * records


_ACTIONS: Final[dict[type, Callable[[FastStreamProtocol, Any], Reply]]] = {
    faststream.Ping: FastStreamProtocol._ping,
    faststream.Create: FastStreamProtocol._create,
    faststream.Delete: FastStreamProtocol._delete,
    faststream.Enqueue: FastStreamProtocol._enqueue,
    faststream.EnqueueMany: FastStreamProtocol._enqueue_many,
    faststream.Contents: FastStreamProtocol._contents,
    faststream.Check: FastStreamProtocol._check,
    Rest: FastStreamProtocol._rest,
}


@dataclass(frozen=True)
class FastStreamSettings:
    """FastStreamDB has no settings beside its endpoint."""


class FastStreamFactory(StreamFactory):
    """Makes FastStreamDB connections."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._takes: Takes = core.shared.setdefault(("faststream", "takes"), Takes())

    def build(self) -> FastStreamProtocol:
        return FastStreamProtocol(self.core, self._takes)


def configure(table: Mapping[str, object]) -> FastStreamSettings:
    """The settings of one ``[faststream]`` table."""
    return fill(FastStreamSettings, table)


def factory(core: Core, settings: object) -> FastStreamFactory:
    """The factory for one endpoint."""
    return FastStreamFactory(core)
