"""A stream is a transport: what Twisted promises of one holds over QUIC."""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IConsumer, IPushProducer, ITransport
from twisted.internet.task import deferLater
from zope.interface.verify import verifyObject

from streamd.quic.interfaces import IQuicConnection, IQuicStream, QuicClosed, StreamReset, StreamStopped, TooManyStreams
from tests.rigs.quic.case import Echo, HalfRecorder, Paused, Push, QuicCase, Recorder, Recorders


class Pull(Push):
    """A pull producer: writes once each time it is asked."""

    def resumeProducing(self) -> None:
        size = min(10_000, self.left)
        self.left -= size
        self.transport.write(bytes(size))
        if not self.left:
            self.transport.unregisterProducer()


class StreamTests(QuicCase):
    async def test_interfaces(self) -> None:
        """A stream and a connection have all that their interfaces name."""
        factory = Recorders()
        connection, _ = await self.pair(factory)
        stream = connection.openStream(Recorder())
        for interface in (IQuicStream, ITransport, IConsumer, IPushProducer):
            verifyObject(interface, stream)
        verifyObject(IQuicConnection, connection)

    async def test_echo(self) -> None:
        """What is written comes back whole and in order, also when it is far more than a window."""
        factory = Recorders(Echo)
        connection, _ = await self.pair(factory)
        data = bytes(range(256)) * 8_000
        client, server = await self.open(connection, factory, Recorder(), data)
        await self.until(lambda: client.received_bytes == len(data))
        self.assertEqual(client.data, data)
        self.assertLess(len(client.parts), len(data) // 1200, "many datagrams are one call")
        self.assertEqual(server.transport.getPeer().host, "127.0.0.1")
        self.assertEqual(client.transport.getPeer().port, self.ports[0].getHost().port)
        self.assertEqual(server.transport.getHost().port, self.ports[0].getHost().port)

    async def test_end(self) -> None:
        """A protocol that knows no half close ends when the peer does; what it wrote before arrives."""
        factory = Recorders(Echo)
        connection, _ = await self.pair(factory)
        client, server = await self.open(connection, factory, HalfRecorder(), b"x" * 300_000)
        client.transport.loseWriteConnection()
        await self.until(lambda: client.read_lost and client.reason is not None and server.reason is not None)
        self.assertEqual(client.received_bytes, 300_000)
        self.assertTrue(client.write_lost)
        self.assertIs(server.reason.type, ConnectionDone)
        self.assertIs(client.reason.type, ConnectionDone)

    async def test_half_close(self) -> None:
        """After the peer's end a protocol that knows half close can still answer."""
        factory = Recorders(HalfRecorder)
        connection, _ = await self.pair(factory)
        client, server = await self.open(connection, factory, HalfRecorder())
        client.transport.loseWriteConnection()
        await self.until(lambda: bool(server.read_lost))
        client.transport.write(b"too late")
        server.transport.write(b"answer")
        server.transport.loseConnection()
        await self.until(lambda: client.reason is not None and server.reason is not None)
        self.assertEqual((client.data, server.data), (b"answer", b"?"))

    async def test_lose_flushes(self) -> None:
        """loseConnection sends all that was written, also what a producer still has, and then ends."""
        for kind in (Push, Pull):
            factory = Recorders(Recorder)
            connection, _ = await self.pair(factory)
            client, server = await self.open(connection, factory, Recorder())
            producer = kind(server.transport, 2_000_000)
            server.transport.registerProducer(producer, kind is Push)
            if kind is Push:
                producer.run()
            server.transport.loseConnection()
            await self.until(partial(self.both_lost, client, server))
            self.assertEqual(client.received_bytes, 2_000_000)
            self.assertIs(client.reason.type, ConnectionDone)

    def both_lost(self, client: Recorder, server: Recorder) -> bool:
        return client.reason is not None and server.reason is not None

    async def test_last_words(self) -> None:
        """One who is in the middle of sending reads the last words of a server that closes on it."""
        factory = Recorders(Paused)
        connection, _ = await self.pair(factory)
        client, server = await self.open(connection, factory, Recorder(), bytes(3_000_000))
        server.transport.write(b"no" * 50_000)
        server.transport.loseConnection()
        await self.until(lambda: client.reason is not None and server.reason is not None)
        self.assertEqual(client.data, b"no" * 50_000)

    async def test_abort(self) -> None:
        """abortConnection ends both ways at once; the peer sees a reset."""
        factory = Recorders()
        connection, _ = await self.pair(factory)
        client, server = await self.open(connection, factory, Recorder())
        server.transport.abortConnection()
        self.assertIs(server.reason, None, "told later, not from within the call")
        await self.until(lambda: client.reason is not None and server.reason is not None)
        self.assertIs(server.reason.type, ConnectionAborted)
        self.assertIsInstance(client.reason.value, StreamReset | StreamStopped)
        server.transport.write(b"into nothing")
        server.transport.loseConnection()

    async def test_codes(self) -> None:
        """Codes of the application reach the peer, and other streams of the connection go on."""
        factory = Recorders()
        connection, _ = await self.pair(factory)
        client, server = await self.open(connection, factory, Recorder())
        other, other_server = await self.open(connection, factory, Recorder())
        server.transport.reset(77)
        server.transport.stop(77)
        await self.until(lambda: client.reason is not None and server.reason is not None)
        self.assertEqual(client.reason.value.code, 77)
        other.transport.write(b"!")
        await self.until(lambda: other_server.data == b"?!")

    async def test_stop_alone(self) -> None:
        """A stream that is stopped is not read any more and still writes."""
        factory = Recorders(HalfRecorder)
        connection, _ = await self.pair(factory)
        client, server = await self.open(connection, factory, HalfRecorder())
        server.transport.stop(5)
        await self.until(lambda: bool(client.write_lost))
        client.transport.write(b"nobody takes this")
        server.transport.write(b"still here")
        await self.until(lambda: client.data == b"still here")
        self.assertEqual(server.data, b"?")
        server.transport.loseConnection()
        await self.until(lambda: server.reason is not None)

    async def test_pause(self) -> None:
        """A protocol that pauses in the middle gets no more until it resumes, the end not either."""
        factory = Recorders(HalfRecorder)
        connection, _ = await self.pair(factory)
        client, server = await self.open(connection, factory, HalfRecorder())
        server.transport.pauseProducing()
        client.transport.write(b"abc")
        client.transport.loseWriteConnection()
        await self.until(lambda: bool(client.write_lost))
        self.assertEqual((server.data, server.read_lost), (b"?", False))
        server.transport.resumeProducing()
        self.assertEqual(server.data, b"?", "not from within the call")
        await self.until(lambda: bool(server.read_lost))
        self.assertEqual(server.data, b"?abc")
        server.transport.stopProducing()
        await self.until(lambda: server.reason is not None)

    async def test_pause_often(self) -> None:
        """One who pauses at every piece, and goes on a turn later, gets all of it in order."""
        test = self

        class Hesitant(HalfRecorder):
            def dataReceived(self, data: bytes) -> None:
                test.assertFalse(self.paused)
                super().dataReceived(data)
                self.paused = True
                self.transport.pauseProducing()
                test.reactor.callLater(0, self.go_on)

            def go_on(self) -> None:
                self.paused = False
                self.transport.resumeProducing()

        factory = Recorders(Hesitant)
        connection, _ = await self.pair(factory)
        data = bytes(range(251)) * 8_000
        client, server = await self.open(connection, factory, HalfRecorder(), data)
        client.transport.loseWriteConnection()
        await self.until(lambda: bool(server.read_lost))
        self.assertEqual(server.data, data)
        server.transport.loseConnection()
        await self.until(lambda: client.reason is not None)

    async def test_bug(self) -> None:
        """A protocol that raises loses its stream, and no other stream feels it."""

        class Fragile(Recorder):
            def dataReceived(self, data: bytes) -> None:
                if data == b"break":
                    raise ArithmeticError(data)
                super().dataReceived(data)

        factory = Recorders(Fragile)
        connection, _ = await self.pair(factory)
        client, _ = await self.open(connection, factory, Recorder())
        other, server = await self.open(connection, factory, Recorder())
        client.transport.write(b"break")
        await self.until(lambda: client.reason is not None)
        self.assertEqual(len(self.flushLoggedErrors(ArithmeticError)), 1)
        other.transport.write(b"!")
        await self.until(lambda: server.data == b"?!")

    async def test_refused(self) -> None:
        """A factory that makes no protocol refuses the stream."""
        factory = Recorders(lambda: None)
        connection, _ = await self.pair(factory)
        client = Recorder()
        connection.openStream(client)
        client.transport.write(b"?")
        await self.until(lambda: client.reason is not None)
        self.assertIsInstance(client.reason.value, StreamReset | StreamStopped)

    async def test_producer_twice(self) -> None:
        """A second producer is refused; one on a stream that is gone is stopped."""
        factory = Recorders()
        connection, _ = await self.pair(factory)
        client, _ = await self.open(connection, factory, Recorder())
        producer = Push(client.transport, 1)
        client.transport.registerProducer(producer, True)
        self.assertRaises(RuntimeError, client.transport.registerProducer, Push(client.transport, 1), True)
        client.transport.abortConnection()
        await self.until(lambda: client.reason is not None)
        self.assertTrue(producer.stopped)
        late = Push(client.transport, 1)
        client.transport.registerProducer(late, True)
        self.assertTrue(late.stopped)


class ConnectionTests(QuicCase):
    async def test_told(self) -> None:
        """A factory is told of connections, with what the handshake brought about."""
        factory = Recorders()
        connection, server = await self.pair(factory)
        self.assertEqual((connection.alpn, server.alpn), ("test", "test"))
        self.assertEqual(connection.peerCertificate, self.certificate.certificate)
        self.assertIs(server.peerCertificate, None)
        client, stream = await self.open(connection, factory, Recorder())
        self.assertIs(stream.transport.connection, server)
        connection.close(9, "enough")
        await self.until(lambda: bool(factory.closed) and client.reason is not None)
        ((closed, reason),) = factory.closed
        self.assertIs(closed, server)
        for each in (reason, stream.reason, client.reason):
            self.assertIsInstance(each.value, QuicClosed)
            self.assertEqual((each.value.code, each.value.reason, each.value.application), (9, "enough", True))
        self.assertRaises(ConnectionDone, connection.openStream, Recorder())

    async def test_orderly(self) -> None:
        """Code 0 is an orderly end."""
        factory = Recorders()
        connection, server = await self.pair(factory)
        client, stream = await self.open(connection, factory, Recorder())
        server.close(reason="ä" * 5_000)
        await self.until(lambda: client.reason is not None and stream.reason is not None)
        self.assertIs(client.reason.type, ConnectionDone)
        self.assertIs(stream.reason.type, ConnectionDone)

    async def test_server_opens(self) -> None:
        """A server opens streams to a client that has a factory for them."""
        factory, mine = Recorders(), Recorders(Echo)
        _, server = await self.pair(factory, mine)
        protocol = HalfRecorder()
        stream = server.openStream(protocol)
        stream.write(b"ping")
        stream.loseWriteConnection()
        await self.until(lambda: protocol.reason is not None)
        self.assertEqual((protocol.data, len(mine.made)), (b"ping", 1))

    async def test_server_opens_in_vain(self) -> None:
        """A client without a factory refuses them."""
        factory = Recorders()
        _, server = await self.pair(factory)
        protocol = Recorder()
        server.openStream(protocol).write(b"ping")
        await self.until(lambda: protocol.reason is not None)

    async def test_waiting_streams(self) -> None:
        """Streams that the peer has not allowed yet wait, up to a limit, and get their turn as others end."""
        factory = Recorders(Echo)
        port = await self.listen(factory, streams_max=3)
        connection = await self.dial(port.getHost().port, streams_max=4)
        clients = [HalfRecorder() for _ in range(7)]
        for each in clients:
            connection.openStream(each).write(b"?")
        self.assertRaises(TooManyStreams, connection.openStream, Recorder())
        await self.until(lambda: sum(each.data == b"?" for each in clients) == 3)
        self.assertEqual(len(factory.made), 3)
        for each in clients:
            each.transport.loseWriteConnection()
        await self.until(lambda: all(each.reason is not None for each in clients))
        self.assertEqual([each.data for each in clients], [b"?"] * 7)

    async def test_one_stream(self) -> None:
        """`connect` is a connection for one stream, which ends with it."""
        factory = Recorders(Echo)
        port = await self.listen(factory)
        mine = Recorders()
        protocol: Any = await self.endpoint(port.getHost().port).connect(mine)
        protocol.transport.write(b"hello")
        await self.until(lambda: protocol.data == b"hello")
        protocol.transport.loseConnection()
        await self.until(lambda: bool(factory.closed) and protocol.reason is not None)
        await deferLater(self.reactor, 0, lambda: None)

    async def test_key_update(self) -> None:
        """Keys change under a connection that goes on."""
        factory = Recorders(Echo)
        connection, server = await self.pair(factory)
        client, _ = await self.open(connection, factory, Recorder())
        for side, expected in ((connection, b"?!"), (server, b"?!!"), (connection, b"?!!!")):
            await self.until(partial(self.has, client, expected[:-1]))
            side.updateKeys()
            client.transport.write(b"!")
            await self.until(partial(self.has, client, expected))

    def has(self, protocol: Recorder, data: bytes) -> bool:
        return protocol.data == data
