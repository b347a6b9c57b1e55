"""Readers outside the daemon: they see what is committed, all of it and nothing else, whatever happens to files."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from array import array
from collections.abc import Callable
from random import Random
from typing import Any

from crc32c import crc32c
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store import NoSuchSegment, NotAStore, ReadFailed, RecordsTruncated, StoreCorrupt
from streamd.store.directory import read_identity
from streamd.store.disk import Disk
from streamd.store.packs.catalog import Catalog
from streamd.store.reading.outside import OutsideReader
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.daemon import CHECKOUT
from tests.rigs.publishers import Publisher
from tests.rigs.store.case import StoreCase
from tests.rigs.store.history import Oracle
from tests.rigs.store.inline import DIRECTORY, SMALL, Compactor
from tests.rigs.store.life import Life
from tests.rigs.store.loaded import LoadedDaemon
from tests.rigs.store.model import Model, Record
from tests.rigs.store.simulated import SimulatedDisk

PART = 500

_NEW_MOUNTS, _PRIVATE, _BIND, _AGAIN, _READ_ONLY = 0x20000, 0x44000, 0x1000, 0x20, 0x1
"""CLONE_NEWNS, MS_REC | MS_PRIVATE, MS_BIND, MS_REMOUNT, MS_RDONLY."""


def _make_read_only(path: str) -> None:
    """Have a directory on a read-only file system, as this process alone sees it."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = path.encode()
    for failed in (
        libc.unshare(_NEW_MOUNTS),
        libc.mount(b"none", b"/", None, _PRIVATE, None),
        libc.mount(place, place, None, _BIND, None),
        libc.mount(b"none", place, None, _BIND | _AGAIN | _READ_ONLY, None),
    ):
        if failed:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def found_in(reader: OutsideReader, which: str | int, **more: Any) -> list[Record]:
    """All records that a reader sees in a segment."""
    info = reader.segment(which)
    found: list[Record] = []
    for run in reader.read(which, info.first_number, info.number, **more):
        offset = run.offset
        for at, data in enumerate(run.batch.records()):
            found.append(Record(run.number + at, offset, run.tag, bytes(data)))
            offset += len(data) + (0 if run.tag & TAG_RAW else 8)
    return found


class LifeTests(SynchronousTestCase):
    """A random life of a store, and somebody outside who looks at it."""

    def compare(self, reader: OutsideReader, model: Model) -> None:
        self.assertEqual({info.name for info in reader.segments()}, set(model.segments))
        for name, segment in model.segments.items():
            info = reader.segment(name)
            places = (info.first_number, info.first_offset, info.number, info.offset, info.sealed)
            wanted = (segment.first_number, segment.first_offset, segment.number, segment.offset, segment.sealed)
            self.assertEqual(places, wanted, name)
            self.assertEqual(found_in(reader, name), segment.records, name)

    def test_same(self) -> None:
        """After any operation a reader sees what is committed, whether it follows closely, or was just opened."""
        for seed in range(25):
            disk, rng, oracle = SimulatedDisk(), Random(seed), Oracle()
            life = Life(disk, rng, SMALL, oracle)
            close = OutsideReader(DIRECTORY, disk=disk)
            seldom = OutsideReader(DIRECTORY, disk=disk)
            for _ in range(60):
                life.run(1)
                landed = oracle.models[-1 - len(life.writer)]
                close.refresh()
                self.compare(close, landed)
                if rng.random() < 0.1:
                    seldom.refresh()
                    self.compare(seldom, landed)
                    self.compare(OutsideReader(DIRECTORY, disk=disk), landed)
                self.look_back(seldom, rng)
            life.finish()
            close.refresh()
            self.compare(close, oracle.models[-1])

    def look_back(self, reader: OutsideReader, rng: Random) -> None:
        """Somebody who has not looked for long reads what was there, or is told that it is gone."""
        for info in reader.segments():
            if info.records and rng.random() < 0.3:
                first = rng.randrange(info.first_number, info.number)
                try:
                    runs = list(reader.read(info.id, first, info.number, bytes_max=rng.choice((1, 100, 1 << 20))))
                except (NoSuchSegment, RecordsTruncated):
                    continue
                self.assertEqual(runs[0].number, first)
                self.assertEqual(sum(run.batch.count for run in runs), info.number - first)

    def test_restarts(self) -> None:
        """A reader that stays open over crashes and restarts sees what the store has afterwards."""
        for seed in range(12):
            disk, rng = SimulatedDisk(), Random(1000 + seed)
            oracle = Oracle()
            for _ in range(4):
                life = Life(disk, rng, SMALL, oracle)
                reader = OutsideReader(DIRECTORY, disk=disk)
                life.run(rng.randint(1, 40))
                reader.refresh()
                landed = oracle.models[-1 - len(life.writer)]
                self.compare(reader, landed)
                # The process dies; the files are the same, as the reader sees them.
                disk._locks.clear()
                life = Life(disk, rng, SMALL, oracle)
                reader.refresh()
                self.compare(reader, oracle.models[-1])
                disk = disk.kill()


