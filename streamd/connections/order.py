"""Requests are begun in order, and answered in order, however many are in progress.

Writes do not wait for each other. A request that reads waits until this connection's own writes are on disk.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from twisted.python.failure import Failure

from streamd.connections.core import Core
from streamd.connections.holding import UNSENT, Phase
from streamd.connections.joint import JOINT_BYTES_MAX, JointAppend
from streamd.connections.replies import Replying
from streamd.connections.slots import Broken, Continuation, Reply, Slot, Steps
from streamd.interfaces import RequestError
from streamd.store import Run, Segment
from streamd.wire import Codec, Request, WireError

# So much of replies is sent before the next request is looked at.
_LARGE_BYTES: Final = 65536

# And after so much, the other connections have their turn: a peer that takes its replies quickly does not stop us.
_TURN_BYTES: Final = 1 << 20

# So they have after so many requests.
_TURN_REQUESTS: Final = 256

# And after so long: requests are not all alike. One that takes longer by itself is performed in `Steps`.
_TURN_SECONDS: Final = 0.005

_OPEN: Final = Phase.OPEN


class Ordered(Replying):
    """The requests of a connection, begun in order."""

    __slots__ = ("_incoming", "_woken")

    def __init__(self, core: Core, codec: Codec) -> None:
        super().__init__(core, codec)
        self._incoming: Iterator[Request | Broken] = iter(())
        self._woken = False

    # -- for the protocols ---------------------------------------------------------------------------------------------

    @abstractmethod
    def perform(self, request: Any) -> Reply:
        """Do what is asked. A RequestError, raised here or by the Deferred, goes to `refused`."""

    def broken(self, error: WireError) -> bytes | None:
        """The last words to a peer that broke the protocol."""
        return None

    def express(self, data: bytes) -> bytes | None:
        """Do what a client that waits for each answer asks for most, at once: the reply, or b"" where `join` has it.

        Called with all that arrived on a connection that has nothing else to do. None, and nothing done, for whatever
        is more than one request, or takes more than a lookup: that goes its usual way.
        """
        return None

    def join(self, segment: Segment, record: bytes, reply: bytes, tag: int = 0) -> bytes | None:
        """Append a message together with those of others, and send the reply when it is on disk.

        `express` returns what this does; only where everything is allowed to everybody.
        """
        if len(record) > JOINT_BYTES_MAX:
            return None
        joint = self.factory.joint.get((segment, tag))
        if joint is None:
            if not self._turn_of_all.lasts:
                return None
            joint = JointAppend(self.factory, segment, tag, reply)
        joint.records.append(record)
        joint.connections.append(self)
        self._joint = joint
        self._is_free = False
        return b""

    def _leave_express(self) -> None:
        self._is_free = False
        if self._joint is not None:
            self._joint.leave(self)

    def joint_requests(self, segment: Segment, record: bytes, tag: int) -> list[Request]:
        """The requests that a message given to `join` is otherwise: an append, and what was sent along with it.

        The reply given to `join` is that of the last of them, and the others have none.
        """
        raise NotImplementedError

    def again(self, request: Request | Continuation) -> None:
        """Do this next, before anything else that was asked: the rest of a request done in part."""
        self._requests.appendleft(request)
        self._asked_bytes += request.size

    def in_steps(self, request: Request, steps: Generator[None, None, Any]) -> Reply:
        """Do the first step of a request, and the others before anything else that was asked, but maybe in later turns.

        `perform` returns what this does.
        """
        return Steps(request, steps).resume(self)

    def one_by_one(self, requests: Sequence[Request]) -> bytes:
        """Perform these next, in place of the run that they are when they come at once: not all of it can be done.

        `perform` returns what this does. So each is answered as if it had been sent alone.
        """
        for request in reversed(requests):
            self.again(request)
        return b""

    def later(self, rest: Continuation) -> None:
        """Go on with a request in its turn, from outside of `perform`: what it waited for has happened."""
        if self._phase in (Phase.OPEN, Phase.ENDING):
            self._requests.append(rest)
            self._asked_bytes += rest.size
            self._advance()

    @property
    def is_waiting(self) -> bool:
        """Whether something that was asked waits for what others do, outside of the order: the end waits for it too."""
        return False

    def count_read(self, runs: list[Run]) -> None:
        """Count what was read for the peer."""
        self.traffic.read(sum([len(run.batch.lengths) for run in runs]), sum([len(run.batch.payload) for run in runs]))

    def hurry(self) -> None:
        """The connection is about to end: answer what waits for others now, as if its time were over."""

    # -- doing it ------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin requests for as long as nothing is in their way, and send what is answered."""
        # To send replies may let requests go on, also those of this connection: then there is more to do behind it.
        self._woken = True
        self._leave_express()
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
                    if type(request) is Broken:
                        self._break(request.error)
                    else:
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
        elif not (self._replies or self._requests or self._incoming_bytes or self._turn is not None or self._paces):
            self._is_free = self._phase is _OPEN and self._frame_began is None and self._holds_little()

    def _begin_few(self, requests: list[Request]) -> None:
        """Begin some requests of a connection that is free: what `_advance` comes to, for those who wait for each."""
        self._advancing = True
        self._woken = False
        try:
            for request in requests:
                self._asked_bytes += request.size
                if self._reading or self._requests or (self._writes and request.reads):
                    self._requests.append(request)
                else:
                    self._begin(request)
                    if self._phase is not _OPEN:
                        break
            if not self._requests and self._replies and self._replies[0].done:
                # Else with what follows: a reply that comes in pieces is sent as a whole where it can be.
                self._flush()
        finally:
            self._advancing = False
        if self._woken or self._requests or self._phase is not _OPEN or not self._holds_little():
            self._advance()
        elif not self._replies:
            self._is_free = True

    def _next_request(self) -> Request | Continuation | Broken | None:
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

    def _charge(self, request: Request | Continuation | Broken) -> float:
        """Pay for a request: how many seconds the next one has to wait."""
        if isinstance(request, Continuation):
            # The request was paid for when it was begun.
            return self.charge()
        batch = getattr(request, "batch", None)
        return self.charge(int(hasattr(request, "record")) if batch is None else batch.count, request.size)

    def _next_turn(self) -> None:
        self._turn = None
        self._advance()

    def _cancel_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _begin(self, request: Request | Continuation) -> None:
        slot = self._slot = Slot(self, request)
        self._replies.append(slot)
        try:
            try:
                reply = request.resume(self) if isinstance(request, Continuation) else self.perform(request)
            except RequestError as error:
                # Its traceback holds frames that hold it: a circle that only the collector would break.
                error.__traceback__ = None
                self._settled(slot)
                self.note(error)
                reply = self.refusal(request, error)
        except Exception:
            self._crash(Failure())
            return
        if isinstance(reply, Slot):
            # It was promised, and the store has it.
            return
        if reply is None or isinstance(reply, bytes):
            self._answer(slot, reply)
        else:
            if isinstance(reply, tuple):
                reply, slot.reply = reply
            self._wait(slot)
            reply.addCallbacks(slot.callback, slot.errback)

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

    def _release(self) -> None:
        super()._release()
        self._cancel_turn()
