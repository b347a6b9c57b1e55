"""The interfaces of QUIC for applications: connections, streams, and the errors with which they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.error import ConnectionClosed, ConnectionLost
from twisted.internet.interfaces import IConsumer, IPushProducer, ITransport
from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from twisted.internet.interfaces import IAddress, IProtocol
    from twisted.python.failure import Failure


class QuicClosed(ConnectionLost):
    """The connection of a stream has ended: by the peer, by us, or by a timeout."""

    def __init__(self, code: int, reason: str, *, application: bool) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.application = application
        """Whether the code is the application's, else one of QUIC's own."""

    def __str__(self) -> str:
        whose = "application" if self.application else "transport"
        return f"QUIC connection closed with {whose} code {self.code:#x}: {self.reason or 'no reason given'}"


class StreamReset(ConnectionLost):
    """The peer has reset a stream: what it sent was cut off."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"QUIC stream reset by the peer with code {self.code:#x}"


class StreamStopped(ConnectionClosed):
    """The peer takes no more of what we send on a stream."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"QUIC stream stopped by the peer with code {self.code:#x}"


class TooManyStreams(Exception):
    """No more streams can be opened on a connection: as many as allowed wait for the peer already."""


class IQuicConnection(Interface):
    """A connection whose handshake has ended."""

    alpn: str | None = Attribute("The application protocol that was agreed on, or None.")
    peerCertificate: Certificate | None = Attribute("The certificate that the peer showed, or None.")

    def getHost() -> IAddress:
        """Our address."""

    def getPeer() -> IAddress:
        """The peer's address. It changes when the peer moves."""

    def openStream(protocol: IProtocol) -> IQuicStream:
        """Open a bidirectional stream to the peer for a protocol; TooManyStreams where that is not possible."""

    def updateKeys() -> None:
        """Change the keys that encrypt the connection. By itself that happens only when the peer asks for it."""

    def close(code: int = 0, reason: str = "") -> None:
        """End the connection now with a code of the application. What is not acknowledged by then may be lost."""


class IQuicStream(ITransport, IConsumer, IPushProducer):
    """A bidirectional QUIC stream: a transport that also knows its connection and can end with a code.

    Its producer is paused while more than a set size of written data is not acknowledged. While the transport itself is
    paused, the peer can send no more than its window.
    """

    connection: IQuicConnection = Attribute("The connection that the stream is part of.")
    streamId: int = Attribute("QUIC's number for it.")

    def loseWriteConnection() -> None:
        """Write no more, and go on reading. The peer learns of it behind the last byte written."""

    def abortConnection(code: int = 0) -> None:
        """End both directions at once with a code of the application."""

    def end(code: int) -> None:
        """End both directions with a code of the application, when the peer has all that was written."""

    def reset(code: int) -> None:
        """Stop sending with a code of the application, also data that was written and not acknowledged."""

    def stop(code: int) -> None:
        """Read no more, and tell the peer so with a code of the application."""


class IQuicFactory(Interface):
    """An interface for factories that want to see the connections of their streams."""

    def connectionOpened(connection: IQuicConnection) -> None:
        """Called when a handshake has ended. Streams can be opened now; those of the peer go to `buildProtocol`."""

    def connectionClosed(connection: IQuicConnection, reason: Failure) -> None:
        """Called when an open connection is gone, and its streams with it."""

    def connectionRefused(limit: str) -> None:
        """Called when a first datagram got no answer: the limit on ``connections`` or ``handshakes`` is reached.

        The sender repeats it some times, and this is called each time.
        """
