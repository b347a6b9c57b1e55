"""Reading: by number and by offset, up to any limit, and waiting at the tail."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from streamd.batch import Batch
from streamd.store import (
    RecordsTruncated,
    StoreError,
)
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.case import StoreCase, Told
from tests.rigs.store.inline import result_of


class ReadTests(StoreCase):
    """Records are read by number or by offset, from any place, up to any limit."""

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("news")
        self.expected: list[bytes] = []
        # Several commits, several entries in one, several tags, and some of them empty.
        sizes = [[3, 0, 5], [1], [0, 0], [10, 20, 30, 40], [2], [7, 7, 7]]
        for at, lengths in enumerate(sizes):
            records = [bytes([97 + at]) * length for length in lengths]
            self.append(self.segment, *records, tag=(0, 4, TAG_RAW)[at % 3])
            self.expected += records

    def offsets(self) -> list[int]:
        runs = result_of(self.store.read(self.segment, 0, bytes_max=1 << 20))
        found = []
        for run in runs:
            offset = run.offset
            for length in run.batch.lengths:
                found.append(offset)
                offset += length + (0 if run.tag & TAG_RAW else 8)
        return found

    def flat(self, *args: int, **limits: Any) -> list[tuple[int, bytes]]:
        found = []
        for run in result_of(self.store.read(self.segment, *args, **limits)):
            for at, record in enumerate(run.batch.records()):
                found.append((run.number + at, bytes(record)))
        return found

    def test_by_number(self) -> None:
        """From every number, with every byte and record limit: as many as fit, at least one, none twice."""
        for is_cold in (False, True):
            self.disk.is_cold = is_cold
            for number in range(len(self.expected) + 2):
                for bytes_max in (0, 1, 3, 8, 9, 30, 31, 60, 1000):
                    for records_max in (1, 2, 5, 100):
                        wanted: list[tuple[int, bytes]] = []
                        size = 0
                        for at, record in enumerate(self.expected[number:], number):
                            size += len(record)
                            if wanted and (size > bytes_max or len(wanted) == records_max):
                                break
                            wanted.append((at, record))
                        got = self.flat(number, bytes_max=bytes_max, records_max=records_max)
                        # It may stop where the limit is reached and only empty records follow.
                        if len(got) < len(wanted):
                            self.assertEqual(sum(len(record) for _, record in got), bytes_max)
                            self.assertEqual(b"".join(record for _, record in wanted[len(got) :]), b"")
                        self.assertEqual(got, wanted[: len(got)])
                        self.assertTrue(got or not wanted)

    def test_by_offset(self) -> None:
        """An offset inside a record is read from that record on; one that falls between, from the next."""
        offsets = self.offsets()
        for offset in range(self.segment.offset + 3):
            runs = result_of(self.store.read_at(self.segment, offset, bytes_max=1))
            inside = [number for number, begin in enumerate(offsets) if begin <= offset]
            if offset >= self.segment.offset:
                self.assertEqual(runs, [])
            else:
                self.assertEqual((runs[0].number, runs[0].offset), (inside[-1], offsets[inside[-1]]))
                self.assertEqual(runs[0].batch.records()[0], self.expected[inside[-1]])

    def test_restart(self) -> None:
        """A restart changes neither numbers nor offsets nor bytes."""
        before = self.offsets()
        self.reopen()
        self.segment = self.store.find("news")
        self.assertEqual((self.offsets(), self.records("news")), (before, self.expected))

    def test_many_files(self) -> None:
        """A read goes over as many files as it takes, more than are kept open."""
        for number in range(60):
            self.append(self.segment, bytes([number]) * 100_000)
        self.assertGreater(len(self.files()), self.settings.open_files_max)
        self.assertEqual(self.records("news")[-60:], [bytes([number]) * 100_000 for number in range(60)])
        self.assertEqual(self.records("news")[:14], self.expected)

    def test_many_commits(self) -> None:
        """A read may give less than was asked for where there are very many small commits, but it always goes on."""
        for number in range(1500):
            self.append(self.segment, b"%d" % number)
        self.assertEqual(self.records("news")[-1500:], [b"%d" % number for number in range(1500)])

    def test_truncate(self) -> None:
        """What was truncated is refused with the place to go on; the rest keeps its numbers and offsets."""
        offsets = self.offsets()
        for number in range(len(self.expected) + 1):
            self.do(self.store.truncate, self.segment, number)
            end = number == len(self.expected)
            offset = self.segment.offset if end else offsets[number]
            self.assertEqual((self.segment.first_number, self.segment.first_offset), (number, offset))
            self.assertEqual(self.records(self.segment), self.expected[number:])
            for before in range(number):
                error = self.assertRaises(RecordsTruncated, self.store.read, self.segment, before, bytes_max=1)
                self.assertEqual((error.first_number, error.first_offset), (number, offset))
            if offset:
                self.assertRaises(RecordsTruncated, self.store.read_at, self.segment, offset - 1, bytes_max=1)
            self.reopen()
            self.segment = self.store.find("news")
            self.assertEqual(self.records(self.segment), self.expected[number:])
        self.append(self.segment, b"next")
        self.assertEqual(self.flat(len(self.expected), bytes_max=10), [(len(self.expected), b"next")])

    def test_truncate_is_bounded(self) -> None:
        """Truncating back, or again, changes nothing; behind the end it drops what is committed, and not more."""
        self.do(self.store.truncate, self.segment, 5)
        self.do(self.store.truncate, self.segment, 5)
        self.do(self.store.truncate, self.segment, 2)
        self.assertEqual(self.segment.first_number, 5)
        told = Told()
        told.when(1, self.store.append(self.segment, Batch.of([b"pending"])))
        told.when(2, self.store.truncate(self.segment, 1_000))
        told.when(3, self.store.truncate(self.segment, 7))
        self.assertEqual(told.names, [])
        self.writer.run()
        self.assertEqual(told.names, [1, 2, 3])
        self.assertEqual(self.records(self.segment), [b"pending"])
        self.reopen()
        self.assertEqual(self.records("news"), [b"pending"])

    def test_bad_number(self) -> None:
        """There is nothing before the first record, and that is said."""
        self.assertRaises(RecordsTruncated, self.store.read, self.segment, -1, bytes_max=1)


class WaitTests(StoreCase):
    """Who is at the tail can wait there."""

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("news")
        self.append(self.segment, b"0")

    def test_wait(self) -> None:
        """It fires when the record is committed: at once, or with the append that brings it, not with one before."""
        told = Told()
        for number in range(4):
            told.when(number, self.store.wait(self.segment, number))
        self.assertEqual(told.names, [0])
        self.store.append(self.segment, Batch.of([b"1"]))
        self.assertEqual(told.names, [0])
        self.writer.run()
        self.assertEqual(told.names, [0, 1])
        self.append(self.segment, b"2", b"3")
        self.assertEqual(told.names, [0, 1, 2, 3])

    def test_fan_out(self) -> None:
        """A fan-out wakes them too."""
        waiting = self.store.wait(self.segment, 1)
        self.do(self.store.fan_out, [self.segment], Batch.of([b"x"]))
        self.successResultOf(waiting)

    def test_over(self) -> None:
        """It fires when the record will never come: the segment is sealed, or deleted."""
        waiting = self.store.wait(self.segment, 1)
        self.do(self.store.seal, self.segment)
        self.successResultOf(waiting)
        self.successResultOf(self.store.wait(self.segment, 1))
        (other,) = self.create("other")
        waiting = self.store.wait(other, 1)
        self.do(self.store.delete, other)
        self.successResultOf(waiting)
        self.successResultOf(self.store.wait(other, 1))

    def test_cancel(self) -> None:
        """Who stops waiting is forgotten, and the others are not."""
        waiting = [self.store.wait(self.segment, 1) for _ in range(3)]
        waiting[1].cancel()
        self.failureResultOf(waiting[1], CancelledError)
        self.append(self.segment, b"1")
        self.successResultOf(waiting[0])
        self.successResultOf(waiting[2])
        self.assertFalse(self.segment.waiters)

    def test_cancelled_by_another(self) -> None:
        """Who is woken may end the waiting of others."""
        waiting: list[Deferred[None]] = [self.store.wait(self.segment, 1) for _ in range(3)]
        waiting[0].addCallback(lambda _: waiting[1].cancel())
        self.append(self.segment, b"1")
        self.failureResultOf(waiting[1], CancelledError)
        self.successResultOf(waiting[2])

    def test_wait_again(self) -> None:
        """Who is woken may read, append and wait again."""
        seen: list[int] = []

        def woken(_: object) -> None:
            seen.append(self.segment.number)
            if len(seen) < 5:
                self.store.append(self.segment, Batch.of([b"more"]))
                self.store.wait(self.segment, self.segment.number).addCallback(woken)

        self.store.wait(self.segment, 1).addCallback(woken)
        self.append(self.segment, b"1")
        self.assertEqual(seen, [2, 3, 4, 5, 6])

    def test_bad_range(self) -> None:
        """Nobody acknowledges, or is put, where there is nothing."""
        for ranges in ([(0, 2)], [(1, 1)], [(-1, 1)], [(1, 0)]):
            self.refuses(StoreError, self.store.acknowledge, self.segment, "g", ranges)
        for position in (-1, 1 << 63):
            self.refuses(StoreError, self.store.set_group, self.segment, "g", position)
