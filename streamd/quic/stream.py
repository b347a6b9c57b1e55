"""A QUIC stream as a Twisted transport."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.quic.flow import can_write, has_ended_writing, let_go, unacknowledged_bytes
from streamd.quic.interfaces import IQuicStream, StreamReset, StreamStopped

if TYPE_CHECKING:
    from streamd.quic.connection import Connection
    from streamd.quic.library import QuicStream

# So much of what was held back is given to a protocol at once, and then it may want to pause again.
_CHUNK_BYTES: Final = 256 << 10


class Phase(Enum):
    """The phase of a stream's life."""

    OPEN = auto()
    CLOSING = auto()  # nothing is read any more; what was written goes out, then the end
    LOST = auto()  # the protocol has been told


class Reading(Enum):
    """The state of the receiving direction."""

    OPEN = auto()
    LAST = auto()  # all of it has come, and is not yet taken
    ENDED = auto()  # the protocol knows
    STOPPED = auto()  # the peer was told that no more is taken


@implementer(IQuicStream)
class StreamTransport:
    """The transport of one bidirectional stream.

    No protocol is called from within its own call: what a call brings about happens in the connection's next turn, as
    on a socket.
    """

    disconnecting = False

    def __init__(self, connection: Connection, stream: QuicStream) -> None:
        self.connection = connection
        self.streamId: int = stream.stream_id or 0
        self._stream = stream
        self._protocol: IProtocol | None = None
        self._half: IHalfCloseableProtocol | None = None
        self._phase = Phase.OPEN
        self._received: list[bytes] = []
        self._held = bytearray()
        self._taken_bytes = 0
        self._reading = Reading.OPEN
        self._write_ended = False
        self._paused = False
        self._producer: Any = None
        self._streaming = False
        self._producer_paused = False
        self._reason: Failure | None = None
        self._code = 0

    def begin(self, protocol: IProtocol) -> None:
        """Give the stream to a protocol."""
        self._protocol = protocol
        self._half = IHalfCloseableProtocol(protocol, None)
        protocol.makeConnection(self)

    @property
    def unacknowledged_bytes(self) -> int:
        """How much written data is not acknowledged."""
        return unacknowledged_bytes(self._stream)

    @property
    def held_bytes(self) -> int:
        """How much received data the protocol has not taken; data out of order does not count."""
        return len(self._held)

    @property
    def is_lost(self) -> bool:
        """Whether the protocol was told that the connection is lost."""
        return self._phase is Phase.LOST

    @property
    def is_forgotten(self) -> bool:
        """Whether, moreover, nothing can arrive on the stream any more."""
        return self._phase is Phase.LOST and self._stream.is_finished

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send data, when flow and congestion control allow it."""
        if not data or self._phase is Phase.LOST or not can_write(self._stream):
            return
        self._stream.sender.write(data)
        connection = self.connection
        connection.wrote(len(data))
        if (
            self._producer is not None
            and self._streaming
            and not self._producer_paused
            and (connection.is_full or unacknowledged_bytes(self._stream) > connection.stream_send_bytes_max)
        ):
            self._producer_paused = True
            self._wait()
            self._producer.pauseProducing()

    def writeSequence(self, data: Iterable[bytes]) -> None:
        """Send several pieces of data."""
        self.write(b"".join(data))

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Pause and resume a producer as the peer takes what is written.

        A pull producer is asked whenever there is room.
        """
        if self._producer is not None:
            raise RuntimeError(f"{producer} can't be registered: {self._producer} is")
        if self._phase is Phase.LOST:
            producer.stopProducing()
            return
        self._producer = producer
        self._streaming = streaming
        self._producer_paused = False
        if not streaming:
            self._wait()

    def unregisterProducer(self) -> None:
        """Forget the producer: it writes no more."""
        self._producer = None
        self._producer_paused = False
        if self._phase is Phase.CLOSING:
            self._wait()

    def _has_room(self) -> bool:
        connection = self.connection
        return connection.has_room and unacknowledged_bytes(self._stream) * 2 <= connection.stream_send_bytes_max

    # -- reading -------------------------------------------------------------------------------------------------------

    def received(self, data: bytes, fin: bool) -> None:
        """Take in data that the peer sent; `deliver` follows in the same turn."""
        if not self._reads:
            self._drop_received()
            return
        if data:
            self._received.append(data)
        if fin:
            self._reading = Reading.LAST

    def deliver(self) -> None:
        """Give the protocol what has arrived, as long as it is not paused."""
        while self._reads and not self._paused and (data := self._next_chunk()):
            size = len(data)
            self._taken_bytes += size
            self.connection.take(self._stream, self._taken_bytes, size)
            assert self._protocol is not None
            self._protocol.dataReceived(data)
        if self._received:
            # In one piece: a peer may send a byte at a time, and the pieces would take more than the bytes.
            self._held += b"".join(self._received)
            self._received.clear()
        elif self._reading is Reading.LAST and self._reads and not self._paused and not self._held:
            self._reading = Reading.ENDED
            if self._half is None:
                self.loseConnection()
            else:
                self._half.readConnectionLost()
                self._wait()

    @property
    def _reads(self) -> bool:
        return self._phase is Phase.OPEN and self._reading in (Reading.OPEN, Reading.LAST)

    def _next_chunk(self) -> bytes:
        if self._held:
            data = bytes(self._held[:_CHUNK_BYTES])
            del self._held[:_CHUNK_BYTES]
            return data
        received, self._received = self._received, []
        return received[0] if len(received) == 1 else b"".join(received)

    def pauseProducing(self) -> None:
        """Give the protocol nothing more: the peer can't send more than its window then."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Go on giving data to the protocol."""
        if self._paused:
            self._paused = False
            if self._held or self._reading is Reading.LAST:
                self.connection.ready(self)

    def stopProducing(self) -> None:
        """Lose the connection: the protocol wants no more data."""
        self.loseConnection()

    # -- the end -------------------------------------------------------------------------------------------------------

    def loseConnection(self) -> None:
        """Read no more; send what was written, also what a producer still writes; then end.

        The peer is asked to stop sending only when it has all our data: asked before, it might reset the stream, and
        with it our last words.
        """
        if self._phase is Phase.OPEN:
            self._phase = Phase.CLOSING
            self.disconnecting = True
            self._drop_received()
            self._wait()

    def end(self, code: int) -> None:
        """Like `loseConnection`, with a code for both directions in place of the end."""
        self._code = code
        self.loseConnection()

    def loseWriteConnection(self) -> None:
        """Send what was written, then the end; go on reading."""
        if self._phase is Phase.OPEN and can_write(self._stream):
            self._stream.sender.write(b"", end_stream=True)
            self._wait()

    def abortConnection(self, code: int = 0) -> None:
        """End both directions at once."""
        self.fail(code, Failure(ConnectionAborted()))

    def reset(self, code: int) -> None:
        """Stop sending."""
        if self._phase is not Phase.LOST:
            self._stream.sender.reset(code)
            self._wait()

    def stop(self, code: int) -> None:
        """Read no more."""
        if self._phase is not Phase.LOST:
            self._stop_reading(code)
            self._wait()

    def fail(self, code: int, reason: Failure) -> None:
        """End both directions with a code; the protocol gets the reason in the connection's next turn."""
        if self._phase is not Phase.LOST and self._reason is None:
            self._phase = Phase.CLOSING
            self.disconnecting = True
            self._reason = reason
            self._stop_reading(code)
            self._stream.sender.reset(code)
            let_go(self._stream)
            self._wait()

    def was_reset(self, code: int) -> None:
        """The peer has reset its direction, and wants no answer to half a question.

        Unless it did so because we asked it to stop: then our direction goes on.
        """
        reads = self._reads
        self._drop_received()
        if reads:
            self.fail(0, Failure(StreamReset(code)))

    def was_stopped(self, code: int) -> None:
        """The peer takes no more of what we send. QUIC has dropped what the peer had not taken by then."""
        if self._stream.sender.is_finished:
            return
        if self._half is None or self._phase is not Phase.OPEN:
            self.fail(code, Failure(StreamStopped(code)))
        else:
            self._wait()

    def check(self) -> bool:
        """Handle what may have changed, in the connection's turn; returns whether there is more to wait for."""
        if self._reason is not None and self._phase is not Phase.LOST:
            self.lost(self._reason)
        if self._phase is Phase.LOST:
            # Until QUIC has forgotten the stream too, what still comes on it counts for the connection's window.
            return not self._stream.is_finished
        if self._producer is not None:
            self._feed()
        if self._phase is Phase.CLOSING and self._code:
            if self._producer is None and not (self.unacknowledged_bytes and can_write(self._stream)):
                self.fail(self._code, Failure(ConnectionAborted()))
        elif self._phase is Phase.CLOSING and self._producer is None and can_write(self._stream):
            self._stream.sender.write(b"", end_stream=True)
        if not self._write_ended and has_ended_writing(self._stream):
            self._write_ended = True
            let_go(self._stream)
            if self._phase is Phase.OPEN and self._half is not None:
                self._half.writeConnectionLost()
        if self._write_ended and not self._reads:
            self._stop_reading(0)
            self.lost(self._reason or Failure(ConnectionDone()))
            return not self._stream.is_finished
        producing = self._producer is not None and (self._producer_paused or not self._streaming)
        return producing or self._phase is not Phase.OPEN or not (self._write_ended or can_write(self._stream))

    def lost(self, reason: Failure) -> None:
        """Tell the protocol that the connection is lost."""
        if self._phase is Phase.LOST:
            return
        self._phase = Phase.LOST
        self.disconnecting = True
        self._drop_received()
        producer, self._producer = self._producer, None
        protocol, self._protocol, self._half = self._protocol, None, None
        try:
            if producer is not None:
                producer.stopProducing()
        finally:
            if protocol is not None:
                protocol.connectionLost(reason)

    def _feed(self) -> None:
        """Resume the producer where there is room."""
        if self._streaming:
            if self._producer_paused and self._has_room():
                self._producer_paused = False
                self._producer.resumeProducing()
            return
        while self._producer is not None and can_write(self._stream) and self._has_room():
            before = unacknowledged_bytes(self._stream)
            self._producer.resumeProducing()
            if unacknowledged_bytes(self._stream) == before:
                break

    def _drop_received(self) -> None:
        self._received.clear()
        self._held.clear()
        self._taken_bytes = self.connection.drop(self._stream, self._taken_bytes)

    def _stop_reading(self, code: int) -> None:
        self._drop_received()
        if self._reading is not Reading.STOPPED:
            self._reading = Reading.STOPPED
            if not self._stream.receiver.is_finished:
                self._stream.receiver.stop(code)

    def _wait(self) -> None:
        """Have `check` called in this turn of the connection or the next."""
        self.connection.watch(self)

    # -- who is who ----------------------------------------------------------------------------------------------------

    def getHost(self) -> IAddress:
        """Our address."""
        return self.connection.getHost()

    def getPeer(self) -> IAddress:
        """The peer's address."""
        return self.connection.getPeer()
