"""Networks lose, repeat, reorder and damage; clients move and vanish. What arrives is what was sent."""

from __future__ import annotations

from tests.rigs.quic.case import Echo, HalfRecorder, QuicCase, Recorders


class NetworkTests(QuicCase):
    async def test_bad_network(self) -> None:
        """Over a network that does all of it at once, each stream brings back its bytes, each once and in order."""
        for seed in range(3):
            factory = Recorders(Echo)
            port = await self.listen(factory)
            relay = await self.relay(port, seed=seed, lose=0.04, repeat=0.1, delay=0.2, damage=0.02)
            connection = await self.dial(relay.port)
            clients = [HalfRecorder() for _ in range(4)]
            for number, client in enumerate(clients):
                connection.openStream(client).write(bytes([number]) * 30_000)
                client.transport.loseWriteConnection()
            await self.until(lambda clients=clients: all(each.reason is not None for each in clients))  # type: ignore[misc]
            self.assertEqual([each.data for each in clients], [bytes([number]) * 30_000 for number in range(4)])
            for count in (relay.lost, relay.repeated, relay.delayed, relay.damaged):
                self.assertGreater(count, 0)
            connection.close()

    async def test_rebinding(self) -> None:
        """A client that comes from another port all of a sudden is the same client."""
        factory = Recorders(Echo)
        port = await self.listen(factory)
        relay = await self.relay(port)
        connection = await self.dial(relay.port)
        client, server = await self.open(connection, factory, HalfRecorder(), b"before")
        await self.until(lambda: client.data == b"before")
        was = server.transport.getPeer().port
        (now,) = await relay.rebind()
        self.assertNotEqual(was, now)
        client.transport.write(b", after")
        await self.until(lambda: client.data == b"before, after")
        self.assertEqual(server.transport.getPeer().port, now)
        client.transport.write(bytes(500_000))
        await self.until(lambda: client.received_bytes == 500_013)
        self.assertEqual((len(factory.opened), factory.closed), (1, []))

    async def test_large_datagrams(self) -> None:
        """Where the network takes them, datagrams may be as large as the settings allow."""
        data = bytes(range(256)) * 2_000
        for size in (1_500, 16_000):
            factory = Recorders(Echo)
            port = await self.listen(factory, datagram_bytes_max=size)
            relay = await self.relay(port)
            connection = await self.dial(relay.port, datagram_bytes_max=size)
            client, _ = await self.open(connection, factory, HalfRecorder(), data)
            client.transport.loseWriteConnection()
            await self.until(lambda client=client: client.reason is not None)  # type: ignore[misc]
            self.assertEqual(client.data, data)
            self.assertGreater(relay.largest_bytes, size - 100)

    async def test_vanished(self) -> None:
        """A client that is heard of no more is given up after the idle time, and takes nothing along."""
        factory = Recorders()
        port = await self.listen(factory, idle_seconds=2)
        relay = await self.relay(port)
        connection = await self.dial(relay.port)
        _, server = await self.open(connection, factory, HalfRecorder())
        relay.cut()
        await self.until(lambda: bool(factory.closed) and server.reason is not None)
        self.assertIn("Idle", server.reason.value.reason)
        await self.until(lambda: not port.listener.connections)
        self.assertEqual(port.listener._routes, {})

    async def test_unreachable(self) -> None:
        """Nobody is there: the client gives up after its time."""
        port = await self.listen(Recorders())
        relay = await self.relay(port)
        relay.cut()
        failed = self.endpoint(relay.port, handshake_seconds_max=0.2).dial()
        await self.assertFailure(failed, Exception)

    async def test_cancelled(self) -> None:
        """Who gives up dialing leaves nothing behind."""
        port = await self.listen(Recorders())
        relay = await self.relay(port)
        relay.cut()
        dialing = self.endpoint(relay.port).dial()
        dialing.addErrback(lambda _: None)
        dialing.cancel()
