"""The client of Fujin, and its writers and readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from twisted.internet.protocol import Factory, Protocol

from streamd.client.address import TcpAddress, parse_address
from streamd.client.core.commands import Asynchronous, AsynchronousIterator, Commands, ConnectedCommands, command
from streamd.client.core.connection import MakeDriver
from streamd.client.core.session import Steps, chunks
from streamd.client.drivers.streams import StreamDriver
from streamd.client.errors import ConnectionLost, Refused
from streamd.client.fujin.session import FujinSession, Message, StreamEnded, name_of_code, refusal_of
from streamd.client.target import CONNECT_SECONDS_MAX, REPLY_BYTES_MAX, REPLY_SECONDS_MAX, Target
from streamd.quic.client import QuicClientEndpoint, Trust
from streamd.quic.settings import QuicSettings
from streamd.wire.client import fujin as fujin_client
from streamd.wire.fujin_replies import Reply

W = TypeVar("W", "Writer", "Reader")

ALPN: Final = "fujin"


class FujinStream(Asynchronous, ConnectedCommands[FujinSession]):
    """A stream of its own on the client's connection.

    :param first: the command that makes it a writer's or a reader's.
    :param reply: the reply to that command; None where it gets none.
    """

    def __init__(self, target: Target, make_driver: MakeDriver, first: bytes, reply: Reply | None = None) -> None:
        self._first = first
        self._reply = reply
        super().__init__(target, make_driver)

    def _make_session(self) -> FujinSession:
        return FujinSession(self._target, self._first, self._reply)


class Writer(FujinStream):
    """Writes messages of Fujin. Made by `FujinClient.writer`.

    `close`, and the end of an ``async with`` block, disconnect. A transaction that is not committed is forgotten.
    """

    @command
    async def write(self, topic: str, messages: Iterable[bytes]) -> None:
        """Write messages, in order; done when all of them are on disk, or in a transaction accepted.

        Messages are sent without waiting for each other. Refused has the first reason where the daemon refuses some of
        them, and how many they were.
        """
        session = self._session
        requests = (
            (fujin_client.writes(session.next_ids(len(chunk)), topic, chunk), len(chunk)) for chunk in chunks(messages)
        )
        refused = list(filter(None, await session.ask_many(requests, refusal_of(Reply.WRITTEN))))
        if refused:
            raise Refused(refused[0].reason, str(refused[0]), sum(error.count for error in refused))

    @command
    async def begin(self) -> None:
        """Begin a transaction: what is written from here on is seen after `commit`, together."""
        await self._transact(fujin_client.begin, Reply.BEGUN)

    @command
    async def commit(self) -> None:
        """Commit the transaction; done when it is on disk. ConnectionLost where that fails: nothing of it is stored."""
        await self._transact(fujin_client.commit, Reply.COMMITTED)

    @command
    async def rollback(self) -> None:
        """Forget the transaction."""
        await self._transact(fujin_client.rollback, Reply.ROLLED_BACK)

    async def _transact(self, request: Callable[[int], bytes], reply: Reply) -> None:
        await self._session.demand(request(self._session.next_ids(1)), reply)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a block that is a transaction: committed at its end, rolled back where it raises."""
        await self.begin()
        try:
            yield
        except BaseException:
            if not self.is_closed:
                await self.rollback()
            raise
        await self.commit()


