"""What an application sees of QUIC: connections, their streams, and the ways in which they end."""

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
    """The connection of a stream was ended: by the peer, by us, or because nothing was heard of the peer."""

    def __init__(self, code: int, reason: str, *, application: bool) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.application = application
        """Whether the code is the application's; else it is one of QUIC's own."""

    def __str__(self) -> str:
        whose = "application" if self.application else "transport"
        return f"QUIC connection closed with {whose} code {self.code:#x}: {self.reason or 'no reason given'}"


class StreamReset(ConnectionLost):
    """The peer gave up a stream: what it sent was cut off."""

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
    """No more streams can be opened on a connection: as many as may wait for the peer's leave do so already."""


class IQuicConnection(Interface):
    """A connection whose handshake has ended."""

    alpn: str | None = Attribute("The application protocol that was agreed on, or None.")
    peerCertificate: Certificate | None = Attribute("The certificate that the peer showed, or None.")

    def getHost() -> IAddress:
        """Our address."""

    def getPeer() -> IAddress:
        """The peer's address. It changes when the peer moves."""

    def openStream(protocol: IProtocol) -> IQuicStream:
        """Open a bidirectional stream to the peer and give it to a protocol; TooManyStreams where that can't be."""

    def updateKeys() -> None:
        """Change the keys that the connection is encrypted with; done by itself only at the peer's wish."""

    def close(code: int = 0, reason: str = "") -> None:
        """End the connection now, with a code of the application. What was not acknowledged by then may be lost."""


class IQuicStream(ITransport, IConsumer, IPushProducer):
    """A bidirectional QUIC stream: a transport that also knows its connection and can end with a code.

    Its producer is paused while more than a set size of what was written is not acknowledged. While it is paused
    itself, the peer may send no more than it was allowed before.
    """

    connection: IQuicConnection = Attribute("The connection that the stream is part of.")
    streamId: int = Attribute("QUIC's number for it.")

    def loseWriteConnection() -> None:
        """Write no more, and go on to read. The peer is told behind the last byte written."""

    def abortConnection(code: int = 0) -> None:
        """End both ways at once with a code of the application."""

    def end(code: int) -> None:
        """End both ways with a code of the application, when the peer has all that was written."""

    def reset(code: int) -> None:
        """Give up what we send, also what was written and not acknowledged, with a code of the application."""

    def stop(code: int) -> None:
        """Take no more of what the peer sends, and tell it so with a code of the application."""


class IQuicFactory(Interface):
    """What a factory may provide beside IProtocolFactory, to see the connections that its streams are part of."""

    def connectionOpened(connection: IQuicConnection) -> None:
        """A handshake has ended. Streams can be opened from now on; those of the peer go to `buildProtocol`."""

    def connectionClosed(connection: IQuicConnection, reason: Failure) -> None:
        """A connection that was opened is gone, and its streams with it."""

    def connectionRefused(limit: str) -> None:
        """A first datagram got no answer: there are as many ``connections``, or unfinished ``handshakes``, as may be.

        Its sender repeats it some times, which is told each time.
        """
