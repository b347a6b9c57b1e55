"""The catalog is an index: made again of packs alone it is what it was, at any moment of any life.

The lives here have everything in them: hidden segments, broadcasts, retention, folds, merges and checkpoints.
"""

from __future__ import annotations

from dataclasses import replace
from os import environ
from random import Random

from streamd.store.packs.catalog import FILE_NAME
from tests.rigs.store.former import make_former
from tests.rigs.store.inline import DIRECTORY, open_inline
from tests.rigs.store.life import LIFE_OPERATIONS, Life
from tests.rigs.store.making import made_again, rows
from tests.rigs.store.simulated import SimulatedDisk
from tests.rigs.store.sweep import Sweep, SweepCase

LIVES = int(environ.get("STREAMD_LIVES", "1"))
"""So many times as many histories: for who has the time."""


class CheckpointLife(Life):
    """A life whose compactor has much to do, and writes checkpoints too."""

    def checkpoint(self) -> None:
        """Write the state of all segments down."""
        if not self._is_dead:
            self._compact(lambda: self.compactor.store_merged(self.compactor.folder.checkpoint()[0]))

    operations = (
        [*LIFE_OPERATIONS, checkpoint],
        [*[10 if each in (Life.fold, Life.merge) else w for each, w in zip(*Life.operations, strict=True)], 3],
    )


class RowLife(CheckpointLife):
    """A life in which each change of the catalog is held against one that is made again."""

    compared = 0

    def _compact(self, operation: object, *args: object, **keywords: object) -> None:
        super()._compact(operation, *args, **keywords)  # type: ignore[arg-type]
        if not self._is_dead:
            type(self).compared += 1
            own, again = rows(self.compactor.catalog), rows(made_again(self._disk))
            for table in own:
                assert own[table] == again[table], f"{table}: {own[table]}\n{again[table]}"


class CatalogDeleted(Sweep):
    """The catalog is deleted, damaged, or put back as it was at an earlier time, at each crash."""

    def __init__(self, *args: object, **how: object) -> None:
        super().__init__(*args, **how)  # type: ignore[arg-type]
        self._earlier: dict[str, bytes] = {}

    def _check(self, disk: SimulatedDisk, rng: Random) -> None:
        is_there = DIRECTORY.strip("/") in disk.list_directory("/")
        names = [name for name in disk.list_directory(DIRECTORY) if name.startswith(FILE_NAME)] if is_there else []
        found = {name: bytes(disk.content(f"{DIRECTORY}/{name}")) for name in names}
        fate = rng.choice(("gone", "gone", "garbage", "earlier"))
        for name in names:
            if fate == "garbage":
                disk.put(f"{DIRECTORY}/{name}", rng.randbytes(len(found[name])))
            else:
                disk.unlink(f"{DIRECTORY}/{name}")
        for name, content in self._earlier.items() if fate == "earlier" and names else ():
            disk.put(f"{DIRECTORY}/{name}", content)
        if rng.random() < 0.05:
            self._earlier = found
        super()._check(disk, rng)


class MakingTests(SweepCase):
    """What a client sees does not depend on the catalog."""

    history = CheckpointLife

    def test_same_rows(self) -> None:
        """After each fold, merge and checkpoint the catalog is what it would be if it were made again, row for row."""
        RowLife.compared = 0
        for seed in range(14000, 14000 + 25 * LIVES):
            sweep = Sweep(seed, history=RowLife)
            sweep.run(120)
        self.assertGreaterEqual(RowLife.compared, 500)

    def test_deleted(self) -> None:
        """A catalog that is deleted, damaged or older at any call of any process changes nothing that a client sees."""
        points = 0
        for seed in range(15000, 15000 + 17 * LIVES):
            sweep = CatalogDeleted(seed, history=self.history, outcomes=2)
            sweep.run(80)
            points += sweep.points
        self.assertGreaterEqual(points, 10_000)

    def test_killed(self) -> None:
        """The same where a process is killed, and a power cut follows."""
        kills = 0
        for seed in range(16000, 16000 + 5 * LIVES):
            sweep = CatalogDeleted(seed, history=self.history, kills=0.5, recoveries=0.01)
            sweep.run(60)
            kills += sweep.kills
        self.assertGreaterEqual(kills, 300)

    def test_other_store(self) -> None:
        """The catalog of another store is not taken for this one's."""
        disks = []
        for seed in (17000, 17001):
            sweep = Sweep(seed, history=self.history)
            sweep.settings = replace(sweep.settings, sync="always")
            sweep.run(150)
            disks.append((sweep.disk.kill(), sweep))
        (disk, sweep), (other, _) = disks
        for name in [each for each in disk.list_directory(DIRECTORY) if each.startswith(FILE_NAME)]:
            disk.unlink(f"{DIRECTORY}/{name}")
        for name in [each for each in other.list_directory(DIRECTORY) if each.startswith(FILE_NAME)]:
            disk.put(f"{DIRECTORY}/{name}", bytes(other.content(f"{DIRECTORY}/{name}")))
        store, _ = open_inline(disk, sweep.settings)
        sweep.oracle.judge(store)


class Former(Sweep):
    """A store that was begun with an earlier format is opened, brought over, and goes on; crashes are in all of it."""

    life: type[Life] = CheckpointLife

    def run(self, operations: int) -> None:
        """The first half is lived before."""
        observer, self.disk.observer = self.disk.observer, None
        history = self._history(self.disk, self.rng, self.settings, self.oracle)
        history.run(operations)
        history.finish()
        self.disk = self.disk.kill()
        make_former(self.disk)
        self.disk.observer = observer
        super().run(operations)


class FormerTests(SweepCase):
    """Stores of an earlier format."""

    history = CheckpointLife

    def test_same_rows(self) -> None:
        """What a store was brought over with is in packs from then on: the catalog made again is the same."""
        RowLife.compared = 0
        for seed in range(18000, 18000 + 15 * LIVES):
            Former(seed, history=RowLife).run(80)
        self.assertGreaterEqual(RowLife.compared, 300)

    def test_every_call(self) -> None:
        """A power cut at any call, also while it is brought over, takes nothing that was acknowledged."""
        points = 0
        for seed in range(19000, 19000 + 4 * LIVES):
            sweep = Former(seed, history=self.history, outcomes=2)
            sweep.run(50)
            points += sweep.points
        self.assertGreaterEqual(points, 1_000)

    def test_killed(self) -> None:
        """Nor does a process that is killed at any call, with a power cut later."""
        kills = 0
        for seed in range(20000, 20000 + 3 * LIVES):
            sweep = Former(seed, history=self.history, kills=0.5)
            sweep.run(50)
            kills += sweep.kills
        self.assertGreaterEqual(kills, 150)
