"""Records that were read just now: what is given at once is what a read gives, and no more is kept than may be."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store import Run
from streamd.store.reading.recent import FEW_RECORDS, Recent
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import Compactor

RECORDS = [b"%d" % number * (1 + number % 7) for number in range(100)]


class RecentTests(SynchronousTestCase):
    def run_of(self, first: int, count: int, size: int = 10) -> Run:
        return Run(first, first * (size + 8), 7, 1, Batch.of([bytes(size)] * count))

    def test_every_part(self) -> None:
        """From every record on, for every number of records and bytes, what is given is what a reader would get."""
        for tag, overhead in ((3, 8), (TAG_RAW, 0)):
            recent = Recent()
            recent.add(5, Run(1000, 50_000, 9, tag, Batch.of(RECORDS)))
            for first in range(len(RECORDS)):
                for records_max in (1, 2, 16):
                    for bytes_max in (0, 5, 10_000):
                        wanted = RECORDS[first : first + 1]
                        for record in RECORDS[first + 1 : first + records_max]:
                            if sum(map(len, wanted)) + len(record) > bytes_max:
                                break
                            wanted.append(record)
                        offset = 50_000 + sum(len(each) + overhead for each in RECORDS[:first])
                        expected = Run(1000 + first, offset, 9, tag, Batch.of(wanted))
                        self.assertEqual(recent.find(5, 1000 + first, records_max, bytes_max), expected)
            for id, number in ((5, 999), (5, 1100), (4, 1000)):
                self.assertIsNone(recent.find(id, number, 1, 100))

    def test_bounded(self) -> None:
        """The oldest go when there are too many; what is too large, or one record alone, is not kept."""
        recent = Recent(bytes_max=10_000)
        for first in range(0, 10_000, 10):
            recent.add(first // 1000, self.run_of(first, 10, size=92))
        here = [first for first in range(0, 10_000, 10) if recent.find(first // 1000, first, 1, 1) is not None]
        self.assertEqual(here, list(range(9_900, 10_000, 10)))
        self.assertEqual(list(recent._pieces), [9])
        recent.add(1, self.run_of(0, 2, size=6_000))
        recent.add(1, self.run_of(10, 1))
        self.assertEqual([recent.find(1, number, 1, 1) for number in (0, 10)], [None, None])

    def test_again(self) -> None:
        """What is here already, or in part, is not kept twice."""
        recent = Recent(bytes_max=10_000)
        for _ in range(1000):
            recent.add(1, self.run_of(100, 10))
            recent.add(1, self.run_of(105, 10))
        self.assertIsNone(recent.find(1, 112, 1, 1))
        recent.add(1, self.run_of(90, 10))
        for number in range(90, 110):
            self.assertIsNotNone(recent.find(1, number, 1, 1))


class StoreTests(StoreCase):
    def test_same_as_read(self) -> None:
        """Of journal and pack: what is at hand is what a read gives, once one of the same entry was read."""
        (segment,) = self.create("a")
        self.append(segment, *RECORDS)
        for packed in (False, True):
            for first in range(0, len(RECORDS), 9):
                runs = self.do(self.store.read, segment, first, bytes_max=10_000, records_max=3)
                run = self.store.recent(segment, first, bytes_max=10_000, records_max=3)
                self.assertEqual([run], runs, (packed, first))
            if not packed:
                self.do(self.store.seal, segment)
                self.store._pipeline.gathering.roll = True
                self.create("b")
                compactor = Compactor(self.disk, self.store)
                compactor.fold()

    def test_not_at_hand(self) -> None:
        """What was not read, lies at the end, is truncated or deleted, or is more than a few, is not."""
        (segment,) = self.create("a")
        self.append(segment, *RECORDS)

        def at(number: int, records_max: int = 1) -> Run | None:
            return self.store.recent(segment, number, bytes_max=1000, records_max=records_max)

        self.assertIsNone(at(0))
        self.do(self.store.read, segment, 50, bytes_max=1, records_max=1)
        self.assertEqual([at(number) is None for number in (-1, 0, 50, 99, 100)], [True, False, False, False, True])
        self.assertEqual([at(0, FEW_RECORDS) is None, at(0, FEW_RECORDS + 1) is None], [False, True])
        self.do(self.store.truncate, segment, 60)
        self.assertEqual([at(number) is None for number in (59, 60)], [True, False])
        self.do(self.store.delete, segment)
        self.assertIsNone(at(60))
