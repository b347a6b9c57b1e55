"""FastStreamDB over a stream: numbered streams of bytes, fan-out that is written once, contents of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from streamd.access.permits import ADMIN, READ, WRITE, NotAllowed, TopicFull
from streamd.batch import Batch
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.connections.slots import Continuation
from streamd.interfaces import RequestError
from streamd.protocols.faststream.contents import Contents, Reading, Turn
from streamd.store import NoSuchSegment, ReadFailed, RequestTooLarge, Run, Segment, StoreReadOnly
from streamd.store.commit.fanout import ROWS_MAX
from streamd.store.errors import level_of
from streamd.store.names import NUMBERED
from streamd.store.records.offsets import EVENT_HEADER_BYTES
from streamd.tables import fill
from streamd.wire import Request, faststream

CONTENTS_BYTES_MAX: Final = (1 << 32) - 1
"""The maximum size of an answer: its size is a u32."""

# Streams of one request that are looked at in one step: others have their turns between.
_STREAMS_AT_ONCE: Final = 250


def segment_name(stream: int) -> str:
    """The name of a stream's segment."""
    return f"{NUMBERED}{stream}"


@dataclass(slots=True, eq=False)
class RestOfContents(Continuation):
    """The rest of an answer: the records from `number` to `end`, which begins at `stop`, are still to be sent."""

    of: Turn | Reading
    number: int
    end: int
    stop: int

    def resume(self, connection: FastStreamProtocol) -> Reply:
        return connection.send_rest(self)

    def refused(self, connection: FastStreamProtocol, error: RequestError) -> None:
        connection.break_off(self.of, error)


