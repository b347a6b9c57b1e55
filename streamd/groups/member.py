"""One member of a reader group, and what went to it together."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from streamd.groups.group import Group
from streamd.groups.returned import Range

if TYPE_CHECKING:
    from streamd.groups.members import Members


class Delivery:
    """Records that went to a member together, and are to be acknowledged by the same time."""

    __slots__ = ("first", "left", "lengths", "member", "since")

    def __init__(self, member: Member, first: int, lengths: array[int], since: float) -> None:
        self.member = member
        self.first = first
        self.lengths = lengths
        self.left = len(lengths)
        """How many of them are outstanding."""
        self.since = since
        """When they went out."""

    @property
    def numbers(self) -> range:
        """Of all its records, also of those that are not outstanding any more."""
        return range(self.first, self.first + len(self.lengths))


class Member:
    """One reader of a group. `wake` is called when there is something to take, after `wait`."""

    def __init__(self, members: Members, wake: Callable[[], None]) -> None:
        self._members = members
        self.wake = wake
        self.waiting = False
        """Whether it wants to be woken."""
        self.served = False
        """Whether it had something since it waited last."""
        self.records = 0
        """How many records it has to acknowledge."""
        self.bytes = 0
        """And their bytes together."""
        self.deliveries: dict[Delivery, None] = {}
        """What they came with."""

    @property
    def group(self) -> Group:
        """The group it reads in."""
        return self._members.group

    def take(self, count: int) -> Range | None:
        """Up to `count` records for this member, to be delivered or given back. None where there are none for it."""
        return self._members.take(self, count)

    def wait(self) -> None:
        """Be woken, once, when there may be something to take."""
        self.waiting = True
        self.served = False
        self._members.waits(self)

    def delivered(self, first: int, lengths: array[int]) -> None:
        """Records from `first` on went out, and are to be acknowledged."""
        self._members.delivered(self, first, lengths)

    def done(self, first: int, end: int) -> None:
        """These went out, and that is all: they count as acknowledged, and nobody waits for the disk."""
        self._members.done(first, end)

    def give_back(self, first: int, end: int) -> None:
        """These were taken, and did not go out."""
        self._members.group.give_back(first, end)

    def acknowledge(self, numbers: Sequence[int]) -> tuple[Deferred[Any], frozenset[int]]:
        """These are done with. Fires when that is on disk; and which of them were never delivered."""
        return self._members.acknowledge(numbers)

    def are_out(self, numbers: Iterable[int]) -> bool:
        """Whether all of these are with readers, or acknowledged: none came back, and none is still to come."""
        return self._members.are_out(numbers)

    def refuse(
        self, numbers: Iterable[int], *, seconds: float | None = None, error: str = ""
    ) -> tuple[Deferred[Any], frozenset[int]]:
        """These are to be delivered again, to whomever, after `seconds` or the pause of the group's rule.

        Fires when that is counted on disk; and which of them nobody has.
        """
        return self._members.refuse(numbers, seconds=seconds, error=error)

    def deliveries_of(self, number: int) -> int:
        """How often a message was delivered that this member has now: 1 for the first time."""
        return self._members.deliveries_of(number)

    def wake_others(self) -> None:
        """Wake those now, this one among them, that something which came back would wake a little later."""
        self._members.wake()

    def leave(self, *, in_order: bool = False) -> None:
        """Be no member any more: what it has goes back to the group.

        That counts as a failed delivery, unless the reader left `in_order`: then it did not fail.
        """
        self._members.leave(self, in_order=in_order)
