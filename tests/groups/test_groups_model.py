"""A reader group against a plain model of it: Hypothesis looks for a life of the group in which the two differ."""

from __future__ import annotations

from array import array

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.connections.load import Load
from streamd.groups import Groups, Member
from streamd.settings import Limits
from tests.rigs.store.inline import call, open_inline, result_of
from tests.rigs.store.simulated import SimulatedDisk

LIMITS = Limits(
    outstanding_records_max=12, outstanding_bytes_max=60, group_outstanding_records_max=20, ack_seconds_max=30.0
)
WHO = st.integers(0, 2)
PICK = st.lists(st.integers(0, 40), min_size=1, max_size=8)


class GroupMachine(RuleBasedStateMachine):
    """Three members who take, acknowledge, refuse, leave and dawdle, over commits, crashes and truncations.

    The model is three sets of numbers: what each member has, what is acknowledged, and what of that is on disk. No
    record is with two members; none that is acknowledged is given out again; none is passed over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.on_disk: set[int] = set()
        self.open()
        call(self.writer, self.store.create, "a")
        self.begin()

    def open(self) -> None:
        self.clock = Clock()
        self.store, self.writer = open_inline(self.disk, clock=self.clock)

    def begin(self) -> None:
        """What a new process knows."""
        self.segment = self.store.find("a")
        core = Core(self.store, LIMITS, Load(LIMITS), self.clock, 0.0)
        self.groups = Groups.of(core)
        self.woken: set[int] = set()
        self.waiting: set[int] = set()
        self.held: list[dict[int, float]] = [{}, {}, {}]
        """What each member has, and until when."""
        self.acknowledged = set(self.on_disk)
        self.delivered: set[int] = set()
        self.answers: list[tuple[Deferred[object], list[int]]] = []
        self.members = [self.join(who) for who in range(3)]

    def join(self, who: int) -> Member:
        return result_of(self.groups.join(self.segment, "g", lambda: self.woken.add(who)))

    @property
    def out(self) -> set[int]:
        return {number for each in self.held for number in each}

    @property
    def free(self) -> set[int]:
        """What nobody has and nobody has acknowledged."""
        return set(range(self.segment.first_number, self.segment.number)) - self.out - self.acknowledged

    @rule(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=9))
    def publish(self, sizes: list[int]) -> None:
        """More records, on disk."""
        call(self.writer, self.store.append, self.segment, Batch.of([bytes(size) for size in sizes]))
        self.collect()

    @rule(who=WHO, count=st.integers(1, 8), part=st.integers(0, 8))
    def take(self, who: int, count: int, part: int) -> None:
        """A member takes, and delivers all or only some of it."""
        free, taken = self.free, self.members[who].take(count)
        if taken is None:
            return
        first, end = taken
        assert first < end <= first + count
        assert set(range(first, end)) <= free, "it was somebody's, or done with"
        assert first == min(free), "the lowest one comes first"
        middle = min(first + part, end)
        self.members[who].give_back(middle, end)
        if first < middle:
            self.members[who].delivered(first, array("I", [number % 10 for number in range(first, middle)]))
            self.delivered.update(range(first, middle))
            self.held[who].update(dict.fromkeys(range(first, middle), self.clock.seconds() + 30.0))

    @rule(who=WHO)
    def wait(self, who: int) -> None:
        """A member that finds nothing waits."""
        self.members[who].wait()
        self.waiting.add(who)

    @rule(who=WHO, numbers=PICK)
    def acknowledge(self, who: int, numbers: list[int]) -> None:
        """Anybody may acknowledge anything: what was never delivered is told."""
        answer, unknown = self.members[who].acknowledge(numbers)
        known = [number for number in numbers if number in self.delivered or number in self.acknowledged]
        below = {number for number in numbers if number < self.segment.first_number}
        assert unknown - below == set(numbers) - set(known) - below
        good = [number for number in known if number not in unknown]
        self.acknowledged.update(good)
        for each in self.held:
            for number in good:
                each.pop(number, None)
        self.answers.append((answer, good))
        self.collect()

    @rule(who=WHO, numbers=PICK)
    def refuse(self, who: int, numbers: list[int]) -> None:
        """And refuse what somebody has."""
        self.members[who].refuse(numbers)
        for each in self.held:
            for number in numbers:
                each.pop(number, None)

    @rule(who=WHO, numbers=st.integers(1, 6))
    def auto_commit(self, who: int, numbers: int) -> None:
        """A member that need not acknowledge."""
        taken = self.members[who].take(numbers)
        if taken is not None:
            assert set(range(*taken)) <= self.free
            self.members[who].done(*taken)
            self.acknowledged.update(range(*taken))
            call(self.writer, self.store.append, self.segment, Batch.of([b"later"]))
            # It was on its way before what is on disk now.
            self.on_disk.update(range(*taken))
            self.collect()

    @rule(who=WHO)
    def leave(self, who: int) -> None:
        """A member is lost, another one comes."""
        self.members[who].leave()
        self.held[who].clear()
        self.waiting.discard(who)
        self.woken.discard(who)
        self.members[who] = self.join(who)

    @rule(seconds=st.sampled_from([0.0, 7.0, 31.0]))
    def pass_time(self, seconds: float) -> None:
        """What is not acknowledged in time is nobody's."""
        self.clock.advance(seconds)
        now = self.clock.seconds()
        for who, each in enumerate(self.held):
            self.held[who] = {number: until for number, until in each.items() if until > now}

    @rule(to=st.integers(1, 10))
    def truncate(self, to: int) -> None:
        """Somebody drops the oldest records."""
        call(self.writer, self.store.truncate, self.segment, min(self.segment.first_number + to, self.segment.number))
        self.collect()

    @rule()
    def commit(self) -> None:
        """What is pending comes to the disk."""
        self.writer.run()
        self.collect()

    @rule()
    def crash(self) -> None:
        """The process dies, with what is pending."""
        self.disk = self.disk.kill()
        self.open()
        self.begin()

    def collect(self) -> None:
        """Who was told that its acknowledgement is on disk can rely on it."""
        left = []
        for answer, numbers in self.answers:
            if answer.called:
                result_of(answer)
                self.on_disk.update(numbers)
            else:
                left.append((answer, numbers))
        self.answers = left

    @invariant()
    def counts(self) -> None:
        """Who has how much is known, and stays within the limits."""
        members = self.groups.use(self.segment, "g")
        assert members.outstanding_records == len(self.out) <= 20
        for each, held in zip(self.members, self.held, strict=True):
            assert each.records == len(held) <= 12
            assert each.bytes == sum(number % 10 for number in held)

    @invariant()
    def nobody_sleeps(self) -> None:
        """Who waits is woken where there is something for it."""
        self.clock.advance(0)
        for who in list(self.waiting & self.woken):
            self.waiting.discard(who)
        self.woken.clear()
        room = [who for who in self.waiting if len(self.held[who]) < 12 and self.members[who].bytes < 60]
        assert not (room and self.free and len(self.out) < 20), f"{self.free} for {room}"

    def teardown(self) -> None:
        """In the end everything that is not acknowledged on disk comes again, once, in order."""
        self.crash()
        member = self.members[0]
        found: list[int] = []
        for other in self.members[1:]:
            other.leave()
        while (taken := member.take(5)) is not None:
            found += range(*taken)
        assert found == sorted(self.free)


class ModelTests(SynchronousTestCase):
    def test_any_life(self) -> None:
        """Whatever members do, in whatever order."""
        run_state_machine_as_test(
            GroupMachine,
            settings=settings(
                max_examples=80,
                stateful_step_count=50,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
