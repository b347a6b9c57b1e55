"""What goes out: at once where the socket takes it, and else when it does; and who is told that it went.

For a peer that does not take its replies nothing more is done until it has.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall, ITCPTransport
from twisted.internet.tcp import Connection
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import TLSMemoryBIOProtocol

from streamd.connections.core import Core
from streamd.connections.holding import UNSENT, Holding, Phase
from streamd.wire import Codec

PROGRESS_BYTES_LEAST: Final = 1 << 20
"""What a peer for which others wait has to take each time that `reply_seconds_max` have passed."""


class Sending(Holding):
    """The way out of a connection."""

    __slots__ = ("_direct", "_out_bytes", "_paid_bytes", "_put", "_send_some", "_unsent", "_watch")

    _put: Callable[[bytes], None]
    """Gives something to the transport, to be sent when it can be."""
    _send_some: Callable[[bytes], int]
    """Gives something to the operating system, and returns how much of it was taken. Only of a plain socket."""

    def __init__(self, core: Core, codec: Codec) -> None:
        super().__init__(core, codec)
        self._direct = False
        self._out_bytes = 0
        self._paid_bytes = 0
        """Of these, what the rates have been charged for."""
        self._unsent: list[tuple[Callable[[int], None], int, int]] = []
        """Who is to be told that its reply was sent, where that began in all that was put out, and its size."""
        self._watch: IDelayedCall | None = None

    @abstractmethod
    def _advance(self) -> None:
        """Go on: the peer takes replies again."""

    def tell(self, data: bytes) -> None:
        """Send something outside of the order of replies: the answer to a request that holds no other up."""
        if self._phase in (Phase.OPEN, Phase.ENDING):
            self._send(data)
            self._out_bytes += len(data)
            self._hold()

    def charge(self, messages: int = 0, size: int = 0) -> float:
        """Pay for this and for what was sent since the last time: how many seconds to wait with what is next."""
        size += self._out_bytes - self._paid_bytes
        self._paid_bytes = self._out_bytes
        return self.pay(messages, size)

    # -- the transport -------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        """There is a transport: find out how it is written to."""
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
            self.transport.setTcpKeepAlive(True)
        # A plain socket takes what it can at once, without a turn of the reactor, and tells a pull producer when the
        # rest has gone. TLS and other wrapped transports have buffers of their own.
        self._direct = isinstance(self.transport, Connection)
        if self._direct:
            self._send_some = self.transport.socket.send
        self._put = self.transport.write
        if isinstance(self.transport, TLSMemoryBIOProtocol):
            # Past the buffer that gathers small writes until the next turn: they are gathered here already, and nobody
            # says when that buffer is empty.
            self._put = partial(TLSMemoryBIOProtocol.write, self.transport)
        self.transport.registerProducer(self, not self._direct)

    def _send(self, data: bytes) -> None:
        transport = self.transport
        if self._direct and not self._pause & UNSENT:
            left = len(data)
            rest: bytes | memoryview = data
            while True:
                sent = transport.writeSomeData(rest)
                if sent == left:
                    return
                # What can't be sent now, and an error too, is for the reactor to deal with.
                if not isinstance(sent, int) or sent <= 0:
                    break
                left -= sent
                # A view: each call takes some tens of kilobytes, and the rest may be megabytes.
                rest = memoryview(data)[-left:]
            if left < len(data):
                data = bytes(rest)
            self._pause_for(UNSENT)
        self._unsent_bytes += len(data)
        self._put(data)
        if not self._pause & UNSENT:
            # A transport with buffers of its own took it, and will say so where that was enough.
            self._unsent_bytes = 0

    def pauseProducing(self) -> None:
        """The transport holds as much as it wants to: the peer is slow."""
        self._pause_for(UNSENT)

    def resumeProducing(self) -> None:
        """The peer has taken its replies."""
        self._unsent_bytes = 0
        self._tell_sent()
        self._resume_for(UNSENT)
        if self._phase is not Phase.CLOSED:
            self._advance()

    def stopProducing(self) -> None:
        """The transport is gone; `connectionLost` follows."""

    # -- a peer that takes nothing -------------------------------------------------------------------------------------

    def hurry_peer(self) -> None:
        """Others wait until the peer has taken what it is sent: watch whether it does, and cut it off where not."""
        if self._watch is None:
            seconds = self.core.limits.reply_seconds_max
            self._watch = self.core.clock.callLater(seconds, self._check_progress, self.handed_bytes)

    def _check_progress(self, handed_bytes: int) -> None:
        self._watch = None
        if not self.is_awaited:
            return
        if self.is_slow and self.handed_bytes - handed_bytes < PROGRESS_BYTES_LEAST:
            self.log.warn("{peer} does not take what it asked {wire} for", peer=self.peer, wire=self.name)
            self._cut_off("reply_seconds")
        else:
            self.hurry_peer()

    def _release(self) -> None:
        super()._release()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    # -- who is told ---------------------------------------------------------------------------------------------------

    def _tell_sent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for tell, _, size in unsent:
            tell(size)

    def _tell_lost(self) -> None:
        """The connection is gone: tell who waits how much of its reply went out."""
        unsent, self._unsent = self._unsent, []
        if unsent:
            handed = self.handed_bytes
            for tell, begin, size in unsent:
                tell(max(0, min(size, handed - begin)))

    @property
    def handed_bytes(self) -> int:
        """How much of what we put out was handed to the operating system, since the connection was made."""
        return self._out_bytes - self._left_bytes()

    def _left_bytes(self) -> int:
        """How much of what we put out the transport still has."""
        if not self._direct:
            return self._unsent_bytes
        left: int = len(self.transport.dataBuffer) - self.transport.offset + self.transport._tempDataLen
        return left

    def _count_small(self) -> None:
        """See that what is sent next counts as handed over only when it is."""
        if not self._direct and isinstance(below := below_of(self.transport), Connection):
            # A socket under TLS says when it has handed over all that it had, but only where that was more than this.
            # What is less would count as handed over at once, and be lost with the connection.
            below.bufferSize = 0

    def _close(self) -> None:
        self.transport.unregisterProducer()
        self.transport.loseConnection()
        if isinstance(self.transport, TLSMemoryBIOProtocol):
            # TLS would wait for the peer's farewell too, which an idle one may never send.
            below_of(self.transport).loseConnection()


def below_of(transport: Any) -> Any:
    """The transport itself, under TLS and whatever else is wrapped around it."""
    while isinstance(transport, ProtocolWrapper):
        transport = transport.transport
    return transport
