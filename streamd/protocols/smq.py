"""Simple Message Queue over a stream: one durable queue for each endpoint, any number of pushers and pullers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from streamd.access.permits import READ, NotAllowed, TopicFull
from streamd.config import fill
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.groups import Group, Groups, Members, Range
from streamd.interfaces import ConfigError
from streamd.settings import setting
from streamd.store import BadName, NoSuchSegment, RecordsTruncated, Run, Segment, StoreError
from streamd.store.errors import level_of
from streamd.store.names import check_name
from streamd.store.records.offsets import span
from streamd.wire import TooLarge, WireError, smq

GROUP: Final = "smq"
"""The reader group that a queue is."""

# Messages pulled in one go, where they are small.
_MESSAGES_AT_ONCE: Final = 4096


class Queue:
    """A segment as a queue. It is made when the first message comes, and again when somebody has deleted it.

    All endpoints of one queue share one of these, since what is given out and to whom is known only here.
    """

    def __init__(self, core: Core, name: str) -> None:
        self._store = core.store
        self._groups = Groups.of(core)
        self.name = name
        self._members: Members | None = None
        self._reads = 0
        self._waiting: list[Deferred[None]] = []

    def segment(self) -> Segment:
        """The segment, where there is one."""
        return self._store.find(self.name)

    def claimed(self) -> Segment | None:
        """The segment as the next push finds it: one that is on its way to the disk counts."""
        return self._store.find_claimed(self.name)

    def make(self) -> Segment:
        """The segment, which is not there, made: it can be pushed to before it is on disk."""
        # Where this fails, so does what is appended behind it, and that is told.
        self._store.create(self.name).addErrback(lambda failure: failure.trap(StoreError) and None)
        segment = self.claimed()
        assert segment is not None
        return segment

    def group(self) -> Group | None:
        """The reader group of the segment that is there now."""
        try:
            segment = self.segment()
        except NoSuchSegment:
            return None
        if self._members is None or self._members.group.segment is not segment:
            # Held for as long as the segment is there: who is given what is known only to it.
            self._members = self._groups.use(segment, GROUP, consumes=True)
        return self._members.group

    @property
    def is_being_read(self) -> bool:
        """Whether somebody has taken messages and does not know yet how many of them it can have."""
        return self._reads > 0

    def when_read(self) -> Deferred[None]:
        """Fires when one of those knows it."""
        self._waiting.append(Deferred())
        return self._waiting[-1]

    def reading(self, messages: Deferred[bytes]) -> Deferred[bytes]:
        """Note that messages are being read until this fires."""

        def ended(result: bytes | Failure) -> bytes | Failure:
            self._reads -= 1
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.callback(None)
            return result

        self._reads += 1
        return messages.addBoth(ended)


class SmqProtocol(StreamProtocol):
    """One connection: pushes are answered when they are on disk, pulls at once."""

    name = "smq"

    def __init__(self, core: Core, queue: Queue) -> None:
        super().__init__(core, smq.SmqCodec(core.limits.message_bytes_max))
        self._queue = queue

    def perform(self, request: smq.Request) -> Reply:
        return _ACTIONS[type(request)](self, request)

    def refused(self, request: smq.Push | smq.Pull, error: StoreError) -> bytes | None:
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

    def _push(self, request: smq.Push) -> Reply:
        try:
            segment = self._target(request)
        except TopicFull:
            if request.messages == 1:
                raise
            return self.one_by_one([smq.Push(request.tag, each) for each in request.batch.singles()])
        stored = self.promise(smq.PUSHED * request.messages, request.batch)
        self.core.store.append_for(stored, segment, request.batch, tag=request.tag)
        return stored

    def _target(self, request: smq.Push) -> Segment:
        """Where to push these, if the peer may."""
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
        found = sum([run.batch.count for run in runs])
        group.give_back(first + found, end if found else first)
        if self.is_closed:
            group.give_back(first, first + found)
            return b""
        if not found:
            # Somebody has truncated the segment: these are gone, and what follows them is next.
            self.again(smq.Pull(messages))
            return b""
        if messages > found:
            self.again(smq.Pull(messages - found))
        self.count_read(runs)
        reply = b"".join(
            [
                smq.replies(tag, [record for run in same for record in run.batch.records()])
                for tag, same in groupby(runs, key=attrgetter("tag"))
            ]
        )
        self.when_sent(partial(self._sent, group, (first, first + found), reply))
        return reply

    def _unread(self, failure: Failure, group: Group, taken: Range, request: smq.Pull) -> bytes | Failure:
        group.give_back(*taken)
        if failure.check(RecordsTruncated, NoSuchSegment) is None:
            return failure
        # These are gone, and what is in the queue now is next.
        return self._pull_again(None, request)

    def _sent(self, group: Group, given: Range, reply: bytes, sent_bytes: int) -> None:
        """What is with the operating system is acknowledged, and nobody waits for that. The rest is given back."""
        first, end = given
        done = end if sent_bytes == len(reply) else first + smq.whole_replies(reply, sent_bytes)
        group.give_back(done, end)
        if first == done:
            return
        try:
            group.acknowledge(first, done).addErrback(self._not_acknowledged)
        except StoreError as error:
            self._not_acknowledged(Failure(error))

    def _not_acknowledged(self, failure: Failure) -> None:
        failure.trap(StoreError)
        self.log.emit(
            level_of(failure.value),
            "a pull could not be noted, its message may come again: {reason}",
            reason=failure.getErrorMessage(),
        )


_ACTIONS: Final[dict[type, Callable[[SmqProtocol, Any], Reply]]] = {
    smq.Push: SmqProtocol._push,
    smq.BadPush: SmqProtocol._refuse,
    smq.Pull: SmqProtocol._pull,
    smq.Goodbye: SmqProtocol._goodbye,
}


class SmqFactory(StreamFactory):
    """Makes the connections to one queue."""

    def __init__(self, core: Core, settings: SmqSettings) -> None:
        super().__init__(core)
        self._queue: Queue = core.shared.setdefault(("smq", settings.queue), Queue(core, settings.queue))

    def build(self) -> SmqProtocol:
        return SmqProtocol(self.core, self._queue)


@dataclass(frozen=True)
class SmqSettings:
    """``[smq]`` or ``[[smq]]``, beside the endpoint."""

    queue: str = setting("smq", "the segment that is the queue of this endpoint")

    @property
    def groups(self) -> frozenset[str]:
        """The reader groups that clients acknowledge in."""
        return frozenset({GROUP})


def configure(table: Mapping[str, object]) -> SmqSettings:
    """The settings of one ``[smq]`` table."""
    settings = fill(SmqSettings, table)
    try:
        check_name(settings.queue)
    except BadName as error:
        raise ConfigError(f"queue: {error}")
    return settings


def factory(core: Core, settings: object) -> SmqFactory:
    """The factory for one endpoint."""
    assert isinstance(settings, SmqSettings)
    return SmqFactory(core, settings)
