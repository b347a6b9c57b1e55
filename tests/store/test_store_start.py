"""Starting: which files are ours, what is written again, and that starting often costs nothing."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import uuid4

from streamd.batch import Batch
from streamd.store import (
    NotAStore,
    StoreLocked,
    StoreUnusable,
    UnknownVersion,
)
from streamd.store.journal.frame import FILE_HEADER, VERSION
from streamd.store.journal.writer import SyncFailed
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import DIRECTORY, JOURNAL, SMALL, open_inline, read_all, result_of
from tests.rigs.store.model import Contents, contents
from tests.rigs.store.simulated import SimulatedDisk


class FilesTests(StoreCase):
    """Which files there are, and whether they are ours."""

    settings = SMALL

    def setUp(self) -> None:
        super().setUp()
        (segment,) = self.create("a")
        while len(self.files()) < 4:
            self.append(segment, b"x" * 100)
        self.expected = contents(self.store)

    def opened(self, disk: SimulatedDisk) -> Contents:
        return contents(open_inline(disk, self.settings)[0])

    def refused(self, disk: SimulatedDisk, *words: str) -> None:
        error = self.assertRaises(StoreUnusable, open_inline, disk, self.settings)
        for word in words:
            self.assertIn(word, str(error))

    def test_missing(self) -> None:
        """A missing file is noticed, the first as well as one between."""
        files = self.files()
        for path in files[:-1]:
            disk = self.disk.kill()
            disk.unlink(path)
            at = files.index(path)
            self.refused(disk, files[max(at - 1, 0) if at else 1], "missing")

    def test_foreign(self) -> None:
        """A file of another store, or none of ours at all, is refused and not touched."""
        other = SimulatedDisk()
        open_inline(other, self.settings)
        content = bytes(other.content(f"{JOURNAL}/{1:020}.journal"))
        for number in (2, 5, 9):
            disk = self.disk.kill()
            disk.put(f"{JOURNAL}/{number:020}.journal", content)
            self.refused(disk, f"{JOURNAL}/{number:020}.journal", "another store")
        for name in ("README", "1.journal", f"{1:021}.journal", "notes.tmp", f"{7:020}.journal~"):
            disk = self.disk.kill()
            disk.put(f"{JOURNAL}/{name}", b"content")
            self.refused(disk, f"{JOURNAL}/{name}", "not part of the store")
            self.assertEqual(disk.content(f"{JOURNAL}/{name}"), b"content")

    def test_duplicate(self) -> None:
        """A copy of one of our files under another number is refused."""
        for path in self.files():
            for number in (9, 2 if path != self.files()[1] else 3):
                disk = self.disk.kill()
                disk.put(f"{JOURNAL}/{number:020}.journal", bytes(disk.content(path)))
                self.refused(disk, f"{number:020}.journal", "copy")

    def test_ours(self) -> None:
        """Our own temporary files go, and kept tails stay: neither is in the way."""
        disk = self.disk.kill()
        temporary = [f"{JOURNAL}/{5:020}.journal.tmp", f"{JOURNAL}/{4:020}.journal.1234.torn.tmp"]
        kept = f"{JOURNAL}/{4:020}.journal.1234.torn"
        for path in [*temporary, kept]:
            disk.put(path, b"half")
        self.assertEqual(self.opened(disk), self.expected)
        self.assertFalse(any(name.endswith(".tmp") for name in disk.list_directory(JOURNAL)))
        self.assertEqual(disk.content(kept), b"half")

    def test_empty_last_file(self) -> None:
        """A last file that is empty, or all zeros, was never written to: it goes, and the one before it is the last."""
        number = len(self.files()) + 1
        for content in (b"", bytes(10), bytes(4096), bytes(3 << 20)):
            disk = self.disk.kill()
            disk.put(f"{JOURNAL}/{number:020}.journal", content)
            self.assertEqual(self.opened(disk), self.expected)
            self.assertEqual(self.opened(disk.kill()), self.expected)

    def test_no_header(self) -> None:
        """A file with anything in it but a header is damaged, the last one as well as others."""
        number = len(self.files()) + 1
        for content in (b"x", bytes(4096) + b"x", bytes(2 << 20) + b"x"):
            disk = self.disk.kill()
            disk.put(f"{JOURNAL}/{number:020}.journal", content)
            self.refused(disk, f"{number:020}.journal", "header is damaged")
        for path in self.files():
            for position in range(FILE_HEADER.size):
                disk = self.disk.kill()
                disk.content(path)[position] ^= 1
                self.refused(disk, path)
        disk = self.disk.kill()
        del disk.content(self.files()[1])[:]
        self.refused(disk, self.files()[1])

    def test_unknown_version(self) -> None:
        """A file, or a store, of another format is refused by name."""
        disk = self.disk.kill()
        disk.content(self.files()[1])[8] = VERSION + 1
        self.assertIn(f"format {VERSION + 1}", str(self.assertRaises(UnknownVersion, open_inline, disk, self.settings)))
        disk = self.disk.kill()
        content = disk.content(f"{DIRECTORY}/identity")
        content[:] = content.replace(b'"format": %d' % VERSION, b'"format": %d' % (VERSION + 1))
        self.assertIn(f"format {VERSION + 1}", str(self.assertRaises(UnknownVersion, open_inline, disk, self.settings)))

    def test_identity(self) -> None:
        """A damaged identity, one of another store, or a directory of something else is refused."""
        for content in (b"", b"{", b"[]", b"\xff", b'{"format": 1}', b'{"format": 1, "store": 5}'):
            disk = self.disk.kill()
            disk.content(f"{DIRECTORY}/identity")[:] = content
            self.refused(disk, "identity", "damaged")
        disk = self.disk.kill()
        disk.content(f"{DIRECTORY}/identity")[:] = b'{"format": 1, "store": "%s"}' % str(uuid4()).encode()
        self.refused(disk, "another store")
        disk = self.disk.kill()
        disk.unlink(f"{DIRECTORY}/identity")
        self.assertRaises(NotAStore, open_inline, disk, self.settings)
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        disk.put(f"{DIRECTORY}/photo.jpg", b"")
        self.refused(disk, "photo.jpg")
        self.assertEqual(disk.list_directory(DIRECTORY), ["photo.jpg"])

    def test_locked(self) -> None:
        """A directory has one daemon."""
        self.assertRaises(StoreLocked, open_inline, self.disk, self.settings)
        self.close()
        self.open()


class RestartTests(StoreCase):
    """What is kept is on the medium before it is served, and starting often costs nothing."""

    settings = SMALL

    def journal(self) -> dict[str, bytes]:
        return {path: bytes(self.disk.open(path, writable=False).read(0, 1 << 20)) for path in self.files()}

    def test_failed_sync(self) -> None:
        """After a failed sync and a restart, what is served is in a new, synced file: no power cut takes it."""
        (segment,) = self.create("a")
        self.append(segment, b"acknowledged")
        path = self.files()[-1]
        self.store.append(segment, Batch.of([b"never acknowledged"]))
        self.disk.syncs_that_fail = 1
        self.assertRaises(SyncFailed, self.writer.step)
        # The page cache shows what the medium never got.
        self.kill()
        self.assertEqual(self.records("a"), [b"acknowledged", b"never acknowledged"])
        self.assertGreater(self.files()[-1], path)
        self.assertIn(f"{self.files()[-1]}.tmp", self.disk.synced)
        for seed in range(30):
            store, _ = open_inline(self.disk.crash(Random(seed)), self.settings)
            self.assertEqual(store.find("a").number, 2)
        # Without a restart in between it was never there.
        self.append(self.store.find("a"), b"more")
        self.kill()
        self.assertEqual(self.records("a"), [b"acknowledged", b"never acknowledged", b"more"])

    def test_failed_sync_at_the_start(self) -> None:
        """Where recovery can't sync, it does not serve."""
        (segment,) = self.create("a")
        self.append(segment, b"x")
        for seed in range(5):
            disk = self.disk.crash(Random(seed))
            disk.syncs_that_fail = 1
            self.assertRaises(StoreUnusable, open_inline, disk, self.settings)
            store, _ = open_inline(disk.crash(Random(seed)), self.settings)
            self.assertEqual(store.find("a").number, 1)
        disk = self.disk.kill()
        disk.directory_syncs_that_fail = 3
        for _ in range(3):
            self.assertRaises(StoreUnusable, open_inline, disk, self.settings)
        open_inline(disk, self.settings)

    def test_clean_shutdown(self) -> None:
        """A store that was closed in order is opened without writing anything again."""
        (segment,) = self.create("a")
        for _ in range(30):
            self.append(segment, b"x" * 100)
        self.close()
        before = self.journal()
        self.open()
        after = self.journal()
        for path, content in before.items():
            self.assertEqual(after[path], content)
        (new,) = set(after) - set(before)
        self.assertEqual(after[new][FILE_HEADER.size :].strip(b"\0"), b"")

    def test_a_hundred_restarts(self) -> None:
        """Neither a hundred clean restarts nor a hundred killed processes leave a hundred files."""
        (segment,) = self.create("a")
        self.append(segment, b"x")
        for restart in (self.reopen, self.kill):
            before = len(self.files())
            for _ in range(100):
                restart()
            self.assertLessEqual(len(self.files()), before + 1)
            self.assertEqual(self.records("a"), [b"x"])

    def test_a_hundred_crashes(self) -> None:
        """Nor do a hundred power cuts during recovery, wherever they come."""
        (segment,) = self.create("a")
        self.append(segment, b"x")
        rng = Random(1)
        self.disk = self.disk.kill()
        for number in range(300):
            self.disk.cut_power_at(number % 15 + 1, after=rng.random() < 0.5)
            try:
                self.open()
            except BaseException as error:
                self.assertEqual(type(error).__name__, "PowerCut")
            self.disk = self.disk.crash(rng)
        self.open()
        self.assertEqual(self.records("a"), [b"x"])
        self.assertLess(len(self.files()), 5)

    def test_stopped_in_between(self) -> None:
        """Where the power goes between the new file and the end of the old one, both are there and mean the same."""
        (segment,) = self.create("a")
        self.append(segment, b"x")
        seen = []
        self.disk = self.disk.kill()

        def look(call: str, after: bool) -> None:
            if call == "sync_directory" and after:
                other = self.disk.kill()
                seen.append(len([name for name in other.list_directory(JOURNAL) if name.endswith(".journal")]))
                store, _ = open_inline(other, self.settings)
                self.assertEqual(store.find("a").number, 1)

        self.disk.observer = look
        self.open()
        self.assertIn(2, seen)

    def test_copy_in_a_payload(self) -> None:
        """Records that hold whole journal files, also this one as it is now, never pass for frames."""
        self.settings = replace(self.settings, sync="never", journal_file_bytes=1 << 20)
        self.disk = SimulatedDisk()
        self.open()
        a, b = self.create("a", "b")
        self.append(b, b"innocent" * 20)
        own = bytes(self.disk.open(self.files()[-1], writable=False).read(0, 1 << 20)).rstrip(b"\0")
        for shift in range(8):
            self.append(a, b"-" * shift + own)
        path = self.files()[-1]
        # Whatever is missing around the copies: the first frame of all, or what stands before and behind one of them.
        for frame in self.frames()[2:]:
            for damaged in (range(frame.position, frame.position + 64), range(frame.position + frame.length, 1 << 20)):
                disk = self.disk.kill()
                content = disk.content(path)
                for position in damaged:
                    if position < len(content):
                        content[position] = 0
                store, _ = open_inline(disk, self.settings)
                self.assertEqual(store.names(), ["a", "b"])
                self.assertLessEqual(store.find("b").number, 1)
                records = [bytes(record) for run in read_all(store, store.find("a")) for record in run.batch.records()]
                self.assertEqual(records, [b"-" * shift + own for shift in range(len(records))])

    def test_time(self) -> None:
        """Times do not go back over a restart that loses the last file's frames."""
        (segment,) = self.create("a")
        self.writer.now = 9_000_000
        self.append(segment, b"x")
        self.reopen()
        self.reopen()
        self.append(self.store.find("a"), b"y")
        runs = result_of(self.store.read(self.store.find("a"), 0, bytes_max=10))
        self.assertEqual([run.timestamp for run in runs], [9_000_001, 9_000_001])
