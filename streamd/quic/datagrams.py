"""The socket under QUIC connections, and their turns.

Datagrams are handed to their connection as they are read. Their events, and what streams write, are handled once in a
turn of the reactor: first all events are passed on, then everything that is to be sent is sent. So a hundred datagrams
of one stream are one call of its protocol, and their acknowledgement is one datagram.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IDelayedCall, IProtocol, IReactorTime
from twisted.internet.protocol import DatagramProtocol
from twisted.logger import Logger

from streamd.quic.connection import Connection
from streamd.quic.interfaces import IQuicFactory
from streamd.quic.sending import Datagram, Sender

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from streamd.quic.settings import QuicSettings

# So much is read before others have their turn: some 50 datagrams of the usual size, which take QUIC about 3 ms.
_TURN_BYTES: Final = 64 << 10


class Datagrams(DatagramProtocol):
    """What server and client sockets have in common."""

    _log = Logger()
    noisy = False

    def __init__(self, clock: IReactorTime, settings: QuicSettings, factory: Any) -> None:
        self.clock = clock
        self.settings = settings
        self.factory = factory
        self._observer = IQuicFactory(factory, None)
        self._touched: dict[Connection, None] = {}
        self._turning: Connection | None = None
        self._call: IDelayedCall | None = None
        self._sender: Sender | None = None
        self._closing = False

    # -- the turn ------------------------------------------------------------------------------------------------------

    def touch(self, connection: Connection) -> None:
        """Give a connection a turn, together with all others that want one."""
        if connection is self._turning or self._sender is None:
            return
        self._touched[connection] = None
        if self._call is None:
            self._call = self.clock.callLater(0, self._turn)

    def _turn(self) -> None:
        seen: dict[Connection, None] = {}
        # Until nobody is left: what one connection brings about may be written to another.
        while self._touched:
            touched, self._touched = self._touched, {}
            for connection in touched:
                self._turning = connection
                connection.turn()
            seen.update(touched)
            self._turning = None
        now = self.clock.seconds()
        for connection in seen:
            datagrams = connection.send(now)
            if datagrams:
                self.transmit(datagrams)
        # Only now, so that who was touched in this turn by others of it did not ask for another one.
        self._call = None
        if self._touched:
            self._call = self.clock.callLater(0, self._turn)
        self.turned()

    def turned(self) -> None:
        """Called after a turn, when everything is sent."""

    def transmit(self, datagrams: list[Datagram]) -> None:
        """Send datagrams."""
        if self._sender is not None:
            self._sender.send(datagrams)

    # -- the socket ----------------------------------------------------------------------------------------------------

    def startProtocol(self) -> None:
        """Called when the socket is open."""
        transport: Any = self.transport
        transport.maxThroughput = _TURN_BYTES
        handle: socket.socket = transport.getHandle()
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            handle.setsockopt(socket.SOL_SOCKET, option, self.settings.socket_buffer_bytes)
        self._sender = Sender(handle)

    def close_socket(self) -> None:
        """Close the socket; `stopProtocol` follows."""
        if not self._closing:
            self._closing = True
            transport: Any = self.transport
            transport.stopListening()

    def stopProtocol(self) -> None:
        """Called when the socket is closed."""
        self._closing = True
        self._sender = None
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None
        self._touched.clear()

    def getHost(self) -> IPv4Address | IPv6Address:
        """Our address."""
        transport: Any = self.transport
        host: IPv4Address | IPv6Address = transport.getHost()
        return host

    # -- what connections tell -----------------------------------------------------------------------------------------

    def issued(self, connection: Connection, number: bytes) -> None:
        """Note a connection id that the peer may use from now on."""

    def retired(self, number: bytes) -> None:
        """Forget a connection id that the peer no longer uses."""

    def opened(self, connection: Connection) -> None:
        """Called when a handshake has ended."""
        if self._observer is not None:
            try:
                self._observer.connectionOpened(connection)
            except Exception:
                self._log.failure("a factory failed on a new QUIC connection")
                connection.close()

    def closed(self, connection: Connection, reason: Failure, opened: bool) -> None:
        """Called when a connection has ended, with whether it had been opened."""
        if self._observer is not None and opened:
            try:
                self._observer.connectionClosed(connection, reason)
            except Exception:
                self._log.failure("a factory failed on the end of a QUIC connection")

    def refused(self, limit: str) -> None:
        """Called when a datagram got no answer because of a limit."""
        if self._observer is not None:
            try:
                self._observer.connectionRefused(limit)
            except Exception:
                self._log.failure("a factory failed on a QUIC connection that was refused")

    def gone(self, connection: Connection) -> None:
        """Called when nothing can arrive for a connection any more."""

    def build(self, connection: Connection) -> IProtocol | None:
        """The protocol for a stream that the peer has opened; None refuses it."""
        if self.factory is None:
            return None
        protocol: IProtocol | None = self.factory.buildProtocol(connection.getPeer())
        return protocol
