"""A protocol of the daemon over QUIC: what it needs of a transport is there."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from streamd.connections.core import Core
from streamd.connections.load import Load
from streamd.protocols.sesp import SespFactory
from streamd.quic.interfaces import IQuicConnection
from streamd.settings import AccessRule, Limits, StoreSettings
from streamd.store import Store, open_store
from tests.rigs.quic.case import HalfRecorder, Paused, QuicCase


class SespTests(QuicCase):
    def setUp(self) -> None:
        super().setUp()

        def fatal(reason: str) -> None:
            raise AssertionError(reason)

        self.store: Store = open_store(self.mktemp(), StoreSettings(), self.reactor, fatal)
        limits = Limits(connection_buffered_bytes_max=1 << 16)
        self.core = Core(self.store, limits, Load(limits), self.reactor, self.reactor.seconds())
        self.factory = SespFactory(self.core)
        # Before the connections are ended, as the daemon does it: drain, then the store.
        self.addCleanup(lambda: Deferred.fromCoroutine(self.close()))

    async def close(self) -> None:
        await self.factory.drain()
        await self.store.close()

    async def test_conversation(self) -> None:
        """What is published on one stream is read on another; a stream's end is answered first."""
        port = await self.listen(self.factory)
        connection = await self.dial(port.getHost().port)
        self.assertTrue(IQuicConnection.providedBy(connection))
        writer, reader = HalfRecorder(), HalfRecorder()
        connection.openStream(writer).write(b"#t\n@t\n>hello\n>world\n")
        writer.transport.loseWriteConnection()
        await self.until(lambda: writer.reason is not None)
        self.assertEqual(writer.data, b"+\n" * 4)
        connection.openStream(reader).write(b"@t\n<\n<\n<\n")
        await self.until(lambda: reader.data == b"+\n+hello\n+world\n-None\n")

    async def test_flood(self) -> None:
        """More than fits any buffer is published and read back whole; a reader that stalls holds up nobody."""
        port = await self.listen(self.factory, stream_receive_bytes_max=1 << 16, stream_send_bytes_max=1 << 16)
        connection = await self.dial(port.getHost().port)
        count, line = 20_000, b">" + b"x" * 99 + b"\n"
        writer, slow, reader = HalfRecorder(), Paused(), HalfRecorder()
        connection.openStream(writer).write(b"#t\n@t\n" + line * count)
        await self.until(lambda: writer.received_bytes == 2 * (count + 2))
        connection.openStream(slow).write(b"@t\n" + b"<\n" * count)
        connection.openStream(reader).write(b"@t\n" + b"<\n" * count)
        await self.until(lambda: reader.received_bytes == 2 + 101 * count)
        self.assertEqual(reader.data, b"+\n" + (b"+" + line[1:]) * count)
        slow.transport.resumeProducing()
        await self.until(lambda: slow.received_bytes == reader.received_bytes)

    async def test_broken(self) -> None:
        """A peer that breaks the protocol, or speaks HTTP, loses its stream only."""
        port = await self.listen(self.factory)
        connection = await self.dial(port.getHost().port)
        good, web, long = HalfRecorder(), HalfRecorder(), HalfRecorder()
        for protocol, data in ((good, b"#t\n"), (web, b"GET / HTTP/1.1\r\n"), (long, b"x" * (2 << 20))):
            connection.openStream(protocol).write(data)
        await self.until(lambda: web.reason is not None and long.read_lost)
        self.assertEqual(long.data, b"-TooLong\n")
        good.transport.write(b"@t\n")
        await self.until(lambda: good.data == b"+\n+\n")

    async def test_access(self) -> None:
        """Rules for an address count here too."""
        port = await self.listen(self.factory)
        connection = await self.dial(port.getHost().port)
        for network, told in (("127.0.0.0/8", b"+\n"), ("10.0.0.0/8", b"-NotAllowed\n")):
            self.core.access.replace([AccessRule(who=f"net:{network}", allow=("create",))], self.reactor.seconds())
            client = HalfRecorder()
            connection.openStream(client).write(f"#{network[:2]}\n".encode())
            await self.until(lambda client=client: len(client.data) > 1)  # type: ignore[misc]
            self.assertEqual(client.data, told)

    async def test_drain(self) -> None:
        """At the daemon's end requests in progress are answered, then stream and connection are closed."""
        port = await self.listen(self.factory)
        connection = await self.dial(port.getHost().port)
        client = HalfRecorder()
        connection.openStream(client).write(b"#t\n@t\n")
        await self.until(lambda: client.data == b"+\n+\n")
        await port.stopListening()
        await self.factory.drain()
        await self.until(lambda: client.read_lost)
        await port.whenClosed()
        await self.until(lambda: not connection.is_open)