class FastStreamProtocol(StreamProtocol):
    """One FastStreamDB connection. Create, delete and enqueue are never answered."""

    name = "faststream"
    codec: faststream.FastStreamCodec

    def __init__(self, core: Core, contents: Contents) -> None:
        super().__init__(core, faststream.FastStreamCodec(core.limits.message_bytes_max))
        self._streams = contents
        self._begun: set[Turn | Reading] = set()
        self._given: dict[Segment, int] = {}
        """What this connection has taken and not yet sent, by stream: all records below these."""

    def perform(self, request: Any) -> Reply:
        return _ACTIONS[type(request)](self, request)

    def refused(self, request: Any, error: RequestError) -> bytes | None:
        if isinstance(error, ReadFailed | StoreReadOnly | RequestTooLarge):
            # What is asked for can't be given, or what was sent can't be kept, and there is no word for it. Whatever
            # followed, an answer to a check too, would be taken for a sign that all is well.
            self.give_up(f"{type(request).__name__} failed: {error}", level_of(error))
            return None
        if isinstance(request, faststream.Contents):
            return faststream.contents_header(0)
        if isinstance(request, faststream.Check):
            return faststream.state(request.stream, False)
        self.log.debug("{request} had no effect: {reason}", request=type(request).__name__, reason=str(error))
        return None

    def express(self, data: bytes) -> bytes | None:
        confirmed = self.codec.confirmed(data) if self._permits.is_open else None
        segment = self.core.store.find_claimed(segment_name(confirmed[0])) if confirmed is not None else None
        if confirmed is None or segment is None:
            return None
        return self.join(segment, confirmed[1], faststream.PONG)

    def joint_requests(self, segment: Segment, record: bytes, tag: int) -> list[Request]:
        return [faststream.Enqueue(int(segment.name.removeprefix(NUMBERED)), Batch.single(record)), faststream.Ping()]

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
            return self.one_by_one([faststream.Enqueue(request.stream, record) for record in request.batch.singles()])
        stored = self.promise(b"", request.batch)
        self.core.store.append_for(stored, segment, request.batch)
        return stored

    def _enqueue_many(self, request: faststream.EnqueueMany) -> Reply:
        if request.all_except and not self.permits.covers(WRITE, NUMBERED):
            raise NotAllowed(f"all of {NUMBERED}")
        return self.in_steps(request, self._fan_out(request))

    def _fan_out(self, request: faststream.EnqueueMany) -> Generator[None, None, Reply]:
        """Append a record to many streams, of which there may be millions, in steps."""
        find, nothing = self.core.store.find_claimed, Batch.of([])
        counts: Counter[Segment] = Counter()
        noted: set[str] = set()
        for first in range(0, len(request.streams), _STREAMS_AT_ONCE):
            if first:
                yield
            # Only those are remembered that are there: a table of millions takes long to grow.
            for stream, count in Counter(request.streams[first : first + _STREAMS_AT_ONCE]).items():
                segment = find(segment_name(stream))
                # A stream that the peer may not write to is like one that is not there.
                if segment is not None and (request.all_except or self._may_write(segment, nothing, 1, noted)):
                    counts[segment] += count
            if len(counts) > ROWS_MAX:
                raise RequestTooLarge(f"more than {ROWS_MAX} streams at once")
        record = Batch.of([request.record])
        # A sealed one takes nothing, and keeps the others from nothing. Some may be gone since they were found.
        there = {
            segment: counts[segment] for segment in counts if not segment.claimed_sealed and not segment.claimed_deleted
        }
        if request.all_except:
            return self.core.store.broadcast(record, without=there).addCallback(self._broadcast, record), b""
        if not self.permits.is_open:
            there = {
                segment: count for segment, count in there.items() if self._may_write(segment, record, count, noted)
            }
        if not there:
            return b""
        self.count_appended(record)
        return self.core.store.fan_out(there, record), b""

    def _broadcast(self, received: bool, record: Batch) -> None:
        """Count a broadcast, unless no stream received it."""
        if received:
            self.traffic.appended(record)

    def _may_write(self, segment: Segment, record: Batch, times: int, noted: set[str]) -> bool:
        """Whether the peer may append a record to a stream so many times. Each reason is noted once for a request."""
        try:
            self.allow_write(segment, record, times=times)
        except NotAllowed as error:
            if error.reason not in noted:
                noted.add(error.reason)
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
            # A piece without a byte in it may be the last, and is looked at when all before it are sent.
            self._count_small()
            turn = self._streams.begin_take(segment, self)
            self._begun.add(turn)
            if turn.begins is not None:
                return Deferred.fromCoroutine(self._wait_for(turn))
            return self._begin_contents(turn)
        first = max(self._streams.first(segment), self._given.get(segment, 0))
        reading = self._streams.begin_read(segment, self, first)
        self._begun.add(reading)
        return self._begin_contents(reading)

    async def _wait_for(self, turn: Turn) -> bytes:
        """Wait for another take to end, and take what is left then."""
        assert turn.begins is not None
        await turn.begins
        reply = self._begin_contents(turn)
        return await reply if isinstance(reply, Deferred) else reply

    def _begin_contents(self, of: Turn | Reading) -> bytes | Deferred[bytes]:
        segment = of.segment
        first = of.first if isinstance(of, Reading) else self._streams.first(segment)
        if segment.deleted or first >= segment.number:
            self._let_go(of)
            return faststream.contents_header(0)
        # Both ends at once: more may be enqueued while the first record is looked for.
        return Deferred.fromCoroutine(self._measure(of, first, segment.number, segment.offset))

    async def _measure(self, of: Turn | Reading, first: int, end: int, stop: int) -> bytes:
        """The header with the size of the whole contents, which follow piece by piece."""
        segment = of.segment
        try:
            begin = (await self.read(segment, first, bytes_max=1, records_max=1))[0].offset
            while (size := _payload(stop - begin, end - first)) > CONTENTS_BYTES_MAX:
                # Too much for one answer: as many whole records as fit. Each step takes back what the last was over.
                over = stop - (size - CONTENTS_BYTES_MAX)
                place = (await self.read_at(segment, over, bytes_max=1))[0]
                end, stop = place.number, place.offset
        except BaseException:
            self._let_go(of)
            raise
        self.again(RestOfContents(of, first, end, stop))
        return faststream.contents_header(size)

    def send_rest(self, rest: RestOfContents) -> Reply:
        """Send the next piece of an answer."""
        runs = self.read(rest.of.segment, rest.number, records_max=rest.end - rest.number)
        return runs.addCallback(self._send_piece, rest)

    def break_off(self, of: Turn | Reading, error: RequestError) -> None:
        """Close the connection in the middle of an answer: its size is sent already, and its rest can't be read."""
        self._let_go(of)
        self.give_up(f"Contents failed: {error}", level_of(error))

    def _send_piece(self, runs: list[Run], rest: RestOfContents) -> bytes:
        self.count_read(runs)
        number = rest.number + sum([run.batch.count for run in runs])
        data = b"".join([run.batch.payload for run in runs])
        if number < rest.end:
            self.again(replace(rest, number=number))
        elif isinstance(rest.of, Reading):
            self._let_go(rest.of)
        elif data:
            self._given[rest.of.segment] = rest.end
            self.when_sent(lambda sent: self._took(rest) if sent == len(data) else None)
        else:
            self._took(rest)
        return data

    def _took(self, rest: RestOfContents) -> None:
        """Remove taken contents after the last byte is with the operating system. Nobody waits for the disk."""
        self._given.pop(rest.of.segment, None)
        self._streams.remove(rest.of.segment, rest.end, rest.stop)
        self._let_go(rest.of)

    def _let_go(self, of: Turn | Reading) -> None:
        self._begun.discard(of)
        of.end()

    @property
    def is_awaited(self) -> bool:
        return super().is_awaited or any(of.is_awaited for of in self._begun)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        for of in list(self._begun):
            self._let_go(of)


def _payload(span: int, records: int) -> int:
    """The payload bytes of so many records that take `span` offsets."""
    return span - EVENT_HEADER_BYTES * records


_ACTIONS: Final[dict[type, Callable[[FastStreamProtocol, Any], Reply]]] = {
    faststream.Ping: FastStreamProtocol._ping,
    faststream.Create: FastStreamProtocol._create,
    faststream.Delete: FastStreamProtocol._delete,
    faststream.Enqueue: FastStreamProtocol._enqueue,
    faststream.EnqueueMany: FastStreamProtocol._enqueue_many,
    faststream.Contents: FastStreamProtocol._contents,
    faststream.Check: FastStreamProtocol._check,
}


@dataclass(frozen=True)
class FastStreamSettings:
    """FastStreamDB has no settings beside its endpoint."""


class FastStreamFactory(StreamFactory):
    """Makes FastStreamDB connections."""

    name = FastStreamProtocol.name

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._streams: Contents = core.shared.setdefault(("faststream", "contents"), Contents(core.store))

    def build(self) -> FastStreamProtocol:
        return FastStreamProtocol(self.core, self._streams)


def configure(table: Mapping[str, object]) -> FastStreamSettings:
    """The settings of one ``[faststream]`` table."""
    return fill(FastStreamSettings, table)


def factory(core: Core, settings: object) -> FastStreamFactory:
    """The factory for one endpoint."""
    return FastStreamFactory(core)
