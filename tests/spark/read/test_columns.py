"""Arrow batches hold what the runs hold, whatever they look like."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.spark.read import columns
from streamd.spark.read.columns import TYPES, arrow_schema, batches
from streamd.spark.read.source import COLUMNS
from streamd.store.reading.plan import Run
from streamd.store.records.offsets import TAG_RAW
from streamd.wire import smq

RECORDS = st.lists(st.binary(max_size=20), min_size=1, max_size=8)
RUNS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1 << 51), st.sampled_from([0, 1, 2, 11, TAG_RAW, 77]), RECORDS),
    max_size=12,
)

Row = tuple[str, int, datetime, str | None, bytes]


def schema(names: list[str]) -> StructType:
    found = StructType()
    for name in names:
        found.add(name, COLUMNS[name])
    return found


def laid_out(pieces: list[tuple[int, int, int, list[bytes]]], topic: str, first: int) -> tuple[list[Run], list[Row]]:
    """Runs, with gaps in front of some, and the rows that they stand for."""
    runs, rows = [], []
    number = first
    for gap, timestamp, tag, records in pieces:
        number += gap
        # As a reader gives them: of a part of what was read.
        batch = Batch.of([b"before", *records, b"behind"])
        payload = memoryview(batch.payload)[6:-6]
        runs.append(Run(number, 0, timestamp, tag, Batch(batch.lengths[1:-1], payload)))
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=timestamp)
        rows += [(topic, number + at, moment, TYPES.get(tag), data) for at, data in enumerate(records)]
        number += len(records)
    return runs, rows


class ColumnTests(SynchronousTestCase):
    @given(RUNS, st.text(min_size=1, max_size=9), st.integers(0, 1 << 40), st.integers(1, 20), st.integers(1, 60))
    def test_same(
        self, pieces: list[tuple[int, int, int, list[bytes]]], topic: str, first: int, records: int, size: int
    ) -> None:
        """Row for row the same, in whatever batches."""
        runs, rows = laid_out(pieces, topic, first)
        wanted = arrow_schema(schema(list(COLUMNS)))
        with patch.object(columns, "BATCH_RECORDS", records), patch.object(columns, "BATCH_BYTES", size):
            made = list(batches(wanted, topic, runs))
        found: list[Row] = []
        for each in made:
            each.validate(full=True)
            self.assertEqual(each.schema, wanted)
            self.assertGreater(each.num_rows, 0)
            found += [tuple(row.values()) for row in each.to_pylist()]
        self.assertEqual(found, rows)

    def test_few_large_batches(self) -> None:
        """Many small runs become few batches, of about the size that is meant."""
        runs = [Run(at, 0, at, 0, Batch.of([b"x" * 100])) for at in range(200_000)]
        made = list(batches(arrow_schema(schema(["value"])), "a", runs))
        self.assertEqual(sum(each.num_rows for each in made), 200_000)
        self.assertLessEqual(len(made), 6)

    def test_only_these(self) -> None:
        """Any choice of columns, in any order."""
        runs, rows = laid_out([(0, 5, 1, [b"ab", b""]), (0, 6, 0, [b"c"])], "t", 3)
        names = list(COLUMNS)
        for count in range(1, len(names) + 1):
            for some in combinations(reversed(names), count):
                (made,) = batches(arrow_schema(schema(list(some))), "t", runs)
                wanted = [tuple(row[names.index(name)] for name in some) for row in rows]
                self.assertEqual([tuple(row.values()) for row in made.to_pylist()], wanted)

    def test_types(self) -> None:
        """The words are those of the queue's page, and the tags those of its codec."""
        for number, word in enumerate(["U8", "U16", "U32", "U64", "I8", "I16", "I32", "I64", "F32", "F64", "Str"]):
            data = b"\0" * 8
            message = smq.MESSAGE.pack(number, 8 if word == "Str" else 8 // smq._SIZES[number]) + data
            (push,) = smq.SmqCodec(100).receive(smq.HEADER.pack(smq.PUSH, len(message)) + message)
            assert isinstance(push, smq.Push)
            self.assertEqual(TYPES[push.tag], word)
