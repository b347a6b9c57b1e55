"""Pravega's append blocks for clients: segments of events, read from an offset on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from streamd.client.errors import Refused
from streamd.client.session import Answer, Session, Steps, broken
from streamd.wire import WireError
from streamd.wire.pravega import HEADER, CreateSegment, KeepAlive, Name, ReadSegment, Request
from streamd.wire.pravega_client import (
    NoSuchSegment,
    PravegaReplies,
    Reply,
    SegmentCreated,
    SegmentExists,
    SegmentIsSealed,
    SegmentIsTruncated,
    SegmentRead,
    name_of,
    request_bytes,
    whole_events,
)

READ_BYTES: Final = 1 << 20
"""How much of a segment is asked for at once."""


class Truncated(Refused):
    """What was to be read is gone; from `first_offset` on there is more."""

    def __init__(self, segment: str, first_offset: int) -> None:
        super().__init__("SegmentIsTruncated", f"{segment} is truncated, and begins at {first_offset}")
        self.first_offset = first_offset


class PravegaSession(Session[Reply]):
    """One connection. Replies may overtake each other: each finds the first request that it can be the answer to."""

    def __init__(self, reply_bytes_max: int) -> None:
        super().__init__(PravegaReplies())
        self.event_bytes_max = reply_bytes_max
        self._asked: list[tuple[Callable[[Reply], bool], Answer[Reply]]] = []

    @property
    def is_waiting(self) -> bool:
        return bool(self._asked) or super().is_waiting

    def _ask(self, request: Request, accepts: Callable[[Reply], bool]) -> Answer[Reply]:
        self._send(request_bytes(request))
        answer: Answer[Reply] = Answer()
        self._asked.append((accepts, answer))
        return answer

    def _received(self, replies: list[Reply]) -> None:
        finished = [(self._asker(reply), reply) for reply in replies]
        # Only now: who waited may ask for the next thing at once.
        for answer, reply in finished:
            if answer is not None:
                answer.resolve(reply)
        for answer, reply in finished:
            if answer is None:
                raise WireError(f"{type(reply).__name__} that nobody asked for")

    def _asker(self, reply: Reply) -> Answer[Reply] | None:
        for at, (accepts, answer) in enumerate(self._asked):
            if accepts(reply):
                del self._asked[at]
                return answer
        return None

    def _abandoned(self) -> list[Answer[Any]]:
        asked, self._asked = self._asked, []
        return [answer for _, answer in asked]

    def create(self, segment: str) -> Steps[None]:
        """Make a segment; Refused with ``SegmentAlreadyExists`` where there is one."""
        name = name_of(segment)

        def accepts(reply: Reply) -> bool:
            return isinstance(reply, (SegmentCreated, SegmentExists)) and reply.name.raw == name.raw

        reply = yield from self._ask(CreateSegment(name), accepts)
        if isinstance(reply, SegmentExists):
            raise Refused("SegmentAlreadyExists", f"SegmentAlreadyExists: {segment}")

    def ping(self) -> Steps[None]:
        """Whether the daemon is there."""
        yield from self._ask(KeepAlive(b""), lambda reply: isinstance(reply, KeepAlive))

    def read(self, segment: str, offset: int, length: int = READ_BYTES) -> Steps[SegmentRead]:
        """The bytes of a segment from this offset on, at most so many. At the end it waits for data, for some seconds.

        What comes back says whether it reaches the tail, and whether more can ever come.
        """
        reply = yield from self.begin_read(name_of(segment), offset, length)
        return read_reply(reply)

    def begin_read(self, name: Name, offset: int, length: int = READ_BYTES) -> Answer[Reply]:
        """Ask for these bytes, and do not wait."""
        if offset < 0 or length < 1:
            raise ValueError(f"{length} bytes at {offset} can't be read")

        def accepts(reply: Reply) -> bool:
            if isinstance(reply, SegmentRead):
                return reply.name.raw == name.raw and reply.offset == offset
            return isinstance(reply, (NoSuchSegment, SegmentIsTruncated)) and reply.name.raw == name.raw

        return self._ask(ReadSegment(name, offset, length), accepts)


def read_reply(reply: Reply) -> SegmentRead:
    """What was read, or why it could not be, raised."""
    if isinstance(reply, SegmentIsTruncated):
        raise Truncated(reply.name.text, reply.first_offset)
    if not isinstance(reply, SegmentRead):
        raise refused(reply)
    return reply


def refused(reply: Reply) -> Refused:
    """A reply that says no, as an error."""
    assert isinstance(reply, (NoSuchSegment, SegmentIsSealed)), reply
    reason = type(reply).__name__
    return Refused(reason, f"{reason}: {reply.name.text}")


class Reading:
    """What blocking and asynchronous readers share: the events of a segment, one after the other.

    The next piece of the segment is asked for while this one is worked on.
    """

    def __init__(self, session: PravegaSession, segment: str, offset: int, wait: bool) -> None:
        self._session = session
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
        """Where the next event begins: begin there to go on later."""
        return self._end - len(self._rest) - self._unread_bytes

    def _next(self) -> bytes | None:
        """The next event, where it has come already."""
        if not self._unread:
            return None
        event = self._unread.popleft()
        self._unread_bytes -= HEADER.size + len(event)
        return event

    def _fill(self) -> Steps[bool]:
        """See that there is an event to be had; False where there is none now, or never will be."""
        while not self._unread:
            if self._at_tail and not self._wait:
                # Whoever asks once more is told what there is then.
                self._at_tail = False
                return False
            if self._asked is None:
                self._asked = self._session.begin_read(self._name, self._end)
            reply = yield from self._asked
            self._asked = None
            if self._take(read_reply(reply)):
                return False
        return True

    def _take(self, piece: SegmentRead) -> bool:
        """Add what came; whether that was the end."""
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
            self._asked = self._session.begin_read(self._name, self._end)
        return piece.at_end and not events
