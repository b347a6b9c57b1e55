"""What every stream protocol needs: order, back-pressure both ways, limits, deadlines, an orderly end.

A protocol built on this is thin: it names its codec, says in `perform` what each request does, and how an error is
told. The base keeps these promises for it:

- Replies go out in the order of the requests, however many are in progress.
- Writes do not wait for each other. A request that reads waits until this connection's own writes are on disk.
- A peer that sends too much is no longer read; for one that does not take its replies nothing more is done.
- A peer that begins a frame and never ends it is dropped after a deadline.
- A peer that is over its rate waits; nothing of it is lost.
- At the end (the peer's, or the daemon's) what was asked is finished and answered first.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final, Union

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IDelayedCall,
    IHalfCloseableProtocol,
    IHandshakeListener,
    IPushProducer,
    ITCPTransport,
)
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.tcp import Connection
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.batch import Batch
from streamd.interfaces import Core
from streamd.protocols.permitted import Permitted
from streamd.store import Run, StoreError
from streamd.tls.handshake import why_failed
from streamd.wire import Codec, Request, WireError

# A web page can make a browser on this machine send these to any port; none of our protocols begins so.
_HTTP_METHODS: Final = tuple(
    method + b" "
    for method in (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"PRI")
)
_HTTP_METHOD_MAX: Final = max(map(len, _HTTP_METHODS))

# So much of replies is sent before the next request is looked at.
_LARGE_BYTES: Final = 65536

# And after so much, the other connections have their turn: a peer that takes its replies quickly does not stop us.
_TURN_BYTES: Final = 1 << 20

Reply = Union[bytes, Deferred[Any], tuple[Deferred[Any], bytes], "Slot", None]
"""What `perform` gives: the reply; a Deferred of it; something to wait for and the reply to give then; what `promise`
returned; or None, where the protocol answers nothing."""

# Smaller changes of what a connection holds are not counted.
_HELD_GRAIN: Final = 1024

# After so many requests the other connections have their turn.
_TURN_REQUESTS: Final = 256

# Why a connection is not read: it holds too much, or all do together; the peer does not take its replies; what it has
# sent is not looked at yet.
_CROWDED: Final = 1
_UNSENT: Final = 2
_BUSY: Final = 4


class Phase(Enum):
    """The life of a connection."""

    GREETING = auto()  # nothing is known of the peer yet
    OPEN = auto()
    ENDING = auto()  # no more input; what was asked is finished, then it closes
    CLOSED = auto()


class Slot:
    """The place of a reply in the order. The store, and any Deferred, can be told to report to it."""

    __slots__ = ("_protocol", "appended", "done", "reply", "request", "sent", "waiting")

    def __init__(self, protocol: StreamProtocol, request: Request | None) -> None:
        self._protocol = protocol
        self.request = request
        self.reply: bytes | None = None
        self.appended: Batch | None = None
        """What it stores, to be counted when it is on disk."""
        self.sent: Callable[[int], None] | None = None
        """Called once: with how many bytes of the reply were handed to the operating system."""
        self.waiting = False
        self.done = False

    def callback(self, result: Any) -> None:
        """What it waited for has happened. Its reply is the one that was promised, or else the result."""
        self._protocol.succeeded(self, result)

    def errback(self, error: Failure | Exception) -> None:
        """It has not happened."""
        self._protocol.failed(self, error.value if isinstance(error, Failure) else error)


class Broken:
    """Stands in the queue of requests where the peer broke the protocol."""

    size = 0
    reads = False

    def __init__(self, error: WireError) -> None:
        self.error = error


@implementer(IHalfCloseableProtocol, IHandshakeListener, IPushProducer)
class StreamProtocol(Permitted, Protocol, metaclass=ABCMeta):
    """One connection of a stream protocol."""

    name: ClassVar[str] = "stream"
    _put: Callable[[bytes], None]
    """Gives something to the transport, to be sent when it can be."""

    def __init__(self, core: Core, codec: Codec) -> None:
        super().__init__(core)
        self.codec = codec
        self._phase = Phase.GREETING
        self._pause = 0
        self._greeting = b""
        self._incoming: Iterator[Request | Broken] = iter(())
        self._incoming_bytes = 0
        self._requests: deque[Request | Broken] = deque()
        self._replies: deque[Slot] = deque()
        self._slot = Slot(self, None)
        self._out_bytes = 0
        self._unsent: list[tuple[Callable[[int], None], int, int]] = []
        """Who is to be told that its reply was sent, where that began in all that was put out, and its size."""
        self._writes = 0
        self._reading = False
        self._advancing = False
        self._asked_bytes = 0
        self._ready_bytes = 0
        self._unsent_bytes = 0
        self._held_bytes = 0
        self._deadline: IDelayedCall | None = None
        self._turn: IDelayedCall | None = None
        self._frame_began: float | None = None
        self._direct = False
        self._paid_bytes = 0
        """Of `_out_bytes`, what the rates have been charged for."""
        self.address: str | None = None
        """Where the peer is, for the count of connections."""

    # -- for the protocols ---------------------------------------------------------------------------------------------

    @abstractmethod
    def perform(self, request: Any) -> Reply:
        """Do what is asked. A StoreError, raised here or by the Deferred, goes to `refused`."""

    @abstractmethod
    def refused(self, request: Any, error: StoreError) -> bytes | None:
        """The reply to a request that the store refuses."""

    def broken(self, error: WireError) -> bytes | None:
        """The last words to a peer that broke the protocol."""
        return None

    def again(self, request: Request) -> None:
        """Perform this next, before anything else that was asked: the rest of a request done in part."""
        self._requests.appendleft(request)
        self._asked_bytes += request.size

    def later(self, request: Request) -> None:
        """Perform this in its turn, from outside of `perform`: something that it waited for has happened."""
        if self._phase in (Phase.OPEN, Phase.ENDING):
            self._requests.append(request)
            self._asked_bytes += request.size
            self._advance()

    @property
    def is_waiting(self) -> bool:
        """Whether something that was asked waits for what others do, outside of the order: the end waits for it too."""
        return False

    def hurry(self) -> None:
        """The daemon ends: what waits for others is to be answered now, as if its time were over."""

    def promise(self, reply: bytes, batch: Batch | None = None) -> Slot:
        """The reply to what is being performed, to be sent when the store reports to what this returns.

        `perform` returns it. Cheaper than a Deferred, for what is done most. The records of `batch` count as appended
        then.
        """
        slot = self._slot
        slot.reply = reply
        slot.appended = batch
        self._wait(slot)
        return slot

    def count_appended(self, batch: Batch) -> None:
        """Count these records when what is being performed has succeeded."""
        self._slot.appended = batch

    def count_read(self, runs: list[Run]) -> None:
        """Count what was read for the peer."""
        self.traffic.read(sum([len(run.batch.lengths) for run in runs]), sum([len(run.batch.payload) for run in runs]))

    @property
    def is_closed(self) -> bool:
        """Whether the peer is gone."""
        return self._phase is Phase.CLOSED

    @property
    def is_open(self) -> bool:
        """Whether the peer may still ask, and has not ended."""
        return self._phase is Phase.OPEN

    @property
    def is_slow(self) -> bool:
        """Whether the peer does not take what it is sent: `resumeProducing` says when it does again."""
        return bool(self._pause & _UNSENT)

    def finish(self) -> None:
        """Answer what is being performed and what came before it, then close: nothing else that was asked counts."""
        self._forget()
        self._end()

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

    def give_up(self, reason: str) -> None:
        """Close at once: the peer asked for what this protocol has no answer to."""
        self.log.warn("{peer} is cut off by {wire}: {reason}", peer=self.peer, wire=self.name, reason=reason)
        self._cut_off("unanswerable")

    def when_sent(self, tell: Callable[[int], None]) -> None:
        """Call this when the reply to what is being performed was handed to the operating system, with its size.

        Where the connection is lost before, with how many bytes of it were. For requests that read: of these there is
        one at a time, so that it may be said as late as when the reply is made.
        """
        self._slot.sent = tell
        if not self._direct and isinstance(below := _below(self.transport), Connection):
            # A socket under TLS says when it has handed over all that it had, but only where that was more than this.
            # What is less would count as handed over at once, and be lost with the connection.
            below.bufferSize = 0

    @property
    def reply_bytes_max(self) -> int:
        """About how much of an answer to give at once: less when memory is short."""
        return 256 << 10 if not self.core.load.crowded else max(min(self.core.load.share_bytes, 256 << 10), 4096)

    # -- what comes in -------------------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self.factory.joined(self)
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
            self.transport.setTcpKeepAlive(True)
        # A plain socket takes what it can at once, without a turn of the reactor, and tells a pull producer when the
        # rest has gone. TLS and other wrapped transports have buffers of their own.
        self._direct = isinstance(self.transport, Connection)
        self._put = self.transport.write
        if isinstance(self.transport, TLSMemoryBIOProtocol):
            # Past the buffer that gathers small writes until the next turn: they are gathered here already, and nobody
            # says when that buffer is empty.
            self._put = partial(TLSMemoryBIOProtocol.write, self.transport)
            # Whoever speaks TLS begins a handshake, and has to end it.
            self._frame_began = self.core.clock.seconds()
            self._deadline = self.core.clock.callLater(self.core.limits.frame_seconds_max, self._overdue)
        self.transport.registerProducer(self, not self._direct)

    def handshakeCompleted(self) -> None:
        """TLS is agreed on. What follows may take its time."""
        self._frame_began = None

    def dataReceived(self, data: bytes) -> None:
        if self._phase is Phase.GREETING:
            data = self._greet(data)
            if not data:
                return
        if not self._takes_requests():
            return
        try:
            requests = self.codec.receive(data)
        except Exception:
            self._crash(Failure())
            return
        self._watch_frame(bool(requests))
        if self.codec.error is not None:
            requests = chain(requests, (Broken(self.codec.error),))
        self._incoming = chain(self._incoming, requests) if self._incoming_bytes else iter(requests)
        self._incoming_bytes += len(data)
        self._advance()

    def _takes_requests(self) -> bool:
        # What follows a broken frame is no request, also while those before it are still in progress.
        return self._phase is Phase.OPEN and self.codec.error is None

    def _greet(self, data: bytes) -> bytes:
        """Look at the first bytes, and give them out when they are no HTTP request."""
        head = self._greeting = self._greeting + data
        if head.startswith(_HTTP_METHODS):
            self.log.warn("{peer} speaks HTTP to {wire}", peer=self.peer, wire=self.name)
            self._cut_off("http")
            return b""
        if len(head) < _HTTP_METHOD_MAX and any(method.startswith(head) for method in _HTTP_METHODS):
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
        self.core.load.forget(self)
        self.core.load.change(-self._held_bytes)
        self._held_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self.factory.left(self)

    # -- doing it ------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin requests for as long as nothing is in their way, and send what is answered."""
        if self._advancing:
            return
        self._advancing = True
        if self._permits.is_stale and self._phase is not Phase.GREETING:
            # Not before the first bytes: a transport may resume us while its handshake goes on.
            self.identify()
        try:
            begun = sent_bytes = 0
            while not self._reading and not self._pause & _UNSENT and self._turn is None:
                request = self._next_request()
                if request is None:
                    break
                self._begin(request)
                begun += 1
                if self._ready_bytes >= _LARGE_BYTES:
                    # Answers are not gathered without limit: they go out, and may stop us.
                    sent_bytes += self._ready_bytes
                    self._flush()
                if self._paces and (wait := self._charge(request)):
                    self._turn = self.core.clock.callLater(wait, self._next_turn)
                elif begun >= _TURN_REQUESTS or sent_bytes >= _TURN_BYTES:
                    # Others want their turn too.
                    self._turn = self.core.clock.callLater(0, self._next_turn)
            self._flush()
        finally:
            self._advancing = False
        if self._phase is Phase.CLOSED:
            return
        self._hold()
        if self._phase is Phase.ENDING and not (
            # Who waits to be told that its reply was sent is told first: nobody tells us once we have closed.
            self._requests
            or self._incoming_bytes
            or self._replies
            or self._unsent
            # Who broke the protocol is told so, and waits for nothing.
            or (self.is_waiting and self.codec.error is None)
        ):
            self._close()

    def _next_request(self) -> Request | Broken | None:
        """What is to be done next; None where nothing is, or where it has to wait for our own writes."""
        if self._requests:
            request = self._requests.popleft()
        else:
            try:
                following = next(self._incoming, None)
            except Exception:
                self._crash(Failure())
                return None
            if following is None:
                self._incoming_bytes = 0
                return None
            request = following
            self._asked_bytes += request.size
        if request.reads and self._writes:
            self._requests.appendleft(request)
            return None
        return request

    def _charge(self, request: Request | Broken) -> float:
        """Pay for a request: how many seconds the next one has to wait."""
        batch = getattr(request, "batch", None)
        return self.charge(int(hasattr(request, "record")) if batch is None else batch.count, request.size)

    def _next_turn(self) -> None:
        self._turn = None
        self._advance()

    def _begin(self, request: Request | Broken) -> None:
        if isinstance(request, Broken):
            self._break(request.error)
            return
        slot = self._slot = Slot(self, request)
        self._replies.append(slot)
        try:
            try:
                reply = self.perform(request)
            except StoreError as error:
                self._settled(slot)
                self.note(error)
                reply = self.refused(request, error)
        except Exception:
            self._crash(Failure())
            return
        if reply is None or isinstance(reply, bytes):
            self._answer(slot, reply)
        elif not isinstance(reply, Slot):
            if isinstance(reply, tuple):
                reply, slot.reply = reply
            self._wait(slot)
            reply.addCallbacks(slot.callback, slot.errback)

    def _wait(self, slot: Slot) -> None:
        slot.waiting = True
        if slot.request is not None and slot.request.reads:
            self._reading = True
        else:
            self._writes += 1

    def _settled(self, slot: Slot) -> None:
        if slot.waiting:
            slot.waiting = False
            if slot.request is not None and slot.request.reads:
                self._reading = False
            else:
                self._writes -= 1

    def succeeded(self, slot: Slot, result: Any) -> None:
        """What a request waited for has happened."""
        self._settled(slot)
        batch = slot.appended
        if batch is not None:
            # What `Traffic.appended` does, without the call: this is done for every request.
            traffic = self.factory.traffic
            traffic.appended_records += len(batch.lengths)
            traffic.appended_bytes += len(batch.payload)
        self._answer(slot, slot.reply if slot.reply is not None else result)
        if self._phase is not Phase.CLOSED:
            try:
                self._advance()
            except Exception:
                self._crash(Failure())

    def failed(self, slot: Slot, error: BaseException | None) -> None:
        """It can't happen, for a reason that the peer is told; or there is a bug."""
        if not isinstance(error, StoreError):
            self._crash(Failure(error))
            return
        self.note(error)
        slot.appended = None
        try:
            slot.reply = self.refused(slot.request, error)
        except Exception:
            self._crash(Failure())
        else:
            self.succeeded(slot, None)

    def _break(self, error: WireError) -> None:
        self.log.warn("{peer} broke {wire}: {error}", peer=self.peer, wire=self.name, error=str(error))
        self.count_cut_off(error.reason)
        slot = Slot(self, None)
        self._replies.append(slot)
        self._answer(slot, self.broken(error))
        self._forget()
        self._phase = Phase.ENDING

    def _forget(self) -> None:
        """Whatever else was asked does not count."""
        self._requests.clear()
        self._incoming = iter(())
        self._incoming_bytes = 0

    def _crash(self, failure: Failure) -> None:
        """A bug: it costs this connection, and nobody else anything."""
        self.log.failure("a connection of {wire} failed", failure=failure, wire=self.name)
        self._cut_off("failed")

    # -- what goes out -------------------------------------------------------------------------------------------------

    def _answer(self, slot: Slot, reply: bytes | None) -> None:
        slot.reply = reply
        slot.done = True
        if reply:
            self._ready_bytes += len(reply)

    def _flush(self) -> None:
        replies = self._replies
        parts: list[bytes] = []
        out_bytes = self._out_bytes
        sent: list[tuple[Callable[[int], None], int, int]] = []
        while replies and replies[0].done:
            slot = replies.popleft()
            if slot.request is not None:
                self._asked_bytes -= slot.request.size
            if slot.reply:
                size = len(slot.reply)
                self._ready_bytes -= size
                parts.append(slot.reply)
                if slot.sent is not None:
                    sent.append((slot.sent, out_bytes, size))
                out_bytes += size
        if parts and self._phase is not Phase.CLOSED:
            self._send(parts[0] if len(parts) == 1 else b"".join(parts))
            self._out_bytes = out_bytes
            if sent:
                self._unsent += sent
                if not self._pause & _UNSENT:
                    self._tell_sent()

    def _tell_sent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for tell, _, size in unsent:
            tell(size)

    def _tell_lost(self) -> None:
        """The connection is gone: tell who waits how much of its reply went out."""
        unsent, self._unsent = self._unsent, []
        if unsent:
            handed = self._out_bytes - self._left_bytes()
            for tell, begin, size in unsent:
                tell(max(0, min(size, handed - begin)))
        for slot in self._replies:
            if slot.sent is not None:
                tell, slot.sent = slot.sent, None
                tell(0)

    def _left_bytes(self) -> int:
        """How much of what we put out the transport still has."""
        if not self._direct:
            return self._unsent_bytes
        left: int = len(self.transport.dataBuffer) - self.transport.offset + self.transport._tempDataLen
        return left

    def _send(self, data: bytes) -> None:
        transport = self.transport
        if self._direct and not self._pause & _UNSENT:
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
            self._pause_for(_UNSENT)
        self._unsent_bytes += len(data)
        self._put(data)
        if not self._pause & _UNSENT:
            # A transport with buffers of its own took it, and will say so where that was enough.
            self._unsent_bytes = 0

    def pauseProducing(self) -> None:
        """The transport holds as much as it wants to: the peer is slow."""
        self._pause_for(_UNSENT)

    def resumeProducing(self) -> None:
        """The peer has taken its replies."""
        self._unsent_bytes = 0
        self._tell_sent()
        self._resume_for(_UNSENT)
        if self._phase is not Phase.CLOSED:
            self._advance()

    def stopProducing(self) -> None:
        """The transport is gone; `connectionLost` follows."""

    # -- limits --------------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Tell how much this connection keeps in memory, and stop reading where that is too much."""
        busy = self._incoming_bytes + self._asked_bytes + self._ready_bytes + self._unsent_bytes
        held = busy + self.codec.buffered
        load = self.core.load
        delta = held - self._held_bytes
        if -_HELD_GRAIN < delta < _HELD_GRAIN and not self._pause and not self._incoming_bytes:
            # Not worth telling: a message of a hundred bytes comes and goes.
            return
        self._held_bytes = held
        if delta:
            load.change(delta)
        limit = load.must_wait(held, busy)
        if limit is not None or self._asked_bytes > self.core.store.pace.bytes:
            if limit is not None and not self._pause & _CROWDED:
                self.traffic.connections_slowed[limit] += 1
            self._pause_for(_CROWDED)
            load.wait(self)
        elif self._pause & _CROWDED:
            load.forget(self)
            self._resume_for(_CROWDED)
        if self._incoming_bytes:
            self._pause_for(_BUSY)
        elif self._pause & _BUSY:
            self._resume_for(_BUSY)

    def uncrowded(self) -> None:
        """There is room for all again."""
        if self._phase is not Phase.CLOSED:
            self._hold()

    def _pause_for(self, why: int) -> None:
        if not self._pause and self._phase is not Phase.ENDING:
            self.transport.pauseProducing()
        self._pause |= why

    def _resume_for(self, why: int) -> None:
        was, self._pause = self._pause, self._pause & ~why
        if was and not self._pause and self._phase in (Phase.OPEN, Phase.GREETING):
            if self._frame_began is not None:
                # While it was not read it could not end its frame: the deadline begins anew.
                self._frame_began = self.core.clock.seconds()
            self.transport.resumeProducing()

    def _watch_frame(self, ended: bool) -> None:
        """Let a deadline run while a frame is open. There is one timer, moved when it fires, not at each read."""
        if not self.codec.buffered and not self._greeting:
            self._frame_began = None
            return
        if ended or self._frame_began is None:
            self._frame_began = self.core.clock.seconds()
        if self._deadline is None:
            self._deadline = self.core.clock.callLater(self.core.limits.frame_seconds_max, self._overdue)

    def _overdue(self) -> None:
        self._deadline = None
        if self._frame_began is None or self._phase not in (Phase.OPEN, Phase.GREETING):
            return
        left = self._frame_began + self.core.limits.frame_seconds_max - self.core.clock.seconds()
        if self._pause and self._held_bytes > self.codec.buffered:
            # It waits for us. Where all it holds is the frame itself, others that do the same may fill the memory, each
            # waiting for the rest to end: then the deadline is what frees it.
            left = self.core.limits.frame_seconds_max
        if left > 0:
            self._deadline = self.core.clock.callLater(left, self._overdue)
        else:
            self.log.warn("{peer} did not end what it began to send to {wire}", peer=self.peer, wire=self.name)
            self._cut_off("overdue")

    # -- the end -------------------------------------------------------------------------------------------------------

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

    def _close(self) -> None:
        self.transport.unregisterProducer()
        self.transport.loseConnection()
        if isinstance(self.transport, TLSMemoryBIOProtocol):
            # TLS would wait for the peer's farewell too, which an idle one may never send.
            _below(self.transport).loseConnection()

    def _cut_off(self, reason: str) -> None:
        self.count_cut_off(reason)
        self.abort()

    def count_cut_off(self, reason: str) -> None:
        """Count that it was us who ended the connection."""
        self.traffic.connections_cut_off[reason] += 1

    def abort(self) -> None:
        """Close at once."""
        if self._phase is not Phase.CLOSED and self.transport is not None:
            self._phase = Phase.ENDING
            self._forget()
            self._cut()

    def _cut(self) -> None:
        self.transport.abortConnection()


def _below(transport: Any) -> Any:
    """The transport itself, under TLS and whatever else is wrapped around it."""
    while isinstance(transport, ProtocolWrapper):
        transport = transport.transport
    return transport
