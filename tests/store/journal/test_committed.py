"""The committed position: never ahead of the medium, never a false alarm, and what it is there to notice."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store import StoreCorrupt
from streamd.store.directory import read_identity
from streamd.store.disk import Disk
from streamd.store.journal.committed import SIZE, Position, begin_committed, read_committed
from tests.rigs.store.case import StoreCase
from tests.rigs.store.history import Oracle
from tests.rigs.store.inline import DIRECTORY, JOURNAL, SMALL, Compactor, call, open_inline
from tests.rigs.store.life import Life
from tests.rigs.store.model import contents
from tests.rigs.store.simulated import PowerCut, SimulatedDisk

PATH = f"{DIRECTORY}/committed"
STORE = bytes(range(16))


def position_on(disk: SimulatedDisk) -> Position | None:
    """What the file on this disk says."""
    return read_committed(disk, DIRECTORY, read_identity(disk, DIRECTORY))


class FollowTests(StoreCase):
    def position(self) -> Position:
        found = position_on(self.disk)
        assert found is not None
        return found

    def test_always(self) -> None:
        """Behind each commit both numbers are where the journal is, and not a moment earlier."""
        (segment,) = self.create("a")
        seen: list[tuple[str, int, int]] = []

        def look(name: str, after: bool) -> None:
            seen.append((name, self.position().committed, self.position().synced))

        for _ in range(3):
            before = self.writer.journal.sequence
            self.assertEqual(self.position()[1:], (before, before))
            self.disk.observer = look
            self.append(segment, b"x")
            self.disk.observer = None
            self.assertEqual(set(seen), {("write", before, before), ("sync", before, before)})
            self.assertEqual(self.position()[1:], (before + 1, before + 1))
            seen.clear()

    def test_other_modes(self) -> None:
        """What is written counts as committed; as synced only when it is."""
        for sync in ("interval", "never"):
            self.settings = replace(StoreCase.settings, sync=sync)
            self.disk = SimulatedDisk()
            self.open()
            start = self.writer.journal.sequence
            (segment,) = self.create("a")
            self.append(segment, b"x")
            self.assertEqual(self.position()[1:], (start + 2, start))
            self.writer.journal.sync()
            self.assertEqual(self.position()[1:], (start + 2, start + 2))

    def test_run(self) -> None:
        """Each start is another run, in another file: who has the old one mapped does not see new numbers there."""
        old = self.disk.map(PATH, SIZE, writable=False)
        before = bytes(old)
        first = self.position()
        self.reopen()
        second = self.position()
        self.assertNotEqual(first.run, second.run)
        self.assertEqual(first[1:], second[1:])
        self.create("a")
        self.assertEqual(bytes(old), before)

    def test_closed(self) -> None:
        """A daemon that stopped in order leaves the position of its last commit."""
        self.create("a")
        sequence = self.writer.journal.sequence
        self.close()
        self.assertEqual(self.position()[1:], (sequence, sequence))

    def test_full_disk(self) -> None:
        """Without room for it the store opens all the same, and no file of an old run is left to mislead anybody."""
        self.create("a")
        disk = self.disk.kill()
        disk.capacity_bytes = disk.used_bytes() - len(disk.content(self.files()[-1])) + 1000
        store, _ = open_inline(disk, self.settings)
        self.assertEqual(store.names(), ["a"])
        # Either there was room for 64 bytes, or there is none.
        position = position_on(disk)
        self.assertIn(None if position is None else position.committed, (None, self.writer.journal.sequence))
        committed = begin_committed(self.full(), DIRECTORY, STORE, 7)
        committed.set_committed(8)
        committed.set_synced(8)
        committed.close()

    def full(self) -> SimulatedDisk:
        disk = self.disk.kill()
        disk.capacity_bytes = 0
        return disk


class MissingTests(StoreCase):
    """What is acknowledged and gone is noticed."""

    settings = SMALL

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("a")
        while len(self.files()) < 4:
            self.append(self.segment, b"x" * 100)

    def refused(self, disk: SimulatedDisk, *words: str) -> None:
        names = disk.list_directory(JOURNAL)
        contents_before = {name: bytes(disk.content(f"{JOURNAL}/{name}")) for name in names}
        error = self.assertRaises(StoreCorrupt, open_inline, disk, self.settings)
        for word in words:
            self.assertIn(word, str(error))
        self.assertEqual(disk.list_directory(JOURNAL), names)
        for name, content in contents_before.items():
            self.assertEqual(bytes(disk.content(f"{JOURNAL}/{name}")), content)

    def test_last_file(self) -> None:
        """The last file, or the last ones, or all of them, were deleted: refused, and nothing is touched."""
        for count in (1, 2, 4):
            disk = self.disk.kill()
            for path in self.files()[-count:]:
                disk.unlink(path)
            self.refused(disk, "was synced", "'committed'")

    def test_all_folded(self) -> None:
        """The same where everything before it is in packs."""
        Compactor(self.disk, self.store).fold()
        disk = self.disk.kill()
        for path in self.files():
            disk.unlink(path)
        self.refused(disk, f"{self.store.closed_file + 1:020}.journal", "was synced")

    def test_last_commit(self) -> None:
        """A last commit that was acknowledged and is damaged is no torn tail."""
        last = self.frames()[-1]
        for position in range(last.position, last.bodies[-1][0] + last.headers[-1].length, 3):
            disk = self.disk.kill()
            disk.content(self.files()[-1])[position] ^= 1
            self.refused(disk, self.files()[-1])

    def test_without(self) -> None:
        """A file that is missing, cut, of another store or damaged anywhere tells nothing, and is made anew."""
        expected = contents(self.store)
        for position in range(SIZE):
            disk = self.disk.kill()
            disk.content(PATH)[position] ^= 0x40
            self.assertEqual(contents(open_inline(disk, self.settings)[0]), expected)
        other = SimulatedDisk()
        open_inline(other, self.settings)
        for content in (None, b"", bytes(SIZE), bytes(self.disk.content(PATH))[:40], bytes(other.content(PATH))):
            disk = self.disk.kill()
            disk.unlink(PATH)
            if content is not None:
                disk.put(PATH, content)
            self.assertEqual(contents(open_inline(disk, self.settings)[0]), expected)
            found = position_on(disk)
            assert found is not None
            self.assertEqual(found.committed, self.writer.journal.sequence)


class PowerTests(SynchronousTestCase):
    """It is never ahead of the medium, so it is never a false alarm."""

    def test_cut_anywhere(self) -> None:
        """Wherever the power goes, in each sync mode: the store opens, and what the file says is synced is there."""
        points = 0
        for seed in range(6):
            for sync in ("always", "interval", "never"):
                settings = replace(SMALL, sync=sync)
                calls = self.live(SimulatedDisk(), seed, settings).calls
                for cut in range(3, calls, 3):
                    disk = SimulatedDisk()
                    disk.cut_power_at(cut, after=bool(cut % 2))
                    self.live(disk, seed, settings)
                    self.reopen(disk, Random(cut), settings)
                    points += 1
        self.assertGreater(points, 300)

    def live(self, disk: SimulatedDisk, seed: int, settings: StoreSettings) -> SimulatedDisk:
        try:
            life = Life(disk, Random(seed), settings, Oracle(durable=settings.sync == "always"))
            life.run(40)
            life.finish()
        except PowerCut:
            pass
        return disk

    def reopen(self, disk: SimulatedDisk, rng: Random, settings: StoreSettings) -> None:
        for _ in range(3):
            after = disk.crash(rng)
            said = position_on(after) if "identity" in self.names(after) else None
            store, writer = open_inline(after, settings)
            if said is not None:
                self.assertLessEqual(said.synced, writer.journal.sequence)
            found = position_on(after)
            assert found is not None
            self.assertEqual(found[1:], (writer.journal.sequence, writer.journal.sequence))
            call(writer, store.create, "after")

    def names(self, disk: SimulatedDisk) -> list[str]:
        try:
            return disk.list_directory(DIRECTORY)
        except OSError:
            return []


class RealTests(SynchronousTestCase):
    def test_mapped(self) -> None:
        """On a real disk others see each number as soon as it is stored, through a mapping and through a read."""
        directory = self.mktemp()
        os.mkdir(directory)
        committed = begin_committed(Disk(), directory, STORE, 5)
        found = read_committed(Disk(), directory, STORE)
        assert found is not None
        self.assertEqual(found[1:], (5, 5))
        for sequence in (6, 7, 1 << 40):
            committed.set_committed(sequence)
            committed.set_synced(sequence - 1)
            self.assertEqual(read_committed(Disk(), directory, STORE), Position(found.run, sequence, sequence - 1))
            with open(os.path.join(directory, "committed"), "rb") as file:
                content = file.read()
            self.assertEqual(len(content), SIZE)
            self.assertEqual(content[40:48], sequence.to_bytes(8, "little"))
        committed.close()
        self.assertIsNone(read_committed(Disk(), directory, bytes(16)))
        self.assertEqual(os.listdir(directory), ["committed"])

    def test_store(self) -> None:
        """A store on a real disk has it."""
        directory = self.mktemp()
        store, writer = open_inline(Disk(), SMALL, directory=directory)
        call(writer, store.append, call(writer, store.create, "a"), Batch.of([b"x"]))
        found = read_committed(Disk(), directory, read_identity(Disk(), directory))
        assert found is not None
        self.assertEqual(found.committed, writer.journal.sequence)
        store.close()
