"""Pravega's append blocks, asynchronous."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Self, Unpack

from streamd.client.asynchronous.client import Client, Closing, asynchronous
from streamd.client.asynchronous.connection import Connection, Framework
from streamd.client.backlog import Appender, WriterOptions, WriterSession
from streamd.client.errors import ClientError, ConnectionLost
from streamd.client.pravega import PravegaSession, Reading
from streamd.client.session import chunks, closed
from streamd.client.target import Target


class Reader(Reading):
    """The events of a segment, one after the other. Made by `PravegaClient.reader`."""

    def __init__(self, client: PravegaClient, segment: str, offset: int, wait: bool) -> None:
        super().__init__(client._session, segment, offset, wait)
        self._client = client

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        event = self._next()
        if event is None and await self._client._run(self._fill()):
            event = self._next()
        if event is None:
            raise StopAsyncIteration
        return event


class PravegaClient(Client[PravegaSession]):
    """Makes segments, and hands out who writes and who reads them."""

    _session_type = PravegaSession

    create = asynchronous(PravegaSession.create)
    read = asynchronous(PravegaSession.read)
    ping = asynchronous(PravegaSession.ping)

    def reader(self, segment: str, offset: int = 0, *, wait: bool = True) -> Reader:
        """The events of a segment from this offset on, where one must begin.

        At the end it waits for more, until the segment is sealed; with ``wait=False`` it stops there. (A segment that
        has nothing at this offset is waited for all the same, for as long as the daemon does: 10 s, if not set.)
        """
        return Reader(self, segment, offset, wait)

    def writer(self, segment: str, **options: Unpack[WriterOptions]) -> Writer:
        """Who appends events to a segment, each exactly once, over lost connections and restarts of the daemon."""
        return Writer(self._framework, self._target, segment, **options)


class Writer(Appender, Closing):
    """Appends events to a segment, on a connection of its own which is made again when it is lost."""

    def __init__(self, framework: Framework, target: Target, segment: str, **options: Unpack[WriterOptions]) -> None:
        super().__init__(target, segment, **options)
        self._framework = framework
        self._connection: Connection[WriterSession] | None = None

    async def connect(self) -> Self:
        """Connect now, and learn how much of this writer is stored."""
        await self._settle(self._bytes_max)
        return self

    async def write(self, events: Iterable[bytes]) -> None:
        """Append events, in order. They are on their way when it returns, and on disk after `flush`.

        It waits only while too much is not acknowledged. A connection that is lost is made again, and what may be
        missing is sent again; ConnectionLost comes when nothing was stored for `reconnect_seconds_max`. What was taken
        from `events` is kept even then, and `flush` tries again; of an iterator, the rest can still be written.
        """
        if not self._backlog.is_placed:
            await self.connect()
        for chunk in chunks(events):
            self._backlog.add(chunk)
            await self._settle(self._bytes_max)

    async def flush(self) -> None:
        """Wait until all that was written is on disk."""
        await self._settle(0)

    async def close(self) -> None:
        """Wait until all that was written is on disk, and hang up."""
        if not self._closed:
            try:
                if self._backlog.held_bytes:
                    await self.flush()
            finally:
                await self._abort()

    async def _settle(self, bytes_max: int) -> None:
        patience = self._new_patience()
        while True:
            if self._connection is None:
                self._connection = Connection(self._new_session(), self._target, self._framework)
            # Others may be here too, and the first of us who finds it lost makes the next one.
            connection = self._connection
            try:
                await connection.run(connection.session.settle(bytes_max))
                return
            except ConnectionLost as error:
                await self._hang_up(connection)
                await self._framework.txaio.sleep(patience.delay(error, time.monotonic()))
            except ClientError:
                await self._hang_up(connection)
                raise

    async def _hang_up(self, connection: Connection[WriterSession] | None) -> None:
        if connection is not None:
            if connection is self._connection:
                self._connection = None
            connection.abort(closed())
            await connection.close()

    async def _abort(self) -> None:
        await self._hang_up(self._connection)
        self._closed = True
