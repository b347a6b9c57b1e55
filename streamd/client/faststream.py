"""FastStreamDB for clients: numbered streams of bytes, and one record for many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from streamd.batch import Batch
from streamd.client.session import OrderedSession, Steps, chunks
from streamd.wire import WireError
from streamd.wire.faststream import (
    STREAM_END,
    Check,
    Contents,
    Create,
    Delete,
    Enqueue,
    EnqueueMany,
    Ping,
    Request,
)
from streamd.wire.faststream_client import FastStreamReplies, Pong, Reply, StreamContents, StreamState, request_bytes

K = TypeVar("K", Pong, StreamContents, StreamState)


class FastStreamSession(OrderedSession[Reply]):
    """One connection."""

    def __init__(self, reply_bytes_max: int) -> None:
        super().__init__(FastStreamReplies(reply_bytes_max))
        self._told = 0
        self._confirmed = 0

    def closing(self) -> Steps[None]:
        if self._told > self._confirmed:
            yield from self.flush()

    def _tell(self, request: Request) -> Steps[None]:
        """Send what is not answered; waits only where the daemon does not take it."""
        self._send(request_bytes(request))
        self._told += 1
        yield from self._when_sent()

    def _question(self, request: Request, kind: type[K]) -> Steps[K]:
        return (yield from self._ask(request_bytes(request), 1, _the(kind)))

    def ping(self) -> Steps[None]:
        """Whether the daemon is there; it says nothing of what was enqueued."""
        yield from self._question(Ping(), Pong)

    def create(self, stream: int) -> Steps[None]:
        """Make a stream, unless it is there."""
        yield from self._tell(Create(_checked(stream)))

    def delete(self, stream: int) -> Steps[None]:
        """Remove a stream, if it is there."""
        yield from self._tell(Delete(_checked(stream)))

    def enqueue(self, stream: int, records: Iterable[bytes]) -> Steps[None]:
        """Put records into a stream. The protocol has no answer to that: `flush` tells when they are on disk.

        A stream that is not there takes nothing.
        """
        for chunk in chunks(records):
            yield from self._tell(Enqueue(_checked(stream), Batch.of(chunk)))

    def enqueue_many(self, streams: Iterable[int], record: bytes) -> Steps[None]:
        """Put one record into several streams, into all or none of them should the daemon crash."""
        yield from self._tell(EnqueueMany(tuple(map(_checked, streams)), False, record))

    def enqueue_all(self, record: bytes) -> Steps[None]:
        """Put one record into all streams that there are."""
        yield from self._tell(EnqueueMany((), True, record))

    def enqueue_all_except(self, streams: Iterable[int], record: bytes) -> Steps[None]:
        """Put one record into all streams but these."""
        yield from self._tell(EnqueueMany(tuple(map(_checked, streams)), True, record))

    def flush(self) -> Steps[None]:
        """Wait until all that this client asked for so far is on disk."""
        # The answer to any question about streams waits for that.
        told = self._told
        yield from self._question(Check(0), StreamState)
        self._confirmed = max(self._confirmed, told)

    def take(self, stream: int) -> Steps[bytes]:
        """All that is in a stream, end to end, which is emptied. Nothing where it is not there."""
        return (yield from self._question(Contents(_checked(stream), True), StreamContents)).data

    def peek(self, stream: int) -> Steps[bytes]:
        """All that is in a stream, which is left as it is. Nothing where it is not there."""
        return (yield from self._question(Contents(_checked(stream), False), StreamContents)).data

    def exists(self, stream: int) -> Steps[bool]:
        """Whether a stream is there."""
        return (yield from self._question(Check(_checked(stream)), StreamState)).is_valid


def _checked(stream: int) -> int:
    if not 0 <= stream < STREAM_END:
        raise ValueError(f"{stream} is no stream: they are numbered from 0 to {STREAM_END - 1}")
    return stream


def _the(kind: type[K]) -> Callable[[list[Reply]], K]:
    def meaning(replies: list[Reply]) -> K:
        (reply,) = replies
        if not isinstance(reply, kind):
            raise WireError(f"{type(reply).__name__} where {kind.__name__} is due")
        return reply

    return meaning
