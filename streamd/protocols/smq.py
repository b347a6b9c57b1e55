"""Simple Message Queue over a stream: one durable queue for each endpoint, any number of pushers and pullers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.access.permits import READ, NotAllowed, TopicFull
from streamd.batch import Batch
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.groups import Group, Groups, Members, Range
from streamd.interfaces import RequestError
from streamd.settings import setting
from streamd.store import NoSuchSegment, RecordsTruncated, Run, Segment, StoreError
from streamd.store.errors import level_of
from streamd.store.names import check_name
from streamd.store.records.offsets import span
from streamd.tables import fill
from streamd.wire import Request, TooLarge, WireError, smq

GROUP: Final = "smq"
"""The reader group of a queue."""

# Messages pulled in one go, where they are small.
_MESSAGES_AT_ONCE: Final = 4096


_log = Logger()


class Queue:
    """A segment as a queue. It is created with the first message, and again after it was deleted.

    All endpoints of one queue share one object, which knows what is given out to whom.
    """

    def __init__(self, core: Core, name: str) -> None:
        self._store = core.store
        self._groups = Groups.of(core)
        self.name = name
        self._members: Members | None = None
        self._reads = 0
        self._waiting: list[Deferred[None]] = []
        self._pulled: list[tuple[Group, Range]] = []

    def segment(self) -> Segment:
        """The segment, where there is one."""
        return self._store.find(self.name)

    def claimed(self) -> Segment | None:
        """The segment that the next push goes to, also one that is not on disk yet."""
        return self._store.find_claimed(self.name)

    def make(self) -> Segment:
        """Create the segment: it can be pushed to before it is on disk."""
        # Where this fails, so does what is appended behind it, and that is told.
        self._store.create(self.name).addErrback(lambda failure: failure.trap(StoreError) and None)
        segment = self.claimed()
        assert segment is not None
        return segment

    def group(self) -> Group | None:
        """The reader group of the present segment."""
        try:
            segment = self.segment()
        except NoSuchSegment:
            return None
        if self._members is None or self._members.group.segment is not segment:
            # Held for as long as the segment is there: who is given what is known only to it.
            self._members = self._groups.use(segment, GROUP, consumes=True)
        return self._members.group

    def pulled(self, group: Group, given: Range) -> None:
        """Acknowledge what peers have been given in this turn, all of it at once and at its end."""
        if not self._pulled:
            self._store.turn.gathered.append(self)
        last = self._pulled[-1] if self._pulled else None
        if last is not None and last[0] is group and last[1][1] == given[0]:
            self._pulled[-1] = (group, (last[1][0], given[1]))
        else:
            self._pulled.append((group, given))

    def gather(self) -> None:
        """Acknowledge it: the turn ends. Nobody waits for that."""
        pulled, self._pulled = self._pulled, []
        for group, given in pulled:
            acknowledge(group, *given)

    @property
    def is_being_read(self) -> bool:
        """Whether messages are being read for a puller: some of them may come back."""
        return self._reads > 0

    def when_read(self) -> Deferred[None]:
        """Fires when one of these reads has ended."""
        self._waiting.append(Deferred())
        return self._waiting[-1]

    def reading(self, messages: Deferred[bytes]) -> Deferred[bytes]:
        """Note that messages are being read until this fires."""

        def ended(result: bytes | Failure) -> bytes | Failure:
            self._reads -= 1
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                waiter.callback(None)
            return result

        self._reads += 1
        return messages.addBoth(ended)


def acknowledge(group: Group, first: int, end: int) -> None:
    """Note that these messages are pulled. Nobody waits for that."""
    try:
        group.acknowledge(first, end).addErrback(_not_acknowledged)
    except StoreError as error:
        _not_acknowledged(Failure(error))


def _not_acknowledged(failure: Failure) -> None:
    failure.trap(StoreError)
    _log.emit(
        level_of(failure.value),
        "a pull could not be acknowledged, its message may come again: {reason}",
        reason=failure.getErrorMessage(),
    )


class SmqProtocol(StreamProtocol):
    """One SMQ connection: pushes are answered when they are on disk, pulls at once."""

    name = "smq"
    codec: smq.SmqCodec

    def __init__(self, core: Core, queue: Queue) -> None:
        super().__init__(core, smq.SmqCodec(core.limits.message_bytes_max))
        self._queue = queue

    def perform(self, request: smq.Request) -> Reply:
        return _ACTIONS[type(request)](self, request)

    def refused(self, request: smq.Push | smq.Pull, error: RequestError) -> bytes | None:
        if isinstance(request, smq.Push):
            return smq.REFUSED * request.messages
        if isinstance(error, NotAllowed):
            return smq.EMPTY * request.messages
        # There is no word for it, and that the queue is empty would not be true. The message stays.
        self.log.error("a message of {queue} can't be read: {error}", queue=self._queue.name, error=str(error))
        self.count_cut_off("unanswerable")
        self.finish()
        return None

    def broken(self, error: WireError) -> bytes | None:
        return smq.REFUSED if isinstance(error, TooLarge) else None

    def express(self, data: bytes) -> bytes | None:
        if not self._permits.is_open:
            return None
        if data == smq.PULL_REQUEST:
            return self._pull_one()
        push = self.codec.single(data)
        segment = self._queue.claimed() if push is not None else None
        if push is None or segment is None:
            return None
        tag, message = push
        return self.join(segment, message, smq.PUSHED, tag)

    def joint_requests(self, segment: Segment, record: bytes, tag: int) -> list[Request]:
        return [smq.Push(tag, Batch.single(record))]

    def _pull_one(self) -> bytes | None:
        """What `_pull` comes to for one message at hand that the operating system takes at once."""
        if not self._direct or not self._turn_of_all.lasts or self._queue.is_being_read:
            return None
        group = self._queue.group()
        taken = group.take(1) if group is not None else None
        if group is None or taken is None:
            return None
        read = self.recent_one(group.segment, taken[0])
        if read is None:
            group.give_back(*taken)
            return None
        tag, record = read
        reply = smq.replies(tag, [record])
        begin = self._out_bytes
        self._out_bytes += len(reply)
        try:
            sent = self._send_some(reply)
        except OSError:
            sent = 0
        if sent == len(reply):
            self._queue.pulled(group, taken)
        else:
            self._unsent.append((partial(self._sent, group, taken, reply), begin, len(reply)))
            self._send(reply[sent:])
        return b""

    def _push(self, request: smq.Push) -> Reply:
        try:
            segment = self._target(request)
        except TopicFull:
            if request.messages == 1:
                raise
            return self.one_by_one([smq.Push(request.tag, message) for message in request.batch.singles()])
        stored = self.promise(smq.PUSHED * request.messages, request.batch)
        self.core.store.append_for(stored, segment, request.batch, tag=request.tag)
        return stored

    def _target(self, request: smq.Push) -> Segment:
        """The segment for a push, where the peer may push."""
        segment = self._queue.claimed()
        if segment is None:
            # It is the operator who named the queue: who may push may be the first to do so.
            self.allow_fill(self._queue.name, span(request.tag, request.batch.count, request.batch.size))
            return self._queue.make()
        self.allow_write(segment, request.batch, request.tag)
        return segment

    def _refuse(self, request: smq.BadPush) -> Reply:
        self.count_invalid()
        return smq.REFUSED * request.messages

    def _goodbye(self, request: smq.Goodbye) -> Reply:
        self.finish()
        return None

    def _pull(self, request: smq.Pull) -> Reply:
        self.allow(READ, self._queue.name)
        group = self._queue.group()
        taken = group.take(min(request.messages, _MESSAGES_AT_ONCE)) if group is not None else None
        if group is None or taken is None:
            if self._queue.is_being_read:
                # Some of that may come back, so the queue is not empty yet.
                return self._queue.when_read().addCallback(self._pull_again, request)
            return smq.EMPTY * request.messages
        first, end = taken
        run = self.recent(group.segment, first, end - first)
        if run is not None:
            return self._pulled([run], group, taken, request.messages)
        try:
            runs = self.read(group.segment, first, records_max=end - first)
        except StoreError:
            runs = fail()
        replies: Deferred[bytes] = runs.addCallbacks(
            self._pulled,
            self._unread,
            callbackArgs=(group, taken, request.messages),
            errbackArgs=(group, taken, request),
        )
        return self._queue.reading(replies)

    def _pull_again(self, _: None, request: smq.Pull) -> bytes:
        if not self.is_closed:
            self.again(request)
        return b""

    def _pulled(self, runs: list[Run], group: Group, taken: Range, messages: int) -> bytes:
        first, end = taken
        count = sum([run.batch.count for run in runs])
        group.give_back(first + count, end if count else first)
        if self.is_closed:
            group.give_back(first, first + count)
            return b""
        if not count:
            # Somebody has truncated the segment: these are gone, and what follows them is next.
            self.again(smq.Pull(messages))
            return b""
        if messages > count:
            self.again(smq.Pull(messages - count))
        self.count_read(runs)
        reply = b"".join(
            [
                smq.replies(tag, [record for run in same for record in run.batch.records()])
                for tag, same in groupby(runs, key=attrgetter("tag"))
            ]
        )
        self.when_sent(partial(self._sent, group, (first, first + count), reply))
        return reply

    def _unread(self, failure: Failure, group: Group, taken: Range, request: smq.Pull) -> bytes | Failure:
        group.give_back(*taken)
        if failure.check(RecordsTruncated, NoSuchSegment) is None:
            return failure
        # These are gone, and what is in the queue now is next.
        return self._pull_again(None, request)

    def _sent(self, group: Group, given: Range, reply: bytes, sent_bytes: int) -> None:
        """Acknowledge the messages that are with the operating system, without waiting for that; give back the rest."""
        first, end = given
        done = end if sent_bytes == len(reply) else first + smq.whole_replies(reply, sent_bytes)
        group.give_back(done, end)
        if first < done:
            acknowledge(group, first, done)


_ACTIONS: Final[dict[type, Callable[[SmqProtocol, Any], Reply]]] = {
    smq.Push: SmqProtocol._push,
    smq.BadPush: SmqProtocol._refuse,
    smq.Pull: SmqProtocol._pull,
    smq.Goodbye: SmqProtocol._goodbye,
}


class SmqFactory(StreamFactory):
    """Makes the connections to one queue."""

    name = SmqProtocol.name

    def __init__(self, core: Core, settings: SmqSettings) -> None:
        super().__init__(core)
        self._queue: Queue = core.shared.setdefault(("smq", settings.queue), Queue(core, settings.queue))

    def build(self) -> SmqProtocol:
        return SmqProtocol(self.core, self._queue)


@dataclass(frozen=True)
class SmqSettings:
    """``[smq]`` or ``[[smq]]``, beside the endpoint."""

    queue: str = setting("smq", "the segment that is the queue of this endpoint", check=check_name)

    @property
    def groups(self) -> frozenset[str]:
        """The reader groups that clients acknowledge in."""
        return frozenset({GROUP})


def configure(table: Mapping[str, object]) -> SmqSettings:
    """The settings of one ``[smq]`` table."""
    return fill(SmqSettings, table)


def factory(core: Core, settings: object) -> SmqFactory:
    """The factory for one endpoint."""
    assert isinstance(settings, SmqSettings)
    return SmqFactory(core, settings)