class Reader(AsynchronousIterator[Message], FujinStream):
    """Messages of Fujin, one after the other, for as long as there is a daemon. Made by `FujinClient.reader`.

    `connect`, and the beginning of an ``async with`` block, tell whether the daemon has what is to be read: Refused
    where it has not. The iteration ends when the daemon asks its clients to go. `close`, and the end of the block,
    disconnect: messages that are not acknowledged go to other readers.
    """

    def __init__(self, target: Target, make_driver: MakeDriver, name: str, fetch: int | None) -> None:
        first = fujin_client.connect_reader(name, consumer=fetch is not None)
        super().__init__(target, make_driver, first, Reply.READER_CONNECTED)
        self._client: Commands = self
        self._fetch = fetch
        self._wanted = 0

    @property
    def auto_commit(self) -> bool:
        """Whether the daemon counts a message as acknowledged when it is sent. Known when the reader is connected."""
        return self._session.auto_commit

    async def __anext__(self) -> Message:
        try:
            if self._fetch is not None and self._wanted * 2 <= self._fetch:
                await self._carry_out(self._fetch_more(self._fetch - self._wanted))
            message = await super().__anext__()
        except StreamEnded:
            raise StopAsyncIteration
        self._wanted -= 1
        return message

    async def _fetch_more(self, count: int) -> None:
        """Ask for messages, when half of those before have come: so the reader need not wait for the next ones."""
        self._session.send(fujin_client.fetch(count))
        self._wanted += count

    def _take(self) -> Message | None:
        return self._session.take()

    async def _fill(self) -> bool:
        return await self._session.fill()

    @command
    async def acknowledge(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages; done when that is on disk. Refused where one of them is not this group's to have."""
        await self._answer(messages, Reply.ACKNOWLEDGED, back=False)

    @command
    async def refuse(self, messages: Iterable[Message]) -> None:
        """Give messages back, to be delivered again to any reader of the group."""
        await self._answer(messages, Reply.GIVEN_BACK, back=True)

    async def _answer(self, messages: Iterable[Message], reply: Reply, *, back: bool) -> None:
        metas = [message.meta for message in messages]
        if metas:
            first = self._session.next_ids(len(metas))
            data = b"".join(
                [fujin_client.acknowledge(id & 0xFFFFFFFF, meta, back=back) for id, meta in enumerate(metas, first)]
            )
            await self._session.demand(data, reply, len(metas))


class _Pong(Protocol):
    """Answers a ping of the daemon's, on the stream that came with it."""

    transport: Any

    def dataReceived(self, data: bytes) -> None:
        self.transport.write(fujin_client.PONG)
        self.transport.loseConnection()


class FujinClient(Asynchronous):
    """One connection of Fujin to the daemon at ``host:port``, with any number of writers and readers.

    `close`, and the end of an ``async with`` block, disconnect all writers and readers, and hang up.

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
        super().__init__(
            Target(parsed, None, connect_seconds_max, reply_seconds_max, reply_bytes_max),
            lambda: StreamDriver(reactor, self._quic, name_of_code),
        )
        self._endpoint = QuicClientEndpoint(
            reactor,
            parsed.host,
            parsed.port,
            trust=trust,
            settings=QuicSettings(
                alpn=(ALPN,), handshake_seconds_max=connect_seconds_max, idle_seconds=reply_seconds_max
            ),
        )
        self._quic: Any = None
        self._streams: list[FujinStream] = []

    def writer(self, writer_id: int = 0) -> Writer:
        """Return a new writer. The client has to be connected."""
        return self._begun(Writer(self._target, self._make_driver, fujin_client.connect_writer(writer_id)))

    def reader(self, name: str, *, fetch: int | None = None) -> Reader:
        """Return a new reader of what is behind a name. The client has to be connected.

        The daemon sends all that comes; with `fetch`, the reader asks for about so many messages at a time.
        """
        if fetch is not None and fetch < 1:
            raise ValueError("a reader fetches one message at least")
        return self._begun(Reader(self._target, self._make_driver, name, fetch))

    def _begun(self, stream: W) -> W:
        """Open the stream of a writer or a reader."""
        if self._quic is None:
            raise ConnectionLost("the client is not connected: use it in an async with block")
        stream._connection.begin()
        if stream._session.error is not None:
            raise stream._session.error
        self._streams = [earlier for earlier in self._streams if not earlier.is_closed]
        self._streams.append(stream)
        return stream

    async def _open(self) -> None:
        if self._quic is None:
            pongs = Factory.forProtocol(_Pong)
            pongs.noisy = False
            try:
                self._quic = await self._endpoint.dial(pongs)
            except Exception as error:
                # QUIC's own errors of connecting have no ancestor but this.
                raise ConnectionLost(f"no connection to {self._target.address}: {error}")

    async def _close(self) -> None:
        await self._hang_up(ConnectedCommands._close)

    async def _abort(self) -> None:
        await self._hang_up(ConnectedCommands._abort)

    async def _hang_up(self, end: Callable[[ConnectedCommands[FujinSession]], Steps[None]]) -> None:
        quic, self._quic = self._quic, None
        streams, self._streams = self._streams, []
        if quic is not None:
            for stream in streams:
                await end(stream)
            quic.close()
