"""Reading across journal, packs and published segments: the same records wherever they are, and while they move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store import NoSuchSegment, ReadFailed, RecordsTruncated, Run, Segment
from streamd.store.commit import pipeline as pipelines
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.case import StoreCase, Told
from tests.rigs.store.inline import PACKS, Compactor, open_inline, result_of


class PackedCase(StoreCase):
    """A store whose slow work waits until a test lets it run, where `slow` says so."""

    settings = StoreSettings(journal_file_bytes=4096, reserve_bytes=512, open_files_max=4)
    slow = False

    def setUp(self) -> None:
        self.waiting: list[Callable[[], object]] = []
        super().setUp()

    def open(self) -> None:
        self.store, self.writer = open_inline(self.disk, self.settings, clock=self.clock, run=self.run_slowly)
        self.compactor = Compactor(self.disk, self.store)

    def run_slowly(self, call: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """What the pool of threads does; with `slow`, when `catch_up` is called."""
        if not self.slow:
            return maybeDeferred(call, *args)
        done: Deferred[Any] = Deferred()
        self.waiting.append(lambda: maybeDeferred(call, *args).chainDeferred(done))
        return done

    def catch_up(self) -> None:
        """Let what waits run, one round of it."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()

    def fill(self, segment: Segment, first: int, count: int) -> None:
        """Append numbered records, each in a commit of its own."""
        for number in range(first, first + count):
            self.append(segment, self.record(number), tag=TAG_RAW if number % 5 == 0 else 0)

    def record(self, number: int) -> bytes:
        """A record whose size depends on its number."""
        return b"%04d" % number * (1 + number % 7 * 9)

    def next_file(self) -> None:
        """Close the journal file, by filling it with something else."""
        (other,) = self.create(f"other {self.store.closed_file}")
        file = self.store.closed_file
        while self.store.closed_file == file:
            self.append(other, b"x" * 500)


class PlacesTests(PackedCase):
    """One segment with records in a pack, a merged pack, published ones, and the journal."""

    def build(self) -> Segment:
        (a,) = self.create("a")
        self.fill(a, 0, 20)
        self.next_file()
        self.compactor.fold()
        hidden = self.do(self.store.create, "h", hidden=True)
        self.fill(hidden, 20, 10)
        self.next_file()
        # Half of what will be published is in a pack under the hidden one's name.
        self.compactor.fold()
        self.fill(hidden, 30, 5)
        self.do(self.store.publish, [(hidden, a)])
        self.fill(a, 35, 5)
        self.next_file()
        return a

    def check(self, segment: Segment) -> None:
        """From every number, and every offset, the records are the right ones."""
        records = [self.record(number) for number in range(40)]
        offsets = [0]
        for number, record in enumerate(records):
            offsets.append(offsets[-1] + len(record) + (0 if number % 5 == 0 else 8))
        self.assertEqual((segment.number, segment.offset), (40, offsets[-1]))
        for cold in (False, True):
            self.disk.is_cold = cold
            self.assertEqual(self.records(segment), records)
            for number in range(40):
                (run,) = result_of(self.store.read(segment, number, bytes_max=1, records_max=1))
                self.assertEqual(
                    (run.number, run.offset, bytes(run.batch.payload)), (number, offsets[number], records[number])
                )
                for offset in {offsets[number], offsets[number + 1] - 1}:
                    (run,) = result_of(self.store.read_at(segment, offset, bytes_max=1, records_max=1))
                    self.assertEqual((run.number, run.offset), (number, offsets[number]))
        times = [run.timestamp for run in self.runs(segment.name)]
        self.assertEqual(times, sorted(times))

    def test_everywhere(self) -> None:
        """Published, then folded, then merged, then opened again: nothing changes for a reader."""
        a = self.build()
        self.check(a)
        self.compactor.fold()
        self.check(a)
        times = [(run.number, run.timestamp) for run in self.runs("a")]
        self.compactor.merge(self.compactor.packs())
        self.check(a)
        # Blocks are larger now, so runs may be fewer, but each record has the time it had.
        for number, timestamp in times:
            (run,) = result_of(self.store.read(a, number, bytes_max=1, records_max=1))
            self.assertEqual(run.timestamp, timestamp)
        self.kill()
        self.check(self.store.find("a"))

    def test_folded_and_not_told(self) -> None:
        """Between the catalog's transaction and the daemon's knowledge of it."""
        a = self.build()
        self.compactor.fold(told=False)
        self.check(a)
        self.compactor.merge(self.compactor.packs(), told=False)
        self.check(a)

    def test_few_open_files(self) -> None:
        """More packs than files may be open."""
        (a,) = self.create("a")
        for first in range(0, 40, 4):
            self.fill(a, first, 4)
            self.next_file()
            self.compactor.fold()
        self.assertGreater(len(self.compactor.packs()), self.settings.open_files_max)
        self.check(a)

    def test_number_at(self) -> None:
        """By time: the first record from a time on, or one before it in its block; never a later one."""
        a = self.build()

        def check() -> None:
            for run in self.runs("a"):
                number = result_of(self.store.number_at(a, run.timestamp))
                self.assertLessEqual(number, run.number)
                (found,) = result_of(self.store.read(a, number, bytes_max=1, records_max=1))
                self.assertLessEqual(found.timestamp, run.timestamp)
            self.assertEqual(result_of(self.store.number_at(a, a.modified + 1)), 40)
            self.assertEqual(result_of(self.store.number_at(a, 0)), a.first_number)

        check()
        self.compactor.fold()
        check()
        self.do(self.store.truncate, a, 7)
        check()
        self.compactor.merge(self.compactor.packs())
        check()

    def test_damaged(self) -> None:
        """A damaged block is not served; what stands before it is."""
        (a,) = self.create("a")
        self.fill(a, 0, 8)
        self.next_file()
        self.compactor.fold()
        path = f"{PACKS}/{self.disk.list_directory(PACKS)[0]}"
        self.disk.content(path)[200] ^= 4
        error = self.refuses(ReadFailed, self.store.read, a, 0, bytes_max=100)
        self.assertIn("pack 1 at 64", str(error))


