"""Opening a store whose files are not as they were: what is torn is cut, what is damaged is refused."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from streamd.batch import Batch
from streamd.store import (
    ReadFailed,
    StoreCorrupt,
    StoreUnusable,
)
from streamd.store.journal.frame import FILE_HEADER, FRAME_HEADER
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import DIRECTORY, JOURNAL, SMALL, open_inline, read_all, result_of
from tests.rigs.store.model import contents
from tests.rigs.store.simulated import SimulatedDisk


class RecoveryCase(StoreCase):
    """A store with a few commits in its last file, not closed."""

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("a")
        for number in range(5):
            self.append(self.segment, b"record %d" % number)
        self.path = self.files()[-1]

    def found(self, disk: SimulatedDisk) -> list[bytes]:
        """The records after opening the store on another disk."""
        store, _ = open_inline(disk, self.settings)
        segment = store.find("a")
        return [bytes(record) for run in read_all(store, segment) for record in run.batch.records()]

    def refused(self, disk: SimulatedDisk, error: type[StoreUnusable] = StoreUnusable) -> str:
        """What is said when the store on another disk is refused; and that this changed no journal file."""
        names = disk.list_directory(JOURNAL)
        raised = self.assertRaises(error, open_inline, disk, self.settings)
        self.assertEqual(disk.list_directory(JOURNAL), names)
        # It gives the directory back: who repairs the store can lock it.
        lock = disk.lock(f"{DIRECTORY}/lock")
        assert lock is not None
        lock.close()
        return str(raised)


EXPECTED = [b"record %d" % number for number in range(5)]


class TornTests(RecoveryCase):
    """A tail that nobody was told of is cut off and kept beside the journal."""

    def found(self, disk: SimulatedDisk) -> list[bytes]:
        # The file that says how far the writer came was not on the medium when the power went: nothing speaks for
        # the last commit.
        if "committed" in disk.list_directory(DIRECTORY):
            disk.unlink(f"{DIRECTORY}/committed")
        return super().found(disk)

    def test_cut_anywhere(self) -> None:
        """A file that ends anywhere behind what is known to be synced opens with the commits before that place."""
        frames = self.frames()
        for cut in range(frames[-1].position, frames[-1].position + frames[-1].length + 1):
            disk = self.disk.kill()
            del disk.content(self.path)[cut:]
            whole = cut == frames[-1].position + frames[-1].length
            self.assertEqual(self.found(disk), EXPECTED[: 5 if whole else 4])

    def test_every_byte(self) -> None:
        """A wrong byte anywhere in the last commit, which no frame says is synced, is a torn tail; or it is padding."""
        last = self.frames()[-1]
        body = last.position + last.length - len(b"record 4") - 4
        for position in range(last.position, last.position + last.length):
            disk = self.disk.kill()
            disk.content(self.path)[position] ^= 0x40
            found = self.found(disk)
            self.assertIn(found, (EXPECTED[:4], EXPECTED) if position >= body else (EXPECTED[:4],))
            kept = [name for name in disk.list_directory(JOURNAL) if name.endswith(".torn")]
            self.assertEqual(len(kept), len(EXPECTED) - len(found))

    def test_kept(self) -> None:
        """What is cut off is kept, up to the limit, and does not trouble the next start."""
        last = self.frames()[-1]
        for limit in (1 << 20, 50, 0):
            self.settings = replace(self.settings, torn_bytes_max=limit)
            disk = self.disk.kill()
            content = disk.content(self.path)
            content[last.position + 9] ^= 1
            torn = bytes(content[last.position : last.position + last.length]).rstrip(b"\0")
            self.assertEqual(self.found(disk), EXPECTED[:4])
            kept = [name for name in disk.list_directory(JOURNAL) if name.endswith(".torn")]
            self.assertEqual(
                [bytes(disk.content(f"{JOURNAL}/{name}")) for name in kept],
                [torn[:limit].rstrip(b"\0")] if limit else [],
            )
            for _ in range(3):
                disk = disk.kill()
                self.assertEqual(self.found(disk), EXPECTED[:4])

    def test_behind_a_hole(self) -> None:
        """Whole frames behind a hole are cut as well, as long as none says that the hole was synced."""
        for sync in ("interval", "never"):
            self.settings = replace(self.settings, sync=sync)
            self.disk = SimulatedDisk()
            self.open()
            (segment,) = self.create("a")
            for record in EXPECTED:
                self.append(segment, record)
            path = self.files()[-1]
            for hole, frame in enumerate(self.frames()[1:]):
                for content in (bytes(frame.length), b"\xff" * frame.length, bytes(FRAME_HEADER.size)):
                    disk = self.disk.kill()
                    disk.content(path)[frame.position : frame.position + len(content)] = content
                    self.assertEqual(self.found(disk), EXPECTED[:hole])
                    # And it stays so, though the same sequence numbers are used again.
                    store, writer = open_inline(disk.kill(), self.settings)
                    answer = store.append(store.find("a"), Batch.of([b"next"]))
                    writer.run()
                    self.assertEqual(self.successResultOf(answer).number, hole)

    def test_many_behind_a_hole(self) -> None:
        """However many frames stand behind a hole, the file is read a few times, not once for each of them."""
        self.settings = replace(self.settings, sync="never", journal_file_bytes=8 << 20)
        self.disk = SimulatedDisk()
        self.open()
        (segment,) = self.create("a")
        for _ in range(3000):
            self.append(segment, b"x" * 10)
        path = self.files()[-1]
        first = self.frames()[1]
        disk = self.disk.kill()
        disk.content(path)[first.position + 10] ^= 1
        self.assertEqual(self.found(disk), [])
        self.assertLess(disk.read_bytes, 10 * 8 << 20)

    def test_whole_torn_commit_of_many_sectors(self) -> None:
        """A large commit that lost any one of its sectors is gone as a whole."""
        self.store.append(self.segment, Batch.of([bytes([number]) * 700 for number in range(20)]))
        self.writer.step()
        last = self.frames()[-1]
        for position in range(last.position, last.position + last.length, 512):
            disk = self.disk.kill()
            content = disk.content(self.path)
            end = min(position + 512, last.position + last.length)
            if any(content[position:end]):
                content[position:end] = bytes(end - position)
                self.assertEqual(self.found(disk), EXPECTED)


class DamageTests(RecoveryCase):
    """What was synced and is damaged is never cut in silence."""

    def test_below_the_synced_position(self) -> None:
        """A wrong byte below the position that a later frame says is synced is refused, with file and position."""
        frames = self.frames()
        for frame in frames[:-1]:
            for position in range(frame.position, frame.position + frame.length):
                disk = self.disk.kill()
                disk.content(self.path)[position] ^= 1
                try:
                    self.assertEqual(self.found(disk), EXPECTED)
                    # Only the zeros that fill a frame up are covered by nothing.
                    self.assertGreater(position, frame.position + frame.length - 8)
                except StoreCorrupt as error:
                    self.assertEqual((error.path, error.position), (self.path, frame.position))
                    self.assertIn(f"{self.path}: damaged at byte {frame.position}", str(error))

    def test_cut_below_the_synced_position(self) -> None:
        """A hole of zeros, or of other bytes, is damage where a frame behind it says that it was synced."""
        for frame in self.frames()[:-1]:
            for filler in (b"\0", b"\xaa"):
                disk = self.disk.kill()
                disk.content(self.path)[frame.position : frame.position + frame.length] = filler * frame.length
                self.refused(disk, StoreCorrupt)

    def test_closed_file(self) -> None:
        """A file that has a successor has no tail: any damage in it, and any end before its end, is refused."""
        self.settings = SMALL
        self.disk = SimulatedDisk()
        self.open()
        (segment,) = self.create("a")
        while len(self.files()) < 3:
            self.append(segment, b"x" * 100)
        for path in self.files()[:-1]:
            frames = self.frames(path)
            for frame in frames:
                disk = self.disk.kill()
                disk.content(path)[frame.position + 40] ^= 1
                self.assertIn(f"{path}: damaged at byte {frame.position}", self.refused(disk, StoreCorrupt))
                disk = self.disk.kill()
                del disk.content(path)[frame.position :]
                self.refused(disk, StoreCorrupt)

    def test_every_bit_of_a_closed_store(self) -> None:
        """No flipped bit in any file of a store that was closed in order is ever served: it is refused, or harmless."""
        self.settings = replace(SMALL, journal_file_bytes=700)
        self.disk = SimulatedDisk()
        self.open()
        a, b = self.create("a", "b")
        self.append(a, b"one", b"two", writer=b"w" * 16, expected=0, level=2)
        self.do(self.store.fan_out, [a, b], Batch.of([b"both"]), tag=3)
        self.do(self.store.truncate, a, 1)
        self.do(self.store.acknowledge, a, "g", [(2, 3)])
        self.do(self.store.set_attribute, b, b"k", b"v")
        self.do(self.store.seal, b)
        expected = contents(self.store)
        self.close()
        self.assertGreater(len(self.files()), 2)
        harmless = refused = 0
        rng = Random(1)
        for path in [*self.files(), f"{DIRECTORY}/identity"]:
            for position in range(len(self.disk.content(path))):
                disk = self.disk.kill()
                disk.content(path)[position] ^= 1 << rng.randrange(8)
                try:
                    store, _ = open_inline(disk, self.settings)
                except StoreUnusable:
                    refused += 1
                else:
                    harmless += 1
                    self.assertEqual(contents(store), expected, (path, position))
        # What is harmless: the padding, and the last frame, which says only that all before it is synced.
        self.assertGreater(refused, 1000)
        self.assertLess(harmless, 150)

    def test_read_error(self) -> None:
        """What the disk can't read at the start is refused, with file and error; the header of a file, too."""
        for position in (0, FILE_HEADER.size, self.frames()[2].position + 60):
            disk = self.disk.kill()
            disk.break_at(self.path, position)
            said = self.refused(disk, StoreCorrupt)
            self.assertIn(self.path, said)
            self.assertIn("Input/output error", said)
            disk.mend(self.path)
            self.assertEqual(self.found(disk), EXPECTED)

    def test_read_error_later(self) -> None:
        """What the disk can't read any more fails for those who ask for it, and for nobody else."""
        (other,) = self.create("b")
        self.append(other, b"fine")
        body = self.frames()[3].bodies[0][0]
        for is_cold in (False, True):
            self.disk.is_cold = is_cold
            self.disk.break_at(self.path, body)
            self.refuses(ReadFailed, self.store.read, self.segment, 2, bytes_max=1, records_max=1)
            self.append(other, b"also fine")
            self.assertEqual(self.records(other)[0], b"fine")
            runs = result_of(self.store.read(self.segment, 4, bytes_max=100))
            self.assertEqual(runs[0].batch.records(), [b"record 4"])
            self.disk.mend(self.path)
            self.assertEqual(self.records(self.segment), EXPECTED)

    def test_wrong_bytes_later(self) -> None:
        """Bytes that went bad while the store runs do not match their checksum, and are not served."""
        position = self.frames()[3].bodies[0][0]
        for at in range(position, position + 4 + len(EXPECTED[2])):
            self.disk.content(self.path)[at] ^= 1
            self.refuses(ReadFailed, self.store.read, self.segment, 2, bytes_max=1, records_max=1)
            self.disk.content(self.path)[at] ^= 1
        self.assertEqual(self.records(self.segment), EXPECTED)