class CommittedOnlyTests(StoreCase):
    def test_not_before(self) -> None:
        """While a commit is written and synced nobody outside sees it; when it is acknowledged, everybody does."""
        for sync in ("always", "never"):
            self.settings = StoreCase.settings.__class__(sync=sync, journal_file_bytes=1 << 20)
            self.disk = SimulatedDisk()
            self.open()
            (segment,) = self.create("a")
            self.append(segment, b"first")
            reader = OutsideReader(DIRECTORY, disk=self.disk)
            seen: list[int] = []

            def look(name: str, after: bool, reader: OutsideReader = reader, seen: list[int] = seen) -> None:
                reader.refresh()
                seen.append(len(found_in(reader, "a")))

            self.disk.observer = look
            self.append(segment, b"second")
            self.disk.observer = None
            # With sync = never there is nothing behind the write that could take it back.
            self.assertEqual(set(seen), {1})
            self.assertGreaterEqual(len(seen), 2)
            reader.refresh()
            self.assertEqual(len(found_in(reader, "a")), 2)

    def test_no_position(self) -> None:
        """Without the file, readers see what the journal itself says is synced: never more than is committed."""
        (segment,) = self.create("a")
        for number in range(3):
            self.append(segment, b"%d" % number)
        self.disk.unlink(f"{DIRECTORY}/committed")
        reader = OutsideReader(DIRECTORY, disk=self.disk)
        self.assertEqual([each.data for each in found_in(reader, "a")], [b"0", b"1"])
        self.close()
        reader.refresh()
        self.assertEqual([each.data for each in found_in(reader, "a")], [b"0", b"1", b"2"])

    def test_damage(self) -> None:
        """Damage in what is committed is told, and never served."""
        (segment,) = self.create("a")
        for number in range(3):
            self.append(segment, b"record %d" % number)
        reader = OutsideReader(DIRECTORY, disk=self.disk)
        frame = self.frames()[2]
        self.disk.content(self.files()[-1])[frame.bodies[0][0] + 8] ^= 1
        found = reader.read("a", 0)
        self.assertEqual(next(found).batch.records(), [b"record 0"])
        self.assertRaises((ReadFailed, StoreCorrupt), list, found)
        self.assertRaises(StoreCorrupt, OutsideReader, DIRECTORY, disk=self.disk)

    def test_refused(self) -> None:
        """What is not there is named."""
        (segment,) = self.create("a")
        self.append(segment, b"x", b"y", b"z")
        self.do(self.store.create, "h", hidden=True)
        reader = OutsideReader(DIRECTORY, disk=self.disk)
        self.assertRaises(NoSuchSegment, reader.segment, "b")
        self.assertRaises(NoSuchSegment, reader.segment, "h")
        self.assertRaises(ReadFailed, list, reader.read("a", 0, 4))
        self.append(segment, b"more")
        self.assertEqual(sum(run.batch.count for run in reader.read("a", 0, 4)), 4)
        self.do(self.store.truncate, segment, 2)
        reader.refresh()
        error = self.assertRaises(RecordsTruncated, list, reader.read("a", 0, 4))
        self.assertEqual(error.first_number, 2)
        self.do(self.store.delete, segment)
        reader.refresh()
        self.assertRaises(NoSuchSegment, list, reader.read(segment.id, 2))
        self.assertRaises(NotAStore, OutsideReader, "/elsewhere", disk=self.disk)


