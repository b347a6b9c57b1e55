"""What Spark is told of the source before it reads: its name, its columns, and that all of it can be pickled."""

from __future__ import annotations

import pickle

from pyspark.cloudpickle import dumps
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType
from twisted.trial.unittest import SynchronousTestCase

from pyspark_streamd import DefaultSource
from streamd.spark.options import OptionError
from streamd.spark.read.source import COLUMNS, StreamdSource, check_columns


class SourceTests(SynchronousTestCase):
    def test_found(self) -> None:
        """The package that Spark looks for offers the source, under its name."""
        self.assertIs(DefaultSource, StreamdSource)
        self.assertEqual(DefaultSource.name(), "streamd")
        self.assertEqual(DefaultSource({}).schema().names, list(COLUMNS))

    def test_columns(self) -> None:
        """Some of the columns, in any order; nothing else."""
        check_columns(StructType().add("value", BinaryType()).add("offset", LongType()))
        for wanted, schema in (
            ("no columns", StructType()),
            ("the schema has key binary", StructType().add("key", BinaryType())),
            ("the schema has offset int", StructType().add("offset", IntegerType())),
            ("twice", StructType().add("topic", StringType()).add("topic", StringType())),
        ):
            self.assertIn(wanted, str(self.assertRaises(OptionError, check_columns, schema)))

    def test_create_table(self) -> None:
        """CREATE TABLE, whose options nobody gets who reads the table later, is refused when it is made."""
        given = {"server": "127.0.0.1:1", "topic": "a", "option.topic": "a", "provider": "streamd"}
        error = self.assertRaises(OptionError, StreamdSource(given).schema)
        self.assertIn("use CREATE TEMPORARY VIEW", str(error))

    def test_readers_travel(self) -> None:
        """Readers go to other processes before anything is opened: no store is there yet."""
        for reader in (
            StreamdSource({"path": "/none", "topic": "a"}).reader(StreamdSource({}).schema()),
            StreamdSource({"path": "/none", "topic": "a"}).streamReader(StreamdSource({}).schema()),
        ):
            self.assertIs(type(pickle.loads(dumps(reader))), type(reader))
