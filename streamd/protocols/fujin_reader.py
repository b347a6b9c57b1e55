"""What a reader's stream does: takes messages of its group, sends them, and sees to their acknowledgement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred
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
    from streamd.protocols.fujin import FujinProtocol

# Messages taken in one go, where they are small.
_MESSAGES_AT_ONCE: Final = 1024

# After so much the other connections have their turn.
_TURN_BYTES: Final = 1 << 20


class Reader:
    """The reader of one stream. A subscriber is sent what there is, a consumer as much as it has asked for."""

    def __init__(self, protocol: FujinProtocol, *, auto_commit: bool, consumer: bool) -> None:
        self._protocol = protocol
        self._store = protocol.core.store
        self._auto_commit = auto_commit
        self._credit: int | None = 0 if consumer else None
        """How many messages a consumer still wants; None where there is no such limit."""
        self._begun = False
        self._sent_bytes = 0
        self._reading = False
        self._turn: IDelayedCall | None = None
        self.member: Member | None = None

    def join(self, member: Member) -> None:
        """It is a member of its group now."""
        self.member = member

    def begin(self) -> None:
        """The client knows that it is connected: messages may follow."""
        self._begun = True
        self.push()

    def fetch(self, messages: int) -> None:
        """A consumer wants so many more."""
        assert self._credit is not None
        self._credit += messages
        self.push()

    def allow(self) -> None:
        """Raise NotAllowed where the peer may no longer read: the rules can change while it does."""
        if self.member is not None:
            self._protocol.allow(READ, self.member.group.segment.name)

    def leave(self) -> None:
        """Send nothing more: what is not acknowledged goes back to the group."""
        member, self.member = self.member, None
        if member is not None:
            member.leave()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    # -- sending -------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """There is something to take. Whoever says so has others to wake, and is not to stumble over this one."""
        try:
            self.push()
        except Exception:
            self._protocol.failed_to_push(Failure())

    def push(self) -> None:
        """Send what there is, for as long as the peer takes it and wants it."""
        protocol, before = self._protocol, self._sent_bytes
        while self.member is not None and protocol.is_open and not protocol.is_slow and self._turn is None:
            if not self._begun or self._reading or self._credit == 0:
                return
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
                self._turn = protocol.core.clock.callLater(0, self._next_turn)
                return
            count = _MESSAGES_AT_ONCE if self._credit is None else min(self._credit, _MESSAGES_AT_ONCE)
            taken = self.member.take(count)
            if taken is None:
                self.member.wait()
                return
            self._read(self.member, taken)

    def _next_turn(self) -> None:
        self._turn = None
        self.wake()

    def _read(self, member: Member, taken: Range) -> None:
        first, end = taken
        self._reading = True
        try:
            runs = self._store.read(
                member.group.segment, first, bytes_max=self._protocol.reply_bytes_max, records_max=end - first
            )
        except StoreError as error:
            self._unread(Failure(error), member, taken)
            return
        ended = runs.addCallbacks(self._send, self._unread, callbackArgs=(member, taken), errbackArgs=(member, taken))
        ended.addErrback(self._protocol.failed_to_push)
        if self._reading:
            # From a cold page: what follows is told by whoever reads it.
            ended.addCallback(lambda _: self.push())

    def _send(self, runs: list[Run], member: Member, taken: Range) -> None:
        self._reading = False
        first, end = taken
        protocol = self._protocol
        if self.member is None or not protocol.is_open:
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
        if self.member is not None and (wait := protocol.charge()):
            self._turn = protocol.core.clock.callLater(wait, self._next_turn)

    def _unread(self, failure: Failure, member: Member, taken: Range) -> None:
        self._reading = False
        error = failure.value
        if not isinstance(error, StoreError):
            failure.raiseException()
        member.give_back(*taken)
        if not isinstance(error, RecordsTruncated) and self.member is not None:
            # There is no word for it in the middle of messages.
            self._protocol.close_with(Code.STORE_FAILED, f"a message can't be read: {error}")

    # -- acknowledging -------------------------------------------------------------------------------------------------

    def acknowledge(self, request: fujin.Acknowledge) -> bytes | Deferred[Any] | tuple[Deferred[Any], bytes]:
        """The answer to a run of ACKs, when they are on disk, or of NACKs, at once."""
        reply = Reply.GIVEN_BACK if request.back else Reply.ACKNOWLEDGED
        if self._auto_commit or self.member is None:
            return replies.answers(reply, request.ids)
        if request.back:
            return _answers(reply, request.ids, request.numbers, self.member.refuse(request.numbers))
        done, unknown = self.member.acknowledge(request.numbers)
        return done, _answers(reply, request.ids, request.numbers, unknown)


def _answers(reply: Reply, ids: bytes, numbers: Sequence[int], unknown: frozenset[int]) -> bytes:
    """The answers to a run of ACKs or NACKs, some of which name what nobody has."""
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
