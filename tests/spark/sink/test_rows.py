"""Rows to records, and the sink's options: no Spark session is needed for these."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType
from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.options import OptionError
from streamd.spark.sink.options import SinkOptions, check_columns, sink_options
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


class OptionTests(SynchronousTestCase):
    def refused(self, wanted: str, stream: bool = False, **options: str) -> None:
        error = self.assertRaises(OptionError, sink_options, options, stream=stream)
        self.assertIn(wanted, str(error))

    def test_options(self) -> None:
        """Names in any case; what Spark itself adds is let through."""
        given = {"SERVER": "host:1", "topic": "t", "txnid": "x", "CreateTopics": "False"}
        self.assertEqual(sink_options(given, stream=False), SinkOptions("host:1", "t", "x", False))
        given = {"server": "unix:/x", "checkpointLocation": "/y"}
        self.assertEqual(sink_options(given, stream=True), SinkOptions("unix:/x", None, None, True))

    def test_refused(self) -> None:
        """What can't be used is refused with a sentence that says what to do."""
        self.refused("give server")
        self.refused("path is for reading", path="/data")
        self.refused("expected host:port", server="nowhere")
        self.refused("did you mean createTopics?", server="a:1", createtopic="x")
        self.refused("there are server, topic, txnId, createTopics", server="a:1", colour="red")
        self.refused("give true or false", server="a:1", createTopics="perhaps")
        self.refused("txnId is for df.write", stream=True, server="a:1", txnId="x")
        self.refused("txnId is empty", server="a:1", txnId="")

    def test_columns(self) -> None:
        """A value, and a topic from somewhere; nothing else."""

        def schema(**columns: Any) -> StructType:
            return StructType([StructField(name, kind) for name, kind in columns.items()])

        text, data, number = StringType(), BinaryType(), LongType()
        check_columns(schema(topic=text, value=data), None, False)
        check_columns(schema(value=text), "t", False)
        for columns, topic, overwrite, wanted in (
            (schema(topic=text, value=data), None, True, 'mode("append")'),
            (schema(topic=text), None, False, "no column value"),
            (schema(value=text), None, False, "option topic, or a column topic"),
            (schema(value=number), "t", False, "cast it to string or binary"),
            (schema(value=text, topic=data), "t", False, "cast it to string"),
            (schema(value=text, offset=number), "t", False, "no place for column 'offset'"),
        ):
            error = self.assertRaises(OptionError, check_columns, columns, topic, overwrite)
            self.assertIn(wanted, str(error))
