"""The store against a plain model of it: Hypothesis looks for a life of the store in which the two differ."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from twisted.trial.unittest import SynchronousTestCase

from streamd.settings import StoreSettings
from tests.rigs.store.history import Oracle
from tests.rigs.store.life import LIFE_OPERATIONS, Life
from tests.rigs.store.model import contents
from tests.rigs.store.simulated import PowerCut, SimulatedDisk

RANDOMS = st.randoms(use_true_random=False)
STORE_SETTINGS = StoreSettings(journal_file_bytes=1024, reserve_bytes=128, open_files_max=4)


class StoreMachine(RuleBasedStateMachine):
    """Requests, commits, compaction, restarts, crashes and a full disk, in any order. `Life` compares all answers."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.oracle = Oracle()
        self.open()
        for _ in range(2):
            self.history.create()
        self.commit(9)

    def open(self) -> None:
        """Open the store; `Life` sees that it holds what it may."""
        self.history = Life(self.disk, Random(0), STORE_SETTINGS, self.oracle)

    @rule(operations=st.lists(st.sampled_from(LIFE_OPERATIONS), min_size=1, max_size=4), random=RANDOMS)
    def ask(self, operations: list[Callable[[Life], None]], random: Random) -> None:
        """Ask for something. What exactly, `random` says, which Hypothesis controls and makes small."""
        self.history.rng = random
        for operation in operations:
            operation(self.history)

    @rule(count=st.integers(1, 4), random=RANDOMS)
    def append(self, count: int, random: Random) -> None:
        """Append a few times."""
        self.history.rng = random
        for _ in range(count):
            self.history.append()

    @rule(random=RANDOMS)
    def append_and_commit(self, random: Random) -> None:
        """Append, and wait for it."""
        self.append(1, random)
        self.commit(9)

    @rule(count=st.integers(1, 3))
    def commit(self, count: int) -> None:
        """Write some of the commits that are pending."""
        while len(self.history.writer) and count:
            self.history.step()
            count -= 1

    @rule(random=RANDOMS)
    def compact(self, random: Random) -> None:
        """Fold journal files, and perhaps merge packs."""
        self.history.rng = random
        self.history.fold()
        if random.random() < 0.5:
            self.history.merge()

    @rule(random=RANDOMS, commits=st.integers(0, 4))
    def publish(self, random: Random, commits: int) -> None:
        """Write to hidden segments, and publish them."""
        self.history.rng = random
        self.history.create_hidden()
        self.commit(commits)
        for _ in range(2):
            self.history.append_hidden()
        self.commit(commits)
        self.history.publish()
        self.commit(commits)

    @rule(random=RANDOMS)
    def retain(self, random: Random) -> None:
        """Let retention go over all segments."""
        self.history.rng = random
        self.history.retain()
        self.commit(9)

    @rule(room=st.none() | st.integers(0, 600))
    def fill(self, room: int | None) -> None:
        """The disk has only so much room left, or enough again."""
        self.disk.capacity_bytes = None if room is None else self.disk.used_bytes() + room

    @rule()
    def read(self) -> None:
        """What readers see is the last commit, and nothing of what is pending."""
        assert contents(self.history.store) == self.oracle.models[0].contents()

    @rule()
    def restart(self) -> None:
        """Close in order, and open again."""
        self.history.finish()
        self.disk.capacity_bytes = None
        self.open()

    @rule(seed=st.integers(0, 999), is_killed=st.booleans())
    def crash(self, seed: int, is_killed: bool) -> None:
        """The power goes, or the process, between two calls to the disk."""
        self.disk = self.disk.kill() if is_killed else self.disk.crash(Random(seed))
        self.disk.capacity_bytes = None
        self.open()

    @rule(seed=st.integers(0, 999), calls=st.integers(1, 20), after=st.booleans())
    def crash_later(self, seed: int, calls: int, after: bool) -> None:
        """The power goes some calls from now: while commits are written, the store is closed, or opened again."""
        self.disk.cut_power_at(self.disk.calls + calls, after=after)
        try:
            self.history.finish()
            self.disk.capacity_bytes = None
            self.open()
            self.disk.keep_power()
        except PowerCut:
            self.crash(seed, is_killed=False)


class ModelTests(SynchronousTestCase):
    """The store does what the model does."""

    def test_model(self) -> None:
        """No life of the store, however it is put together, differs from that of the model."""
        run_state_machine_as_test(
            StoreMachine,
            settings=settings(
                max_examples=500,
                stateful_step_count=50,
                derandomize=True,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
