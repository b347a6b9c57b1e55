"""A commit of the catalog that fails at its sync never comes back after a crash, and takes no file with it.

The compactor here is a process of its own whose fdatasync of the catalog's WAL fails, with the real SQLite; what a
crash leaves is a copy of the files without the one that lives in memory alone.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store import Level, Store, StoreUnusable
from streamd.store.directory import read_identity
from streamd.store.disk import Disk
from streamd.store.packs.catalog import Catalog, CatalogFull
from tests.store.case import StoreCase
from tests.store.inline import DIRECTORY, JOURNAL, PACKS, SMALL, Compactor, InlineWriter, call, open_inline, result_of
from tests.store.model import contents


def fill(store: Store, writer: InlineWriter) -> None:
    """Write some of everything that a fold has to do with, into several journal files."""
    names = ("a", "b", "faststream/1", "faststream/2")
    a, b, one, two = [store.find_claimed(name) or call(writer, store.create, name) for name in names]
    hidden = call(writer, store.create, "h", hidden=True)
    for number in range(8):
        call(writer, store.append, a, Batch.of([b"a%d" % number * 150, b""]))
        call(writer, store.append, hidden, Batch.of([b"hidden %d" % number]))
        call(writer, store.fan_out, [a, one, hidden], Batch.of([b"fan %d" % number * 20]))
        call(writer, store.broadcast, Batch.of([b"all %d" % number]), without=[two] if number % 3 else [])
    call(writer, store.publish, [(hidden, b)], [Level(b, hidden.id.to_bytes(16, "big"), 0, 5)])


class RealTests(SynchronousTestCase):
    """A store on a real disk, open in this process as the daemon has it."""

    def setUp(self) -> None:
        self.home: str = os.path.abspath(self.mktemp())
        self.store, self.writer = open_inline(Disk(), SMALL, directory=self.home)
        self.addCleanup(lambda: result_of(self.store.close()))
        self.copies = 0
        fill(self.store, self.writer)
        # The WAL is in use: it is not its header whose sync fails.
        self.compact()
        fill(self.store, self.writer)

    def run_process(self, module: str, *arguments: str) -> str:
        """Run another process to its end."""
        command = [sys.executable, "-m", module, self.home, *arguments]
        ended = subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=True)
        return ended.stdout

    def compact(self, *, merge: bool = False) -> None:
        """Fold all that is complete, or merge all packs, and let the store know."""
        compactor = Compactor(Disk(), self.store, self.home)
        if merge:
            compactor.merge(compactor.packs())
        else:
            compactor.fold()
        compactor.catalog.close()

    def crash(self) -> None:
        """What is on the disk now is a store with all that was acknowledged."""
        self.copies += 1
        copy = f"{self.home}.{self.copies}"
        # By another process: who closes a file here that SQLite has open takes its locks away.
        subprocess.run(["cp", "-a", self.home, copy], check=True)
        os.unlink(f"{copy}/catalog.sqlite-shm")
        again, _ = open_inline(Disk(), SMALL, directory=copy)
        self.assertEqual(contents(again), contents(self.store), f"copy {self.copies}")
        result_of(again.close())

    def go_on(self, *failing: str) -> None:
        """A compactor fails; the next one begins, folds and merges: a crash between any two of these is harmless."""
        self.assertEqual(self.run_process("tests.store.failing", *failing), "disk I/O error\n")
        self.assertEqual(len(os.listdir(f"{self.home}/packs")), 2, "the new one is there, and not in the catalog")
        self.crash()
        self.assertEqual(self.run_process("streamd.store.packs.compactor"), "")
        self.assertEqual(len(os.listdir(f"{self.home}/packs")), 1)
        self.crash()
        self.compact()
        self.crash()
        self.compact(merge=True)
        self.crash()

    def test_fold(self) -> None:
        """The commit of a fold fails."""
        self.go_on("fold", str(self.store.closed_file))

    def test_merge(self) -> None:
        """The commit of a merge fails."""
        self.go_on("merge")

    def test_again_and_again(self) -> None:
        """Several fail, one after the other."""
        for _ in range(3):
            self.run_process("tests.store.failing", "fold", str(self.store.closed_file))
            self.crash()
            self.run_process("tests.store.failing", "merge")
            self.crash()
        self.go_on("fold", str(self.store.closed_file))

    def test_put_back(self) -> None:
        """The power goes while the WAL is written over itself: the copy beside it takes its place."""
        copy = f"{self.home}.cut"
        subprocess.run(["cp", "-a", self.home, copy], check=True)
        os.unlink(f"{copy}/catalog.sqlite-shm")
        with open(f"{copy}/catalog.sqlite-wal", "r+b") as file:
            whole = file.read()
            with open(f"{copy}/catalog.sqlite-wal.copy", "wb") as beside:
                beside.write(whole)
            file.seek(4096)
            file.write(Random(1).randbytes(512))
        again, _ = open_inline(Disk(), SMALL, directory=copy)
        self.assertEqual(contents(again), contents(self.store))
        result_of(again.close())
        self.assertNotIn("catalog.sqlite-wal.copy", os.listdir(copy))


class SimulatedTests(StoreCase):
    """A catalog that can't be committed, or not be settled."""

    settings = SMALL

    def setUp(self) -> None:
        super().setUp()
        self.disk.commits_per_checkpoint = 4
        fill(self.store, self.writer)
        Compactor(self.disk, self.store).fold(told=False)

    def test_start(self) -> None:
        """A start on a full disk serves everything, and removes nothing; the next one with room cleans up."""
        self.disk.put(f"{PACKS}/{99:020}.pack", b"left by a compactor that died")
        expected = contents(self.store)
        before = {path: self.disk.list_directory(path) for path in (JOURNAL, PACKS)}
        for is_full in (True, False):
            self.disk = self.disk.kill()
            self.disk.commits_that_fail = ["full"] if is_full else []
            self.open()
            self.assertEqual(contents(self.store), expected)
            after = {path: self.disk.list_directory(path) for path in (JOURNAL, PACKS)}
            if is_full:
                self.assertEqual(after[PACKS], before[PACKS])
                self.assertLessEqual(set(before[JOURNAL][:-1]), set(after[JOURNAL]))
            else:
                self.assertEqual(len(after[PACKS]), 1)
                self.assertLess(len(after[JOURNAL]), 3)

    def test_failed(self) -> None:
        """A catalog whose commit failed says nothing more, since nobody knows what is true; a new one does."""
        for fate in ("lost", "kept", "full"):
            compactor = Compactor(self.disk, self.store)
            covered, packs = compactor.catalog.covered, compactor.packs()
            self.disk.commits_that_fail = [fate]
            self.assertRaises(sqlite3.OperationalError, compactor.folder.merge, packs)
            for question in (lambda catalog: catalog.covered, lambda catalog: catalog.packs()):
                error = self.assertRaises(StoreUnusable, question, compactor.catalog)
                self.assertIn("opened again", str(error))
            self.assertRaises(StoreUnusable, compactor.folder.leftovers)
            self.assertRaises(StoreUnusable, compactor.fold)
            compactor = Compactor(self.disk, self.store)
            self.assertEqual((compactor.catalog.covered, compactor.packs()), (covered, packs))

    def test_undone(self) -> None:
        """What is done inside ``with`` and raises leaves the catalog as it was, and in use."""
        catalog = Compactor(self.disk, self.store).catalog
        covered = catalog.covered

        def fail() -> None:
            with catalog:
                catalog.set_covered(1, 0, 0)
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, fail)
        self.assertEqual(catalog.covered, covered)

    def test_compactor(self) -> None:
        """A compactor on a full disk fails, and says that there is no room."""
        self.disk.commits_that_fail = ["full"]
        store = read_identity(self.disk, DIRECTORY)
        error = self.assertRaises(CatalogFull, Catalog, self.disk, DIRECTORY, store, writable=True)
        self.assertIn("Free some room", str(error))

    def test_not_synced(self) -> None:
        """Where the sync fails too, the start is refused: nobody knows what is on the medium."""
        self.disk = self.disk.kill()
        self.disk.commits_that_fail = ["kept"]
        self.assertRaises(StoreUnusable, self.open)
