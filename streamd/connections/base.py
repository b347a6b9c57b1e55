"""What every stream protocol needs: order, back-pressure both ways, limits, deadlines, an orderly end.

A protocol built on this is thin: it names its codec, says in `perform` what each request does, and how an error is
told. The base keeps these promises for it, each in a module of its own:

- It does only what the rules let its peer do, at the rate that they allow (`permitted`).
- A peer that sends too much is no longer read; one that begins a frame and never ends it is dropped (`holding`).
- For a peer that does not take its replies nothing more is done (`sending`).
- Requests are begun in their order (`order`), and replies go out in it, however many are in progress (`replies`).
- At the end (the peer's, or the daemon's) what was asked is finished and answered first (here).

One class after the other adds its part to the same object: a call from one to the next for each request would cost more
than what most of them do.
"""

from __future__ import annotations

from itertools import chain
from typing import ClassVar, Final

from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import LogLevel
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.connections.core import Core
from streamd.connections.holding import Phase
from streamd.connections.order import Ordered
from streamd.connections.slots import Broken, Reply
from streamd.tls.handshake import why_failed
from streamd.wire import Codec

__all__ = ["Reply", "StreamProtocol"]

# A web page can make a browser on this machine send these to any port; none of our protocols begins so.
_HTTP_METHODS: Final = tuple(
    method + b" "
    for method in (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"PRI")
)
_OPEN: Final = Phase.OPEN
_FEW: Final = 4
"""So many requests at once, and no more, are what somebody sends who waits for their answers."""

_HTTP_METHOD_MAX: Final = max(map(len, _HTTP_METHODS))


@implementer(IHalfCloseableProtocol, IHandshakeListener, IPushProducer)
class StreamProtocol(Ordered, Protocol):
    """One connection of a stream protocol, from its first byte to its end."""

    refused_greetings: ClassVar[tuple[bytes, ...]] = _HTTP_METHODS
    """First bytes with which a connection is closed at once: those of a browser."""

    def __init__(self, core: Core, codec: Codec) -> None:
        super().__init__(core, codec)
        self._given_up = False
        self.address: str | None = None
        """Where the peer is, for the count of connections."""

    @property
    def is_closed(self) -> bool:
        """Whether the peer is gone."""
        return self._phase is Phase.CLOSED

    @property
    def is_open(self) -> bool:
        """Whether the peer may still ask, and has not ended."""
        return self._phase is Phase.OPEN

    # -- what comes in -------------------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self.factory.joined(self)
        self._attach()
        if isinstance(self.transport, TLSMemoryBIOProtocol):
            # Whoever speaks TLS begins a handshake, and has to end it.
            self._begin_frame()

    def handshakeCompleted(self) -> None:
        """TLS is agreed on. What follows may take its time."""
        self._frame_began = None

    def dataReceived(self, data: bytes) -> None:
        if self._phase is not _OPEN:
            data = self._greet(data) if self._phase is Phase.GREETING else b""
            if not data:
                return
        if self._is_free:
            try:
                reply = self.express(data)
            except Exception:
                self._crash(Failure())
                return
            if reply is not None:
                if reply:
                    self._send(reply)
                    self._out_bytes += len(reply)
                return
        self._leave_express()
        if self.codec.error is not None:
            # What follows a broken frame is no request, also while those before it are still in progress.
            return
        codec = self.codec
        try:
            requests = codec.receive(data)
        except Exception:
            self._crash(Failure())
            return
        if codec.error is not None:
            self._watch_frame(bool(requests))
            requests = chain(requests, (Broken(codec.error),))
        elif self._frame_began is not None or codec.buffered:
            self._watch_frame(bool(requests))
        elif (
            type(requests) is list
            and len(requests) <= _FEW
            # Nothing stands before them, and nothing in their way.
            and not (self._incoming_bytes or self._requests or self._reading or self._pause or self._paces)
            and not (self._advancing or self._turn is not None or self._permits.is_stale)
        ):
            self._begin_few(requests)
            return
        self._incoming = chain(self._incoming, requests) if self._incoming_bytes else iter(requests)
        self._incoming_bytes += len(data)
        self._advance()

    def _greet(self, data: bytes) -> bytes:
        """Look at the first bytes, and give them out when they are no HTTP request."""
        head = self._greeting = self._greeting + data
        if head.startswith(self.refused_greetings):
            self.log.warn("{peer} speaks HTTP to {wire}", peer=self.peer, wire=self.name)
            self._cut_off("http")
            return b""
        if len(head) < _HTTP_METHOD_MAX and any(method.startswith(head) for method in self.refused_greetings):
            self._watch_frame(False)
            return b""
        self._phase = Phase.OPEN
        self._greeting = b""
        return head

    def readConnectionLost(self) -> None:
        """The peer sends no more, and still wants its answers."""
        self._end()

    def writeConnectionLost(self) -> None:
        """The peer takes no more answers."""
        self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._phase is Phase.GREETING and (why := why_failed(self.transport, reason)) is not None:
            self.log.warn("{peer} did not get past TLS to {wire}: {why}", peer=self.peer, wire=self.name, why=why)
            self.count_cut_off("tls")
        self._phase = Phase.CLOSED
        self._forget()
        self._tell_lost()
        self._release()
        self.factory.left(self)

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Answer what is being performed and what came before it, then close: nothing else that was asked counts."""
        self._forget()
        self._end()

    def drain(self) -> None:
        """Take nothing more; finish and answer what was asked; close."""
        self.hurry()
        self._end()

    def _end(self) -> None:
        if self._phase in (Phase.GREETING, Phase.OPEN):
            if not self._pause:
                self.transport.pauseProducing()
            self._phase = Phase.ENDING
            self._advance()

    def give_up(self, reason: str, level: LogLevel = LogLevel.warn) -> None:
        """Close, once what was asked before is answered: the protocol has no answer to what is being performed."""
        if not self._given_up:
            self._given_up = True
            self.log.emit(level, "{peer} is cut off by {wire}: {reason}", peer=self.peer, wire=self.name, reason=reason)
            self.count_cut_off("unanswerable")
        self.finish()
        self.hurry()

    def _crash(self, failure: Failure) -> None:
        """A bug: it costs this connection, and nobody else anything."""
        self.log.failure("a connection of {wire} failed", failure=failure, wire=self.name)
        self._cut_off("failed")

    def _cut_off(self, reason: str) -> None:
        self.count_cut_off(reason)
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._phase is not Phase.CLOSED and self.transport is not None:
            self._phase = Phase.ENDING
            self._joint = None
            self._forget()
            self._cut()

    def _cut(self) -> None:
        self.transport.abortConnection()
