"""A connection of Pravega: requests, and replies that may overtake each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from streamd.client.core.session import Answer, Session
from streamd.client.errors import Refused
from streamd.client.target import Target
from streamd.wire import WireError
from streamd.wire.client.pravega import (
    NoSuchSegment,
    PravegaReplies,
    Reply,
    SegmentIsSealed,
    SegmentIsTruncated,
    SegmentRead,
    request_bytes,
)
from streamd.wire.pravega.documented import Name, ReadSegment, Request

READ_BYTES: Final = 1 << 20
"""How much of a segment is asked for at once."""


class Truncated(Refused):
    """What was to be read is gone; from `first_offset` on there is more."""

    def __init__(self, segment: str, first_offset: int) -> None:
        super().__init__("SegmentIsTruncated", f"{segment} is truncated, and begins at {first_offset}")
        self.first_offset = first_offset


class _Question(NamedTuple):
    accepts: Callable[[Reply], bool]
    answer: Answer[Reply]


class PravegaSession(Session[Reply]):
    """A connection of Pravega. A reply goes to the first request that it can be the answer to."""

    _asked: deque[_Question]

    def __init__(self, target: Target) -> None:
        super().__init__(PravegaReplies(), target)
        self.event_bytes_max = target.reply_bytes_max
        """The largest event that is taken."""

    def ask(self, request: Request, accepts: Callable[[Reply], bool]) -> Answer[Reply]:
        """Send a request. The answer is the first reply from now on that it accepts."""
        self.send(request_bytes(request))
        question = _Question(accepts, Answer(self.wait))
        self._asked.append(question)
        return question.answer

    def read(self, name: Name, offset: int, length: int = READ_BYTES) -> Answer[Reply]:
        """Ask for these bytes of a segment. `read_reply` makes of the answer what it means."""
        if offset < 0 or length < 1:
            raise ValueError(f"{length} bytes at {offset} can't be read")

        def accepts(reply: Reply) -> bool:
            if isinstance(reply, SegmentRead):
                return reply.name.raw == name.raw and reply.offset == offset
            return isinstance(reply, (NoSuchSegment, SegmentIsTruncated)) and reply.name.raw == name.raw

        return self.ask(ReadSegment(name, offset, length), accepts)

    def _received(self, replies: list[Reply]) -> None:
        finished = [(self._asker(reply), reply) for reply in replies]
        # Only now: a command that is resumed may ask for the next thing at once.
        for answer, reply in finished:
            if answer is not None:
                answer.resolve(reply)
        for answer, reply in finished:
            if answer is None:
                raise WireError(f"{type(reply).__name__} that nobody asked for")

    def _asker(self, reply: Reply) -> Answer[Reply] | None:
        for at, question in enumerate(self._asked):
            if question.accepts(reply):
                del self._asked[at]
                return question.answer
        return None


def read_reply(reply: Reply) -> SegmentRead:
    """Return what was read, or raise why it could not be."""
    if isinstance(reply, SegmentIsTruncated):
        raise Truncated(reply.name.text, reply.first_offset)
    if not isinstance(reply, SegmentRead):
        raise refused(reply)
    return reply


def refused(reply: Reply) -> Refused:
    """Return the error for a reply that says no."""
    assert isinstance(reply, (NoSuchSegment, SegmentIsSealed)), reply
    reason = type(reply).__name__
    return Refused(reason, f"{reason}: {reply.name.text}")