class PlaceTests(StoreCase):
    """Times and split points, in the journal, in packs and in between."""

    settings = SMALL

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("a")
        for number in range(60):
            self.append(self.segment, *[b"%d" % number * 20] * 3)
        hidden = self.do(self.store.create, "h", hidden=True)
        for _ in range(5):
            self.append(hidden, *[b"hidden" * 10] * 3)
        self.do(self.store.publish, [(hidden, self.segment)])
        self.compactor = Compactor(self.disk, self.store)

    def states(self) -> list[OutsideReader]:
        """Readers, as more and more is folded."""
        readers = []
        for last in (0, 2, self.store.closed_file - 1, self.store.closed_file):
            if last:
                self.compactor.fold(last)
            readers.append(OutsideReader(DIRECTORY, disk=self.disk))
        return readers

    def test_number_at(self) -> None:
        """The first record of a time or later is found exactly, wherever it is."""
        for reader in self.states():
            runs = list(reader.read("a", 0))
            for run in runs:
                first = min(each.number for each in runs if each.timestamp == run.timestamp)
                self.assertEqual(reader.number_at("a", run.timestamp), first)
                later = [each.number for each in runs if each.timestamp > run.timestamp]
                self.assertEqual(reader.number_at("a", run.timestamp + 1), min([*later, 195]))
            self.assertEqual(reader.number_at("a", 0), 0)

    def test_split_points(self) -> None:
        """They lie inside, rise, and make parts that together are the whole."""
        for reader in self.states():
            for first, end in ((0, 195), (10, 100), (50, 51), (7, 7), (0, 60), (150, 195)):
                for parts in (1, 2, 3, 8, 1000):
                    points = reader.split_points("a", first, end, parts)
                    self.assertEqual(points, sorted(set(points)))
                    self.assertLess(len(points), parts)
                    self.assertTrue(all(first < point < end for point in points))
                    edges = [first, *points, end]
                    counts = [
                        sum(run.batch.count for run in reader.read("a", *edges[at : at + 2]))
                        for at in range(len(edges) - 1)
                    ]
                    self.assertEqual(sum(counts), end - first)

    def test_about_equal(self) -> None:
        """Parts have about the same size, where blocks are small against them."""
        points = OutsideReader(DIRECTORY, disk=self.disk).split_points("a", 0, 180, 4)
        self.assertEqual(len(points), 3)
        for point, wanted in zip(points, (48, 93, 135), strict=True):
            self.assertLess(abs(point - wanted), 8)

    def test_batches(self) -> None:
        """Records come as buffers: lengths and payload, in pieces of about the wanted size."""
        for reader in self.states():
            runs = list(reader.read("a", 0, bytes_max=1000))
            self.assertTrue(all(isinstance(run.batch.lengths, array) for run in runs))
            self.assertTrue(all(isinstance(run.batch.payload, memoryview) for run in runs))
            joined = Batch.joined([run.batch for run in runs])
            self.assertEqual(crc32c(joined.payload), crc32c(b"".join(each.data for each in found_in(reader, "a"))))


