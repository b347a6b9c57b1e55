"""What goes to all numbered segments: stored once, had by all, at the same cost however many they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred

from streamd.batch import Batch
from streamd.store import RequestTooLarge, Segment, StoreReadOnly
from streamd.store.commit.appending import REQUEST_BYTES_MAX
from streamd.store.commit.fanout import ROWS_MAX
from streamd.store.journal.frame import ENTRY_BYTES_MAX, Kind
from streamd.store.journal.writer import FILE_ENTRIES_MAX
from streamd.store.packs.catalog import BROADCAST_PACK
from streamd.store.reading.outside import OutsideReader
from streamd.store.retention import Retention
from streamd.store.upkeep.problems import Severity
from streamd.store.upkeep.verify.check import verify
from tests.rigs.store.folded import FoldCase
from tests.rigs.store.inline import DIRECTORY, result_of
from tests.rigs.store.model import contents


class BroadcastCase(FoldCase):
    """A store with some streams."""

    def setUp(self) -> None:
        super().setUp()
        self.one, self.two, self.three = self.streams(1, 2, 3)

    def streams(self, *numbers: int) -> list[Segment]:
        """New numbered segments."""
        return self.create(*[f"faststream/{number}" for number in numbers])

    def broadcast(self, *records: bytes, without: Sequence[Segment] = ()) -> None:
        """Broadcast records, and wait for it."""
        self.do(self.store.broadcast, Batch.of(records), without=without)

    def all(self) -> list[list[bytes]]:
        """What the three streams hold."""
        return [self.records(f"faststream/{number}") for number in (1, 2, 3)]

    def sweep(self) -> None:
        """Let retention, without any rule, go over the store once."""
        retention = Retention(
            self.store, [], interval_seconds=1, hidden_seconds_max=0, clock=self.clock, now=lambda: 0.0
        )
        swept = retention.sweep()
        for _ in range(10):
            self.clock.advance(0)
            self.writer.run()
        result_of(swept)


class OrderTests(BroadcastCase):
    """Who has what, in which order."""

    def test_between_own(self) -> None:
        """It stands where it came, between what others appended; another kind of segment has it not."""
        (topic,) = self.create("topic")
        self.broadcast(b"a")
        self.append(self.one, b"own")
        self.broadcast(b"b", b"c")
        self.append(self.two, b"mine")
        self.append(topic, b"topic")
        self.broadcast(b"d")
        self.assertEqual(
            self.all(), [[b"a", b"own", b"b", b"c", b"d"], [b"a", b"b", b"c", b"mine", b"d"], [b"a", b"b", b"c", b"d"]]
        )
        self.assertEqual(self.records(topic), [b"topic"])

    def test_one_commit(self) -> None:
        """All of it in one commit is the same: what is pending counts, in the order of the requests."""
        asked: list[Deferred[Any]] = [
            self.store.append(self.one, Batch.of([b"1"])),
            self.store.broadcast(Batch.of([b"a"])),
            self.store.broadcast(Batch.of([b"b"])),
            self.store.append(self.one, Batch.of([b"2"])),
            self.store.append(self.two, Batch.of([b"3"])),
            self.store.create("faststream/4"),
            self.store.broadcast(Batch.of([b"c"]), without=[self.two, self.two]),
            self.store.append(self.one, Batch.of([b"4"])),
            self.store.seal(self.three),
            self.store.broadcast(Batch.of([b"d"])),
        ]
        self.assertEqual(self.one.next_number, 7)
        self.writer.run()
        places = [result_of(answer) for answer in asked]
        self.assertEqual([places[at][0] for at in (0, 3, 4, 7)], [0, 3, 2, 5])
        expected = [[b"1", b"a", b"b", b"2", b"c", b"4", b"d"], [b"a", b"b", b"3", b"d"], [b"a", b"b", b"c"]]
        for _ in range(2):
            self.assertEqual(self.all(), expected)
            self.assertEqual(self.records("faststream/4"), [b"c", b"d"])
            self.kill()

    def test_left_out(self) -> None:
        """Who is left out does not have it; others of that name, and segments of other kinds, do not matter."""
        (topic,) = self.create("topic")
        self.do(self.store.delete, self.three)
        self.broadcast(b"a", b"b", without=[self.one, self.three, topic])
        self.broadcast(b"c")
        self.assertEqual(self.records(self.one), [b"c"])
        self.assertEqual(self.records(self.two), [b"a", b"b", b"c"])

    def test_nobody(self) -> None:
        """With nobody there, nothing is stored; one that is just being created is somebody."""
        for segment in (self.one, self.two, self.three):
            self.do(self.store.delete, segment)
        self.broadcast(b"lost")
        self.assertEqual(self.store.broadcasts.id, 0)
        created = self.store.create("faststream/9")
        self.broadcast(b"kept")
        self.assertEqual(self.records(result_of(created)), [b"kept"])
        self.broadcast()
        self.refuses(RequestTooLarge, self.store.broadcast, Batch.of([bytes(REQUEST_BYTES_MAX)]))

    def test_waiting(self) -> None:
        """Who waits at the end of a stream is told; once, and only where it is for that stream."""
        waits = [self.store.wait(self.one, 0), self.store.wait(self.two, 0), self.store.wait(self.one, 1)]
        self.broadcast(b"x", without=[self.two])
        self.assertEqual([wait.called for wait in waits], [True, False, False])
        self.broadcast(b"y")
        self.assertEqual([wait.called for wait in waits], [True, True, True])

    def test_modified(self) -> None:
        """A broadcast is a change of those that received it, also for who asks after a start; trimming is none."""
        self.writer.now = 2_000_000
        self.broadcast(b"x", without=[self.two])
        received = self.one.modified
        self.assertGreater(received, self.two.modified)
        self.writer.now = 3_000_000
        for segment in (self.one, self.three):
            self.do(self.store.delete, segment)
        self.sweep()
        (late,) = self.streams(4)
        self.assertEqual(self.store.broadcasts.modified, received)
        self.assertGreater(late.modified, received)

    def test_full(self) -> None:
        """On a full disk it fails whole, and the next one finds everything as it was; the first of all too."""
        for _ in range(2):
            before = contents(self.store)
            self.disk.capacity_bytes = 0
            asked = [
                self.store.broadcast(Batch.of([b"x" * 2_000_000]), without=[self.two]),
                self.store.append(self.one, Batch.of([b"behind"])),
            ]
            self.writer.run()
            for answer in asked:
                self.assertRaises(StoreReadOnly, result_of, answer)
            self.assertEqual(contents(self.store), before)
            self.disk.capacity_bytes = None
            self.clock.advance(2)
            number = self.one.number
            self.broadcast(b"room again", without=[self.two])
            self.assertEqual(self.append(self.one, b"own")[0], number + 1)
        self.kill()
        self.assertEqual(self.all(), [[b"room again", b"own"] * 2, [], [b"room again"] * 2])


class CostTests(BroadcastCase):
    """It costs the same for three and for a thousand."""

    def test_journal_and_memory(self) -> None:
        """One entry, no rows in memory; and a stream that goes on has one row more, whatever it had missed."""
        self.broadcast(b"first")
        length = self.frames()[-1].length
        many = self.streams(*range(100, 1100))
        for _ in range(50):
            self.broadcast(b"other")
        frame = self.frames()[-1]
        self.assertEqual([entry.kind for entry in frame.headers], [Kind.APPEND])
        self.assertLess(frame.length, length)
        self.assertEqual([segment.index for segment in many], [None] * 1000)
        self.append(many[0], b"own")
        assert many[0].index is not None
        self.assertEqual((len(many[0].index), many[0].number), (2, 51))

    def test_catalog(self) -> None:
        """A fold writes the records once, and nothing for who has not changed otherwise."""
        for _ in range(20):
            self.broadcast(b"r" * 1000)
        self.append(self.one, b"own")
        self.broadcast(b"s" * 1000)
        expected = contents(self.store)
        self.fold()
        self.assertLess(self.pack_bytes(), 25_000)
        references = list(self.compactor.catalog.references())
        self.assertEqual([(row.segment, row.records, row.pack) for row in references], [(self.one.id, 20, 0)])
        self.assertEqual(BROADCAST_PACK, 0)
        self.assertEqual(contents(self.store), expected)
        self.reopen()
        self.assertEqual(contents(self.store), expected)

    def test_many_rows(self) -> None:
        """Where one entry is a row for each of many segments, these count, and end the journal file."""
        before = self.store.closed_file
        # No two copies of it fit into an entry, so each is a row.
        large = Batch.of([bytes(ENTRY_BYTES_MAX // 2)])
        for _ in range(FILE_ENTRIES_MAX // ROWS_MAX + 1):
            self.assertEqual(self.store.closed_file, before)
            self.do(self.store.fan_out, [self.one] * ROWS_MAX, large)
        self.assertGreater(self.store.unfolded_entries, FILE_ENTRIES_MAX)
        self.append(self.two, b"x")
        self.assertEqual(self.store.closed_file, before + 1)


class TrimTests(BroadcastCase):
    """Nothing is kept that nobody can read."""

    def test_when_all_have_taken_it(self) -> None:
        """Records go when the last stream has truncated them, wherever their place is noted."""
        for round in range(4):
            for _ in range(5):
                self.broadcast(b"x" * 300)
            self.append(self.store.find("faststream/1"), b"own")
            if round % 2:
                self.fold()
            first = self.store.broadcasts.first_number
            for number in (1, 2):
                segment = self.store.find(f"faststream/{number}")
                self.do(self.store.truncate, segment, segment.number)
            self.sweep()
            self.assertEqual(self.store.broadcasts.first_number, first)
            third = self.store.find("faststream/3")
            self.do(self.store.truncate, third, third.number - 1)
            if round % 2:
                # What the catalog notes of the first one goes with the fold.
                self.fold()
            self.sweep()
            self.assertEqual(self.store.broadcasts.first_number, first + 5 - (not first))
            self.assertEqual(self.all(), [[], [], [b"x" * 300]])

    def test_gone(self) -> None:
        """Who is deleted needs nothing; who is sealed keeps what it has."""
        self.broadcast(b"1")
        self.do(self.store.seal, self.one)
        self.broadcast(b"2")
        for segment in (self.two, self.three):
            self.do(self.store.delete, segment)
        self.sweep()
        self.assertEqual(self.store.broadcasts.first_number, 0)
        self.assertEqual(self.records(self.one), [b"1"])
        self.do(self.store.delete, self.one)
        self.sweep()
        self.assertEqual(self.store.broadcasts.first_number, 2)

    def test_room(self) -> None:
        """The room comes back on disk."""
        self.broadcast(b"x" * 100_000)
        self.fold()
        held = self.pack_bytes()
        for number in (1, 2, 3):
            segment = self.store.find(f"faststream/{number}")
            self.do(self.store.truncate, segment, segment.number)
        self.sweep()
        self.fold()
        self.compactor.merge()
        self.assertLess(self.pack_bytes(), held / 10)


class OutsideTests(BroadcastCase):
    """Those who look at the files."""

    def test_reader(self) -> None:
        """A reader outside sees the same, from the journal and from packs, and finds times in it."""
        for at in range(30):
            self.writer.now = 2_000_000 + 10 * at
            self.broadcast(b"%d" % at)
            if at % 7 == 0:
                self.append(self.one, b"own")
        for _ in range(2):
            with OutsideReader(DIRECTORY, disk=self.disk) as reader:
                for number in (1, 2):
                    runs = list(reader.read(f"faststream/{number}", 0))
                    read = [bytes(record) for run in runs for record in run.batch.records()]
                    self.assertEqual(read, self.records(f"faststream/{number}"))
                at = reader.number_at("faststream/2", runs[20].timestamp)
                self.assertEqual(at, runs[20].number)
                self.assertLessEqual(len(reader.split_points("faststream/1", 0, 35, 4)), 3)
            self.fold()

    def test_verify(self) -> None:
        """Where broadcast records are missing that a stream needs, that is said."""
        self.broadcast(b"x", b"y")
        self.append(self.one, b"own")
        self.fold()
        self.assertEqual(verify(self.disk, DIRECTORY), [])
        catalog = self.compactor.catalog
        broadcast = catalog.broadcast()
        assert broadcast is not None
        broadcast.truncated(1, 9)
        with catalog:
            catalog.put_segment(broadcast)
        found = [str(each) for each in verify(self.disk, DIRECTORY) if each.severity is Severity.ERROR]
        self.assertTrue(any("broadcast records 0 to 1" in each for each in found), found)
