"""Connections as streams of real QUIC: how they end, and what holds them back."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from streamd.client.core.connection import ClientConnection
from streamd.client.core.session import OrderedSession
from streamd.client.drivers.streams import StreamDriver
from streamd.client.errors import ConnectionLost
from tests.rigs.client.lines import Lines, joined
from tests.rigs.client.rig import TARGET
from tests.rigs.quic.case import Echo, QuicCase, Recorders


class StreamTests(QuicCase):
    async def connect(self, factory: Recorders, **settings: Any) -> Any:
        """Something that makes connections on one QUIC connection."""
        quic, _ = await self.pair(factory, **settings)
        driver = StreamDriver(self.reactor, quic, lambda code: f"CODE {code}")
        return lambda: ClientConnection(OrderedSession(Lines(), TARGET), TARGET, driver)

    async def ask(self, connection: ClientConnection[OrderedSession[bytes]], data: bytes) -> bytes:
        """Send lines and return them as they come back."""
        return await connection.session.ask(data, data.count(b"\n"), joined)

    async def fails(self, operation: Any) -> str:
        """The error that it ends with."""
        return str(await self.assertFailure(Deferred.fromCoroutine(operation), ConnectionLost))

    async def test_streams(self) -> None:
        """Each connection is a stream of its own, closed in order, however much it sends."""
        make = await self.connect(Recorders(Echo))
        first, second = make(), make()
        lines = b"x" * 99 + b"\n"
        self.assertEqual(await first.carry_out(self.ask(first, b"a\nb\n")), b"a b")
        self.assertEqual(len(await second.carry_out(self.ask(second, lines * 20_000))), 100 * 20_000 - 1)
        await first.close()
        self.assertEqual(await second.carry_out(self.ask(second, b"c\n")), b"c")
        await second.close()
        self.assertIn("closed", await self.fails(second.open()))

    async def test_end(self) -> None:
        """A server that ends its part ends the connection."""
        factory = Recorders()
        connection = (await self.connect(factory))()
        asking = Deferred.fromCoroutine(connection.carry_out(self.ask(connection, b"a\n")))
        await self.until(lambda: bool(factory.made and factory.made[0].data))
        factory.made[0].transport.loseConnection()
        error = await self.assertFailure(asking, ConnectionLost)
        self.assertEqual(str(error), "the daemon has ended the stream")
        await connection.close()

    async def test_code(self) -> None:
        """A code that a stream is closed with is named."""
        factory = Recorders()
        connection = (await self.connect(factory))()
        asking = Deferred.fromCoroutine(connection.carry_out(self.ask(connection, b"a\n")))
        await self.until(lambda: bool(factory.made and factory.made[0].data))
        factory.made[0].transport.abortConnection(19)
        error = await self.assertFailure(asking, ConnectionLost)
        self.assertIn("the daemon closed it with CODE 19", str(error))
        await connection.close()

    async def test_gone(self) -> None:
        """On a QUIC connection that is gone no stream can be opened."""
        factory = Recorders()
        make = await self.connect(factory)
        self.connections[0].close()
        await self.until(lambda: not self.connections[0].is_active)
        self.assertIn("no connection to unix:rig", await self.fails(make().open()))