class MovingTests(PackedCase):
    """What a reader has asked for while everything moves under him."""

    def setUp(self) -> None:
        super().setUp()
        (self.a,) = self.create("a")
        for first in (0, 20):
            self.fill(self.a, first, 20)
            self.next_file()
            self.compactor.fold()
        self.slow = True
        self.told = Told()

    def ask(self, number: int) -> None:
        """Begin to read at a record."""
        self.told.when(number, self.store.read(self.a, number, bytes_max=1, records_max=1))

    def answer(self) -> Any:
        """What the one who asked is told, in the end."""
        for _ in range(6):
            self.catch_up()
        ((_, result),) = self.told.results
        return result

    def is_right(self, result: list[Run], number: int) -> None:
        """It is this record."""
        self.assertEqual([(run.number, bytes(run.batch.payload)) for run in result], [(number, self.record(number))])

    def merge(self) -> None:
        """Merge all packs, and remove the old ones."""
        packs = self.compactor.packs()
        self.compactor.folder.merge(packs)
        self.store.merged(packs)

    def test_merged_before_the_catalog_is_asked(self) -> None:
        """Packs are merged, and the old ones removed, before the catalog is asked."""
        self.ask(5)
        self.merge()
        self.is_right(self.answer(), 5)

    def test_merged_after_the_catalog_was_asked(self) -> None:
        """The catalog's answer is old when it comes: it is asked again."""
        load = self.store._reader._packed.load

        def slow_load(segment: int, want: Any) -> Any:
            found = load(segment, want)
            self.store._reader._packed.load = load  # type: ignore[method-assign]
            self.slow = False
            self.merge()
            return found

        self.store._reader._packed.load = slow_load  # type: ignore[method-assign]
        self.ask(5)
        self.is_right(self.answer(), 5)

    def test_remembered(self) -> None:
        """What is remembered of packs that are gone is not relied on."""
        self.ask(5)
        self.answer()
        self.told.results.clear()
        self.slow = False
        self.merge()
        self.ask(6)
        self.is_right(self.answer(), 6)

    def test_truncated_meanwhile(self) -> None:
        """Truncated, and the catalog thinned, before it is asked: the reader is told, and not given something else."""
        self.ask(5)
        self.slow = False
        self.do(self.store.truncate, self.a, 30)
        waiting, self.waiting = self.waiting, []
        self.next_file()
        self.compactor.fold()
        self.merge()
        self.waiting = waiting
        self.assertIsInstance(self.answer(), RecordsTruncated)

    def test_deleted_meanwhile(self) -> None:
        """The same with a segment that is deleted."""
        self.ask(5)
        self.slow = False
        self.do(self.store.delete, self.a)
        waiting, self.waiting = self.waiting, []
        self.next_file()
        self.compactor.fold()
        self.merge()
        self.waiting = waiting
        self.assertIsInstance(self.answer(), NoSuchSegment)

    def test_a_missing_pack(self) -> None:
        """A pack that somebody took away is an error of the read, which names it, and nothing is asked for ever."""
        for name in self.disk.list_directory(PACKS):
            self.disk.unlink(f"{PACKS}/{name}")
        self.ask(5)
        result = self.answer()
        self.assertIsInstance(result, ReadFailed)
        self.assertIn(".pack", str(result))


class PressureTests(PackedCase):
    """Writers feel it when the compactor lags."""

    def test_writers_wait(self) -> None:
        """With too many entries that are not folded, commits wait for a fold, then go on; nothing is lost."""
        self.patch(pipelines, "UNFOLDED_ENTRIES_MAX", 30)
        (a,) = self.create("a")
        told = Told()
        for number in range(60):
            told.when(number, self.store.append(a, Batch.of([b"%d" % number * 100])))
            self.writer.run()
        held = len(told.names)
        self.assertLess(held, 32)
        self.assertGreater(self.store.pending_bytes, 0)
        self.assertEqual((self.store.waits_for_fold, self.store.counted.waits), (True, 1))
        self.compactor.fold()
        self.writer.run()
        self.assertFalse(self.store.waits_for_fold)
        self.assertEqual(told.names, list(range(60)))
        self.assertEqual(self.records(a), [b"%d" % number * 100 for number in range(60)])

    def test_close(self) -> None:
        """A store that is closed while writers wait writes what waits."""
        self.patch(pipelines, "UNFOLDED_ENTRIES_MAX", 5)
        (a,) = self.create("a")
        told = Told()
        for number in range(20):
            told.when(number, self.store.append(a, Batch.of([b"%d" % number])))
            self.writer.run()
        closed = self.store.close()
        self.writer.run()
        self.successResultOf(closed)
        self.assertEqual(told.names, list(range(20)))
        self.open()
        self.assertEqual(len(self.records("a")), 20)
