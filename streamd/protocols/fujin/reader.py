"""The reader of a stream: it takes messages of its group, sends them, and handles their acknowledgement.

Messages are not replies: they are sent as they arrive. But a request behind a FETCH sees the fetched messages sent
before it, also where they have to be read from disk first: answers do not depend on what the page cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from streamd.access.permits import READ, NotAllowed
from streamd.batch import Batch
from streamd.groups import Member, Range
from streamd.store import RecordsTruncated, Run, StoreError
from streamd.wire import fujin
from streamd.wire import fujin_replies as replies
from streamd.wire.fujin_replies import Code, Reply

if TYPE_CHECKING:
    from streamd.protocols.fujin.protocol import FujinProtocol

# Messages taken in one go, where they are small.
_MESSAGES_AT_ONCE: Final = 1024

# After so much the other connections have their turn.
_TURN_BYTES: Final = 1 << 20


class Reader:
    """The reader of one stream. A subscriber is sent all messages, a consumer as many as it has asked for."""

    def __init__(self, protocol: FujinProtocol, *, auto_commit: bool, consumer: bool) -> None:
        self._protocol = protocol
        self._auto_commit = auto_commit
        self._credit: int | None = 0 if consumer else None
        """How many messages a consumer still wants; None for a subscriber."""
        self.begun = False
        """Whether the client knows that it is connected: messages follow that."""
        self._sent_bytes = 0
        self._reading = False
        self._owes = False
        """Whether a consumer has fetched messages that may be available."""
        self._left = False
        self._turn: IDelayedCall | None = None
        self._waiting: list[tuple[bool, Deferred[None]]] = []
        """Requests that wait for messages to be sent, and whether each is the end."""
        self.member: Member | None = None

    def join(self, member: Member) -> None:
        """Take the member of the group that this reader is."""
        self.member = member

    def begin(self) -> None:
        """Begin to send: the client knows that it is connected."""
        self.begun = True
        self.wake()

    def fetch(self, messages: int) -> None:
        """Add to the messages that a consumer wants."""
        assert self._credit is not None
        self._credit += messages
        self._owes = True
        self.wake()

    @property
    def is_busy(self) -> bool:
        """Whether messages are to be sent before the end: those that a consumer has fetched and that are available.

        For a subscriber, which wants all there will ever be, only those that are being read.
        """
        return self.member is not None and (self._reading or self._owes)

    def precedes(self, request: Any) -> bool:
        """Whether messages are on their way that come before the answer to this request; `when_sent` waits for them.

        An ACK may be for a message that is being read, and what a NACK gives back comes behind it. ACKs for messages
        that the peer has do not wait: these would come back in the meantime.
        """
        if self._waiting:
            return True
        if isinstance(request, fujin.Disconnect):
            return self.is_busy
        return self._reading and isinstance(request, fujin.Acknowledge) and self._is_in_their_way(request)

    def must_split(self, request: fujin.Acknowledge) -> bool:
        """Whether a run of ACKs or NACKs is to be carried out one by one, since messages come between them.

        What a NACK gives back comes again before the next one, and an ACK may be for what came with another ACK.
        """
        return len(request.numbers) > 1 and (bool(self._waiting) or self._is_in_their_way(request))

    def _is_in_their_way(self, request: fujin.Acknowledge) -> bool:
        """Whether the messages sent before matter to this request; for a reader without metas they never do."""
        if not request.numbers or self.member is None:
            return False
        return request.back or not self.member.are_out(request.numbers)

    def when_sent(self, request: Any) -> Deferred[None]:
        """Fires when this request may be carried out, one after the other: each may make the reader busy again."""
        self._waiting.append((isinstance(request, fujin.Disconnect), Deferred()))
        return self._waiting[-1][1]

    def _go_on(self) -> None:
        """Let requests go on that wait for messages to be sent."""
        while self._waiting and not (self.is_busy if self._waiting[0][0] else self._reading):
            self._waiting.pop(0)[1].callback(None)
        if self.member is not None and not self.is_busy:
            self._protocol.reader_rests()

    def allow(self) -> None:
        """Raise NotAllowed where the peer may no longer read: the rules can change meanwhile."""
        if self.member is not None:
            self._protocol.allow(READ, self.member.group.segment.name)

    def leave(self, *, in_order: bool = False) -> None:
        """Send nothing more: what is not acknowledged goes back to the group.

        Of a reader that leaves `in_order` that does not count as deliveries in vain.
        """
        self._left = True
        waiting, self._waiting = self._waiting, []
        for _, turn in waiting:
            # Acknowledgements count, though the messages that they waited for do not come any more.
            turn.callback(None)
        member, self.member = self.member, None
        if member is not None:
            member.leave(in_order=in_order)
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    # -- sending -------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Send messages in the next turn, since there are some: the caller may have other members to wake."""
        try:
            self._push()
        except Exception:
            self._protocol.failed_to_push(Failure())

    def wake_later(self, seconds: float = 0) -> None:
        """Send messages after other connections and this peer's own requests had their turn."""
        if self._turn is None and self.member is not None:
            self._turn = self._protocol.core.clock.callLater(seconds, self._next_turn)

    def _next_turn(self) -> None:
        self._turn = None
        self.wake()

    def _push(self) -> None:
        """Send messages, for as long as the peer takes and wants them."""
        protocol, before = self._protocol, self._sent_bytes
        while self._may_send and not protocol.is_slow and self._turn is None:
            if not self.begun or self._reading:
                return
            assert self.member is not None
            if self.member.group.segment.deleted:
                protocol.close_with(Code.NO_SUCH_TOPIC, "the topic was deleted")
                return
            try:
                self.allow()
            except NotAllowed as error:
                protocol.note(error)
                protocol.close_with(Code.NOT_ALLOWED, "the rules no longer allow it")
                return
            if self._sent_bytes - before >= _TURN_BYTES:
                self.wake_later()
                return
            count = _MESSAGES_AT_ONCE if self._credit is None else min(self._credit, _MESSAGES_AT_ONCE)
            taken = self.member.take(count) if count else None
            if taken is None:
                if count:
                    self.member.wait()
                self._owes = False
                self._go_on()
                return
            self._read(self.member, taken)

    @property
    def _may_send(self) -> bool:
        """Whether messages may be sent.

        At its end a peer gets what it has fetched, and what its last requests wait for.
        """
        if self.member is None or self._left or self._protocol.is_closed:
            return False
        return self._protocol.is_open or self._credit is not None or bool(self._waiting)

    def _read(self, member: Member, taken: Range) -> None:
        first, end = taken
        self._reading = True
        try:
            runs = self._protocol.read(member.group.segment, first, records_max=end - first)
        except StoreError:
            runs = fail()
        ended: Deferred[None] = runs.addCallbacks(
            self._send, self._unread, callbackArgs=(member, taken), errbackArgs=(member, taken)
        )
        if self._reading:
            # From a cold page: nobody is there who goes on.
            ended.addCallback(lambda _: self._read_cold())
        ended.addErrback(self._protocol.failed_to_push)

    def _read_cold(self) -> None:
        ends = self._waiting[0][0] if self._waiting else not self._protocol.is_open
        if ends and self._credit is None:
            # That does not wait for all that there is for a subscriber.
            self._go_on()
        self.wake()
        self._go_on()

    def _end_read(self) -> None:
        self._reading = False
        self._protocol.fetched()

    def _send(self, runs: list[Run], member: Member, taken: Range) -> None:
        first, end = taken
        protocol = self._protocol
        self._end_read()
        if self.member is None:
            member.give_back(first, end)
            return
        protocol.count_read(runs)
        batch = Batch.joined([run.batch for run in runs])
        member.give_back(first + batch.count, end if batch.count else first)
        if not batch.count:
            # Somebody has truncated the topic: these are gone.
            return
        if self._credit is not None:
            self._credit -= batch.count
        data = replies.messages(batch, None if self._auto_commit else first)
        self._sent_bytes += len(data)
        protocol.tell(data)
        if self._auto_commit:
            member.done(first, first + batch.count)
        else:
            member.delivered(first, batch.lengths)
        if wait := protocol.charge():
            self.wake_later(wait)

    def _unread(self, failure: Failure, member: Member, taken: Range) -> None:
        self._end_read()
        member.give_back(*taken)
        error = failure.value
        if not isinstance(error, StoreError):
            failure.raiseException()
        if not isinstance(error, RecordsTruncated) and self.member is not None:
            # There is no word for it in the middle of messages.
            self._protocol.failed_to_push(failure)

    # -- acknowledging -------------------------------------------------------------------------------------------------

    def acknowledge(self, request: fujin.Acknowledge) -> Deferred[bytes]:
        """The answer to a run of ACKs or NACKs, when they are on disk."""
        reply = Reply.GIVEN_BACK if request.back else Reply.ACKNOWLEDGED
        if self._auto_commit:
            return succeed(replies.answers(reply, request.ids))
        member = self.member
        assert member is not None
        if request.back:
            done, unknown = member.refuse(request.numbers)
        else:
            done, unknown = member.acknowledge(request.numbers)
        # What comes again, or may come now, does so before what this peer asks next.
        member.wake_others()
        return done.addCallback(lambda _: _answers(reply, request.ids, request.numbers, unknown))


def _answers(reply: Reply, ids: bytes, numbers: Sequence[int], unknown: frozenset[int]) -> bytes:
    """The answers to a run of ACKs or NACKs, some of which name messages that no reader has."""
    if not unknown:
        return replies.answers(reply, ids)
    size = len(ids) // len(numbers)
    return b"".join(
        [
            replies.answers(reply, ids[at * size : (at + 1) * size], Code.NOT_DELIVERED, f"message {number} is not out")
            if number in unknown
            else replies.answers(reply, ids[at * size : (at + 1) * size])
            for at, number in enumerate(numbers)
        ]
    )
