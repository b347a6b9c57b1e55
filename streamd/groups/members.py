"""Those who read in a group: what each of them has, until it is acknowledged, given back, or overdue.

Memory follows what is outstanding, which has limits for each member and for all of them together. Who finds nothing to
take waits, and costs nothing until there is something for it: the group waits for records once, however many members
it has, and wakes as many of them as there are records for.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.groups.attempts import Attempts, Why
from streamd.groups.group import Group
from streamd.groups.letters import DeadLetters
from streamd.groups.member import Delivery, Member
from streamd.groups.returned import Range, ranges_of
from streamd.metrics import GroupCounts
from streamd.settings import GroupRule
from streamd.store.errors import StoreError, level_of

if TYPE_CHECKING:
    from streamd.connections.core import Core
    from streamd.settings import Limits


class Members:
    """A group, and those who read in it."""

    _log = Logger()

    def __init__(
        self,
        core: Core,
        group: Group,
        counts: GroupCounts,
        rule: Callable[[], GroupRule | None] = lambda: None,
    ) -> None:
        self._core = core
        self._store = core.store
        self._clock = core.clock
        self.group = group
        group.on_returned = self._wake_soon
        self.joining: list[Deferred[None]] | None = None
        """Who waits to join, while the group's first position is on its way to the disk; None where all may join."""
        self._members: set[Member] = set()
        self._idle: OrderedDict[Member, None] = OrderedDict()
        """Who waits, the one that has waited longest first."""
        self._tail: Deferred[None] | None = None
        self._waking: IDelayedCall | None = None
        self._outstanding: dict[int, Delivery] = {}
        self._deliveries: OrderedDict[Delivery, None] = OrderedDict()
        """Those with something outstanding, in the order in which they went out."""
        self._overdue: IDelayedCall | None = None
        self._bytes = 0
        self._lapsed: set[int] = set()
        """Delivered, come back, and not delivered again: who had one may still say that it is done with it."""
        self._noting: set[int] = set()
        """Acknowledged, and not on disk yet."""
        self._rule = rule
        self._counts = counts
        self.letters = DeadLetters(core.store, group, counts, rule)
        self.attempts = Attempts(core.store, core.clock, group, rule, self._return, self.letters.take)
        self.letters.attempts = self.attempts
        self.redeliveries = 0
        """How often messages were delivered again since the start."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def _limits(self) -> Limits:
        """Those in force: a reload changes them for groups that are there too."""
        return self._core.limits

    @property
    def outstanding_records(self) -> int:
        """How many records are with members who have to acknowledge them."""
        return len(self._outstanding)

    def join(self, wake: Callable[[], None]) -> Member:
        """One more member."""
        member = Member(self, wake)
        self._members.add(member)
        self.attempts.run(True)
        return member

    def leave(self, member: Member, *, in_order: bool = False) -> None:
        """One less. The others get what it had."""
        self._members.discard(member)
        member.waiting = False
        self._idle.pop(member, None)
        for delivery in list(member.deliveries):
            if in_order or not self._core.serving():
                self._lapse(self._left(delivery))
            else:
                self._fail(self._left(delivery), Why.LOST)
        if not self._members:
            self.attempts.run(False)
        if not self._idle and self._tail is not None:
            tail, self._tail = self._tail, None
            tail.addErrback(lambda failure: failure.trap(CancelledError) and None)
            tail.cancel()

    # -- giving out ----------------------------------------------------------------------------------------------------

    def take(self, member: Member, count: int) -> Range | None:
        """What a member may have now. While others wait, that is its share, and then it waits behind them."""
        if not self._has_room(member) or (member.served and self._idle):
            return None
        count = min(count, self._limits.outstanding_records_max - member.records)
        open_records = self._open_records
        # Who waits beside it gets the same.
        count = min(count, -(-open_records // (len(self._idle) + 1)))
        taken = self.group.take(count) if count > 0 else None
        if taken is not None:
            member.served = True
            if self._lapsed:
                self._lapsed.difference_update(range(*taken))
        return taken

    @property
    def _open_records(self) -> int:
        """How many records may be given out now, about. What came back is counted already, and always may."""
        if returned := self.group.returned_records:
            return returned
        self._lapsed.clear()
        if self._bytes >= self._limits.group_outstanding_bytes_max:
            return 0
        room = self._limits.group_outstanding_records_max - len(self._outstanding) - len(self.attempts)
        return min(self.group.available_records, room)

    def _has_room(self, member: Member) -> bool:
        limits = self._limits
        return member.records < limits.outstanding_records_max and member.bytes < limits.outstanding_bytes_max

    def delivered(self, member: Member, first: int, lengths: array[int]) -> None:
        """Records went out to a member, which has so much time to acknowledge them."""
        delivery = Delivery(member, first, lengths, self._clock.seconds())
        self.attempts.delivered(delivery.numbers)
        self._deliveries[delivery] = member.deliveries[delivery] = None
        self._outstanding.update(dict.fromkeys(delivery.numbers, delivery))
        size = sum(lengths)
        member.records += len(lengths)
        member.bytes += size
        self._bytes += size
        if self._overdue is None:
            self._overdue = self._clock.callLater(self._limits.ack_seconds_max, self._expire)

    def _expire(self) -> None:
        """Who did not acknowledge in time has lost what it had."""
        self._overdue = None
        now = self._clock.seconds()
        while self._deliveries:
            delivery = next(iter(self._deliveries))
            left = delivery.since + self._limits.ack_seconds_max - now
            if left > 0:
                self._overdue = self._clock.callLater(left, self._expire)
                return
            self._fail(self._left(delivery), Why.TIMEOUT)

    def limits_changed(self) -> None:
        """Go by the limits that are in force now: what is out, and who had as much as it might."""
        if self._overdue is not None:
            self._overdue.cancel()
            self._expire()
        for member in self._members:
            if member.waiting and self._has_room(member):
                self._idle.setdefault(member, None)
        self._go_on()

    def _left(self, delivery: Delivery) -> list[int]:
        """What is outstanding of a delivery."""
        outstanding = self._outstanding
        return [number for number in delivery.numbers if outstanding.get(number) is delivery]

    # -- coming back ---------------------------------------------------------------------------------------------------

    def acknowledge(self, numbers: Sequence[int]) -> tuple[Deferred[Any], frozenset[int]]:
        """Done with: fires when that is on disk. And those among them that were never delivered."""
        unknown: set[int] = set()
        good: list[int] = []
        known = self.group.acknowledged
        for number in numbers:
            if number in self._outstanding:
                self._settle(number)
            elif number in self._lapsed or self.attempts.holds(number):
                self._lapsed.discard(number)
                self.group.withdraw(number)
            elif number not in self._noting:
                if known is None or number not in known:
                    unknown.add(number)
                continue
            # At once: it may stand here twice.
            self._noting.add(number)
            good.append(number)
        if not good:
            return succeed(None), frozenset(unknown)
        self._wake_soon()
        try:
            noted = self.group.note(ranges_of(sorted(good)))
        except StoreError:
            self._not_noted(good)
            raise
        return noted.addBoth(self._noted, good), frozenset(unknown)

    def are_out(self, numbers: Iterable[int]) -> bool:
        """Whether all of these are with members, or acknowledged."""
        known = self.group.acknowledged
        return all(
            number in self._outstanding or number in self._noting or (known is not None and number in known)
            for number in numbers
        )

    def _noted(self, result: Any, numbers: list[int]) -> Any:
        if isinstance(result, Failure):
            self._not_noted(numbers)
        else:
            self._noting.difference_update(numbers)
            self.attempts.forget(numbers)
        return result

    def _not_noted(self, numbers: list[int]) -> None:
        """Who acknowledged them is told that it did not work, and they come again."""
        self._noting.difference_update(numbers)
        self._lapse(numbers)

    def done(self, first: int, end: int) -> None:
        """These need no acknowledgement from whoever got them."""
        try:
            # This keeps the group in memory until it is on disk: a new one of that name would give them out again.
            self.group.acknowledge(first, end).addErrback(self._lost)
            self.attempts.forget(range(first, end))
        except StoreError as error:
            self._lost(Failure(error))

    def _lost(self, failure: Failure) -> None:
        failure.trap(StoreError)
        self._log.emit(
            level_of(failure.value),
            "{group} of {segment}: what was delivered could not be noted, it may come again: {reason}",
            group=self.group.name,
            segment=self.group.segment.name,
            reason=failure.getErrorMessage(),
        )

    def refuse(
        self, numbers: Iterable[int], *, seconds: float | None = None, error: str = ""
    ) -> tuple[Deferred[Any], frozenset[int]]:
        """To be delivered again: fires when that is counted. And those that nobody has, and that did not come back."""
        mine: list[int] = []
        unknown: set[int] = set()
        for number in numbers:
            if number in self._outstanding:
                mine.append(number)
            elif number not in self._lapsed and not self.attempts.holds(number):
                unknown.add(number)
        return self._fail(mine, Why.REFUSED, error, seconds), frozenset(unknown)

    def deliveries_of(self, number: int) -> int:
        """How often a message that is with a member was delivered."""
        attempt = self.attempts.get(number)
        return 1 if attempt is None else attempt.deliveries

    def move_to(self, number: int) -> None:
        """Begin anew at a number: nothing that is with members is expected back."""
        for outstanding in list(self._outstanding):
            self._settle(outstanding)
        self._lapsed.clear()
        self.attempts.clear()
        self.group.move_to(number)
        self._go_on()

    def _fail(self, numbers: list[int], why: Why, error: str = "", seconds: float | None = None) -> Deferred[Any]:
        """These were delivered in vain. What the rule says of that happens; without one they come back at once."""
        if self._rule() is None and seconds is None:
            self._lapse(numbers)
            return succeed(None)
        for number in numbers:
            self._settle(number)
        counted = self.attempts.failed(numbers, why, error, seconds)
        # Whoever had them has room for others.
        self._wake_soon()
        return counted

    def _lapse(self, numbers: list[int]) -> None:
        """These come back, and who had them may still acknowledge them."""
        for number in numbers:
            self._settle(number)
        self._return(sorted(numbers))

    def _return(self, numbers: list[int]) -> None:
        """These may be taken again."""
        self._lapsed.update(numbers)
        self.redeliveries += len(numbers)
        self._counts.redeliveries += len(numbers)
        for first, end in ranges_of(numbers):
            self.group.give_back(first, end)

    def _settle(self, number: int) -> None:
        """Nobody has this one any more."""
        delivery = self._outstanding.pop(number, None)
        if delivery is None:
            return
        member = delivery.member
        size = delivery.lengths[number - delivery.first]
        member.records -= 1
        member.bytes -= size
        self._bytes -= size
        delivery.left -= 1
        if not delivery.left:
            del self._deliveries[delivery], member.deliveries[delivery]
            if not self._deliveries and self._overdue is not None:
                self._overdue.cancel()
                self._overdue = None
        if member.waiting and member not in self._idle:
            # It had as much as it may.
            self._idle[member] = None

    # -- waking --------------------------------------------------------------------------------------------------------

    def waits(self, member: Member) -> None:
        """This one has nothing to do."""
        if self._has_room(member):
            self._idle[member] = None
            self._go_on()

    def _go_on(self) -> None:
        """Somebody may wait: for its turn, where there are records, or for records, once for all."""
        segment = self.group.segment
        if self._open_records > 0:
            self._wake_soon()
        elif self._tail is None and self._idle and not segment.sealed and not segment.deleted:
            self._tail = self._store.wait(segment, segment.number)
            self._tail.addCallback(self._committed)

    def _committed(self, _: None) -> None:
        self._tail = None
        self._wake()

    def _wake_soon(self) -> None:
        """Wake them in a turn of its own: who is in the middle of something ends that first."""
        if self._waking is None and self._idle:
            self._waking = self._clock.callLater(0, self._wake_now)

    def wake(self) -> None:
        """Wake those now who would be woken in a turn of its own."""
        if self._waking is not None:
            self._waking.cancel()
            self._wake_now()

    def _wake_now(self) -> None:
        self._waking = None
        self._wake()

    def _wake(self) -> None:
        """Wake as many as there are records for."""
        gone = self.group.segment.deleted
        for member in list(self._idle) if gone else self._idle_ones():
            self._idle.pop(member, None)
            if member.waiting:
                member.waiting = False
                member.wake()
        self._go_on()

    def _idle_ones(self) -> Iterable[Member]:
        """Those who wait, one after the other, for as long as there is something to take."""
        for _ in range(len(self._idle)):
            if not self._idle or self._open_records <= 0:
                return
            yield next(iter(self._idle))
