"""Pravega's append blocks, blocking."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Self, Unpack

from streamd.client.backlog import Appender, WriterOptions, WriterSession
from streamd.client.blocking.client import Client, Closing, blocking
from streamd.client.blocking.connection import Connection
from streamd.client.errors import ClientError, ConnectionLost
from streamd.client.pravega import PravegaSession, Reading
from streamd.client.session import chunks, closed
from streamd.client.target import Target


class Reader(Reading):
    """The events of a segment, one after the other. Made by `PravegaClient.reader`."""

    def __init__(self, client: PravegaClient, segment: str, offset: int, wait: bool) -> None:
        super().__init__(client._session, segment, offset, wait)
        self._client = client

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        event = self._next()
        if event is None and self._client._run(self._fill()):
            event = self._next()
        if event is None:
            raise StopIteration
        return event


class PravegaClient(Client[PravegaSession]):
    """Makes segments, and hands out who writes and who reads them."""

    _session_type = PravegaSession

    create = blocking(PravegaSession.create)
    read = blocking(PravegaSession.read)
    ping = blocking(PravegaSession.ping)

    def reader(self, segment: str, offset: int = 0, *, wait: bool = True) -> Reader:
        """The events of a segment from this offset on, where one must begin.

        At the end it waits for more, until the segment is sealed; with ``wait=False`` it stops there. (A segment that
        has nothing at this offset is waited for all the same, for as long as the daemon does: 10 s, if not set.)
        """
        return Reader(self, segment, offset, wait)

    def writer(self, segment: str, **options: Unpack[WriterOptions]) -> Writer:
        """Who appends events to a segment, each exactly once, over lost connections and restarts of the daemon."""
        return Writer(self._target, segment, **options)


class Writer(Appender, Closing):
    """Appends events to a segment, on a connection of its own which is made again when it is lost."""

    def __init__(self, target: Target, segment: str, **options: Unpack[WriterOptions]) -> None:
        super().__init__(target, segment, **options)
        self._connection: Connection[WriterSession] | None = None

    def connect(self) -> Self:
        """Connect now, and learn how much of this writer is stored."""
        self._settle(self._bytes_max)
        return self

    def write(self, events: Iterable[bytes]) -> None:
        """Append events, in order. They are on their way when it returns, and on disk after `flush`.

        It waits only while too much is not acknowledged. A connection that is lost is made again, and what may be
        missing is sent again; ConnectionLost comes when nothing was stored for `reconnect_seconds_max`. What was taken
        from `events` is kept even then, and `flush` tries again; of an iterator, the rest can still be written.
        """
        if not self._backlog.is_placed:
            self.connect()
        for chunk in chunks(events):
            self._backlog.add(chunk)
            self._settle(self._bytes_max)

    def flush(self) -> None:
        """Wait until all that was written is on disk."""
        self._settle(0)

    def close(self) -> None:
        """Wait until all that was written is on disk, and hang up."""
        if not self._closed:
            try:
                if self._backlog.held_bytes:
                    self.flush()
            finally:
                self._abort()

    def _settle(self, bytes_max: int) -> None:
        patience = self._new_patience()
        while True:
            if self._connection is None:
                self._connection = Connection(self._new_session(), self._target)
            try:
                self._connection.run(self._connection.session.settle(bytes_max))
                return
            except ConnectionLost as error:
                self._hang_up()
                time.sleep(patience.delay(error, time.monotonic()))
            except ClientError:
                self._hang_up()
                raise

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.abort(closed())
            self._connection = None

    def _abort(self) -> None:
        self._hang_up()
        self._closed = True
