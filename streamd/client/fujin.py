"""Fujin, asynchronous, over QUIC on Twisted's reactor: write, write in transactions, subscribe, fetch, acknowledge.

    async with FujinClient("127.0.0.1:4848", reactor=reactor, trust=Trust(certificates=pem)) as client:
        writer = client.writer()
        await writer.write("orders", [b"first", b"second"])
        async with writer.transaction():
            await writer.write("orders", [b"third"])
            await writer.write("invoices", [b"for the third"])
        async with client.reader("orders") as reader:
            async for message in reader:
                print(message.data)
                await reader.acknowledge([message])

Each writer and each reader is a stream of its own on one connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol

from streamd.client.address import TcpAddress, parse_address
from streamd.client.errors import ConnectionLost
from streamd.client.fujin_stream import Asked, Ended, FujinStream
from streamd.client.session import chunks
from streamd.client.target import CONNECT_SECONDS_MAX, PIPELINED_BYTES_MAX, REPLY_BYTES_MAX, REPLY_SECONDS_MAX
from streamd.quic.client import QuicClientEndpoint, Trust
from streamd.quic.interfaces import TooManyStreams
from streamd.quic.settings import QuicSettings
from streamd.wire import fujin_client
from streamd.wire.fujin_replies import Reply

ALPN: Final = "fujin"


class Message(NamedTuple):
    """What a reader gets. `meta` is what it is acknowledged by, empty where that need not be."""

    data: bytes
    meta: bytes


class _Closing:
    """What is closed at the end of an ``async with`` block."""

    async def close(self) -> None:
        """Disconnect in order."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Writer(_Closing):
    """Writes messages. Made by `FujinClient.writer`."""

    def __init__(self, stream: FujinStream) -> None:
        self._stream = stream

    async def write(self, topic: str, messages: Iterable[bytes]) -> None:
        """Write messages, in order; done when all of them are on disk, or in a transaction accepted.

        They are sent without waiting for each other. Refused says what the daemon has against one of them, and how many
        it refused.
        """
        stream = self._stream
        asked: list[Asked] = []
        for chunk in chunks(messages):
            await stream.room(PIPELINED_BYTES_MAX)
            data = fujin_client.writes(stream.next_ids(len(chunk)), topic, chunk)
            # Those that are answered well need not be remembered: there may be any number of them.
            asked = [each for each in asked if each.left or each.refused]
            asked.append(stream.ask(data, Reply.WRITTEN, len(chunk)))
        await stream.answered(*asked)

    async def begin(self) -> None:
        """Begin a transaction: what is written from here on is seen after `commit`, together."""
        await self._transact(fujin_client.begin, Reply.BEGUN)

    async def commit(self) -> None:
        """Make it seen; done when it is on disk. ConnectionLost where that can't be: then nothing of it ever is."""
        await self._transact(fujin_client.commit, Reply.COMMITTED)

    async def rollback(self) -> None:
        """Forget it."""
        await self._transact(fujin_client.rollback, Reply.ROLLED_BACK)

    async def _transact(self, command: Any, reply: Reply) -> None:
        await self._stream.answered(self._stream.ask(command(self._stream.next_ids(1)), reply, 1))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A block that is a transaction: committed at its end, rolled back where it raises."""
        await self.begin()
        try:
            yield
        except BaseException:
            if not self._stream.is_over:
                await self.rollback()
            raise
        await self.commit()

    async def close(self) -> None:
        """Disconnect. A transaction that is not committed is forgotten."""
        await self._stream.disconnect()


class Reader(_Closing):
    """Messages, one after the other, for as long as there is a daemon. Made by `FujinClient.reader`.

    The iteration ends when the daemon asks its clients to go.
    """

    def __init__(self, stream: FujinStream, connecting: Asked, *, fetch: int | None) -> None:
        self._stream = stream
        self._connecting = connecting
        self._fetch = fetch
        self._wanted = 0

    @property
    def auto_commit(self) -> bool:
        """Whether the daemon counts a message as acknowledged when it is sent. Known when the first one is awaited."""
        return self._stream.auto_commit

    async def connect(self) -> Self:
        """Connect now, and learn whether the daemon has what is to be read; Refused where it has not."""
        await self._stream.answered(self._connecting)
        return self

    async def __aenter__(self) -> Self:
        return await self.connect()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        await self.connect()
        if self._fetch is not None and self._wanted * 2 <= self._fetch:
            # Asked for again when half of them have come, so that it need not wait for the next ones.
            more = self._fetch - self._wanted
            self._stream.send(fujin_client.fetch(more))
            self._wanted += more
        try:
            found = Message(*await self._stream.message())
        except Ended:
            raise StopAsyncIteration
        self._wanted -= 1
        return found

    async def acknowledge(self, messages: Iterable[Message]) -> None:
        """These are done with; returns when that is on disk. Refused where one of them is not this group's to have."""
        await self._answer(messages, Reply.ACKNOWLEDGED, back=False)

    async def refuse(self, messages: Iterable[Message]) -> None:
        """These are to be delivered again, to whomever."""
        await self._answer(messages, Reply.GIVEN_BACK, back=True)

    async def _answer(self, messages: Iterable[Message], reply: Reply, *, back: bool) -> None:
        metas = [message.meta for message in messages]
        if metas:
            first = self._stream.next_ids(len(metas))
            data = b"".join(
                [fujin_client.acknowledge(id & 0xFFFFFFFF, meta, back=back) for id, meta in enumerate(metas, first)]
            )
            await self._stream.answered(self._stream.ask(data, reply, len(metas)))

    async def close(self) -> None:
        """Disconnect. What is not acknowledged goes to other readers."""
        await self._stream.disconnect()


