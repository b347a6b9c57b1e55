"""Reads by offset that wait at the tail and hold nobody up meanwhile: the same for both ages of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from streamd.access.permits import READ
from streamd.batch import Buffer
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.slots import Continuation
from streamd.interfaces import RequestError
from streamd.protocols.pravega.names import find, head_of, parent_of
from streamd.store import RecordsTruncated, Run, Segment
from streamd.store.records.offsets import TAG_RAW
from streamd.wire import Codec
from streamd.wire.pravega.events import event_parts

READ_BYTES_MAX: Final = 2 << 20
"""One read is answered with at most so much."""

# Reads that may wait at the tail on one connection; each costs some memory and a timer.
_WAITING_MAX: Final = 1024

Answer = Callable[[bool, bool, list[Buffer]], bytes]
"""Makes the reply to a read: whether it reaches the tail, and the end of a sealed segment, and the bytes."""


@dataclass(slots=True, eq=False)
class TailRead(Continuation):
    """A read, and the time by which it is answered at the latest, with what there is then."""

    request: Any
    """The wire request that it answers, of either protocol."""
    name: str
    offset: int
    length: int
    answer: Answer
    until: float

    def resume(self, connection: TailReading) -> Reply:
        return connection.read_until(self)

    def refused(self, connection: TailReading, error: RequestError) -> bytes | None:
        return connection.refused(self.request, error)


class TailReading(StreamProtocol):
    """A connection that reads by offset."""

    def __init__(self, core: Core, codec: Codec, tail_seconds_max: float) -> None:
        super().__init__(core, codec)
        self._tail_seconds_max = tail_seconds_max
        self._waiting: dict[Deferred[None], None] = {}
        """Reads at the tail, in the order in which they were asked."""

    def read_tail(self, request: Any, name: str, answer: Answer) -> Reply:
        """Answer a read with what is there, or with what comes within the time that a read may wait."""
        until = self.core.clock.seconds() + self._tail_seconds_max
        return self.read_until(TailRead(request, name, request.offset, request.length, answer, until))

    def read_until(self, tail: TailRead) -> Reply:
        """Answer a read, or let it wait."""
        self.allow(READ, parent_of(tail.name))
        segment = find(self.core.store, tail.name)
        if tail.offset < head_of(segment):
            raise RecordsTruncated(segment.first_number, head_of(segment))
        if tail.offset >= segment.offset and not segment.sealed:
            if tail.until <= self.core.clock.seconds():
                return self._segment_read([], segment, tail, 0)
            self._wait_at_tail(segment, tail)
            return None
        bytes_max = max(1, min(tail.length, READ_BYTES_MAX, self.reply_bytes_max * 8))
        runs = self.read_at(segment, tail.offset, bytes_max=bytes_max)
        return runs.addCallback(self._segment_read, segment, tail, bytes_max)

    def _segment_read(self, runs: list[Run], segment: Segment, tail: TailRead, bytes_max: int) -> bytes:
        data = [part for run in runs for part in _run_parts(run)]
        if runs:
            # The first run begins with the record that holds the offset.
            data = _within(data, tail.offset - runs[0].offset, bytes_max)
        read_bytes = sum(map(len, data))
        self.traffic.read(sum([run.batch.count for run in runs]), read_bytes)
        at_tail = tail.offset + read_bytes >= segment.offset
        return tail.answer(at_tail, at_tail and segment.sealed, data)

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
                self.later(replace(tail, until=0.0))
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
    return [run.batch.payload] if run.tag & TAG_RAW else event_parts(run.batch)


def _within(parts: list[Buffer], skip: int, bytes_max: int) -> list[Buffer]:
    """The bytes behind the first `skip`, at most so many, without a copy."""
    found: list[Buffer] = []
    for part in parts:
        if bytes_max > 0 and skip < len(part):
            found.append(memoryview(part)[skip : skip + bytes_max])
            bytes_max -= len(found[-1])
        skip = max(0, skip - len(part))
    return found
