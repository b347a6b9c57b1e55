"""A full disk: writes are refused, reads and removals go on, and everything resumes when there is room."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store import NoSuchSegment, StoreReadOnly, StoreUnusable
from tests.rigs.store.case import StoreCase, Told
from tests.rigs.store.inline import Compactor, open_inline
from tests.rigs.store.model import contents
from tests.rigs.store.simulated import SimulatedDisk


class FullTests(StoreCase):
    """A store on a disk without room."""

    settings = StoreSettings(journal_file_bytes=4096, reserve_bytes=1024, open_files_max=4)

    def setUp(self) -> None:
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)
        super().setUp()
        self.a, self.b = self.create("a", "b")
        self.append(self.a, b"0", b"1", b"2")

    def fill(self) -> None:
        """Leave no room, and no room in the last file for a record."""
        self.disk.capacity_bytes = self.disk.used_bytes()
        while True:
            try:
                self.append(self.b, b"x" * 200)
            except StoreReadOnly:
                return

    def test_everything_pending_fails(self) -> None:
        """The commit in flight and the one behind it fail, in order, and everything is as after the last commit."""
        self.fill()
        self.clock.advance(2)
        before = contents(self.store)
        told = Told()
        one = Batch.of([b"x" * 200])
        writer = b"w" * 16
        requests: list[Callable[[], Deferred[Any]]] = [
            lambda: self.store.append(self.a, one, writer=writer, expected=0, level=1),
            lambda: self.store.append(self.a, one, writer=writer, expected=1, level=2),
            lambda: self.store.create("new"),
            lambda: self.store.create("new"),
            lambda: self.store.seal(self.a),
            lambda: self.store.append(self.a, one),
            lambda: self.store.set_attribute(self.b, b"k", b"v"),
            lambda: self.store.truncate(self.b, 1),
            lambda: self.store.delete(self.b),
            lambda: self.store.fan_out([self.a], one),
        ]
        for number, request in enumerate(requests):
            told.when(number, request())
        self.assertEqual(told.names, [])
        self.writer.run()
        self.assertEqual(told.names, list(range(len(requests))))
        self.assertEqual([type(result) for _, result in told.results], [StoreReadOnly] * len(requests))
        self.assertEqual(contents(self.store), before)
        # Nothing of it counts any more: not the seal, not the level, not the name, not the places.
        self.disk.capacity_bytes = None
        self.clock.advance(2)
        self.assertEqual(self.append(self.a, b"3", writer=writer, expected=0, level=1)[:2], (3, 27))
        self.create("new")
        self.assertRaises(NoSuchSegment, self.store.find, "never")
        self.reopen()
        self.assertEqual(self.records("a"), [b"0", b"1", b"2", b"3"])

    def test_cut_to_the_last_commit(self) -> None:
        """Nothing of a commit that failed half-way stays in the file, also where the power goes then."""
        settings = StoreSettings(journal_file_bytes=1 << 16, reserve_bytes=1024)
        for room in range(0, 300, 7):
            disk = self.disk.kill()
            disk.capacity_bytes = disk.used_bytes()
            # A store that was opened on a full disk has a file without reserve: removals run into the end of the disk.
            store, writer = open_inline(disk, settings, clock=self.clock)
            before = contents(store)
            disk.capacity_bytes = disk.used_bytes() + room
            sizes = {name: len(disk.content(f"/data/journal/{name}")) for name in disk.list_directory("/data/journal")}
            answer = store.set_group(store.find("a"), "g" * 250, 1)
            writer.run()
            self.failureResultOf(answer, StoreReadOnly)
            after = {name: len(disk.content(f"/data/journal/{name}")) for name in disk.list_directory("/data/journal")}
            self.assertEqual(after, sizes)
            self.assertEqual(contents(store), before)
            disk.capacity_bytes = None
            for seed in range(5):
                again, _ = open_inline(disk.crash(Random(seed)), settings)
                self.assertEqual(contents(again), before)

    def test_reads_go_on(self) -> None:
        """Everything that is stored is read from a full disk."""
        self.fill()
        self.assertEqual(self.records("a"), [b"0", b"1", b"2"])
        self.assertTrue(self.store.read_only)

    def test_refused_at_once(self) -> None:
        """A full disk is not asked again for every write; after a while it is."""
        self.fill()
        calls = self.disk.calls
        for _ in range(10):
            self.refuses(StoreReadOnly, self.store.append, self.a, Batch.of([b"x"]))
        self.refuses(StoreReadOnly, self.store.create, "new")
        self.refuses(StoreReadOnly, self.store.append_all, [])
        self.refuses(StoreReadOnly, self.store.fan_out, [self.a], Batch.of([b"x"]))
        self.refuses(StoreReadOnly, self.store.seal, self.a)
        self.refuses(StoreReadOnly, self.store.set_attribute, self.a, b"k", b"v")
        self.assertEqual(self.disk.calls, calls)
        self.disk.capacity_bytes = None
        self.refuses(StoreReadOnly, self.store.append, self.a, Batch.of([b"x"]))
        self.clock.advance(2)
        self.append(self.a, b"x")

    def test_removals(self) -> None:
        """What takes away works on a full disk, through the reserve, and is durable."""
        self.fill()
        self.do(self.store.acknowledge, self.a, "g", [(0, 2)])
        self.do(self.store.set_group, self.a, "h", 1)
        self.do(self.store.drop_group, self.a, "h")
        self.do(self.store.truncate, self.a, 1)
        self.do(self.store.delete, self.b)
        after, _ = open_inline(self.disk.crash(Random(1)), self.settings)
        self.assertEqual(contents(after), contents(self.store))
        self.assertEqual(after.names(), ["a"])
        self.assertEqual(after.find("a").first_number, 1)

    def test_reserve_ends(self) -> None:
        """When the reserve is used up, removals are refused as well, and nothing breaks."""
        self.fill()
        done = 0
        try:
            for number in range(1000):
                self.do(self.store.set_group, self.a, "g", number % 3)
                done += 1
        except StoreReadOnly:
            pass
        self.assertTrue(3 <= done < 1000, done)
        before = contents(self.store)
        self.disk.capacity_bytes = self.disk.used_bytes() + 1000
        self.kill()
        self.assertEqual(contents(self.store), before)

    def test_resumes(self) -> None:
        """When there is room again, the next write that is let through succeeds, and the store is as good as before."""
        self.fill()
        self.disk.capacity_bytes = None
        self.clock.advance(2)
        self.append(self.a, b"3")
        self.append(self.a, b"4")
        self.reopen()
        self.assertEqual(self.records("a"), [b"0", b"1", b"2", b"3", b"4"])

    def test_again_and_again(self) -> None:
        """Full and free in turns, at any byte, with crashes: what was acknowledged is there, once, in order."""
        rng = Random(3)
        acknowledged = self.records("a")
        for _ in range(150):
            self.disk.capacity_bytes = self.disk.used_bytes() + rng.randint(0, 30_000)
            self.clock.advance(2)
            for _ in range(rng.randint(1, 6)):
                record = rng.randbytes(rng.randint(1, 600))
                try:
                    self.append(self.store.find("a"), record)
                    acknowledged.append(record)
                except StoreReadOnly:
                    pass
            self.assertEqual(self.records("a"), acknowledged)
            if rng.random() < 0.3:
                self.disk.capacity_bytes = None
                self.disk = self.disk.crash(rng)
                self.open()
                self.assertEqual(self.records("a"), acknowledged)
        self.assertGreater(len(acknowledged), 50)

    def said(self) -> list[dict[str, Any]]:
        """What the log says of the disk's room."""
        return [event for event in self.events if "the disk" in event.get("log_format", "")]

    def test_said_once(self) -> None:
        """However much is refused, and whatever is removed meanwhile, it is two lines: when it begins and ends."""
        self.fill()
        refused = 1
        for number in range(50):
            if number % 10 == 0:
                self.do(self.store.set_group, self.a, "g", number % 3)
            self.refuses(StoreReadOnly, self.store.append, self.a, Batch.of([b"x" * 10]))
            refused += 1
            self.store.seek_room()
            self.writer.run()
            self.clock.advance(0.7)
            self.assertTrue(self.store.read_only)
        (begun,) = self.said()
        self.assertIn("writes are refused", begun["log_format"])
        self.disk.capacity_bytes = None
        self.clock.advance(2)
        self.append(self.a, b"3")
        self.assertFalse(self.store.read_only)
        _, ended = self.said()
        self.assertEqual((ended["requests"], ended["bytes"] > 10 * 50), (refused, True))

    def test_small_fits(self) -> None:
        """A small record that would still fit is refused too: it says nothing of room for the next one."""
        self.disk.capacity_bytes = self.disk.used_bytes()
        self.refuses(StoreReadOnly, self.store.append, self.b, Batch.of([b"x" * 3000]))
        for _ in range(5):
            self.clock.advance(2)
            self.refuses(StoreReadOnly, self.store.append, self.a, Batch.of([b"x"]))
        self.assertEqual(len(self.said()), 1)

    def test_nobody_writes(self) -> None:
        """Room is noticed also where nobody writes: a look each second finds it, and leaves removals alone."""
        self.fill()
        for _ in range(3):
            self.clock.advance(1)
            self.store.seek_room()
            gone = self.store.set_group(self.a, "g", 1)
            self.writer.run()
            self.successResultOf(gone)
            self.assertTrue(self.store.read_only)
        self.disk.capacity_bytes = None
        self.store.seek_room()
        self.writer.run()
        self.assertFalse(self.store.read_only)
        self.append(self.a, b"3")
        self.reopen()
        self.assertEqual(self.records("a"), [b"0", b"1", b"2", b"3"])

    def test_open_full(self) -> None:
        """A store opens on a full disk: what is there is read, and what takes away works where a few bytes are free."""
        self.fill()
        before = contents(self.store)
        for disk in (self.disk.kill(), *[self.disk.crash(Random(seed)) for seed in range(10)]):
            disk.capacity_bytes = disk.used_bytes()
            store, writer = open_inline(disk, self.settings, clock=self.clock)
            self.assertEqual(contents(store), before)
            gone = store.delete(store.find("b"))
            writer.run()
            self.successResultOf(gone)
            self.assertEqual(store.names(), ["a"])

    def test_open_without_a_byte(self) -> None:
        """Where there is no room for what must be written again, it says so; with room, it opens."""
        self.append(self.a, b"x" * 2000)
        disk = self.disk.kill()
        # Everything is taken, and the last file gives nothing back: it has no room of its own.
        path = self.files()[-1]
        end = self.frames()[-1]
        disk.open(path, writable=True).truncate(end.position + end.length)
        disk.capacity_bytes = disk.used_bytes()
        error = self.assertRaises(StoreUnusable, open_inline, disk.kill(), self.settings)
        self.assertIn("no room", str(error))
        disk.capacity_bytes += 10_000
        store, _ = open_inline(disk, self.settings)
        self.assertEqual(contents(store), contents(self.store))

    def test_clean_shutdown(self) -> None:
        """A full disk does not keep the store from closing, nor from opening again."""
        self.fill()
        before = contents(self.store)
        self.close()
        self.open()
        self.assertEqual(contents(self.store), before)