class _Pong(Protocol):
    """Answers a ping of the daemon's, on the stream that came with it."""

    transport: Any

    def dataReceived(self, data: bytes) -> None:
        self.transport.write(fujin_client.PONG)
        self.transport.loseConnection()


class FujinClient(_Closing):
    """One connection to the daemon at ``host:port``, with any number of writers and readers.

    :param trust: which certificate to believe: those that the system trusts, unless given.
    :param reply_seconds_max: how long the daemon, which pings, may be silent before the connection is given up.
    :param reply_bytes_max: the largest message that is taken.
    """

    def __init__(
        self,
        address: str,
        *,
        reactor: Any,
        trust: Trust = Trust(),
        connect_seconds_max: float = CONNECT_SECONDS_MAX,
        reply_seconds_max: float = REPLY_SECONDS_MAX,
        reply_bytes_max: int = REPLY_BYTES_MAX,
    ) -> None:
        parsed = parse_address(address)
        if not isinstance(parsed, TcpAddress):
            raise ValueError(f"{address!r} has no host and port, which QUIC needs")
        self._address = parsed
        self._endpoint = QuicClientEndpoint(
            reactor,
            parsed.host,
            parsed.port,
            trust=trust,
            settings=QuicSettings(
                alpn=(ALPN,), handshake_seconds_max=connect_seconds_max, idle_seconds=reply_seconds_max
            ),
        )
        self._reply_bytes_max = reply_bytes_max
        self._connection: Any = None
        self._streams: list[FujinStream] = []

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def connect(self) -> Self:
        """Connect."""
        if self._connection is None:
            pongs = Factory.forProtocol(_Pong)
            pongs.noisy = False
            try:
                self._connection = await self._endpoint.dial(pongs)
            except Exception as error:
                # QUIC's own errors of connecting have no ancestor but this.
                raise ConnectionLost(f"no connection to {self._address}: {error}")
        return self

    def writer(self, writer_id: int = 0) -> Writer:
        """A new writer."""
        return Writer(self._stream(fujin_client.connect_writer(writer_id)))

    def reader(self, name: str, *, fetch: int | None = None) -> Reader:
        """A new reader of what is behind a name: pushed to, or with `fetch`, asking for about so many at a time."""
        if fetch is not None and fetch < 1:
            raise ValueError("a reader fetches one message at least")
        stream = self._stream(b"")
        data = fujin_client.connect_reader(name, consumer=fetch is not None)
        return Reader(stream, stream.ask(data, Reply.READER_CONNECTED, 1), fetch=fetch)

    def _stream(self, first: bytes) -> FujinStream:
        if self._connection is None:
            raise ConnectionLost("the client is not connected: use it in an async with block")
        stream = FujinStream(self._reply_bytes_max)
        self._streams = [each for each in self._streams if not each.is_over]
        try:
            self._connection.openStream(stream)
        except (ConnectionDone, TooManyStreams) as error:
            raise ConnectionLost(f"no stream to {self._address}: {error}")
        self._streams.append(stream)
        if first:
            stream.send(first)
        return stream

    async def close(self) -> None:
        """Disconnect all writers and readers, and hang up."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        streams, self._streams = self._streams, []
        for stream in streams:
            await stream.disconnect()
        connection.close()
