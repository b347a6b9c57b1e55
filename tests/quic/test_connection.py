"""Many of everything: short streams on a connection, connections on a port."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, gatherResults

from streamd.quic.connection import Connection
from tests.rigs.quic.case import Echo, HalfRecorder, QuicCase, Recorders

STREAMS = 3_000
CONNECTIONS = 1000
AT_A_TIME = 50


class Short(HalfRecorder):
    """Sends a little, takes it back, tells."""

    def __init__(self, done: Any) -> None:
        super().__init__()
        self._done = done

    def connectionMade(self) -> None:
        super().connectionMade()
        self.transport.write(b"0123456789")
        self.transport.loseWriteConnection()

    def connectionLost(self, reason: Any = None) -> None:
        super().connectionLost(reason)
        self._done(self)


class ManyTests(QuicCase):
    async def test_short_streams(self) -> None:
        """Thousands of streams, some dozen at a time, all come back, and none of them is left in memory."""
        factory = Recorders(Echo)
        connection, server = await self.pair(factory, streams_max=64)
        left, wrong = [STREAMS], []

        def done(stream: Short) -> None:
            if stream.data != b"0123456789":
                wrong.append(stream)
            left[0] -= 1
            if left[0] >= 50:
                connection.openStream(Short(done))

        for _ in range(50):
            connection.openStream(Short(done))
        await self.until(lambda: left[0] == 0)
        self.assertEqual((len(factory.made), wrong), (STREAMS, []))
        await self.until(lambda: not server.stream_count and not connection.stream_count)
        for each in (server._quic, connection._quic):
            await self.until(lambda each=each: not each._streams and not each._streams_queue)  # type: ignore[misc]
        self.assertEqual((server._watched, server._ready, server._asked), ({}, {}, {}))

    async def test_connections(self) -> None:
        """Hundreds of connections at once are each served, and none of them is left when they have gone."""
        factory = Recorders(Echo)
        # Without Retry: who began both with and without a token leaves a handshake that has to run out first.
        port = await self.listen(factory, retry_handshakes=None, handshake_seconds_max=60)
        dialed: list[Connection] = []
        while len(dialed) < CONNECTIONS:
            some = [self.dial(port.getHost().port, handshake_seconds_max=60) for _ in range(AT_A_TIME)]
            dialed += await gatherResults([Deferred.fromCoroutine(each) for each in some])
        clients = []
        for connection in dialed:
            clients.append(HalfRecorder())
            connection.openStream(clients[-1]).write(b"hello")
        await self.until(lambda: all(each.data == b"hello" for each in clients))
        self.assertEqual((len(factory.opened), len(port.listener.connections)), (CONNECTIONS, CONNECTIONS))
        for connection in dialed:
            connection.close()
        await self.until(lambda: len(factory.closed) == CONNECTIONS and not port.listener.connections)
        self.assertEqual(port.listener._routes, {})
