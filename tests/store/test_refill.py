"""What a lost pack held is taken from journal files that are still there, also from those that are folded.

A compactor that can't tell the daemon, or a crash before files are removed, leaves journal files beside the pack that
they were folded into. Whatever is lost of that pack then, or of the catalog's word on it, nothing of it is given up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from random import Random

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store import StoreUnusable
from streamd.store.disk import Disk
from tests.store.history import Operation, Oracle
from tests.store.inline import JOURNAL, PACKS, SMALL, Compactor, call, open_inline, result_of
from tests.store.life import LIFE_OPERATIONS, Life
from tests.store.model import Contents, contents
from tests.store.simulated import SimulatedDisk
from tests.store.test_crash import TINY
from tests.store.test_repair import KEPT, RepairCase
from tests.store.test_settle import fill

_NEVER: dict[Operation, float] = {Life.fold: 0, Life.merge: 0, Life.look: 0}


class GrowingLife(Life):
    """A life without folds of its own."""

    operations = (
        LIFE_OPERATIONS,
        [_NEVER.get(operation, weight) for operation, weight in zip(*Life.operations, strict=True)],
    )


def lived(seed: int, operations: int, folded: int) -> tuple[SimulatedDisk, Contents, int]:
    """A store whose first half was folded in order; `folded` packs hold the rest, and so do journal files.

    Returns the disk, what the store holds, and the last journal file that is folded.
    """
    disk, rng = SimulatedDisk(), Random(seed)
    settings = StoreSettings(**{**SMALL.__dict__, "journal_file_bytes": 2048})
    life = GrowingLife(disk, rng, settings, Oracle())
    life.run(operations)
    life.compactor.fold()
    for _ in range(folded):
        life.run(operations // folded)
        life.compactor.fold(told=False)
    last = life.store.closed_file
    life.run(10)
    life.finish()
    # In another process: this one would remove files.
    return disk, contents(open_inline(disk.kill(), settings)[0]), last


def _unlink(paths: list[str], disk: SimulatedDisk) -> None:
    for path in paths:
        disk.unlink(path)


class RefillTests(RepairCase):
    """Repairs of what journal files still have."""

    def setUp(self) -> None:
        pass

    def packs(self, disk: SimulatedDisk) -> list[str]:
        """The packs, by their paths."""
        return [f"{PACKS}/{name}" for name in disk.list_directory(PACKS)]

    def check(self, change: Callable[[SimulatedDisk], None], place: str) -> None:
        """Nothing is lost by this damage."""
        steps, store = self.repaired(change, place)
        self.assertEqual(contents(store), self.whole, place)
        self.assertEqual({step.lost for step in steps}, {""}, place)
        self.assertTrue(any("journal files" in step.action for step in steps), place)

    def test_missing(self) -> None:
        """Packs that are gone, whatever life the store had: fan-outs, broadcasts, publications, truncations."""
        for seed in range(25):
            self.disk, self.whole, _ = lived(seed, 60, 1 + seed % 3)
            *_, last = packs = self.packs(self.disk)
            self.check(partial(_unlink, [last]), f"life {seed}, the last pack")
            if len(packs) > 2:
                self.check(partial(_unlink, packs[1:]), f"life {seed}, all packs but the first")

    def test_damaged(self) -> None:
        """Any byte of a pack."""
        self.disk, self.whole, _ = lived(100, 80, 1)
        path = self.packs(self.disk)[-1]
        for position in Random(2).sample(range(64, len(self.disk.content(path))), 40):

            def flip(disk: SimulatedDisk, position: int = position) -> None:
                disk.content(path)[position] ^= 4

            steps, store = self.repaired(flip, f"byte {position}")
            self.assertEqual(contents(store), self.whole, f"byte {position}")
            self.assertLessEqual({step.lost for step in steps}, {""})

    def test_extents(self) -> None:
        """Rows of the catalog are gone, those of records that several segments share too."""
        for seed in range(200, 206):
            self.disk, self.whole, _ = lived(seed, 80, 1)
            for which in ("pack = (SELECT max(number) FROM packs)", "pack IN (0, (SELECT max(number) FROM packs))"):
                steps, store = self.changed(f"DELETE FROM extents WHERE {which}")
                self.assertEqual(contents(store), self.whole, f"life {seed}, {which}")
                self.assertEqual({step.lost for step in steps}, {""})

    def test_some(self) -> None:
        """Only some journal files are left: what they hold is there, and what lies before it is lost, and said."""
        disk = SimulatedDisk()
        store, writer = open_inline(disk, TINY)
        segment = call(writer, store.create, "a")
        first: dict[int, int] = {}
        while store.closed_file < 6:
            number = segment.number
            call(writer, store.append, segment, Batch.of([b"record %d" % number * 10, b"", b"x"]))
            first.setdefault(store.closed_file + 1, number)
        Compactor(disk, store).fold(told=False)
        self.whole = contents(store)
        result_of(store.close())
        self.disk = disk
        files = self.files(JOURNAL)
        for gone in range(1, 6):

            def remove(disk: SimulatedDisk, gone: int = gone) -> None:
                disk.unlink(self.packs(disk)[0])
                for path in files[:gone]:
                    disk.unlink(path)

            steps, store = self.repaired(remove, f"{gone} files are gone")
            self.check_nothing_made_up(store)
            (_, records, *_) = contents(store)["a"]
            self.assertEqual(records[0].number, first[gone + 1])
            self.assertTrue(any(f"records 0 to {first[gone + 1] - 1}" in step.lost for step in steps))

    def test_power(self) -> None:
        """The power goes at any call of such a repair: it can be done again, and nothing is lost."""
        self.disk, self.whole, _ = lived(400, 60, 1)
        last = self.packs(self.disk)[-1]
        self.assertGreater(self.cut(lambda disk: disk.unlink(last), 1), 20)

    def test_gap(self) -> None:
        """A journal file in the middle is gone, or damaged: what comes behind it is there."""
        self.disk, self.whole, last = lived(300, 100, 1)
        packs = self.packs(self.disk)
        for path in self.files(JOURNAL):
            if path > f"{JOURNAL}/{last:020}.journal":
                break

            def remove(disk: SimulatedDisk, path: str = path) -> None:
                disk.unlink(packs[-1])
                disk.unlink(path)

            def flip(disk: SimulatedDisk, path: str = path) -> None:
                disk.unlink(packs[-1])
                content = disk.content(path)
                content[64 + len(content.rstrip(b"\0")) // 3] ^= 1

            for change in (remove, flip):
                steps, store = self.repaired(change, path)
                self.check_nothing_made_up(store, path)
                if any(step.lost for step in steps):
                    # Whatever could not be placed is kept.
                    folded = {name for name in self.disk.list_directory(JOURNAL) if name <= f"{last:020}.journal"}
                    gone = {os.path.basename(path)} if change is remove else set()
                    self.assertLessEqual(folded - gone, set(self.copy.list_directory(f"{KEPT}/journal")))


class FormerTests(RepairCase):
    """A store that an earlier version has left behind: a failed commit came back, and its pack was removed."""

    def setUp(self) -> None:
        pass

    def test_repair(self) -> None:
        """It does not open, and is repaired without any loss."""
        home: str = os.path.abspath(self.mktemp())
        store, writer = open_inline(Disk(), SMALL, directory=home)
        fill(store, writer)
        compactor = Compactor(Disk(), store, home)
        compactor.fold()
        compactor.catalog.close()
        fill(store, writer)
        command = [sys.executable, "-m", "tests.store.failing", home, "fold", str(store.closed_file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cp", "-a", home, f"{home}.crashed"], check=True)
        self.whole = contents(store)
        result_of(store.close())
        home += ".crashed"
        os.unlink(f"{home}/catalog.sqlite-shm")
        os.unlink(f"{home}/packs/{2:020}.pack")
        error = self.assertRaises(StoreUnusable, open_inline, Disk(), SMALL, directory=home)
        self.assertIn("the file is missing", str(error))
        steps, store = self.repair(Disk(), home)
        self.assertEqual({step.lost for step in steps}, {""})
        self.assertEqual(contents(store), self.whole)
