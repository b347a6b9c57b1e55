"""The server's end of the socket: finds the connection of a datagram, and decides who may begin one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IListeningPort, IProtocol, IReactorTime
from zope.interface import implementer

from streamd.quic.connection import Connection
from streamd.quic.datagrams import Datagrams
from streamd.quic.flow import BoundedConnection, configuration
from streamd.quic.library import (
    SMALLEST_MAX_DATAGRAM_SIZE,
    Buffer,
    QuicPacketType,
    QuicRetryTokenHandler,
    encode_quic_retry,
    encode_quic_version_negotiation,
    pull_quic_header,
)

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from streamd.quic.settings import QuicSettings
    from streamd.tls.server_certificate import ServerCertificate

_ID_BYTES: Final = 8


class Listener(Datagrams):
    """All connections of one server port, by their connection ids."""

    def __init__(
        self, clock: IReactorTime, settings: QuicSettings, factory: Any, certificate: ServerCertificate
    ) -> None:
        super().__init__(clock, settings, factory)
        self.connections: set[Connection] = set()
        self.handshakes: set[Connection] = set()
        """Connections whose handshake has not ended."""
        self._routes: dict[bytes, Connection] = {}
        self._retry = QuicRetryTokenHandler()
        self._stopping = False
        self._ended = False
        self._waiting: list[Deferred[None]] = []
        self._configuration = configuration(
            settings,
            is_client=False,
            certificate=certificate.certificate,
            certificate_chain=list(certificate.chain),
            private_key=certificate.key,
            connection_id_length=_ID_BYTES,
        )

    def use(self, certificate: ServerCertificate) -> None:
        """Show another certificate from now on; existing connections keep theirs."""
        self._configuration.certificate = certificate.certificate
        self._configuration.certificate_chain = list(certificate.chain)
        self._configuration.private_key = certificate.key

    # -- whose is it ---------------------------------------------------------------------------------------------------

    def datagramReceived(self, data: bytes, addr: tuple[str, int]) -> None:
        """Give a datagram to its connection, which may be a new one."""
        if len(data) > _ID_BYTES and not data[0] & 0x80:
            # Nearly all are of this short kind. It says which connection it is for, and nothing else that is of use to
            # one who does not have that connection.
            connection = self._routes.get(data[1 : _ID_BYTES + 1])
        else:
            connection = self._route(data, addr)
        if connection is not None:
            connection.receive(data, addr, self.clock.seconds())

    def _route(self, data: bytes, addr: tuple[str, int]) -> Connection | None:
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=_ID_BYTES)
        except ValueError:
            return None
        connection = self._routes.get(header.destination_cid)
        if connection is not None:
            return connection
        if len(data) < SMALLEST_MAX_DATAGRAM_SIZE or self._stopping:
            # Who sends less than the least first datagram gets no answer, which could be longer than the question.
            return None
        if header.packet_type is QuicPacketType.VERSION_NEGOTIATION:
            return None
        if header.version not in self._configuration.supported_versions:
            answer = encode_quic_version_negotiation(
                source_cid=header.destination_cid,
                destination_cid=header.source_cid,
                supported_versions=self._configuration.supported_versions,
            )
            self.transmit([(answer, addr)])
            return None
        if header.packet_type is not QuicPacketType.INITIAL or len(header.destination_cid) < _ID_BYTES:
            return None
        return self._admit(header, addr)

    # -- who may come in -----------------------------------------------------------------------------------------------

    def _admit(self, header: Any, addr: tuple[str, int]) -> Connection | None:
        settings = self.settings
        if len(self.connections) >= settings.connections_max:
            self.refused("connections")
            return None
        if len(self.handshakes) >= settings.handshakes_max:
            self.refused("handshakes")
            return None
        required = settings.retry_handshakes is not None and len(self.handshakes) >= settings.retry_handshakes
        original: bytes = header.destination_cid
        shown: bytes | None = None
        if header.token:
            try:
                original = self._retry.validate_token(
                    address=addr,
                    destination_cid=header.destination_cid,
                    token=header.token,
                    now=self.clock.seconds(),
                )
                shown = header.destination_cid
            except ValueError:
                if required:
                    return None
        elif required:
            self._ask_again(header, addr)
            return None
        return self._begin(header.destination_cid, original, shown)

    def _ask_again(self, header: Any, addr: tuple[str, int]) -> None:
        """Send a Retry: the peer has to repeat its first datagram with a token, which proves its address.

        Nothing is kept.
        """
        number = os.urandom(_ID_BYTES)
        token = self._retry.create_token(
            address=addr,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=number,
            now=self.clock.seconds(),
        )
        answer = encode_quic_retry(
            version=header.version,
            source_cid=number,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )
        self.transmit([(answer, addr)])

    def _begin(self, called: bytes, original: bytes, shown: bytes | None) -> Connection:
        quic = BoundedConnection(
            self.settings,
            configuration=self._configuration,
            original_destination_connection_id=original,
            retry_source_connection_id=shown,
        )
        connection = Connection(quic, self)
        self.connections.add(connection)
        self.handshakes.add(connection)
        for number in (called, quic.host_cid):
            connection.ids.add(number)
            self._routes[number] = connection
        return connection

    # -- what connections tell -----------------------------------------------------------------------------------------

    def issued(self, connection: Connection, number: bytes) -> None:
        self._routes[number] = connection

    def retired(self, number: bytes) -> None:
        self._routes.pop(number, None)

    def opened(self, connection: Connection) -> None:
        self.handshakes.discard(connection)
        super().opened(connection)

    def closed(self, connection: Connection, reason: Failure, opened: bool) -> None:
        self.handshakes.discard(connection)
        super().closed(connection, reason, opened)

    def gone(self, connection: Connection) -> None:
        # Only now: one that was closed and waits for late datagrams takes memory like any other.
        self.handshakes.discard(connection)
        self.connections.discard(connection)
        for number in connection.ids:
            self._routes.pop(number, None)
        connection.ids.clear()

    def build(self, connection: Connection) -> IProtocol | None:
        return None if self._stopping else super().build(connection)

    # -- the end -------------------------------------------------------------------------------------------------------

    def stop(self) -> Deferred[None]:
        """Accept no more connections and no more streams.

        A connection is closed when its last stream has ended. Fires at once where streams are left, like a TCP port,
        whose connections go on too; else when the socket is closed, as `when_ended` does in any case.
        """
        if not self._stopping:
            self._stopping = True
            for connection in self.connections:
                connection.close_when_idle()
            self.turned()
        busy = any(connection.is_open and not connection.is_idle for connection in self.connections)
        return succeed(None) if busy else self.when_ended()

    def when_ended(self) -> Deferred[None]:
        """Fires when the socket is closed."""
        if self._ended:
            return succeed(None)
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def turned(self) -> None:
        """End connections that have nothing left to do, when the listener is stopping."""
        if self._stopping and not any(connection.is_active for connection in self.connections):
            self.close_socket()

    def stopProtocol(self) -> None:
        super().stopProtocol()
        for connection in list(self.connections):
            connection.discard()
        self._ended = True
        self.factory.doStop()
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.callback(None)


@implementer(IListeningPort)
class QuicPort:
    """A port that accepts QUIC connections."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def startListening(self) -> None:
        """Does nothing: the port listens since it was made."""

    def stopListening(self) -> Deferred[None]:
        """Accept no more connections and no more streams; see `Listener.stop`."""
        return self.listener.stop()

    def whenClosed(self) -> Deferred[None]:
        """Fires when the last connection has ended after `stopListening`, and the socket is closed."""
        return self.listener.when_ended()

    def getHost(self) -> IPv4Address | IPv6Address:
        """The address that the port listens on."""
        return self.listener.getHost()
