"""The client's end of QUIC: one connection on a socket of its own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from zope.interface import implementer

from streamd.quic.connection import Connection
from streamd.quic.datagrams import Datagrams
from streamd.quic.flow import BoundedConnection, configuration
from streamd.quic.receiving import listen
from streamd.quic.settings import QuicSettings

if TYPE_CHECKING:
    from twisted.python.failure import Failure


@dataclass(frozen=True)
class Trust:
    """Which servers a client trusts: those that the system trusts, unless given otherwise."""

    certificates: bytes | None = None
    """PEM certificates to trust in place of the system's; a server's own may be among them."""

    name: str | None = None
    """The name that the server's certificate must have; by default the host that is connected to."""

    verify: bool = True
    """False accepts any certificate, for tests only."""


class Dialer(Datagrams):
    """The socket of a client: every datagram is for its one connection."""

    def __init__(
        self, reactor: Any, settings: QuicSettings, factory: Any, addr: tuple[str, int], quic: BoundedConnection
    ) -> None:
        super().__init__(reactor, settings, factory)
        self.connection = Connection(quic, self)
        self._quic = quic
        self._addr = addr
        self._opened: Deferred[Connection] | None = Deferred(self._cancelled)

    def dial(self) -> Deferred[Connection]:
        """Begin the handshake; fires with the connection when it has ended."""
        assert self._opened is not None
        self._quic.connect(self._addr, now=self.clock.seconds())
        self.touch(self.connection)
        return self._opened

    def datagramReceived(self, data: bytes, addr: tuple[str, int]) -> None:
        self.connection.receive(data, addr, self.clock.seconds())

    def opened(self, connection: Connection) -> None:
        super().opened(connection)
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.callback(connection)

    def closed(self, connection: Connection, reason: Failure, opened: bool) -> None:
        super().closed(connection, reason, opened)
        waiting, self._opened = self._opened, None
        if waiting is not None:
            waiting.errback(reason)

    def turned(self) -> None:
        # Nobody else uses the socket: it does not have to wait for what is still under way.
        if not self.connection.is_active:
            self.close_socket()

    def stopProtocol(self) -> None:
        super().stopProtocol()
        self.connection.discard()

    def _cancelled(self, _: Deferred[Connection]) -> None:
        self._opened = None
        self.connection.close()


@implementer(IStreamClientEndpoint)
class QuicClientEndpoint:
    """Connects to a QUIC server.

    `dial` gives a connection, to open any number of streams on. `connect` is for a single stream: it opens a connection
    with one stream, and closes the connection when that stream has ended.

    :param host: an address, or a name that the reactor resolves.
    """

    def __init__(
        self,
        reactor: Any,
        host: str,
        port: int,
        *,
        trust: Trust = Trust(),
        settings: QuicSettings = QuicSettings(),
    ) -> None:
        self._reactor = reactor
        self._host = host
        self._port = port
        self._trust = trust
        self._settings = settings

    def dial(self, factory: Any = None) -> Deferred[Connection]:
        """Open a connection.

        The factory's protocols get the streams that the server opens; without one it may open none.
        """
        return Deferred.fromCoroutine(self._dial(factory))

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Open a connection with one stream on it, for a protocol of the factory."""
        return Deferred.fromCoroutine(self._connect(protocolFactory))

    async def _dial(self, factory: Any) -> Connection:
        host = self._host
        if not (isIPAddress(host) or isIPv6Address(host)):
            host = await self._reactor.resolve(host)
        trust = self._trust
        settings = configuration(
            self._settings,
            is_client=True,
            cadata=trust.certificates,
            server_name=trust.name or self._host,
            verify_mode=ssl.CERT_REQUIRED if trust.verify else ssl.CERT_NONE,
        )
        quic = BoundedConnection(self._settings, configuration=settings)
        dialer = Dialer(self._reactor, self._settings, factory, (host, self._port), quic)
        interface = "::" if isIPv6Address(host) else "0.0.0.0"
        listen(self._reactor, 0, dialer, interface)
        return await dialer.dial()

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        connection = await self._dial(None)
        protocol = factory.buildProtocol(connection.getPeer())
        if protocol is None:
            connection.close()
            raise ValueError("the factory made no protocol")
        connection.openStream(protocol)
        connection.close_when_idle()
        return protocol
