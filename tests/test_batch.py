"""The batch: two buffers that say the same as a list of records."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import LENGTH_TYPE, Batch

RECORDS = st.lists(st.binary(max_size=12), max_size=12)
SETTINGS = settings(derandomize=True, deadline=None)


def plain(batch: Batch) -> list[bytes]:
    """The records of a batch, and that its two buffers agree."""
    assert sum(batch.lengths) == len(batch.payload)
    return [bytes(record) for record in batch.records()]


class BatchTests(SynchronousTestCase):
    """Whatever is done with a batch is what is done with the list of its records."""

    @given(RECORDS)
    @SETTINGS
    def test_of(self, records: list[bytes]) -> None:
        """A batch gives back its records, from every kind of buffer."""
        batch = Batch.of(records)
        self.assertEqual(plain(batch), records)
        self.assertEqual((batch.count, batch.size), (len(records), sum(map(len, records))))
        self.assertEqual(list(batch.lengths), list(map(len, records)))
        for kind in (bytes, bytearray, memoryview):
            self.assertEqual(plain(Batch(batch.lengths, kind(batch.payload))), records)
            self.assertEqual(plain(Batch.of([kind(record) for record in records])), records)

    @given(st.lists(RECORDS, min_size=1, max_size=5))
    @SETTINGS
    def test_joined(self, lists: list[list[bytes]]) -> None:
        """Joined batches hold the records of all, in order, and are themselves unchanged."""
        batches = [Batch.of(records) for records in lists]
        self.assertEqual(plain(Batch.joined(batches)), [record for records in lists for record in records])
        self.assertEqual([plain(batch) for batch in batches], lists)

    def test_joined_one(self) -> None:
        """One batch joined is that batch: nothing is copied."""
        batch = Batch.of([b"x"])
        self.assertIs(Batch.joined([batch]), batch)

    def test_common_size(self) -> None:
        """The size of all records where it is one, also where that is nothing."""
        for records, size in (
            ([], None),
            ([b""], 0),
            ([b"abc"], 3),
            ([b"ab", b"cd"] * 100, 2),
            ([b"ab"] * 100 + [b"c"], None),
            ([b"", b"a"], None),
        ):
            self.assertEqual(Batch.of(records).common_size, size)

    @given(RECORDS)
    @SETTINGS
    def test_part(self, records: list[bytes]) -> None:
        """A part is a slice of the records, for every slice, without a copy of the payload."""
        batch = Batch.of(records)
        for first in range(len(records) + 1):
            for last in range(first, len(records) + 3):
                part = batch.part(first, last)
                self.assertEqual(plain(part), records[first:last])
                if isinstance(part.payload, memoryview):
                    self.assertIs(part.payload.obj, batch.payload)

    @given(RECORDS, st.integers(0, 40))
    @SETTINGS
    def test_fitting(self, records: list[bytes], bytes_max: int) -> None:
        """The longest run that fits, from every place, and never none where there is a record."""
        batch = Batch.of(records)
        for first in range(len(records)):
            end = batch.fitting(first, bytes_max)
            self.assertGreater(end, first)
            if end > first + 1:
                self.assertLessEqual(sum(map(len, records[first:end])), bytes_max)
            if end < len(records):
                self.assertGreater(sum(map(len, records[first : end + 1])), bytes_max)
        self.assertEqual(batch.fitting(len(records), bytes_max), len(records))

    @given(RECORDS, st.integers(0, 40))
    @SETTINGS
    def test_split(self, records: list[bytes], bytes_max: int) -> None:
        """The parts are the whole, and each fits or is one record."""
        parts = list(Batch.of(records).split(bytes_max))
        self.assertEqual([record for part in parts for record in plain(part)], records)
        for part in parts:
            self.assertTrue(part.size <= bytes_max or part.count == 1)

    def test_equal(self) -> None:
        """Batches are equal when their records are, whatever holds them; and nobody puts them into a set."""
        one = Batch.of([b"a", b"bc"])
        self.assertEqual(one, Batch(array(LENGTH_TYPE, [1, 2]), memoryview(b"abc")))
        self.assertNotEqual(one, Batch.of([b"ab", b"c"]))
        self.assertNotEqual(one, Batch.of([b"a", b"bd"]))
        self.assertNotEqual(one, [b"a", b"bc"])
        self.assertRaises(TypeError, hash, one)
        self.assertEqual(repr(one), "<Batch of 2 records, 3 bytes>")
