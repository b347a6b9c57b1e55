"""The disk, real and simulated: one set of laws for both, and what only one of them can do."""

from __future__ import annotations

import os
from errno import EIO, ENOSPC
from random import Random

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from streamd.store.disk import Disk, IDisk, IDiskFile
from tests.rigs.store.simulated import PowerCut, SimulatedDisk


class DiskTests(SynchronousTestCase):
    """What holds for every disk; here for the simulated one."""

    disk: IDisk
    path: str

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.path = "/some"
        self.disk.make_directory(self.path)

    def test_interface(self) -> None:
        """It is the disk that the store asks for."""
        self.assertTrue(verifyObject(IDisk, self.disk))
        self.assertTrue(verifyObject(IDiskFile, self.disk.create(f"{self.path}/new")))

    def test_read_what_was_written(self) -> None:
        """A write can have any number of buffers of any kind, anywhere; a read is short only at the end."""
        file = self.disk.create(f"{self.path}/new")
        parts = [bytes([number % 251]) * (number % 5) for number in range(3000)]
        file.write(0, parts)
        file.write(10, [memoryview(b"ab"), bytearray(b"cd"), b""])
        whole = bytearray(b"".join(parts))
        whole[10:14] = b"abcd"
        self.assertEqual(file.size(), len(whole))
        self.assertEqual(file.read(0, len(whole)), whole)
        self.assertEqual(file.read(5, 20), whole[5:25])
        self.assertEqual(file.read(len(whole) - 3, 20), whole[-3:])
        self.assertEqual(file.read(len(whole) + 3, 20), b"")
        at_once = file.read_now(5, 20)
        if at_once is not None:
            self.assertEqual(at_once, whole[5:25])
        self.assertIsNone(file.read_now(len(whole) - 3, 20))

    def test_length(self) -> None:
        """Allocating gives zeros and never takes; truncating cuts; writing behind the end leaves zeros between."""
        file = self.disk.create(f"{self.path}/new")
        file.allocate(8)
        file.write(0, [b"abcd"])
        file.allocate(4)
        self.assertEqual(file.read(0, 100), b"abcd\0\0\0\0")
        file.truncate(2)
        file.write(4, [b"x"])
        file.sync(metadata=False)
        file.sync(metadata=True)
        self.assertEqual(file.read(0, 100), b"ab\0\0x")

    def test_names(self) -> None:
        """Files are found by their names, which move and go; an open file does not need its name."""
        disk = self.disk
        disk.make_directory(f"{self.path}/deep/er")
        disk.make_directory(f"{self.path}/deep/er")
        where = f"{self.path}/deep/er"
        file = disk.create(f"{where}/b")
        file.write(0, [b"content"])
        disk.create(f"{where}/a").write(0, [b"other"])
        self.assertEqual(disk.list_directory(where), ["a", "b"])
        self.assertRaises(FileExistsError, disk.create, f"{where}/a")
        self.assertRaises(FileNotFoundError, disk.open, f"{where}/c", writable=False)
        self.assertRaises(FileNotFoundError, disk.unlink, f"{where}/c")
        self.assertRaises(FileNotFoundError, disk.list_directory, f"{where}/c")
        disk.rename(f"{where}/b", f"{where}/a")
        disk.sync_directory(where)
        self.assertEqual(disk.list_directory(where), ["a"])
        self.assertEqual(disk.open(f"{where}/a", writable=True).read(0, 100), b"content")
        disk.unlink(f"{where}/a")
        self.assertEqual(disk.list_directory(where), [])
        self.assertEqual(file.read(0, 100), b"content")

    def test_not_a_directory(self) -> None:
        """A file in the place of a directory is an error, not an overwritten file."""
        self.disk.create(f"{self.path}/file")
        self.assertRaises(OSError, self.disk.make_directory, f"{self.path}/file")
        self.assertRaises(OSError, self.disk.make_directory, f"{self.path}/file/below")

    def test_lock(self) -> None:
        """One has it at a time, until it is closed."""
        lock = self.disk.lock(f"{self.path}/lock")
        assert lock is not None
        self.assertIsNone(self.disk.lock(f"{self.path}/lock"))
        lock.close()
        lock.close()
        self.assertIsNotNone(self.disk.lock(f"{self.path}/lock"))

    def test_free_bytes(self) -> None:
        """There is some room."""
        self.assertGreater(self.disk.free_bytes(self.path), 0)


