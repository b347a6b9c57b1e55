"""A segment, groups of it, and readers that take what they can get."""

from __future__ import annotations

from array import array

from streamd.connections.core import Core
from streamd.connections.load import Load
from streamd.groups import Groups, Member, Members, Range
from streamd.settings import Limits
from streamd.store import Segment
from tests.rigs.store.case import StoreCase

LIMITS = Limits(
    outstanding_records_max=20,
    outstanding_bytes_max=1000,
    group_outstanding_records_max=50,
    group_outstanding_bytes_max=2000,
    ack_seconds_max=30.0,
)


class Reader:
    """A member that takes all it can get, one chunk after the other, whenever it is woken."""

    def __init__(self, case: MembersCase, group: str = "g", *, latest: bool = False, at_once: int = 5) -> None:
        self.got: list[int] = []
        self.wakes = 0
        self.at_once = at_once
        self.busy = False
        """Whether it does not take what it could."""
        self.member: Member = case.do(case.groups.join, case.segment, group, self.wake, latest=latest)

    def wake(self) -> None:
        self.wakes += 1
        self.read()

    def read(self) -> list[int]:
        """Take what there is, and wait for more."""
        before = len(self.got)
        while not self.busy and (taken := self.member.take(self.at_once)) is not None:
            self.deliver(taken)
        if not self.busy:
            self.member.wait()
        return self.got[before:]

    def deliver(self, taken: Range) -> None:
        first, end = taken
        self.got += range(first, end)
        self.member.delivered(first, array("I", [10] * (end - first)))


class MembersCase(StoreCase):
    """A segment of ten bytes a record, and groups of it."""

    limits = LIMITS

    def setUp(self) -> None:
        super().setUp()
        self.create("a")
        self.begin()

    def begin(self) -> None:
        """What a new process knows."""
        self.segment: Segment = self.store.find("a")
        self.core = Core(self.store, self.limits, Load(self.limits), self.clock, 0.0)
        self.groups = Groups.of(self.core)

    def restart(self) -> None:
        """The process dies, and another one begins with what is on the disk."""
        self.kill()
        self.begin()

    def add(self, count: int) -> None:
        """So many more records."""
        self.append(self.segment, *[b"x" * 10] * count)

    def members(self, group: str = "g") -> Members:
        return self.groups.use(self.segment, group)

    def turn(self) -> None:
        """A turn of the reactor."""
        self.clock.advance(0)

    def acknowledge(self, reader: Reader, *numbers: int) -> frozenset[int]:
        """Acknowledge, and let it come to the disk."""
        done, unknown = reader.member.acknowledge(numbers)
        self.writer.run()
        self.successResultOf(done)
        self.turn()
        return unknown
