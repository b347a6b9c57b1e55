"""Memory stays bounded: whoever does not read is not sent more, whoever floods is held back, and nothing is lost."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.quic.library import QuicConnection, missing_seams
from streamd.quic.stream import StreamTransport
from tests.rigs.quic.case import HalfRecorder, Paused, Push, QuicCase, Recorder, Recorders


def kept_bytes(stream: StreamTransport) -> int:
    """All that is kept of what came on a stream: what waits for the protocol, and what waits for what is missing."""
    return stream.held_bytes + len(stream._stream.receiver._buffer)


class Ledger:
    """Sees a transfer through, and remembers the most that was ever kept."""

    def __init__(self) -> None:
        self.kept_bytes = 0

    def look(self, *sizes: int) -> bool:
        self.kept_bytes = max(self.kept_bytes, *sizes)
        return False


class ReceivingTests(QuicCase):
    async def test_paused(self) -> None:
        """A flood into a stream that nobody reads stops at its window; when it is read on, all of it is there."""
        factory, flood = Recorders(Paused), 6 << 20
        window = 256 << 10
        port = await self.listen(factory, stream_receive_bytes_max=window)
        connection = await self.dial(port.getHost().port)
        client, server = await self.open(connection, factory, Recorder())
        producer = Push(client.transport, flood)
        client.transport.registerProducer(producer, True)
        producer.run()
        await self.until(lambda: server.transport.held_bytes >= window)
        # Another stream of the connection goes on, and with it time enough for a window that moved to be filled.
        other, reader = await self.open(connection, factory, Recorder())
        reader.transport.resumeProducing()
        for size in range(1, 50):
            other.transport.write(b"!")
            await self.until(lambda size=size: reader.received_bytes == size + 1)  # type: ignore[misc]
        self.assertEqual(kept_bytes(server.transport), window)
        self.assertTrue(producer.paused)
        ledger = Ledger()
        server.transport.resumeProducing()
        await self.until(lambda: ledger.look(kept_bytes(server.transport)) or server.received_bytes == flood + 1)
        self.assertLessEqual(ledger.kept_bytes, window)

    async def test_connection_window(self) -> None:
        """Many streams that nobody reads stop at the connection's window; as they are read, all of it comes."""
        factory = Recorders(Paused)
        window = 300_000
        port = await self.listen(factory, connection_receive_bytes_max=window, stream_receive_bytes_max=100_000)
        connection = await self.dial(port.getHost().port)
        producers = []
        for _ in range(8):
            client = Recorder()
            connection.openStream(client)
            producers.append(Push(client.transport, 100_000))
            client.transport.registerProducer(producers[-1], True)
            producers[-1].run()
        await self.until(lambda: bool(factory.opened) and factory.opened[0].held_bytes >= window)
        self.assertEqual(factory.opened[0].held_bytes, window)
        server = next(each for each in factory.made if each.transport.held_bytes)
        held, ledger = server.transport.held_bytes, Ledger()
        server.transport.resumeProducing()
        # It gets more than what lay there: also with most of the window full the rest of it moves on.
        await self.until(lambda: ledger.look(factory.opened[0].held_bytes) or server.received_bytes > held)
        await self.until(lambda: ledger.look(factory.opened[0].held_bytes) or factory.opened[0].held_bytes == window)
        self.assertEqual(ledger.kept_bytes, window)
        for each in factory.made:
            each.transport.resumeProducing()
        await self.until(
            lambda: len(factory.made) == 8 and sum(each.received_bytes for each in factory.made) == 800_000
        )

    async def test_dropped(self) -> None:
        """What came on streams that were given up does not count against the connection for ever."""
        factory = Recorders(Paused)
        port = await self.listen(factory, connection_receive_bytes_max=200_000, stream_receive_bytes_max=100_000)
        connection = await self.dial(port.getHost().port)
        ways: tuple[Any, ...] = (
            lambda client, server: server.transport.abortConnection(),
            lambda client, server: client.transport.abortConnection(),
            lambda client, server: server.transport.loseConnection(),
            lambda client, server: server.transport.stop(1),
        )
        for number in range(12):
            client, server = await self.open(connection, factory, Recorder(), bytes(150_000))
            await self.until(lambda server=server: server.transport.held_bytes == 100_000)  # type: ignore[misc]
            ways[number % len(ways)](client, server)
            if number % len(ways) == 3:
                server.transport.reset(1)
            await self.until(lambda client=client: client.reason is not None)  # type: ignore[misc]
        last, server = await self.open(connection, factory, Recorder(), bytes(150_000))
        server.transport.resumeProducing()
        await self.until(lambda: server.received_bytes == 150_000)
        self.assertIs(last.reason, None)

    async def test_gaps(self) -> None:
        """What comes out of order is kept within the same window."""
        factory = Recorders()
        port = await self.listen(factory, stream_receive_bytes_max=64 << 10)
        relay = await self.relay(port, seed=7, lose=0.1, delay=0.2)
        connection = await self.dial(relay.port)
        client, server = await self.open(connection, factory, Recorder(), bytes(1 << 20))
        ledger = Ledger()
        await self.until(lambda: ledger.look(kept_bytes(server.transport)) or server.received_bytes == 1 << 20)
        self.assertLessEqual(ledger.kept_bytes, 64 << 10)
        self.assertIs(client.reason, None)

    async def test_gaps_for_nobody(self) -> None:
        """Nor does what came behind gaps pile up, on streams that we have ended and a hostile peer has not."""
        factory, window = Recorders(), 200_000
        port = await self.listen(factory, connection_receive_bytes_max=window, stream_receive_bytes_max=100_000)
        connection = await self.dial(port.getHost().port)
        pairs = [await self.open(connection, factory, HalfRecorder()) for _ in range(8)]
        quic: Any = connection._quic
        for client, _ in pairs:
            # It does not do what it is told: neither to stop, nor to begin at the beginning.
            sender = client.transport._stream.sender
            sender.reset = lambda error_code: None
            sender.write(bytes(80_000))
            sender._pending.subtract(1, 2)
        connection.touch()
        streams = [server.transport._stream for _, server in pairs]

        def kept() -> int:
            return sum(len(each.receiver._buffer) for each in streams)

        await self.until(lambda: kept() > window - 100)
        for _, server in pairs:
            server.transport.loseConnection()
        await self.until(lambda: all(server.reason is not None for _, server in pairs))
        await self.until(lambda: quic._remote_max_data_used == quic._remote_max_data)
        self.assertLessEqual(kept(), window)

    async def test_crumbs(self) -> None:
        """A byte at a time takes no more memory than all at once."""
        factory = Recorders(Paused)
        connection, _ = await self.pair(factory)
        client, server = await self.open(connection, factory, Recorder())
        for size in range(2, 200):
            client.transport.write(b"!")
            await self.until(lambda size=size: server.transport.held_bytes == size)  # type: ignore[misc]
        self.assertEqual(server.transport._received, [])
        self.assertEqual(len(server.transport._held), 199)

    async def test_over_the_window(self) -> None:
        """A peer that sends more than it may is cut off."""
        factory = Recorders(Paused)
        for stream_bytes, connection_bytes in ((10_000, 1 << 20), (1 << 20, 10_000)):
            port = await self.listen(
                factory, stream_receive_bytes_max=stream_bytes, connection_receive_bytes_max=connection_bytes
            )
            connection = await self.dial(port.getHost().port)
            client = Recorder()
            stream = connection.openStream(client)
            connection._quic._remote_max_data = stream._stream.max_stream_data_remote = 1 << 30
            stream.write(bytes(20_000))
            await self.until(lambda client=client: client.reason is not None)  # type: ignore[misc]
            self.assertEqual((client.reason.value.code, client.reason.value.application), (3, False))


