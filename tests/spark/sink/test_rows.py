"""Rows to records, and the sink's options: no Spark session is needed for these."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.sink.rows import by_topic, records

KINDS = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)


def found(rows: Any, topic: str | None = None) -> dict[str, list[bytes]]:
    """The records for each topic; none comes twice."""
    by_name: dict[str, list[bytes]] = {}
    for name, batch in by_topic(rows, topic):
        assert name not in by_name
        by_name[name] = [bytes(record) for record in batch.records()]
    return by_name


class RowTests(SynchronousTestCase):
    @given(st.lists(TEXTS, max_size=12), st.integers(0, 12), st.integers(0, 12), st.sampled_from(KINDS))
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_values(self, values: list[str], first: int, count: int, kind: Any) -> None:
        """Each value of any column type is a record, also of a column that is part of a larger one."""
        column = pa.array([value.encode() for value in values], pa.large_binary()).cast(kind).slice(first, count)
        expected = [value.encode() for value in values[first : first + count]]
        self.assertEqual([bytes(record) for record in records(column).records()], expected)

    @given(st.lists(st.tuples(st.sampled_from("abc"), TEXTS), max_size=20))
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_topics(self, rows: list[tuple[str, str]]) -> None:
        """Each row goes to its topic, and the rows of a topic stay in their order."""
        topics, values = [row[0] for row in rows], [row[1] for row in rows]
        batch = pa.record_batch([pa.array(topics, pa.string()), pa.array(values, pa.string())], ["topic", "value"])
        expected: dict[str, list[bytes]] = {}
        for topic, value in rows:
            expected.setdefault(topic, []).append(value.encode())
        self.assertEqual(found(batch), expected)
        self.assertEqual(found(batch, "all"), {"all": [value.encode() for value in values]} if rows else {})

    def test_null(self) -> None:
        """A row without a value, or without a topic, is refused with a sentence; none is left out in silence."""
        for topics, values, name in ((["a", "a"], ["x", None], "value"), (["a", None], ["x", "y"], "topic")):
            batch = pa.record_batch([pa.array(topics), pa.array(values)], ["topic", "value"])
            error = self.assertRaises(ValueError, found, batch)
            self.assertIn(f"1 rows have no {name}", str(error))
