"""The messages for tools that work with topics: reader groups, publishing, and what an administrator does."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from streamd.access.permits import ADMIN, READ, VISIBLE, WRITE, NotAllowed
from streamd.connections.core import Core
from streamd.connections.order import Ordered
from streamd.connections.slots import Reply
from streamd.groups import Delayed, Groups, Member
from streamd.patterns import matcher
from streamd.store import Appended, Segment, StoreError
from streamd.store.errors import RequestTooLarge
from streamd.store.names import check_name
from streamd.wire import work
from streamd.wire.fields import to_bytes
from streamd.wire.pravega.documented import in_parts

# Groups that are described in one step: others have their turns between.
_GROUPS_AT_ONCE: Final = 20
_PAGE_GROUPS: Final = 1000

# How long a member may wait for records.
_WAIT_SECONDS_MAX: Final = 30.0

# What a member gets at once, unless the first record alone is larger.
_TAKE_BYTES_MAX: Final = 2 << 20


class GroupBusy(StoreError):
    """Somebody reads in the group."""


class Taker:
    """A connection as a member of one group."""

    def __init__(self, core: Core) -> None:
        self._clock = core.clock
        self.member: Member | None = None
        self._woken: Deferred[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for records."""
        return self._woken is not None

    def wake(self) -> None:
        """There may be something to take, or the time is over."""
        woken, self._woken = self._woken, None
        if woken is not None:
            woken.callback(None)

    async def wait(self, seconds: float) -> None:
        """Wait until there may be something to take, so long at most."""
        assert self.member is not None
        woken = self._woken = Deferred[None]()
        over = self._clock.callLater(seconds, self.wake)
        self.member.wait()
        await woken
        if over.active():
            over.cancel()


