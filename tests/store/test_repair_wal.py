"""Damage in the catalog's WAL: a repair says that it can't mend it, and touches nothing; or there is nothing to mend.

SQLite takes a WAL up to the first frame whose checksum is wrong, and what stands behind it is gone. Where the store
goes on from what is left, that was the end of a commit that nobody was told of. Where it does not, nobody can tell what
is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.store import StoreUnusable
from streamd.store.disk import Disk
from streamd.store.upkeep.problems import Severity
from streamd.store.upkeep.repair.run import Repair
from streamd.store.upkeep.verify.check import verify
from tests.store.inline import SMALL, Compactor, open_inline, result_of
from tests.store.model import Contents, contents
from tests.store.test_settle import fill


def everything(home: str) -> dict[str, bytes]:
    """Every file of a directory."""
    found = {}
    for folder, _, names in os.walk(home):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)] = file.read()
    return found


def is_sound(home: str) -> bool:
    """Whether nothing is damaged."""
    return not any(problem.severity is Severity.ERROR for problem in verify(Disk(), home))


class WalTests(SynchronousTestCase):
    """A daemon was killed: the newest part of its catalog is in the WAL alone."""

    def setUp(self) -> None:
        self.home: str = os.path.abspath(self.mktemp())
        store, writer = open_inline(Disk(), SMALL, directory=self.home)
        for round_ in range(4):
            fill(store, writer)
            compactor = Compactor(Disk(), store, self.home)
            compactor.fold()
            if round_ == 2:
                compactor.merge(compactor.packs())
            compactor.catalog.close()
        subprocess.run(["cp", "-a", self.home, f"{self.home}.killed"], check=True)
        self.whole: Contents = contents(store)
        result_of(store.close())
        self.home += ".killed"
        with open(f"{self.home}/catalog.sqlite-wal", "rb") as file:
            self.wal = file.read()

    def damaged(self, wal: bytes, *, with_index: bool) -> str:
        """A copy of the store with this WAL."""
        home = f"{self.home}.{len(os.listdir(os.path.dirname(self.home)))}"
        subprocess.run(["cp", "-a", self.home, home], check=True)
        with open(f"{home}/catalog.sqlite-wal", "wb") as file:
            file.write(wal)
        if not with_index:
            os.unlink(f"{home}/catalog.sqlite-shm")
        return home

    def check_unchanged(self, home: str, before: dict[str, bytes], place: str) -> None:
        """Every file is there, and none other, with the same bytes."""
        after = everything(home)
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        self.assertEqual(changed, set(), place)

    def refuses(self, home: str, place: str) -> bool:
        """Whether a repair can't be done, which it says each time, with everything as it was."""
        before = everything(home)
        for _ in range(2):
            with Repair(Disk(), home) as repair:
                try:
                    steps = repair.examine()
                    error = None
                except StoreUnusable as refused:
                    error = refused
            self.check_unchanged(home, before, place)
            if error is None:
                self.assertEqual([str(step) for step in steps], [], place)
                self.assertTrue(is_sound(home), place)
                return False
            self.assertIn("catalog.sqlite-wal", str(error), place)
            self.assertIn("can't be repaired", str(error), place)
            self.assertIn("Restore a backup", str(error), place)
        return True

    def test_flips(self) -> None:
        """A flipped bit anywhere."""
        rng, refused = Random(8), 0
        positions = [*range(0, 32, 3), *range(32, 56, 3), *rng.sample(range(len(self.wal)), 40), len(self.wal) - 1]
        for at, position in enumerate(positions):
            changed = bytearray(self.wal)
            changed[position] ^= 1 << rng.randrange(8)
            home = self.damaged(bytes(changed), with_index=at % 2 == 0)
            place = f"byte {position}"
            if self.refuses(home, place):
                refused += 1
                before = everything(home)
                self.assertRaises(StoreUnusable, open_inline, Disk(), SMALL, directory=home)
                # What a start changed could not be told by a later repair.
                self.check_unchanged(home, before, place)
            else:
                store, _ = open_inline(Disk(), SMALL, directory=home)
                self.assertEqual(contents(store), self.whole, place)
                result_of(store.close())
        self.assertGreater(refused, 30)

    def test_torn(self) -> None:
        """A commit that was cut off is no damage: whatever else is damaged is repaired."""
        fold = [sys.executable, "-m", "tests.store.failing", self.home, "merge"]
        subprocess.run(fold, check=True, stdout=subprocess.DEVNULL)
        with open(f"{self.home}/catalog.sqlite-wal", "rb") as file:
            wal = file.read()
        for end in (len(self.wal) + 20, (len(self.wal) + len(wal)) // 2, len(wal) - 100):
            home = self.damaged(wal[:end], with_index=False)
            self.assertTrue(is_sound(home), f"cut at {end}")
            pack = f"{home}/packs/{min(os.listdir(f'{home}/packs'))}"
            with open(pack, "r+b") as file:
                file.seek(os.path.getsize(pack) // 2)
                file.write(b"\xff\x00\xff\x00")
            with Repair(Disk(), home) as repair:
                self.assertTrue(repair.examine(), f"cut at {end}")
                repair.apply("now")
            self.assertTrue(is_sound(home), f"cut at {end}")

    def test_cut(self) -> None:
        """The WAL ends anywhere."""
        for end in (31, 32, 40, 5000, len(self.wal) // 2, len(self.wal) - 4000):
            home = self.damaged(self.wal[:end], with_index=False)
            self.refuses(home, f"cut at {end}")
