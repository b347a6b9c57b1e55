"""Simple Message Queue from the client's side: messages to pushes, and responses to messages.

A thousand equal responses to pushes are recognised in a few comparisons, as the daemon recognises pulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from functools import partial
from itertools import chain, takewhile
from typing import Final, NamedTuple

from streamd.batch import Buffer
from streamd.wire import WireError, smq
from streamd.wire.frames import FrameCodec, alike, cut, repeated
from streamd.wire.smq import EMPTY_QUEUE, HEADER, MESSAGE, PULL_REQUEST, PUSHED, STR, SUCCESS


class Outcome(Enum):
    """The outcome of a request."""

    PUSHED = auto()
    REFUSED = auto()
    EMPTY = auto()  # a pull, and nothing was there
    PULLED = auto()


class Response(NamedTuple):
    """The response to one request; a pulled message has a type and its elements."""

    outcome: Outcome
    kind: int = 0
    data: bytes = b""


_PUSHED: Final = Response(Outcome.PUSHED)
_REFUSED: Final = Response(Outcome.REFUSED)
_EMPTY: Final = Response(Outcome.EMPTY)


def push_frames(kind: int, records: Sequence[Buffer]) -> bytes:
    """The requests that push messages of one type, each given as the bytes of its elements."""
    # A push and the response that brings the same message are the same bytes.
    return smq.replies(smq.tag_of(kind), records)


def pull_frames(count: int) -> bytes:
    """So many pulls."""
    return PULL_REQUEST * count


class SmqReplies(FrameCodec[Response]):
    """Parses what the daemon sends on one connection."""

    def __init__(self, message_bytes_max: int) -> None:
        super().__init__(HEADER.size)
        self._body_bytes_max = message_bytes_max + MESSAGE.size

    def _parse(self, data: bytes | bytearray, replies: list[Response]) -> int:
        at, end = 0, len(data)
        while end - at >= HEADER.size:
            status, size = HEADER.unpack_from(data, at)
            if size > self._body_bytes_max:
                raise WireError(f"a message of {size} bytes is over the limit of {self._body_bytes_max}")
            frame = HEADER.size + size
            if at + frame > end:
                self._wanted = frame
                return at
            if size:
                count = alike(data, at, frame, HEADER.size + MESSAGE.size)
                _messages(memoryview(data)[at : at + frame * count], size, replies)
            elif status:
                count = 1
                replies.append(_REFUSED)
            else:
                count = repeated(data, at, PUSHED)
                replies += [_PUSHED] * count
            at += frame * count
        self._wanted = HEADER.size
        return at


def _messages(frames: memoryview, size: int, replies: list[Response]) -> None:
    """The messages of frames with the same header."""
    if size < MESSAGE.size:
        raise WireError(f"a message of {size} bytes has no room for its type and count")
    first, count = MESSAGE.unpack_from(frames, HEADER.size)
    code, kind = first >> 4, first & 15
    length = size - MESSAGE.size
    messages = list(chain.from_iterable(cut(frames, HEADER.size + MESSAGE.size, length)))
    if code == EMPTY_QUEUE and not length:
        replies += [_EMPTY] * len(messages)
        return
    # Numbers fit by their size alone, and that is the same for all of them.
    checked = messages if kind == STR else messages[:1]
    good = 0 if code != SUCCESS else sum(1 for _ in takewhile(partial(smq.fits, kind, count), checked))
    bad = good < len(checked)
    replies += [Response(Outcome.PULLED, kind, data) for data in (messages[:good] if bad else messages)]
    if bad:
        raise WireError(f"a message with code {code}, type {kind} and count {count} in {length} bytes")