class RealDiskTests(DiskTests):
    """The same for the real one."""

    def setUp(self) -> None:
        self.disk = Disk()
        self.path = os.path.abspath(self.mktemp())
        self.disk.make_directory(self.path)

    def test_descriptor_is_closed_with_the_last_reference(self) -> None:
        """A file that nobody holds any more takes no descriptor."""
        before = len(os.listdir("/proc/self/fd"))
        file = self.disk.create(f"{self.path}/new")
        self.assertEqual(len(os.listdir("/proc/self/fd")), before + 1)
        del file
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class PowerCutTests(SynchronousTestCase):
    """What the simulated disk loses, and what it keeps."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("/d")
        self.file = self.disk.create("/d/file")
        self.file.write(0, [b"synced" * 200])
        self.file.sync(metadata=True)
        self.disk.sync_directory("/d")

    def outcomes(self) -> set[bytes | None]:
        """The contents of the file after many power cuts; None where it is gone."""
        found: set[bytes | None] = set()
        for seed in range(300):
            after = self.disk.crash(Random(seed))
            there = "file" in after.list_directory("/d")
            found.add(bytes(after.open("/d/file", writable=False).read(0, 10_000)) if there else None)
        return found

    def test_synced(self) -> None:
        """What was synced, with its name, is there after every power cut."""
        self.assertEqual(self.outcomes(), {b"synced" * 200})

    def test_write(self) -> None:
        """A write that was not synced is there, or not, or torn; bytes that were synced stay."""
        self.file.write(1200, [b"x" * 2000])
        found = self.outcomes()
        self.assertTrue(all(each and each.startswith(b"synced" * 200) for each in found))
        self.assertIn(b"synced" * 200, found)
        self.assertIn(b"synced" * 200 + b"x" * 2000, found)
        behind_a_hole = [each for each in found if each and each[1200:1201] == b"\0" and each.endswith(b"x")]
        self.assertGreater(len(behind_a_hole), 3)
        self.assertGreater(len(found), 50)

    def test_length(self) -> None:
        """A cut that was not synced can be undone by the power cut, whatever was written behind it."""
        self.file.truncate(600)
        self.assertEqual(self.outcomes(), {b"synced" * 100, b"synced" * 200})
        self.file.write(600, [b"new"])
        self.assertIn(b"synced" * 100 + b"new", self.outcomes())
        self.assertIn(b"synced" * 100 + b"new" + (b"synced" * 100)[3:], self.outcomes())
        self.file.sync(metadata=False)
        self.assertEqual(self.outcomes(), {b"synced" * 100 + b"new"})

    def test_names(self) -> None:
        """Names that were not synced are there or not, each by itself; what was renamed has one of its two names."""
        self.disk.create("/d/other")
        self.disk.rename("/d/file", "/d/moved")
        self.disk.create("/d/third")
        found = {tuple(self.disk.crash(Random(seed)).list_directory("/d")) for seed in range(300)}
        names = [("file",), ("moved",)]
        more = [(), ("other",), ("third",), ("other", "third")]
        self.assertEqual(found, {tuple(sorted(one + two)) for one in names for two in more})
        self.disk.sync_directory("/d")
        found = {tuple(self.disk.crash(Random(seed)).list_directory("/d")) for seed in range(300)}
        self.assertEqual(found, {("moved", "other", "third")})

    def test_same_seed(self) -> None:
        """The same seed is the same power cut."""
        self.file.write(600, [bytes(range(256)) * 8])
        one, two = self.disk.crash(Random(7)), self.disk.crash(Random(7))
        self.assertEqual(one.content("/d/file"), two.content("/d/file"))

    def test_kill(self) -> None:
        """A killed process loses nothing, but nothing becomes durable by that, and nobody holds its lock."""
        self.assertIsNotNone(self.disk.lock("/d/lock"))
        self.file.write(0, [b"SYNCED"])
        after = self.disk.kill()
        self.assertEqual(after.open("/d/file", writable=False).read(0, 6), b"SYNCED")
        self.assertIsNotNone(after.lock("/d/lock"))
        found = {bytes(after.crash(Random(seed)).content("/d/file")[:6]) for seed in range(300)}
        self.assertTrue({b"SYNCED", b"synced"} <= found)

    def test_failed_sync(self) -> None:
        """After a failed sync the data is seen, and never gets to the medium, whatever later syncs say."""
        self.file.write(0, [b"SYNCED"])
        self.disk.syncs_that_fail = 1
        error = self.assertRaises(OSError, self.file.sync, metadata=False)
        self.assertEqual(error.errno, EIO)
        self.file.write(1200, [b"!"])
        self.file.sync(metadata=False)
        self.assertEqual(self.file.read(0, 6), b"SYNCED")
        self.assertEqual(self.disk.kill().open("/d/file", writable=False).read(0, 6), b"SYNCED")
        self.assertEqual(self.outcomes(), {b"synced" * 200 + b"!"})

    def test_full(self) -> None:
        """A full disk takes what it has room for, then says so; room that is given back can be used."""
        self.disk.capacity_bytes = 1210
        error = self.assertRaises(OSError, self.file.write, 1200, [b"x" * 20])
        self.assertEqual((error.errno, self.file.size()), (ENOSPC, 1210))
        self.assertRaises(OSError, self.file.allocate, 1220)
        self.file.write(0, [b"SYNCED"])
        self.file.truncate(1200)
        self.file.allocate(1210)
        self.assertEqual(self.disk.free_bytes("/d"), 0)

    def test_cut_power_at(self) -> None:
        """The power goes at the call that was named, before or after its effect, and stays off."""
        for after, expected in ((False, b"synced"), (True, b"SYNCED")):
            disk = self.disk.kill()
            file = disk.open("/d/file", writable=True)
            disk.cut_power_at(2, after=after)
            file.sync(metadata=False)
            self.assertRaises(PowerCut, file.write, 0, [b"SYNCED"])
            self.assertRaises(PowerCut, file.sync, metadata=False)
            self.assertRaises(PowerCut, file.read, 0, 1)
            self.assertEqual(disk.kill().open("/d/file", writable=False).read(0, 6), expected)

    def test_read_error(self) -> None:
        """Only reads that touch the broken place fail."""
        self.disk.break_at("/d/file", 100)
        self.assertEqual(self.file.read(0, 100), (b"synced" * 200)[:100])
        self.assertRaises(OSError, self.file.read, 0, 101)
        self.assertRaises(OSError, self.file.read_now, 100, 1)
        self.assertEqual(self.file.read(101, 5), (b"synced" * 200)[101:106])
