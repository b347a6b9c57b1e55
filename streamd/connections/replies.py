"""Replies go out in the order of the requests, each of which has a slot for its own."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.connections.holding import UNSENT, Phase
from streamd.connections.sending import Sending
from streamd.connections.slots import NO_SLOT, Broken, Continuation, Slot
from streamd.interfaces import RequestError
from streamd.wire import Codec, Request

_OPEN: Final = Phase.OPEN


class Replying(Sending):
    """The slots of a connection, and what of them can be sent."""

    __slots__ = ("_advancing", "_due", "_reading", "_replies", "_requests", "_slot", "_turn", "_turn_of_all", "_writes")

    def __init__(self, core: Core, codec: Codec) -> None:
        super().__init__(core, codec)
        self._requests: deque[Request | Continuation | Broken] = deque()
        """What was asked, and is not begun."""
        self._replies: deque[Slot] = deque()
        """What is begun, and not answered."""
        self._slot = Slot(self, None)
        """The slot of the request that is being performed, or was last."""
        self._writes = 0
        self._reading = False
        self._advancing = False
        self._due = False
        self._turn: IDelayedCall | None = None
        """When the next requests are begun, where others have their turn first."""
        self._turn_of_all = core.store.turn

    # -- for the protocols ---------------------------------------------------------------------------------------------

    @abstractmethod
    def refused(self, request: Any, error: RequestError) -> bytes | None:
        """The reply to a request that the store refuses."""

    def refusal(self, request: Request | Continuation | None, error: RequestError) -> bytes | None:
        """The reply to a request, or to the rest of one, that the store refuses."""
        if isinstance(request, Continuation):
            return request.refused(self, error)
        return self.refused(request, error)

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

    @abstractmethod
    def _crash(self, failure: Failure) -> None:
        """A bug: it costs this connection, and nobody else anything."""

    # -- waiting for it ------------------------------------------------------------------------------------------------

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

    def take_turn(self) -> None:
        """Go on, unless that was done since: what was waited for has happened, for others in the same turn too."""
        if not self._due:
            return
        replies = self._replies
        if (
            len(replies) == 1
            and (slot := replies[0]).done
            and slot.sent is None
            and self._direct
            and self._phase is _OPEN
            # Nothing is left to begin, to send or to tell: then this reply is all that there is to do.
            and not (self._incoming_bytes or self._requests or self._pause or self._held_bytes or self._advancing)
            and not self._has_room
            and (reply := slot.reply)
        ):
            self._due = False
            replies.clear()
            size = len(reply)
            self._asked_bytes -= slot.request.size  # type: ignore[union-attr]
            self._ready_bytes -= size
            self._out_bytes += size
            try:
                sent = self._send_some(reply)
            except OSError:
                sent = 0
            if sent == size:
                self._is_free = self._frame_began is None and self._turn is None and not self._paces
                return
            self._send(reply[sent:])
        self._go_on()

    def _go_on(self) -> None:
        if self._phase is not Phase.CLOSED:
            try:
                self._advance()
            except Exception:
                self._crash(Failure())

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
        self._is_free = False
        self._joint = None
        # A slot knows its connection. Without this the two would keep each other, and the last reply, in memory.
        self._replies.clear()
        self._slot = NO_SLOT
