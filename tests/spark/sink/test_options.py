"""The sink's options."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType
from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.options import OptionError
from streamd.spark.sink.options import SinkOptions, check_columns, sink_options


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
        self.refused("there are server, topic, txnId, txnVersion, createTopics", server="a:1", colour="red")
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
