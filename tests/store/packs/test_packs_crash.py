"""The power is cut at every call to the disk while journal files are folded, packs merged, segments published.

The calls are those of the daemon and those of the compactor: in the lives here both are on one disk, one after the
other, as they are on a real one. What was acknowledged is always there, whole; what was dropped never comes back.
"""

from __future__ import annotations

from random import Random

from streamd.settings import StoreSettings
from tests.rigs.store.history import Operation, Oracle
from tests.rigs.store.inline import PACKS
from tests.rigs.store.life import LIFE_OPERATIONS, Life
from tests.rigs.store.simulated import SimulatedDisk
from tests.rigs.store.sweep import Sweep, SweepCase


class PackCrashTests(SweepCase):
    """At any moment the disk holds what was acknowledged, and perhaps the commit in flight, wherever it is by then."""

    history = Life

    def test_every_call(self) -> None:
        """A power cut at any call of either process takes nothing that was acknowledged and leaves nothing half."""
        sweeps = self.sweep(range(6000, 6019), 80, outcomes=2)
        self.assertGreaterEqual(sum(sweep.points for sweep in sweeps), 10_000)
        self.assertGreaterEqual(sum(sweep.catalog_points for sweep in sweeps), 250)

    def test_recovery(self) -> None:
        """A power cut during recovery, at any call, is followed by the same recovery, with whatever packs there are."""
        points = sum(sweep.recovery_points for sweep in self.sweep(range(7000, 7010), 60, recoveries=0.04))
        self.assertGreaterEqual(points, 1_000)

    def test_killed(self) -> None:
        """What a process finds after another was killed at any call, and serves, survives a power cut."""
        kills = sum(sweep.kills for sweep in self.sweep(range(8000, 8008), 60, kills=0.5))
        self.assertGreaterEqual(kills, 500)

    def test_many_lives(self) -> None:
        """A store that is cut off at a random call, again and again, goes on each time from what it served last."""
        self.assertGreaterEqual(self.live(range(9000, 9012)), 100)

    def test_nothing_left(self) -> None:
        """A store that is opened has the packs that its catalog names, and no other files of compactions that died."""
        life = Life
        for seed in range(6100, 6110):
            sweep = Sweep(seed, history=life)
            sweep.run(100)
            opened = life(sweep.disk, sweep.rng, sweep.settings, sweep.oracle)
            names = [f"{number:020}.pack" for number in opened.compactor.packs()]
            self.assertEqual(sweep.disk.list_directory(PACKS), names)


_OFTEN: dict[Operation, float] = {Life.fold: 12, Life.merge: 5}


class UnsyncedLife(Life):
    """A compactor that has much to do, and every other commit of the catalog fails: its sync, or for want of room."""

    failing = 0.5
    operations = (
        LIFE_OPERATIONS,
        [_OFTEN.get(operation, weight) for operation, weight in zip(*Life.operations, strict=True)],
    )

    def __init__(self, disk: SimulatedDisk, rng: Random, settings: StoreSettings, oracle: Oracle) -> None:
        disk.commits_per_checkpoint = 4
        super().__init__(disk, rng, settings, oracle)


class UnsyncedTests(SweepCase):
    """The catalog's WAL can't be synced: who opens it after a crash may find what the compactor takes for undone.

    So no file goes on the word of a catalog that a crash could take back, or that a crash could add to.
    """

    history = UnsyncedLife

    def test_every_call(self) -> None:
        """A power cut at any call after that takes nothing that was acknowledged, and the store opens."""
        sweeps = self.sweep(range(10000, 10010), 80, outcomes=3)
        self.assertGreaterEqual(sum(sweep.points for sweep in sweeps), 5_000)

    def test_recovery(self) -> None:
        """The same during the recovery after it."""
        points = sum(sweep.recovery_points for sweep in self.sweep(range(11000, 11008), 60, recoveries=0.04))
        self.assertGreaterEqual(points, 500)

    def test_killed(self) -> None:
        """A daemon that is killed is followed by one that finds more in the page cache than the medium has."""
        kills = sum(sweep.kills for sweep in self.sweep(range(12000, 12008), 60, kills=1))
        self.assertGreaterEqual(kills, 500)

    def test_many_lives(self) -> None:
        """A store that is cut off at a random call, again and again, goes on each time from what it served last."""
        self.assertGreaterEqual(self.live(range(13000, 13012)), 100)


class PackProofTests(SweepCase):
    """The suite above finds what it looks for."""

    history = Life

    def test_without_file_sync(self) -> None:
        """On a disk whose syncs of files do nothing, acknowledged data is lost, and the suite says so."""
        self.assertFinds("file")

    def test_without_directory_sync(self) -> None:
        """The same where only the contents of files are synced."""
        self.assertFinds("directory")
