"""The catalog of a store of an earlier format, which alone knows what is in packs: a commit of it stays, or was never.

From the moment on at which such a store is brought over, its packs tell it, and the catalog is an index like any other.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.store import StoreUnusable
from streamd.store.directory import read_identity
from streamd.store.disk import Disk
from streamd.store.packs.catalog import CatalogFull
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.opening import open_packs
from tests.rigs.store.case import StoreCase
from tests.rigs.store.filled import fill
from tests.rigs.store.former import make_former
from tests.rigs.store.inline import DIRECTORY, JOURNAL, PACKS, SMALL, Compactor, open_inline, result_of
from tests.rigs.store.model import contents
from tests.store.golden.make import HERE, SETTINGS, describe


class RealTests(SynchronousTestCase):
    """With the real SQLite."""

    def test_put_back(self) -> None:
        """The power goes while the WAL is written over itself: the copy beside it takes its place."""
        home: str = os.path.abspath(self.mktemp())
        shutil.copytree(os.path.join(HERE, "v2", "store"), home)
        with closing(sqlite3.connect(f"{home}/catalog.sqlite")) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("VACUUM")
            shutil.copytree(home, f"{home}.cut")
        home += ".cut"
        shutil.copy(f"{home}/catalog.sqlite-wal", f"{home}/catalog.sqlite-wal.copy")
        os.truncate(f"{home}/catalog.sqlite", 4096)
        with open(f"{home}/catalog.sqlite-wal", "r+b") as file:
            file.seek(4096)
            file.write(Random(1).randbytes(512))
        store, _ = open_inline(Disk(), SETTINGS, directory=home)
        with open(os.path.join(HERE, "v2", "expected.json"), encoding="utf-8") as file:
            self.assertEqual(describe(store), json.load(file))
        result_of(store.close())
        self.assertNotIn("catalog.sqlite-wal.copy", os.listdir(home))


class SimulatedTests(StoreCase):
    """A catalog that can't be committed, or not be settled."""

    settings = SMALL

    def setUp(self) -> None:
        super().setUp()
        fill(self.store, self.writer)
        Compactor(self.disk, self.store).fold()
        fill(self.store, self.writer)
        Compactor(self.disk, self.store).fold(told=False)
        self.expected = contents(self.store)
        self.disk = self.disk.kill()
        make_former(self.disk)
        self.disk.commits_per_checkpoint = 4
        # One commit, so that there is a WAL to be settled.
        self.open()
        self.disk.database(f"{DIRECTORY}/catalog.sqlite", writable=True).commit()

    def test_start(self) -> None:
        """A start on a full disk serves everything, and removes nothing; the next one with room cleans up."""
        self.disk = self.disk.kill()
        self.disk.put(f"{PACKS}/{99:020}.pack.tmp", b"left by a compactor that died")
        before = {path: self.disk.list_directory(path) for path in (JOURNAL, PACKS)}
        for is_full in (True, False):
            self.disk = self.disk.kill()
            self.disk.commits_that_fail = ["full"] if is_full else []
            self.open()
            self.assertEqual(contents(self.store), self.expected)
            after = {path: self.disk.list_directory(path) for path in (JOURNAL, PACKS)}
            self.assertEqual(after[PACKS], before[PACKS] if is_full else before[PACKS][:-1])

    def test_not_synced(self) -> None:
        """Where the sync fails too, the start is refused: nobody knows what is on the medium."""
        self.disk = self.disk.kill()
        self.disk.commits_that_fail = ["kept"]
        self.assertRaises(StoreUnusable, self.open)

    def test_compactor(self) -> None:
        """A compactor on a full disk fails, and says that there is no room."""
        self.disk.commits_that_fail = ["full"]
        store = read_identity(self.disk, DIRECTORY)
        error = self.assertRaises(CatalogFull, open_packs, self.disk, DIRECTORY, store, is_alone=False)
        self.assertIn("Free some room", str(error))

    def test_brought_over(self) -> None:
        """Its first act brings the store over: nothing is written again, and the catalog may go from then on."""
        before = self.disk.list_directory(PACKS)
        Compactor(self.disk, self.store)
        (made,) = set(self.disk.list_directory(PACKS)) - set(before)
        packs = PackSet(self.disk, PACKS, read_identity(self.disk, DIRECTORY)).read()
        self.assertEqual(len(packs.adopted), len(before))
        self.assertEqual(packs.footers[int(made[:20])].blocks, 0)
        self.disk = self.disk.kill()
        for name in [each for each in self.disk.list_directory(DIRECTORY) if each.startswith("catalog")]:
            self.disk.unlink(f"{DIRECTORY}/{name}")
        self.open()
        self.assertEqual(contents(self.store), self.expected)
        compactor = Compactor(self.disk, self.store)
        compactor.fold()
        compactor.merge(compactor.packs())
        self.assertEqual(len(self.disk.list_directory(PACKS)), 1)
        self.assertEqual(contents(self.store), self.expected)


class FailedTests(StoreCase):
    """A commit of the catalog that fails, in a store of today."""

    settings = SMALL

    def test_failed(self) -> None:
        """It says nothing more; the pack counts all the same, and the next one to open the catalog brings it up."""
        fill(self.store, self.writer)
        for fate in ("lost", "kept", "full"):
            compactor = Compactor(self.disk, self.store)
            compactor.fold()
            packs = compactor.packs()
            self.disk.commits_that_fail = [fate]
            self.assertRaises(sqlite3.OperationalError, compactor.folder.merge, packs)
            for question in (lambda catalog: catalog.covered, lambda catalog: catalog.packs()):
                error = self.assertRaises(StoreUnusable, question, compactor.catalog)
                self.assertIn("opened again", str(error))
            compactor = Compactor(self.disk, self.store)
            self.assertNotEqual(compactor.packs(), packs)
            self.assertEqual(compactor.folder.leftovers(), packs)
            compactor.begin()
            fill(self.store, self.writer)

    def test_undone(self) -> None:
        """What is done inside ``with`` and raises leaves the catalog as it was, and in use."""
        catalog = Compactor(self.disk, self.store).catalog
        covered = catalog.covered

        def fail() -> None:
            with catalog:
                catalog.set_covered(5, 5, 5)
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, fail)
        self.assertEqual(catalog.covered, covered)
