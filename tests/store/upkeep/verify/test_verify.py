"""A sound store has no problems; each kind of damage is found and named, and nothing is changed by looking."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store.directory import read_identity
from streamd.store.disk import Disk
from streamd.store.journal.frame import FILE_HEADER
from streamd.store.packs import pack
from streamd.store.packs.catalog import Catalog
from streamd.store.packs.database import row_sum
from streamd.store.upkeep.problems import Problem, Progress, Severity
from streamd.store.upkeep.verify.check import verify
from tests.rigs.daemon import CHECKOUT
from tests.rigs.store.case import StoreCase
from tests.rigs.store.history import Oracle
from tests.rigs.store.inline import DIRECTORY, JOURNAL, PACKS, SMALL, Compactor
from tests.rigs.store.life import Life
from tests.rigs.store.loaded import LoadedDaemon
from tests.rigs.store.simulated import SimulatedDisk


def errors(problems: list[Problem]) -> list[Problem]:
    """Those that are damage."""
    return [each for each in problems if each.severity is Severity.ERROR]


class SoundTests(SynchronousTestCase):
    def test_life(self) -> None:
        """Whatever a store goes through, it is sound at any moment, as the files are."""
        for seed in range(12):
            disk, oracle = SimulatedDisk(), Oracle()
            life = Life(disk, Random(seed), SMALL, oracle)
            for _ in range(15):
                life.run(6)
                calls = disk.calls
                self.assertEqual(errors(verify(disk, DIRECTORY)), [], f"seed {seed}")
                self.assertEqual(disk.calls, calls, "it changed something")
            life.finish()
            self.assertEqual(errors(verify(disk, DIRECTORY)), [])

    def test_power_cuts(self) -> None:
        """After a power cut too: what is torn is told as a note."""
        for seed in range(30):
            disk, rng = SimulatedDisk(), Random(seed)
            for sync in ("always", "interval"):
                settings = StoreSettings(sync=sync, journal_file_bytes=4096, reserve_bytes=512)
                life = Life(disk, rng, settings, Oracle(durable=sync == "always"))
                life.run(30)
                after = disk.crash(rng)
                self.assertEqual(errors(verify(after, DIRECTORY)), [], f"seed {seed}")
                disk = SimulatedDisk()


class DamageTests(StoreCase):
    """A store with packs, a journal and everything in it."""

    settings = SMALL

    def setUp(self) -> None:
        super().setUp()
        a, b = self.create("a", "b")
        for number in range(40):
            self.append(a, b"%d" % number * 30)
            self.append(b, b"%d" % number, b"")
        self.do(self.store.fan_out, [a, b], self.batch(b"shared" * 50))
        hidden = self.do(self.store.create, "h", hidden=True)
        self.append(hidden, b"hidden" * 10)
        self.do(self.store.publish, [(hidden, a)])
        self.do(self.store.set_group, a, "g", 3)
        while self.store.closed_file < 8:
            self.append(a, b"x" * 300)
        self.compactor = Compactor(self.disk, self.store)
        self.compactor.fold(3)
        self.compactor.fold(6)
        self.assertEqual(errors(verify(self.disk, DIRECTORY)), [])

    @staticmethod
    def batch(*records: bytes) -> Batch:
        return Batch.of(records)

    def found(self, path: str, change: Callable[[bytearray], None]) -> list[Problem]:
        """What is said when a file is changed."""
        disk = self.disk.kill()
        change(disk.content(path))
        return errors(verify(disk, DIRECTORY))

    def flips(self, path: str, positions: range) -> None:
        """Each flipped byte is found, and the file is named."""
        for position in positions:

            def flip(content: bytearray, position: int = position) -> None:
                content[position] ^= 0x10

            found = self.found(path, flip)
            self.assertTrue(found, f"{path} at {position}")
            self.assertIn(path, {each.path for each in found}, f"{path} at {position}")

    def test_pack_bytes(self) -> None:
        """Any byte of a pack."""
        for name in self.disk.list_directory(PACKS):
            path = f"{PACKS}/{name}"
            size = len(self.disk.content(path))
            self.flips(path, range(pack.FILE_HEADER.size))
            self.flips(path, range(pack.FILE_HEADER.size, size, 7))

    def test_journal_bytes(self) -> None:
        """Any byte of a journal file that holds something: its header, frames, entries and their bodies."""
        for path in self.files():
            self.flips(path, range(FILE_HEADER.size))
            for frame in self.frames(path):
                # Zeros up to the next multiple of eight are nobody's.
                end = frame.bodies[-1][0] + frame.headers[-1].length if frame.headers else frame.position + 56
                self.flips(path, range(frame.position, end, 5))

    def test_missing_files(self) -> None:
        """A file that is not there, and one that is too short or too long."""
        for path in [*self.files(), *[f"{PACKS}/{name}" for name in self.disk.list_directory(PACKS)]]:
            disk = self.disk.kill()
            disk.unlink(path)
            self.assertTrue(errors(verify(disk, DIRECTORY)), path)
        for name in self.disk.list_directory(PACKS):
            self.assertTrue(self.found(f"{PACKS}/{name}", lambda content: content.__delitem__(slice(-9, None))))
            self.assertTrue(self.found(f"{PACKS}/{name}", lambda content: content.extend(b"more")))

    def test_identity(self) -> None:
        """A damaged identity is all that can be said."""
        self.assertEqual(len(self.found(f"{DIRECTORY}/identity", lambda content: content.__setitem__(0, 0))), 1)

    def test_strangers(self) -> None:
        """Files that do not belong there are damage where they stop the start, and notes where they do not."""
        disk = self.disk.kill()
        for path in (f"{JOURNAL}/README", f"{PACKS}/README"):
            disk.put(path, b"x")
        notes = [f"{JOURNAL}/{99:020}.journal.tmp", f"{JOURNAL}/{8:020}.journal.512.torn", f"{PACKS}/{77:020}.pack.tmp"]
        for path in notes:
            disk.put(path, b"x")
        found = verify(disk, DIRECTORY)
        self.assertEqual([each.path for each in errors(found)], [f"{PACKS}/README", f"{JOURNAL}/README"])
        self.assertEqual({each.path for each in found if each.severity is Severity.NOTE}, set(notes))

    def test_catalog_rows(self) -> None:
        """What the catalog says of packs, extents and segments is held against the files, also where its sums fit."""
        changes = [
            ("extents", "number = number + 1"),
            ("extents", "offset = offset + 1"),
            ("extents", "count = count + 1"),
            ("extents", "timestamp = 0, last_timestamp = 0"),
            ("extents", "pack = 55"),
            ("extents", "position = position + 8"),
            ("extents", "length = length + 1"),
            ("extents", "block_crc = block_crc + 1"),
            ("packs", "bytes = bytes + 1"),
            ("packs", "live = 0"),
            ("packs", "blocks = blocks + 1"),
            ("segments", "number = number + 1"),
            ("segments", "offset = offset + 1"),
            ("groups", "segment = 12345"),
        ]
        for table, change in changes:
            disk = self.disk.kill()
            store = read_identity(disk, DIRECTORY)
            catalog = Catalog(disk, DIRECTORY, store, writable=True)
            with catalog:
                key = "id" if table == "segments" else "number" if table in ("extents", "packs") else "segment"
                where = f"{key} = (SELECT max({key}) FROM {table})"
                (row,) = catalog._db.execute(f"SELECT * FROM {table} WHERE {where} LIMIT 1").fetchall()
                columns = [each[1] for each in catalog._db.execute(f"PRAGMA table_info({table})")]
                identified = " AND ".join(f"{column} = ?" for column in columns)
                catalog._db.execute(f"UPDATE {table} SET {change} WHERE {identified}", row)
                self.resum(catalog, table)
            self.assertTrue(errors(verify(disk, DIRECTORY)), f"{table}: {change}")

    def resum(self, catalog: Catalog, table: str) -> None:
        """Give rows the checksums that fit them: what is wrong is not a flipped bit, but a wrong program."""
        columns = [each[1] for each in catalog._db.execute(f"PRAGMA table_info({table})")]
        for row in catalog._db.execute(f"SELECT * FROM {table}").fetchall():
            crc = row_sum(table, row[:-1])
            if crc != row[-1]:
                identified = " AND ".join(f"{column} = ?" for column in columns)
                catalog._db.execute(f"UPDATE {table} SET crc = ? WHERE {identified}", (crc, *row))
                if table != "extents":
                    catalog._total += crc - row[-1]

    def test_catalog_bytes(self) -> None:
        """Flipped bytes all over the catalog: found, or in a place that means nothing."""
        path = f"{DIRECTORY}/catalog.sqlite"
        size = len(self.disk.content(path))
        silent = 0
        for position in range(0, size, 97):

            def flip(content: bytearray, position: int = position) -> None:
                content[position] ^= 0x10

            silent += not self.found(path, flip)
        self.assertLess(silent, size // 97)

    def test_progress(self) -> None:
        """It tells how far it is: never backwards, and at the end all is done."""
        told: list[Progress] = []
        for _ in range(6):
            self.append(self.store.find("a"), bytes(300_000))
        verify(self.disk, DIRECTORY, told.append)
        self.assertGreater(len(told), 1)
        self.assertEqual([each.bytes_done for each in told], sorted(each.bytes_done for each in told))
        self.assertEqual(told[-1].bytes_done, told[-1].bytes_total)
        self.assertEqual(told[-1].files_done, told[-1].files_total)

    def test_committed(self) -> None:
        """The last file is missing: only the committed position tells."""
        disk = self.disk.kill()
        disk.unlink(self.files()[-1])
        (problem,) = errors(verify(disk, DIRECTORY))
        self.assertIn("was synced", problem.reason)


class RealTests(SynchronousTestCase):
    """Real files, and the command."""

    def run_command(self, *arguments: str) -> tuple[int, str]:
        ended = subprocess.run(
            [sys.executable, "-m", "streamd.store.upkeep.verify.check", *arguments],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr

    def test_running(self) -> None:
        """Beside a daemon that writes, folds and merges there is nothing wrong; nor after it was killed."""
        with LoadedDaemon(self.mktemp()) as loaded:
            loaded.load()
            for _ in range(6):
                loaded.wait_for_folds(1)
                self.assertEqual(errors(verify(Disk(), loaded.data)), [])
            loaded.daemon.kill()
            self.assertEqual(loaded.join(), [])
            self.assertEqual(errors(verify(Disk(), loaded.data)), [])
            self.assertEqual(self.run_command(loaded.data)[0], 0)
            # A catalog that was closed in order is one file, and looking at it leaves it so.
            Catalog(Disk(), loaded.data, read_identity(Disk(), loaded.data), writable=True).close()
            names = os.listdir(loaded.data)
            self.assertEqual(self.run_command(loaded.data)[0], 0)
            self.assertEqual(os.listdir(loaded.data), names)
            copy = self.mktemp()
            shutil.copytree(loaded.data, copy)
        name = sorted(os.listdir(os.path.join(copy, "packs")))[0]
        with open(os.path.join(copy, "packs", name), "r+b") as file:
            file.seek(3000)
            file.write(b"damage")
        code, said = self.run_command(copy)
        self.assertEqual(code, 1)
        self.assertIn(name, said)
        self.assertIn("do not match their checksum", said)
        self.assertEqual(self.run_command()[0], 2)
        self.assertEqual(self.run_command("/nowhere")[0], 1)
