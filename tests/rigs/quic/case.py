"""A server and its clients on loopback, and protocols that remember."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from streamd.quic.client import QuicClientEndpoint, Trust
from streamd.quic.connection import Connection
from streamd.quic.endpoint import QuicServerEndpoint
from streamd.quic.interfaces import IQuicFactory
from streamd.quic.listener import QuicPort
from streamd.quic.settings import QuicSettings
from streamd.tls.server_certificate import ServerCertificate, local_certificate
from tests.rigs.quic.relay import Relay

T = TypeVar("T")

# Made once for all tests of a run.
_certificate: list[tuple[ServerCertificate, bytes]] = []


class Recorder(Protocol):
    """Remembers what it is told. Like most protocols it knows of no half close."""

    transport: Any
    paused = False

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.received_bytes = 0
        # None, or the Failure that the stream ended with.
        self.reason: Any = None
        self.made = False

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)

    def connectionMade(self) -> None:
        self.made = True
        if self.paused:
            self.transport.pauseProducing()

    def dataReceived(self, data: bytes) -> None:
        self.parts.append(data)
        self.received_bytes += len(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.reason = reason


class Paused(Recorder):
    """Reads nothing until it is told to."""

    paused = True


@implementer(IHalfCloseableProtocol)
class HalfRecorder(Recorder):
    """Knows of half close."""

    read_lost = False
    write_lost = False

    def readConnectionLost(self) -> None:
        self.read_lost = True

    def writeConnectionLost(self) -> None:
        self.write_lost = True


class Echo(Recorder):
    """Sends back what comes, and keeps nothing."""

    def dataReceived(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self.transport.write(data)


@implementer(IQuicFactory)
class Recorders(Factory):
    """Makes protocols of one class and remembers them, and the connections."""

    noisy = False

    def __init__(self, make: Callable[[], Any] = Recorder) -> None:
        self.make = make
        self.made: list[Any] = []
        self.opened: list[Any] = []
        self.closed: list[tuple[Any, Any]] = []
        self.refused: list[str] = []

    def buildProtocol(self, addr: Any) -> Any:
        protocol = self.make()
        if protocol is not None:
            protocol.factory = self
            self.made.append(protocol)
        return protocol

    def connectionOpened(self, connection: Any) -> None:
        self.opened.append(connection)

    def connectionClosed(self, connection: Any, reason: Failure) -> None:
        self.closed.append((connection, reason))

    def connectionRefused(self, limit: str) -> None:
        self.refused.append(limit)


class QuicCase(TestCase):
    """Has a server, a client's connection where it asks for one, and ends both."""

    timeout = 120

    def setUp(self) -> None:
        # Here and not above: the reactor is whatever trial runs these tests in.
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.connections: list[Connection] = []
        self.ports: list[QuicPort] = []
        self.relays: list[Relay] = []
        self.addCleanup(lambda: Deferred.fromCoroutine(self._end()))

    async def _end(self) -> None:
        for connection in self.connections:
            connection.close()
        for port in self.ports:
            for each in list(port.listener.connections):
                each.close()
            await port.stopListening()
            await port.whenClosed()
        for relay in self.relays:
            await relay.stop()
        await self.until(lambda: not any(each.is_active for each in self.connections))
        # The clients' sockets close at the end of the turn.
        await deferLater(self.reactor, 0, lambda: None)

    @property
    def certificate(self) -> ServerCertificate:
        return self._certified()[0]

    @property
    def trust(self) -> Trust:
        return Trust(self._certified()[1])

    def _certified(self) -> tuple[ServerCertificate, bytes]:
        if not _certificate:
            directory = self.mktemp()
            os.mkdir(directory)
            certificate, trusted, _ = local_certificate(directory)
            with open(trusted, "rb") as file:
                _certificate.append((certificate, file.read()))
        return _certificate[0]

    async def listen(self, factory: Any, **settings: Any) -> QuicPort:
        """A server on a port of its own."""
        endpoint = QuicServerEndpoint(
            self.reactor, 0, certificate=self.certificate, settings=QuicSettings(alpn=("test",), **settings)
        )
        port: Any = await endpoint.listen(factory)
        self.ports.append(port)
        return port  # type: ignore[no-any-return]

    async def relay(self, port: QuicPort, **quality: Any) -> Relay:
        """A network of that quality before a server."""
        relay = Relay(self.reactor, ("127.0.0.1", port.getHost().port), **quality)
        self.reactor.listenUDP(0, relay, interface="127.0.0.1", maxPacketSize=65535)
        self.relays.append(relay)
        return relay

    def endpoint(self, port: int, trust: Trust | None = None, **settings: Any) -> QuicClientEndpoint:
        """Where a client connects to."""
        settings.setdefault("alpn", ("test",))
        trust = trust or self.trust
        return QuicClientEndpoint(self.reactor, "127.0.0.1", port, trust=trust, settings=QuicSettings(**settings))

    async def dial(self, port: int, factory: Any = None, **settings: Any) -> Connection:
        """A client's connection."""
        connection = await self.endpoint(port, **settings).dial(factory)
        self.connections.append(connection)
        return connection

    async def pair(self, factory: Any, client: Any = None, **settings: Any) -> tuple[Connection, Any]:
        """A client's connection and the server's end of it."""
        port = await self.listen(factory, **settings)
        connection = await self.dial(port.getHost().port, client)
        await self.until(lambda: bool(factory.opened))
        return connection, factory.opened[0]

    async def open(self, connection: Connection, factory: Recorders, protocol: T, data: bytes = b"?") -> tuple[T, Any]:
        """A stream, with a protocol of ours on one end and one of the server's on the other."""
        before = len(factory.made)
        stream: Any = connection.openStream(protocol)  # type: ignore[arg-type]
        stream.write(data)
        await self.until(lambda: len(factory.made) > before)
        return protocol, factory.made[-1]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the reactor run until something is so. What never comes is a test that times out."""
        while not condition():
            await deferLater(self.reactor, 0.001, lambda: None)


class Push:
    """A push producer that writes until it is paused."""

    def __init__(self, transport: Any, total: int) -> None:
        self.transport = transport
        self.left = total
        self.paused = False
        self.stopped = False
        self.pauses = 0

    def run(self) -> None:
        while self.left and not self.paused:
            size = min(10_000, self.left)
            self.left -= size
            self.transport.write(bytes(size))
        if not self.left and not self.stopped:
            self.transport.unregisterProducer()

    def pauseProducing(self) -> None:
        self.paused = True
        self.pauses += 1

    def resumeProducing(self) -> None:
        self.paused = False
        self.run()

    def stopProducing(self) -> None:
        self.stopped = True