class RoomTests(StoreCase):
    """A disk that the store itself has filled, with a compactor that does what the real one does."""

    settings = StoreSettings(journal_file_bytes=1 << 16, reserve_bytes=1 << 12, open_files_max=4)

    def open(self) -> None:
        super().open()
        self.compactor = Compactor(self.disk, self.store)

    def compact(self) -> None:
        """Fold and merge, in the steps of the real one, as far as there is room."""
        folder, last = self.compactor.folder, self.store.closed_file
        done = 0
        while done < last:
            done = self.compactor.fold(folder.step(last)).file
        while folder.choose():
            self.compactor.merge()

    def fill(self, names: str, size: int, *, lag: int) -> None:
        """Append to these segments in turn until the disk is full; the compactor comes by once in so many appends."""
        segments = self.create(*names)
        for number in count():
            try:
                self.append(segments[number % len(segments)], b"x" * size)
            except StoreReadOnly:
                return
            if number % lag == lag - 1:
                self.compact()

    def seconds_until_writable(self) -> int:
        """Let time pass, as the daemon does, until something can be written."""
        for seconds in range(1, 20):
            self.clock.advance(1)
            self.store.seek_room()
            self.writer.run()
            self.compact()
            if not self.store.read_only:
                return seconds
        raise AssertionError(f"{self.disk.free_bytes('/')} bytes are free, and nothing can be written")

    def test_room_comes_back(self) -> None:
        """What is deleted or truncated makes room for writes again within seconds, wherever it lies.

        Also where the compactor got nothing done before the disk was full.
        """
        for size, lag in product((1000, 60_000), (10, 1 << 40)):
            for delete in (True, False):
                self.disk = SimulatedDisk()
                self.disk.capacity_bytes = 3 << 20
                self.open()
                self.fill("abc", size, lag=lag)
                self.assertGreater(self.disk.used_bytes(), self.disk.capacity_bytes // 2, (size, lag))
                for name in "ab":
                    segment = self.store.find(name)
                    if delete:
                        self.do(self.store.delete, segment)
                    else:
                        self.do(self.store.truncate, segment, segment.number)
                kept = self.records("c")
                self.assertLessEqual(self.seconds_until_writable(), 4, (size, lag, delete))
                (again,) = self.create("d")
                for _ in range((1 << 20) // size):
                    self.append(again, b"y" * size)
                    self.compact()
                self.reopen()
                self.assertEqual(self.records("c"), kept)

    def test_stays_full(self) -> None:
        """Where nothing is removed it stays full, and what is stored stays."""
        self.disk.capacity_bytes = 3 << 20
        self.fill("a", 5000, lag=10)
        before = contents(self.store)
        self.assertRaises(AssertionError, self.seconds_until_writable)
        self.assertEqual(contents(self.store), before)
        self.disk.capacity_bytes = None
        self.assertEqual(self.seconds_until_writable(), 1)
