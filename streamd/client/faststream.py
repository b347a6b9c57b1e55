"""FastStreamDB: numbered streams of bytes, and one record for many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from streamd.batch import Batch
from streamd.client.core.commands import ConnectedCommands, command
from streamd.client.core.session import Answer, OrderedSession, chunks
from streamd.client.target import Target
from streamd.wire import WireError
from streamd.wire import faststream as wire
from streamd.wire.client.faststream import FastStreamReplies, Pong, Reply, StreamContents, StreamState, request_bytes

K = TypeVar("K", Pong, StreamContents, StreamState)


class FastStreamSession(OrderedSession[Reply]):
    """A connection of FastStreamDB, and how many of its requests are not known to be on disk."""

    def __init__(self, target: Target) -> None:
        super().__init__(FastStreamReplies(target.reply_bytes_max), target)
        self._sent = 0
        self._confirmed = 0

    async def closing(self) -> None:
        if self._sent > self._confirmed:
            await self.flush()

    async def tell(self, request: wire.Request) -> None:
        """Send a request that gets no reply. Waits only where the daemon does not take it."""
        self.send(request_bytes(request))
        self._sent += 1
        await self.room()

    def question(self, request: wire.Request, kind: type[K]) -> Answer[K]:
        """Send a request whose reply is of this kind."""
        return self.ask(request_bytes(request), 1, _the(kind))

    async def flush(self) -> None:
        """Wait until all requests so far are on disk: the reply to any question about streams waits for that."""
        sent = self._sent
        await self.question(wire.Check(0), StreamState)
        self._confirmed = max(self._confirmed, sent)


class FastStreamCommands(ConnectedCommands[FastStreamSession]):
    """Fills and empties streams."""

    _session_type = FastStreamSession

    @command
    async def ping(self) -> None:
        """Ask whether the daemon is there. Its answer does not wait for what was enqueued."""
        await self._session.question(wire.Ping(), Pong)

    @command
    async def create(self, stream: int) -> None:
        """Make a stream, unless there is one."""
        await self._session.tell(wire.Create(_checked(stream)))

    @command
    async def delete(self, stream: int) -> None:
        """Remove a stream, if there is one."""
        await self._session.tell(wire.Delete(_checked(stream)))

    @command
    async def enqueue(self, stream: int, records: Iterable[bytes]) -> None:
        """Put records into a stream. The protocol has no answer to that: `flush` waits until they are on disk.

        A stream that does not exist takes nothing.
        """
        for chunk in chunks(records):
            await self._session.tell(wire.Enqueue(_checked(stream), Batch.of(chunk)))

    @command
    async def enqueue_many(self, streams: Iterable[int], record: bytes) -> None:
        """Put one record into several streams: into all or none of them should the daemon crash."""
        await self._session.tell(wire.EnqueueMany(tuple(map(_checked, streams)), False, record))

    @command
    async def enqueue_all(self, record: bytes) -> None:
        """Put one record into every stream that there is."""
        await self._session.tell(wire.EnqueueMany((), True, record))

    @command
    async def enqueue_all_except(self, streams: Iterable[int], record: bytes) -> None:
        """Put one record into every stream but these."""
        await self._session.tell(wire.EnqueueMany(tuple(map(_checked, streams)), True, record))

    @command
    async def flush(self) -> None:
        """Wait until all that this client asked for so far is on disk."""
        await self._session.flush()

    @command
    async def take(self, stream: int) -> bytes:
        """Empty a stream and return what was in it, end to end: nothing where the stream does not exist."""
        return (await self._session.question(wire.Contents(_checked(stream), True), StreamContents)).data

    @command
    async def peek(self, stream: int) -> bytes:
        """Return what is in a stream, end to end, and leave it there: nothing where the stream does not exist."""
        return (await self._session.question(wire.Contents(_checked(stream), False), StreamContents)).data

    @command
    async def exists(self, stream: int) -> bool:
        """Return whether a stream exists."""
        return (await self._session.question(wire.Check(_checked(stream)), StreamState)).is_valid


def _checked(stream: int) -> int:
    if not 0 <= stream < wire.STREAM_END:
        raise ValueError(f"{stream} is no stream: they are numbered from 0 to {wire.STREAM_END - 1}")
    return stream


def _the(kind: type[K]) -> Callable[[list[Reply]], K]:
    def meaning(replies: list[Reply]) -> K:
        (reply,) = replies
        if not isinstance(reply, kind):
            raise WireError(f"{type(reply).__name__} where {kind.__name__} is due")
        return reply

    return meaning
