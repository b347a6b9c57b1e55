"""Requests are begun in order, and answered in order, however many are in progress.

Writes do not wait for each other. A request that reads waits until this connection's own writes are on disk.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, Union

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.connections.holding import UNSENT, Phase
from streamd.connections.sending import Sending
from streamd.store import Run, StoreError
from streamd.wire import Codec, Request, WireError

# So much of replies is sent before the next request is looked at.
_LARGE_BYTES: Final = 65536

# And after so much, the other connections have their turn: a peer that takes its replies quickly does not stop us.
_TURN_BYTES: Final = 1 << 20

# So they have after so many requests.
_TURN_REQUESTS: Final = 256

# And after so long: requests are not all alike. One that takes longer by itself is performed in `Steps`.
_TURN_SECONDS: Final = 0.005

Reply = Union[bytes, Deferred[Any], tuple[Deferred[Any], bytes], "Slot", None]
"""What `perform` gives: the reply; a Deferred of it; something to wait for and the reply to give then; what `promise`
returned; or None, where the protocol answers nothing."""


class Slot:
    """The place of a reply in the order. The store, and any Deferred, can be told to report to it."""

    __slots__ = ("_protocol", "appended", "done", "reply", "request", "sent", "waiting")

    def __init__(self, protocol: Ordered, request: Request | None) -> None:
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


_NO_SLOT: Final = Slot.__new__(Slot)
"""In the place of a slot where nothing is performed any more."""


class Broken:
    """Stands in the queue of requests where the peer broke the protocol."""

    size = 0
    reads = False

    def __init__(self, error: WireError) -> None:
        self.error = error


class Steps:
    """What is left of a request that is too much for one turn of the reactor: a step is done each time it is performed.

    The steps are those of a generator, a millisecond or less each; what it returns is the reply.
    """

    __slots__ = ("request", "steps")

    def __init__(self, request: Request, steps: Generator[None, None, Any]) -> None:
        self.request = request
        self.steps = steps

    @property
    def size(self) -> int:
        """About how many bytes it keeps in memory."""
        return self.request.size

    @property
    def reads(self) -> bool:
        """Whether it must see this connection's earlier writes."""
        return self.request.reads