class SendingTests(QuicCase):
    async def test_slow_reader(self) -> None:
        """One who does not read pauses the producer at the limit; when it reads, all of it comes."""
        factory, total = Recorders(), 5_000_000
        limit = 100_000
        port = await self.listen(factory, stream_send_bytes_max=limit)
        connection = await self.dial(port.getHost().port, stream_receive_bytes_max=200_000)
        client, server = await self.open(connection, factory, Paused())
        producer = Push(server.transport, total)
        server.transport.registerProducer(producer, True)
        producer.run()
        # What the client's window takes has left; behind it the server keeps no more than its limit, and one write.
        ledger = Ledger()
        await self.until(
            lambda: ledger.look(server.transport.unacknowledged_bytes) or client.transport.held_bytes == 200_000
        )
        self.assertTrue(producer.paused)
        client.transport.resumeProducing()
        await self.until(lambda: ledger.look(server.transport.unacknowledged_bytes) or client.received_bytes == total)
        self.assertLessEqual(ledger.kept_bytes, limit + 10_000)
        self.assertGreater(producer.pauses, 10)

    async def test_connection_limit(self) -> None:
        """All streams together keep no more than the connection may, however many there are."""
        factory, limit = Recorders(), 200_000
        port = await self.listen(factory, stream_send_bytes_max=100_000, connection_send_bytes_max=limit)
        connection = await self.dial(port.getHost().port, stream_receive_bytes_max=1_000)
        producers, clients = [], []
        for _ in range(10):
            client, server = await self.open(connection, factory, Paused())
            clients.append(client)
            producers.append(Push(server.transport, 300_000))
            server.transport.registerProducer(producers[-1], True)
            producers[-1].run()
        kept = sum(each.transport.unacknowledged_bytes for each in factory.made)
        # Each stream notices it with a write of its own.
        self.assertLessEqual(kept, limit + 10 * 10_000)
        self.assertTrue(all(each.paused for each in producers))
        for client in clients:
            client.transport.resumeProducing()
        await self.until(lambda: all(each.received_bytes == 300_000 for each in clients))

    async def test_reset(self) -> None:
        """What was written to a stream that is given up is forgotten at once, whoever gives it up."""
        factory = Recorders(HalfRecorder)
        port = await self.listen(factory)
        connection = await self.dial(port.getHost().port, stream_receive_bytes_max=1_000)
        ways: tuple[Any, ...] = (
            lambda client, server: server.transport.reset(1),
            lambda client, server: server.transport.abortConnection(),
            lambda client, server: client.transport.stop(1),
        )
        for way in ways:
            client, server = await self.open(connection, factory, Paused())
            server.transport.write(bytes(200_000))
            self.assertEqual(server.transport.unacknowledged_bytes, 200_000)
            way(client, server)
            await self.until(lambda server=server: server.transport.unacknowledged_bytes == 0)  # type: ignore[misc]


class SeamTests(SynchronousTestCase):
    def test_missing(self) -> None:
        """A library whose inside is another is refused, not trusted."""

        class Moved(QuicConnection):
            def _write_application(self, *arguments: Any) -> None:
                self._write_stream_limits(*arguments)

        class Renamed(QuicConnection):
            def _write_stream_limits(self, builder: Any, stream: Any) -> None: ...  # type: ignore[override]

        self.assertEqual(missing_seams(), [])
        self.assertEqual(missing_seams(Moved), ["_write_connection_limits"])
        self.assertEqual(missing_seams(Renamed), ["_write_stream_limits"])