class Work:
    """Carries these messages out, as far as the peer may.

    :param find: finds a segment by its id, where the peer has one of these rights on it.
    """

    def __init__(self, core: Core, peer: Ordered, find: Callable[[int, int], Segment]) -> None:
        self._core = core
        self._store = core.store
        self._peer = peer
        self._find = find
        self._takers: dict[tuple[int, str], Taker] = {}
        self._waiting: set[Deferred[None]] = set()
        """Waits for records of topics."""
        self._hurried = False
        """Whether nobody waits any more: the connection, or the daemon, ends."""

    @property
    def _groups(self) -> Groups:
        return Groups.of(self._core)

    @property
    def is_waiting(self) -> bool:
        """Whether a member waits for records."""
        return bool(self._waiting) or any(taker.is_waiting for taker in self._takers.values())

    def hurry(self) -> None:
        """Answer those who wait, with nothing."""
        self._hurried = True
        for taker in self._takers.values():
            taker.wake()
        for waiting in list(self._waiting):
            waiting.cancel()

    def leave(self, *, in_order: bool = False) -> None:
        """The connection is gone: be no member of any group."""
        takers, self._takers = self._takers, {}
        for taker in takers.values():
            member, taker.member = taker.member, None
            if member is not None:
                member.leave(in_order=in_order)
            taker.wake()

    # -- groups --------------------------------------------------------------------------------------------------------

    def list_groups(self, request: work.ListGroups) -> Generator[None, None, Reply]:
        """The groups of all topics that fit, in the order of the topics' ids."""
        fits, permits = matcher(request.pattern), self._peer.permits
        rows: list[work.GroupInfo] = []
        after = 0
        ids = self._groups.segments(request.after)
        for at, segment in enumerate(ids, 1):
            if fits(segment.name) and (permits.is_open or permits.rights(segment.name) & VISIBLE):
                rows += [self._described(segment, name) for name in self._groups.named(segment)]
            if len(rows) >= _PAGE_GROUPS and at < len(ids):
                after = segment.id
                break
            if at % _GROUPS_AT_ONCE == 0:
                yield
        return in_parts(to_bytes(work.GroupList(request.id, rows, after)))

    def _described(self, segment: Segment, name: str) -> work.GroupInfo:
        known = self._groups.describe_one(segment, name)
        rule = known.pop("rule")
        return work.GroupInfo(segment.id, segment.name, name, **known, rule=json.dumps(rule) if rule else "")

    def _movable(self, request: work.MoveGroup | work.DropGroup | work.SetGroupRule, *, force: bool) -> Segment:
        segment = self._find(request.segment, READ | ADMIN)
        if not self._peer.permits.may_move(segment.name, request.group):
            raise NotAllowed(segment.name, ADMIN)
        if not force and (members := self._groups.members_of(segment, request.group)):
            raise GroupBusy(f"{members} read in group {request.group!r} of {segment.name!r} now")
        return segment

    def _move(self, request: work.MoveGroup) -> Reply:
        segment = self._movable(request, force=request.force)
        moved = self._groups.move(segment, request.group, request.position)
        position = max(request.position, segment.claimed_first_number)
        return moved, to_bytes(work.GroupPosition(request.id, True, position))

    def _drop(self, request: work.DropGroup) -> Reply:
        segment = self._movable(request, force=request.force)
        return self._groups.delete(segment, request.group), to_bytes(work.Done(request.id))

    def _set_rule(self, request: work.SetGroupRule) -> Reply:
        segment = self._movable(request, force=True)
        return self._groups.set_rule(segment, request.group, request.rule), to_bytes(work.Done(request.id))

    def _shared(self, id: int, group: str) -> Segment:
        """The segment of a group that the peer may read in. What readers acknowledge must not count as archived."""
        segment = self._find(id, READ)
        # Before anything is delivered: what nobody can acknowledge would come again for ever.
        check_name(group)
        rule = self._store.retention.rule(segment.name) if self._store.retention is not None else None
        if rule is not None and rule.archived_only and rule.archive_group == group:
            raise StoreError(f"group {group!r} of {segment.name!r} is the archive's: read in another one")
        return segment

    # -- a member ------------------------------------------------------------------------------------------------------

    def _take(self, request: work.TakeRecords) -> Deferred[bytes]:
        return Deferred.fromCoroutine(self._taken(self._shared(request.segment, request.group), request))

    async def _taken(self, segment: Segment, request: work.TakeRecords) -> bytes:
        taker = self._takers.get((segment.id, request.group))
        if taker is None:
            taker = self._takers[segment.id, request.group] = Taker(self._core)
            taker.member = await self._groups.join(segment, request.group, taker.wake, latest=request.latest)
        until = self._core.clock.seconds() + min(request.milliseconds / 1000, _WAIT_SECONDS_MAX)
        records_max = max(1, min(request.records_max, work.RECORDS_MAX))
        bytes_max = max(1, min(request.bytes_max, _TAKE_BYTES_MAX))
        while (member := taker.member) is not None and not segment.deleted:
            taken = member.take(records_max)
            if taken is not None and (reply := await self._delivered(segment, member, taken, bytes_max, request.id)):
                return reply
            left = until - self._core.clock.seconds()
            if taken is None:
                if left <= 0 or self._hurried or segment.sealed:
                    break
                await taker.wait(left)
        return to_bytes(work.RecordsTaken(request.id, (), ()))

    async def _delivered(
        self, segment: Segment, member: Member, taken: tuple[int, int], bytes_max: int, id: int
    ) -> bytes | None:
        """Deliver what was taken, as far as it fits; None where it is gone from the topic."""
        first, end = taken
        try:
            runs = await self._peer.read(segment, first, bytes_max=bytes_max, records_max=end - first)
        except StoreError:
            member.give_back(first, end)
            raise
        count = sum(run.batch.count for run in runs)
        if not count:
            return None
        member.give_back(first + count, end)
        lengths = array("I")
        for run in runs:
            lengths.extend(run.batch.lengths)
        if (segment.id, member.group.name) not in self._takers:
            # The connection has gone meanwhile.
            member.give_back(first, first + count)
            return None
        member.delivered(first, lengths)
        self._peer.traffic.read(count, sum(run.batch.size for run in runs))
        deliveries = tuple(member.deliveries_of(number) for number in range(first, first + count))
        return in_parts(to_bytes(work.RecordsTaken(id, tuple(runs), deliveries)))

    def _acknowledge(self, request: work.AcknowledgeRecords) -> Deferred[bytes]:
        members = self._groups.use(self._shared(request.segment, request.group), request.group)
        done, unknown = members.acknowledge(request.numbers)
        return done.addCallback(lambda _: to_bytes(work.RecordsSettled(request.id, tuple(sorted(unknown)))))

    def _refuse(self, request: work.RefuseRecords) -> Deferred[bytes]:
        members = self._groups.use(self._shared(request.segment, request.group), request.group)
        seconds = None if request.milliseconds < 0 else request.milliseconds / 1000
        done, unknown = members.refuse(request.numbers, seconds=seconds, error=request.error)
        return done.addCallback(lambda _: to_bytes(work.RecordsSettled(request.id, tuple(sorted(unknown)))))

    def _leave(self, request: work.LeaveGroup) -> bytes:
        taker = self._takers.pop((request.segment, request.group), None)
        if taker is not None and taker.member is not None:
            member, taker.member = taker.member, None
            member.leave(in_order=True)
            taker.wake()
        return to_bytes(work.Done(request.id))

    # -- topics --------------------------------------------------------------------------------------------------------

    def _put(self, request: work.StoreRecords) -> Deferred[bytes]:
        segment = self._find(request.segment, WRITE)
        batch, writer = request.batch, None if request.writer == work.NO_WRITER else request.writer
        largest, limit = max(batch.lengths, default=0), self._core.limits.message_bytes_max
        if largest > limit:
            raise RequestTooLarge(f"a message of {largest} bytes is over the limit of {limit}")
        sequence = request.sequence
        level = sequence + batch.count
        if level >= 1 << 63:
            raise StoreError(f"no writer has {sequence} records")
        stored = 0 if writer is None else segment.claimed_level(writer) or 0
        if sequence < stored < level:
            # The first of them are stored: only what is above is new.
            batch, sequence = batch.part(stored - sequence, batch.count), stored
        if writer is None or level > stored:
            self._peer.allow_write(segment, batch)

        def told(place: Appended) -> bytes:
            if not place.duplicate:
                self._peer.traffic.published(batch.count, batch.size)
            return to_bytes(work.RecordsStored(request.id, place.number, place.duplicate))

        if request.due:
            appended = Delayed.of(self._core).put(
                segment, batch, request.due, writer=writer, expected=sequence, level=level
            )
        else:
            appended = self._store.append(segment, batch, writer=writer, expected=sequence, level=level)
        return appended.addCallback(told)

    def _await(self, request: work.AwaitRecord) -> Deferred[bytes]:
        segment = self._find(request.segment, READ)
        waiting = self._store.wait(segment, request.number)
        self._waiting.add(waiting)
        seconds = 0.0 if self._hurried else min(request.milliseconds / 1000, _WAIT_SECONDS_MAX)
        over = self._core.clock.callLater(seconds, waiting.cancel)

        def done(result: object) -> bytes:
            self._waiting.discard(waiting)
            if over.active():
                over.cancel()
            if isinstance(result, Failure):
                result.trap(CancelledError)
            return to_bytes(work.Done(request.id))

        return waiting.addBoth(done)

    def _describe(self, request: work.DescribeTopic) -> bytes:
        segment = self._find(request.segment, ADMIN)
        retention = self._store.retention
        rule = retention.rule(segment.name) if retention is not None else None
        known = {"writers": len(segment.levels or ()), "retention": None if rule is None else asdict(rule)}
        return to_bytes(work.TopicDescribed(request.id, json.dumps(known)))

    def _seal(self, request: work.SealTopic) -> Reply:
        return self._store.seal(self._find(request.segment, ADMIN)), to_bytes(work.Done(request.id))

    def _delete(self, request: work.DeleteTopic) -> Reply:
        return self._store.delete(self._find(request.segment, ADMIN)), to_bytes(work.Done(request.id))

    def _truncate(self, request: work.TruncateTopic) -> Reply:
        segment = self._find(request.segment, ADMIN)
        return self._store.truncate(segment, request.number), to_bytes(work.Done(request.id))


WORK: Final[dict[type, Callable[[Work, Any], Reply]]] = {
    work.MoveGroup: Work._move,
    work.DropGroup: Work._drop,
    work.SetGroupRule: Work._set_rule,
    work.TakeRecords: Work._take,
    work.AcknowledgeRecords: Work._acknowledge,
    work.RefuseRecords: Work._refuse,
    work.LeaveGroup: Work._leave,
    work.StoreRecords: Work._put,
    work.DescribeTopic: Work._describe,
    work.SealTopic: Work._seal,
    work.DeleteTopic: Work._delete,
    work.TruncateTopic: Work._truncate,
    work.AwaitRecord: Work._await,
}