class Follower:
    """Reads topics again and again, and compares with what publishers sent and were told."""

    def __init__(self, path: str, publishers: list[Publisher]) -> None:
        self.reader = OutsideReader(path)
        self.publishers = publishers
        self.next: dict[str, int] = {each.topic: 0 for each in publishers}
        self.found: dict[str, int] = {each.name: 0 for each in publishers}
        self.wrong: list[str] = []

    def round(self, rng: Random) -> None:
        """Look once: everything acknowledged before that must be there."""
        acknowledged = {each.name: each.acknowledged for each in self.publishers}
        self.reader.refresh()
        for each in self.publishers:
            if each.topic not in {info.name for info in self.reader.segments()}:
                continue
            if each.topic == "short":
                self.read_short(each)
                continue
            for run in self.reader.read(each.topic, self.next[each.topic]):
                self.take(each, run.number, [bytes(record) for record in run.batch.records()])
            if self.found[each.name] < acknowledged[each.name]:
                self.wrong.append(f"{each.name}: {self.found[each.name]} of {acknowledged[each.name]} acknowledged")
            if self.next[each.topic]:
                self.again(each, rng.randrange(self.next[each.topic]))

    def take(self, publisher: Publisher, number: int, records: list[bytes]) -> None:
        for at, record in enumerate(records):
            if number + at != self.next[publisher.topic] or record != publisher.line(number + at):
                self.wrong.append(f"{publisher.name}: {number + at} is {record[:60]!r}")
            self.next[publisher.topic] = number + at + 1
        self.found[publisher.name] = self.next[publisher.topic]

    def again(self, publisher: Publisher, first: int) -> None:
        """What was there before is there still, the same, though it stands elsewhere by now."""
        end = min(first + 500, self.next[publisher.topic])
        found = [bytes(each) for run in self.reader.read(publisher.topic, first, end) for each in run.batch.records()]
        if found != [publisher.line(number) for number in range(first, end)]:
            self.wrong.append(f"{publisher.name}: from {first} on it is not the same")

    def read_short(self, publisher: Publisher) -> None:
        info = self.reader.segment("short")
        try:
            for run in self.reader.read("short", info.first_number):
                for at, record in enumerate(run.batch.records()):
                    if bytes(record) != publisher.line(run.number + at):
                        self.wrong.append(f"short: {run.number + at} is {bytes(record[:60])!r}")
        except RecordsTruncated:
            pass  # retention was faster


