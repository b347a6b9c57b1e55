"""The place of a request in the order: its reply, and who is told when that was sent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Union

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from streamd.batch import Batch
from streamd.interfaces import RequestError
from streamd.wire import Request, WireError

if TYPE_CHECKING:
    from streamd.connections.replies import Replying

Reply = Union[bytes, Deferred[Any], tuple[Deferred[Any], bytes], "Slot", None]
"""What `perform` returns: the reply; a Deferred of it; a Deferred to wait for and the reply to give then; the slot that
`promise` returned; or None, where the protocol answers nothing."""


class Slot:
    """The place of one reply in the order of replies. It is a waiter for the store, and for any Deferred."""

    __slots__ = ("_protocol", "appended", "done", "reply", "request", "sent", "waiting")

    def __init__(self, protocol: Replying, request: Request | Continuation | None) -> None:
        self._protocol = protocol
        self.request = request
        self.reply: bytes | None = None
        self.appended: Batch | None = None
        """The batch that the request stores, counted when it is on disk."""
        self.sent: Callable[[int], None] | None = None
        """Called once, with how many bytes of the reply were handed to the operating system."""
        self.waiting = False
        self.done = False

    def callback(self, result: Any) -> None:
        """Take note that the request is done. Its reply is the promised one, or else `result`."""
        # One method, without calls: this is done for every request.
        protocol = self._protocol
        if self.waiting:
            self.waiting = False
            if self.request is not None and self.request.reads:
                protocol._reading = protocol._fetching = False
            else:
                protocol._writes -= 1
        batch = self.appended
        if batch is not None:
            traffic = protocol.factory.traffic
            traffic.appended_records += len(batch.lengths)
            traffic.appended_bytes += len(batch.payload)
        if self.reply is None:
            self.reply = result
        self.done = True
        if self.reply:
            protocol._ready_bytes += len(self.reply)
        turn = protocol._turn_of_all
        if not turn.lasts or protocol._advancing:
            protocol._go_on()
        elif not protocol._due:
            protocol._due = True
            turn.due.append(protocol)

    def errback(self, error: Failure | BaseException) -> None:
        """Take note that the request failed: with a RequestError the peer is told, anything else is a bug."""
        cause = error.value if isinstance(error, Failure) else error
        protocol = self._protocol
        if not isinstance(cause, RequestError):
            protocol._crash(Failure(cause))
            return
        cause.__traceback__ = None
        protocol.note(cause)
        self.appended = None
        try:
            self.reply = protocol.refusal(self.request, cause)
        except Exception:
            protocol._crash(Failure())
        else:
            self.callback(None)


NO_SLOT: Final = Slot.__new__(Slot)
"""Stands in for a slot where nothing is performed any more."""


class Broken:
    """Stands in the queue of requests where the peer broke the protocol."""

    size = 0
    reads = False

    def __init__(self, error: WireError) -> None:
        self.error = error


class Continuation:
    """The rest of a request that was done in part. It waits among the requests for its turn, and has its own reply.

    No codec makes one, and no protocol gets one to perform: the connection resumes it.
    """

    __slots__ = ()

    @property
    def size(self) -> int:
        """About how many bytes the continuation keeps in memory."""
        return 64

    @property
    def reads(self) -> bool:
        """Whether the continuation must see this connection's earlier writes."""
        return True

    @abstractmethod
    def resume(self, connection: Any) -> Reply:
        """Go on with the request on its connection. A RequestError, raised or by the Deferred, goes to `refused`."""

    @abstractmethod
    def refused(self, connection: Any, error: RequestError) -> bytes | None:
        """The reply where the request can't be met after all."""


class Steps(Continuation):
    """The rest of a request that is too much for one turn of the reactor: a step is done each time it is resumed.

    The steps are those of a generator, a millisecond or less each; what it returns is the reply.
    """

    __slots__ = ("request", "steps")

    def __init__(self, request: Request, steps: Generator[None, None, Any]) -> None:
        self.request = request
        self.steps = steps

    @property
    def size(self) -> int:
        return self.request.size

    @property
    def reads(self) -> bool:
        return self.request.reads

    def resume(self, connection: Any) -> Reply:
        try:
            next(self.steps)
        except StopIteration as end:
            reply: Reply = end.value
            return reply
        connection.again(self)
        return b""

    def refused(self, connection: Any, error: RequestError) -> bytes | None:
        reply: bytes | None = connection.refused(self.request, error)
        return reply