class Ordered(Sending):
    """The requests of a connection, and their replies."""

    def __init__(self, core: Core, codec: Codec) -> None:
        super().__init__(core, codec)
        self._incoming: Iterator[Request | Broken] = iter(())
        self._requests: deque[Request | Broken] = deque()
        self._replies: deque[Slot] = deque()
        self._slot = Slot(self, None)
        self._writes = 0
        self._reading = False
        self._advancing = False
        self._woken = False
        self._turn: IDelayedCall | None = None
        self._turn_of_all = core.store.turn
        self._due = False

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

    def in_steps(self, rest: Steps) -> Reply:
        """Do the next step of a request, and the others before anything else that was asked, but maybe in later turns.

        `perform` returns what this does, for the request and for the `Steps` of it.
        """
        try:
            next(rest.steps)
        except StopIteration as end:
            reply: Reply = end.value
            return reply
        self.again(rest)
        return b""

    def one_by_one(self, requests: Sequence[Request]) -> bytes:
        """Perform these next, in place of the run that they are when they come at once: not all of it can be done.

        `perform` returns what this does. So each is answered as if it had been sent alone.
        """
        for request in reversed(requests):
            self.again(request)
        return b""

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

    def when_sent(self, tell: Callable[[int], None]) -> None:
        """Call this when the reply to what is being performed was handed to the operating system, with its size.

        Where the connection is lost before, with how many bytes of it were. For requests that read: of these there is
        one at a time, so that it may be said as late as when the reply is made.
        """
        if self._phase is Phase.CLOSED:
            tell(0)
            return
        self._slot.sent = tell
        self._count_small()

    def hurry(self) -> None:
        """The connection is about to end: answer what waits for others now, as if its time were over."""

    @abstractmethod
    def _crash(self, failure: Failure) -> None:
        """A bug: it costs this connection, and nobody else anything."""

    # -- doing it ------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin requests for as long as nothing is in their way, and send what is answered."""
        # To send replies may let requests go on, also those of this connection: then there is more to do behind it.
        self._woken = True
        if self._advancing:
            return
        self._advancing = True
        self._due = False
        if self._permits.is_stale and self._phase is not Phase.GREETING:
            # Not before the first bytes: a transport may resume us while its handshake goes on.
            self.identify()
        try:
            begun = sent_bytes = 0
            seconds = self.core.clock.seconds
            turn_end = seconds() + _TURN_SECONDS
            while self._woken:
                self._woken = False
                while not self._reading and not self._pause & UNSENT and self._turn is None:
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
                    elif begun >= _TURN_REQUESTS or sent_bytes >= _TURN_BYTES or seconds() >= turn_end:
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
            self._requests or self._incoming_bytes or self._replies or self._unsent or self.is_waiting
        ):
            self._cancel_turn()
            self._close()

    def _is_free(self) -> bool:
        """Whether the next request can begin at once, whatever it is: nothing stands before it or in its way."""
        return self._turn is None and not (
            self._incoming_bytes
            or self._requests
            or self._reading
            or self._pause
            or self._paces
            or self._advancing
            or self._permits.is_stale
        )

    def _begin_few(self, requests: list[Request]) -> None:
        """Begin some requests of a connection that is free: what `_advance` comes to, for those who wait for each."""
        self._advancing = True
        self._woken = False
        try:
            for request in requests:
                self._asked_bytes += request.size
                if self._reading or self._requests or (request.reads and self._writes):
                    self._requests.append(request)
                else:
                    self._begin(request)
                    if self._phase is not Phase.OPEN:
                        break
            if not self._requests:
                # Else with what follows: a reply that comes in pieces is sent as a whole where it can be.
                self._flush()
        finally:
            self._advancing = False
        if self._woken or self._requests or self._phase is not Phase.OPEN or not self._holds_little():
            self._advance()

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
        if isinstance(request, Steps):
            # It was paid for when it was begun.
            return 0.0
        batch = getattr(request, "batch", None)
        return self.charge(int(hasattr(request, "record")) if batch is None else batch.count, request.size)

    def _next_turn(self) -> None:
        self._turn = None
        self._advance()

    def _cancel_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

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
                # Its traceback holds frames that hold it: a circle that only the collector would break.
                error.__traceback__ = None
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
                self._reading = self._fetching = False
            else:
                self._writes -= 1

    def succeeded(self, slot: Slot, result: Any) -> None:
        """What a request waited for has happened."""
        # What `_settled` and `_answer` do, without the calls: this is done for every request.
        if slot.waiting:
            slot.waiting = False
            if slot.request is not None and slot.request.reads:
                self._reading = self._fetching = False
            else:
                self._writes -= 1
        batch = slot.appended
        if batch is not None:
            traffic = self.factory.traffic
            traffic.appended_records += len(batch.lengths)
            traffic.appended_bytes += len(batch.payload)
        if slot.reply is None:
            slot.reply = result
        slot.done = True
        if slot.reply:
            self._ready_bytes += len(slot.reply)
        turn = self._turn_of_all
        if not turn.lasts or self._advancing:
            self._go_on()
        elif not self._due:
            self._due = True
            turn.due.append(self)

    def take_turn(self) -> None:
        """Go on, unless that was done since: what was waited for has happened, for others in the same turn too."""
        if not self._due:
            return
        if self._phase is Phase.OPEN and self._is_free():
            self._due = False
            self._advancing = True
            self._woken = False
            try:
                self._flush()
            except Exception:
                self._crash(Failure())
            finally:
                self._advancing = False
            if not self._woken and self._phase is Phase.OPEN and self._holds_little():
                return
        self._go_on()

    def _go_on(self) -> None:
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
        error.__traceback__ = None
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
        self.hurry()

    def _forget(self) -> None:
        """Whatever else was asked does not count."""
        self._requests.clear()
        self._incoming = iter(())
        self._incoming_bytes = 0

    # -- answering it --------------------------------------------------------------------------------------------------

    def _answer(self, slot: Slot, reply: bytes | None) -> None:
        slot.reply = reply
        slot.done = True
        if reply:
            self._ready_bytes += len(reply)

    def _flush(self) -> None:
        replies = self._replies
        if not replies or not replies[0].done:
            return
        if len(replies) == 1 and replies[0].sent is None:
            # One that nobody waits to be sent: the rest of this comes to that.
            slot = replies.popleft()
            if slot.request is not None:
                self._asked_bytes -= slot.request.size
            if slot.reply:
                size = len(slot.reply)
                self._ready_bytes -= size
                if self._phase is not Phase.CLOSED:
                    self._send(slot.reply)
                    self._out_bytes += size
            return
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
                if not self._pause & UNSENT:
                    self._tell_sent()

    def _tell_lost(self) -> None:
        super()._tell_lost()
        for slot in self._replies:
            if slot.sent is not None:
                tell, slot.sent = slot.sent, None
                tell(0)

    def _release(self) -> None:
        super()._release()
        # A slot knows its connection. Without this the two would keep each other, and the last reply, in memory.
        self._replies.clear()
        self._slot = _NO_SLOT
        self._cancel_turn()