class DaemonTests(SynchronousTestCase):
    """With a real daemon, its compactor and its retention."""

    def setUp(self) -> None:
        self.loaded = LoadedDaemon(self.mktemp())
        self.daemon = self.loaded.daemon
        self.data = self.loaded.data
        self.publishers = self.loaded.publishers
        self.loaded.__enter__()
        self.addCleanup(self.daemon.close)

    def ended(self) -> None:
        self.assertEqual(self.loaded.join(), [], self.daemon.output)

    def test_follow(self) -> None:
        """While it writes, folds, merges and truncates, and over kill -9, a reader misses nothing and sees no more."""
        rng = Random(7)
        follower = Follower(self.data, self.publishers)
        for _ in range(2):
            wanted = self.loaded.folded() + 8
            self.loaded.load()
            while self.loaded.folded() < wanted and not follower.wrong:
                follower.round(rng)
            self.daemon.kill()
            self.ended()
            follower.round(rng)
            self.assertEqual(follower.wrong, [], self.daemon.output)
            self.daemon.start()
            follower.round(rng)
            self.assertEqual(follower.wrong, [], self.daemon.output)
            for each in self.publishers:
                if each.topic != "short":
                    each.sent = each.acknowledged = follower.next[each.topic]
                else:
                    each.sent = each.acknowledged = follower.reader.segment("short").number
        self.assertEqual(self.daemon.terminate(), 0)
        # Nobody has it now, and it is read all the same.
        fresh = OutsideReader(self.data)
        for name, number in follower.next.items():
            self.assertEqual(fresh.segment(name).number, number or fresh.segment(name).number)

    def read_only(self, work: Callable[[], object]) -> Any:
        """What this gives in a process of its own, to which the store is on a read-only file system.

        Where we are not root and can't make one, in a process like this one.
        """
        receive, send = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                if not os.getuid():
                    _make_read_only(self.data)
                try:
                    answer = work()
                except Exception as error:
                    answer = repr(error)
                os.write(send, json.dumps(answer).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(send)
        with open(receive, "rb") as stream:
            answer = json.loads(stream.read())
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        return answer

    def sums(self) -> list[tuple[int, int, int]]:
        """Checksums of some records of two topics: the oldest, those in the middle, the newest."""
        found = []
        reader = OutsideReader(self.data)
        for turn in range(15):
            reader.refresh()
            for name in ("one", "many"):
                # A part each time: the daemon may write faster than all of it is read.
                number = reader.segment(name).number
                first, crc = max(number - PART, 0) * (turn % 3) // 2, 0
                for run in reader.read(name, first, min(first + PART, number)):
                    crc = crc32c(run.batch.payload, crc)
                found.append((number, first, crc))
        return found

    def check_sums(self, found: Any) -> None:
        self.assertIsInstance(found, list, found)
        self.assertEqual(len(found), 30)
        for at, (number, first, crc) in enumerate(found):
            lines = map(self.publishers[at % 2].line, range(first, min(first + PART, number)))
            self.assertEqual(crc32c(b"".join(lines)), crc)
            self.assertGreaterEqual(number, found[max(at - 2, at % 2)][0])

    def test_read_only(self) -> None:
        """Somebody who can only read: while the daemon runs, after it was killed, after it stopped; and can't write."""
        self.loaded.load()
        self.loaded.wait_for_folds(3)
        self.check_sums(self.read_only(self.sums))
        self.check_sums(self.read_only(self.sums))
        self.daemon.kill()
        self.ended()
        killed = self.read_only(self.sums)
        self.check_sums(killed)
        self.assertGreaterEqual(killed[1][0], self.publishers[1].acknowledged)
        self.daemon.start()
        self.assertEqual(self.daemon.terminate(), 0)
        self.assertGreaterEqual(self.read_only(self.sums)[1][0], killed[1][0])
        # Closed in order by its last user, the catalog is one file, and nobody can make the others.
        Catalog(Disk(), self.data, read_identity(Disk(), self.data), writable=True).close()
        self.assertFalse(os.path.exists(os.path.join(self.data, "catalog.sqlite-wal")))
        self.check_sums(self.read_only(self.sums))
        self.assertFalse(os.path.exists(os.path.join(self.data, "catalog.sqlite-wal")))
        if not os.getuid():
            self.assertIn("Read-only", self.read_only(lambda: Disk().create(os.path.join(self.data, "x")).size()))

    def test_deleted(self) -> None:
        """A topic that is deleted and made again under the same name is another one: a read by id is refused."""
        reader = OutsideReader(self.data)
        id = reader.segment("one").id
        with self.daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write(b"@one\n>x\n")
            stream.flush()
            self.assertEqual([stream.readline(), stream.readline()], [b"+\n", b"+\n"])
        reader.refresh()
        self.assertEqual([run.batch.records() for run in reader.read(id, 0)], [[b"x"]])
        with self.daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write(b"!one\n#one\n@one\n>y\n")
            stream.flush()
            self.assertEqual([stream.readline() for _ in range(4)], [b"+\n"] * 4)
        # Somebody who has not looked yet still finds it in the journal. Who looks knows better.
        self.assertEqual([run.batch.records() for run in reader.read(id, 0)], [[b"x"]])
        reader.refresh()
        self.assertRaises(NoSuchSegment, list, reader.read(id, 0))
        self.assertEqual([run.batch.records() for run in reader.read("one", 0)], [[b"y"]])
        self.assertNotEqual(reader.segment("one").id, id)


class ImportTests(SynchronousTestCase):
    def test_no_reactor(self) -> None:
        """The reader needs no reactor, and imports none."""
        code = "import sys, streamd.store.reading.outside; print('twisted.internet.reactor' in sys.modules)"
        said = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        self.assertEqual(said.stdout, "False\n")
