"""One QUIC connection: passes events of QUIC to streams and factory, and what they write to QUIC, once a turn."""

from __future__ import annotations

from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall, IProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.quic.interfaces import IQuicConnection, QuicClosed, TooManyStreams
from streamd.quic.library import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    HandshakeCompleted,
    QuicErrorCode,
    QuicFrameType,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from streamd.quic.stream import StreamTransport

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from streamd.quic.datagrams import Datagrams
    from streamd.quic.flow import BoundedConnection
    from streamd.quic.library import QuicStream
    from streamd.quic.sending import Datagram

# A reason longer than this would not fit the one datagram that it has to go into.
_REASON_BYTES_MAX: Final = 512


class Phase(Enum):
    """The phase of a connection's life."""

    HANDSHAKE = auto()
    OPEN = auto()
    CLOSED = auto()  # everybody was told; QUIC waits for what may still be under way, so as not to be confused by it
    GONE = auto()  # that too is over


@implementer(IQuicConnection)
class Connection:
    """Drives one connection of the library."""

    _log = Logger()

    def __init__(self, quic: BoundedConnection, datagrams: Datagrams) -> None:
        settings = datagrams.settings
        self.alpn: str | None = None
        self.stream_send_bytes_max = settings.stream_send_bytes_max
        self.ids: set[bytes] = set()
        """The connection ids that the peer may use for this connection."""
        self._quic = quic
        self._datagrams = datagrams
        self._settings = settings
        self._clock = datagrams.clock
        self._phase = Phase.HANDSHAKE
        self._deadline = self._clock.seconds() + settings.handshake_seconds_max
        self._streams: dict[int, StreamTransport] = {}
        self._ready: dict[StreamTransport, None] = {}
        self._watched: dict[StreamTransport, None] = {}
        self._asked: dict[StreamTransport, None] = {}
        self._kept_bytes = 0
        self._timer: IDelayedCall | None = None
        self._timer_at = 0.0
        self._ending: QuicClosed | None = None
        self._closes_when_idle = False

    # -- for the application -------------------------------------------------------------------------------------------

    @property
    def peerCertificate(self) -> Certificate | None:
        """The certificate that the peer showed."""
        return self._quic.peer_certificate

    def getHost(self) -> IPv4Address | IPv6Address:
        """Our address."""
        return self._datagrams.getHost()

    def getPeer(self) -> IPv4Address | IPv6Address:
        """The present address of the peer."""
        host, port = self._quic.peer_address
        return IPv6Address("UDP", host, port) if ":" in host else IPv4Address("UDP", host, port)

    def openStream(self, protocol: IProtocol) -> StreamTransport:
        """Open a stream to the peer."""
        if self._phase is not Phase.OPEN or self._ending is not None:
            raise ConnectionDone("the QUIC connection is closed")
        if self._quic.waiting_streams >= self._settings.streams_max:
            raise TooManyStreams(f"{self._settings.streams_max} streams wait already for the peer to allow them")
        transport = self._add(self._quic.open_stream())
        transport.begin(protocol)
        self.touch()
        return transport

    def close(self, code: int = 0, reason: str = "") -> None:
        """End the connection with a code of the application."""
        if self.is_active and self._ending is None:
            short = reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
            self._ending = QuicClosed(code, short, application=True)
            self._quic.close(error_code=code, reason_phrase=short)
            self.touch()

    def updateKeys(self) -> None:
        """Change the keys that encrypt this connection."""
        self._quic.request_key_update()
        self.touch()

    def close_when_idle(self) -> None:
        """End the connection as soon as no protocol has a stream, whatever the peer still sends on them."""
        self._closes_when_idle = True
        self.touch()

    @property
    def stream_count(self) -> int:
        """Streams that either end still knows of."""
        return len(self._streams)

    @property
    def is_idle(self) -> bool:
        """Whether no protocol has a stream."""
        return all(stream.is_lost for stream in self._streams.values())

    @property
    def is_open(self) -> bool:
        """Whether the handshake has ended and the connection has not."""
        return self._phase is Phase.OPEN

    @property
    def is_active(self) -> bool:
        """Whether the connection has not ended."""
        return self._phase in (Phase.HANDSHAKE, Phase.OPEN)

    @property
    def held_bytes(self) -> int:
        """Bytes that its streams have received and protocols have not taken."""
        return sum(stream.held_bytes for stream in self._streams.values())

    # -- for its streams -----------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Ask for a turn: there is something to do."""
        self._datagrams.touch(self)

    def watch(self, stream: StreamTransport) -> None:
        """Call `check` of a stream in each turn until it has what it waits for."""
        self._watched[stream] = self._asked[stream] = None
        self._datagrams.touch(self)

    def ready(self, stream: StreamTransport) -> None:
        """Note that a stream has something to deliver."""
        self._ready[stream] = None
        self._datagrams.touch(self)

    def take(self, stream: QuicStream, taken_bytes: int, size: int) -> None:
        """Note that a protocol has taken so many bytes of a stream."""
        self._quic.take(stream, taken_bytes, size)

    def drop(self, stream: QuicStream, taken_bytes: int) -> int:
        """Drop what has arrived on a stream: no protocol will take it."""
        return self._quic.drop(stream, taken_bytes)

    def wrote(self, size: int) -> None:
        """Count bytes that a stream has written. Acknowledged ones are subtracted only when it matters."""
        self._kept_bytes += size
        if self._kept_bytes > self._settings.connection_send_bytes_max:
            self._count()
        self._datagrams.touch(self)

    @property
    def is_full(self) -> bool:
        """Whether the streams together keep more than they may."""
        return self._kept_bytes > self._settings.connection_send_bytes_max

    @property
    def has_room(self) -> bool:
        """Whether the streams are below the limit again."""
        return self._kept_bytes * 2 <= self._settings.connection_send_bytes_max

    def _count(self) -> None:
        self._kept_bytes = sum(stream.unacknowledged_bytes for stream in self._streams.values())

    # -- a turn --------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, addr: tuple[str, int], now: float) -> None:
        """Take in a datagram. Its events are handled when all datagrams of the turn have been taken in."""
        if self._phase is Phase.GONE:
            return
        try:
            self._quic.receive_datagram(data, addr, now)
        except Exception:
            self._crash()
        self._datagrams.touch(self)

    def turn(self) -> None:
        """Pass all events to streams and factory."""
        if self._phase is not Phase.GONE:
            try:
                self._turn()
            except Exception:
                self._crash()

    def _turn(self) -> None:
        while (event := self._quic.next_event()) is not None:
            if type(event) is StreamDataReceived:
                stream = self._streams.get(event.stream_id) or self._accept(event.stream_id)
                if stream is not None:
                    stream.received(event.data, event.end_stream)
                    self._ready[stream] = None
            else:
                self._happened(event)
        if self._watched and not self.has_room:
            self._count()
        self._asked.update(self._watched)
        while self._ready or self._asked:
            ready, self._ready = self._ready, {}
            for stream in ready:
                self._guarded(stream, stream.deliver)
            asked, self._asked = self._asked, {}
            for stream in asked:
                self._check(stream)
        if self._closes_when_idle and self.is_idle and self.is_active and self._ending is None:
            # The codes that its streams ended with go first: with the end of a connection nothing else is sent.
            self._datagrams.transmit(self._quic.datagrams_to_send(self._clock.seconds()))
            self.close()
        ended = self._quic.ended
        if ended is not None or self._ending is not None:
            self._lose(ended)

    def _happened(self, event: Any) -> None:
        if isinstance(event, HandshakeCompleted):
            self.alpn = event.alpn_protocol
            self._phase = Phase.OPEN
            self._datagrams.opened(self)
        elif isinstance(event, ConnectionIdIssued):
            self.ids.add(event.connection_id)
            self._datagrams.issued(self, event.connection_id)
        elif isinstance(event, ConnectionIdRetired):
            self.ids.discard(event.connection_id)
            self._datagrams.retired(event.connection_id)
        elif isinstance(event, StreamReset | StopSendingReceived):
            stream = self._streams.get(event.stream_id) or self._accept(event.stream_id)
            if stream is not None:
                handler = stream.was_reset if isinstance(event, StreamReset) else stream.was_stopped
                handler(event.error_code)
        elif isinstance(event, ConnectionTerminated):
            self._forget(event)

    def _check(self, stream: StreamTransport) -> None:
        if not self._guarded(stream, stream.check):
            self._watched.pop(stream, None)
            if stream.is_forgotten:
                self._streams.pop(stream.streamId, None)

    def _guarded(self, stream: StreamTransport, call: Any) -> Any:
        """Call into a protocol. What it raises is a bug, which costs this stream and no other."""
        try:
            return call()
        except Exception:
            failure = Failure()
            self._log.failure("a stream of {peer} failed", failure, peer=str(self.getPeer()), stream=stream.streamId)
            stream.fail(0, failure)
            return True

    def _add(self, stream: QuicStream) -> StreamTransport:
        transport = StreamTransport(self, stream)
        self._streams[transport.streamId] = transport
        return transport

    def _accept(self, number: int) -> StreamTransport | None:
        """Give a stream that the peer has opened to a protocol."""
        stream = self._quic.stream(number)
        if stream is None or self._phase is not Phase.OPEN:
            return None
        transport = self._add(stream)
        try:
            protocol = self._datagrams.build(self)
            if protocol is not None:
                transport.begin(protocol)
        except Exception:
            self._log.failure("a stream of {peer} has no protocol", peer=str(self.getPeer()), stream=number)
            transport.abortConnection()
        else:
            if protocol is None:
                transport.abortConnection()
        return transport

    # -- sending, and the one timer ------------------------------------------------------------------------------------

    def send(self, now: float) -> list[Datagram]:
        """The datagrams to be sent after a turn."""
        if self._phase is Phase.GONE:
            return []
        try:
            datagrams: list[Datagram] = self._quic.datagrams_to_send(now)
            self._set_timer(now)
        except Exception:
            self._crash()
            return []
        return datagrams

    def _set_timer(self, now: float) -> None:
        """Have the timer fire when QUIC wants it to.

        A timer that would fire too early is left alone and set again then: as long as datagrams arrive its time moves
        with each of them.
        """
        at = self._quic.get_timer()
        if self._phase is Phase.HANDSHAKE:
            at = self._deadline if at is None else min(at, self._deadline)
        if self._timer is not None:
            if at is not None and self._timer_at <= at:
                return
            self._timer.cancel()
            self._timer = None
        if at is not None:
            self._timer_at = at
            self._timer = self._clock.callLater(max(0.0, at - now), self._timed)

    def _timed(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        if self._phase is Phase.HANDSHAKE and now >= self._deadline:
            # Without a word: who never came further than this may be somebody else's address.
            self._end_at_once(QuicErrorCode.CONNECTION_REFUSED, "the handshake took too long")
            return
        try:
            at = self._quic.get_timer()
            if at is not None and at <= now:
                self._quic.handle_timer(now)
        except Exception:
            self._crash()
        self._datagrams.touch(self)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _lose(self, event: ConnectionTerminated | None) -> None:
        """Tell streams and factory that the connection is lost."""
        if self._phase in (Phase.CLOSED, Phase.GONE):
            return
        opened, self._phase = self._phase is Phase.OPEN, Phase.CLOSED
        error = self._ending
        if error is None:
            assert event is not None
            error = QuicClosed(event.error_code, event.reason_phrase, application=event.frame_type is None)
        reason = Failure(error if error.code else ConnectionDone())
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            self._guarded(stream, partial(stream.lost, reason))
        self._watched.clear()
        self._ready.clear()
        self._asked.clear()
        self._datagrams.closed(self, reason, opened)

    def _forget(self, event: ConnectionTerminated) -> None:
        """Remove the connection: nothing can arrive for it any more."""
        self._lose(event)
        if self._phase is not Phase.GONE:
            self._phase = Phase.GONE
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._datagrams.gone(self)

    def _crash(self) -> None:
        """Handle a bug, most likely the library's, on what a peer sent: it costs this connection and no other.

        The library is not called again, not even to close the connection.
        """
        self._log.failure("a QUIC connection failed")
        self._end_at_once(QuicErrorCode.INTERNAL_ERROR, "internal error")

    def _end_at_once(self, code: int, why: str) -> None:
        self._forget(ConnectionTerminated(error_code=code, frame_type=QuicFrameType.PADDING, reason_phrase=why))
        self._datagrams.turned()

    def discard(self) -> None:
        """End the connection without a word, since the socket closes."""
        self._forget(ConnectionTerminated(error_code=0, frame_type=None, reason_phrase=""))
