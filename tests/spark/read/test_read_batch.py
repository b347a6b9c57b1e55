"""Batch reads: what was published is in the table, from files and from the daemon alike."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from twisted.internet.defer import Deferred

from streamd.spark.start import PUSH_DOWN
from tests.rigs.sesp_client import Sesp
from tests.rigs.spark.session import SparkCase, spark


class BatchTests(SparkCase):
    """From files. Each test asks several things of one daemon: a question costs Spark some tenths of a second."""

    def where(self) -> dict[str, str]:
        return {"path": str(self.daemon.data_dir)}

    def rows(self, frame: DataFrame) -> list[Row]:
        return frame.orderBy("topic", "offset").collect()

    def values(self, **options: Any) -> list[tuple[str, int, bytes]]:
        found = self.rows(self.load(**options))
        return [(row.topic, row.offset, bytes(row.value)) for row in found]

    def refused(self, wanted: str, schema: str | None = None, **options: Any) -> None:
        error = self.assertRaises(PySparkException, lambda: self.load(schema, **options).collect())
        self.assertIn(wanted, str(error))

    def test_all(self) -> Deferred[None]:
        """Topic, offset, time, type and value of everything, in one table; also what Simple Message Queue stored."""
        return self.do(self._all)

    def _all(self) -> None:
        before = datetime.now(UTC)
        self.publish("a", "one", "two", "")
        self.publish("größe", "drei")
        with self.daemon.connect("smq") as connection, connection.makefile("rwb") as queue:
            queue.write(struct.pack(">BQBI", 0, 9, 2, 1) + b"\0\0\0\7" + struct.pack(">BQBI", 0, 8, 10, 1) + b"hi\0")
            queue.flush()
            self.assertEqual(queue.read(18), bytes(18))
        found = self.rows(self.load(topicPattern=".*"))
        self.assertEqual(
            [(row.topic, row.offset, row.type, bytes(row.value)) for row in found],
            [
                ("a", 0, None, b"one"),
                ("a", 1, None, b"two"),
                ("a", 2, None, b""),
                ("größe", 0, None, b"drei"),
                ("smq", 0, "U32", b"\0\0\0\7"),
                ("smq", 1, "Str", b"hi\0"),
            ],
        )
        for row in found:
            moment = row.timestamp.astimezone(UTC)
            self.assertTrue(before - timedelta(seconds=1) < moment < datetime.now(UTC), moment)
        self.assertEqual(self.load(topic="a").schema.simpleString(), self.documented())
        # Other columns are not even made, and SQL sees a table like any other.
        self.assertEqual(self.load("value binary, offset long", topic="a").collect()[1], (bytearray(b"two"), 1))
        self.load(topics="a,smq").createOrReplaceTempView("both")
        counts = spark().sql("SELECT topic, count(*) AS n FROM both GROUP BY topic ORDER BY topic").collect()
        self.assertEqual([tuple(row) for row in counts], [("a", 3), ("smq", 2)])

    def documented(self) -> str:
        return "struct<topic:string,offset:bigint,timestamp:timestamp,type:string,value:binary>"

    def test_places(self) -> Deferred[None]:
        """From here to there, by offset and by time, in so many partitions."""
        return self.do(self._places)

    def _places(self) -> None:
        for number in range(20):
            self.publish("a", str(number))
        self.publish("b", "x")
        with Sesp(self.daemon) as sesp:
            sesp.ask("#empty")
        offsets = {"startingOffsets": json.dumps({"a": 5}), "endingOffsets": json.dumps({"a": 8})}
        self.assertEqual([offset for _, offset, _ in self.values(topic="a", **offsets)], [5, 6, 7])
        self.assertEqual(self.values(topic="empty"), [])
        self.assertEqual(self.values(topicPattern="none.*"), [])
        times = {row.offset: row.timestamp.timestamp() for row in self.load(topic="a").collect()}
        middle = {"startingTimestamp": repr(times[7]), "endingTimestamp": repr(times[12])}
        self.assertEqual([offset for _, offset, _ in self.values(topic="a", **middle)], [7, 8, 9, 10, 11])
        self.assertEqual(len(self.values(topic="a", startingTimestamp="-1 hour")), 20)
        self.assertEqual(self.values(topic="a", endingTimestamp="-1 hour"), [])
        cut = self.load(topics="a,b", minPartitions=4)
        self.assertGreaterEqual(cut.rdd.getNumPartitions(), 4)
        self.assertEqual(len(cut.collect()), 21)
        self.assertEqual(self.load(topic="a", maxRecordsPerPartition=3).rdd.getNumPartitions(), 7)

    def test_refused(self) -> Deferred[None]:
        """What can't be used is refused with a sentence; so are columns that there are not."""
        return self.do(self._refused)

    def _refused(self) -> None:
        self.publish("a", "x")
        self.refused("did you mean topicPattern?", topicpatern="a")
        self.refused("there is no topic 'b'", topic="b")
        self.refused("its next offset is 1", topic="a", endingOffsets='{"a": 2}')
        self.refused("the schema has value string: take columns out of topic string", "value string", topic="a")

    def test_filters(self) -> Deferred[None]:
        """Filters skip data where Spark tells of them, and are applied where it does not."""
        return self.do(self._filters)

    def _filters(self) -> None:
        # Each is a commit of its own, with a time of its own.
        for number in range(10):
            self.publish("a", str(number))
        self.publish("b", *map(str, range(10)))
        time = self.load(topic="a").where("offset = 6").first().timestamp  # type: ignore[union-attr]
        questions = [
            ("topic = 'a' AND offset >= 7", [("a", 7), ("a", 8), ("a", 9)]),
            ("topic IN ('b', 'c') AND offset < 2", [("b", 0), ("b", 1)]),
            ("topic LIKE 'a%' AND (offset = 3 OR offset = 5)", [("a", 3), ("a", 5)]),
            ("topic = 'none'", []),
            ("offset = 4 AND value = X'34'", [("a", 4), ("b", 4)]),
        ]
        try:
            for enabled in ("true", "false"):
                spark().conf.set(PUSH_DOWN, enabled)
                for question, wanted in questions:
                    frame = self.load(topicPattern=".*").where(question)
                    self.assertEqual([(row.topic, row.offset) for row in self.rows(frame)], wanted, question)
                later = self.load(topic="a").where(f"timestamp >= timestamp_micros({round(time.timestamp() * 1e6)})")
                self.assertEqual({row.offset for row in later.collect()}, {6, 7, 8, 9})
            with Sesp(self.daemon) as sesp:
                sesp.ask("@a")
                sesp.ask("%5")
            for enabled in ("true", "false"):
                # Only with it nothing is looked for that can't be meant: here that is gone.
                spark().conf.set(PUSH_DOWN, enabled)
                self.assertEqual(self.end_is_found(), enabled == "true")
        finally:
            spark().conf.set(PUSH_DOWN, "true")

    def end_is_found(self) -> bool:
        """Whether the last offset can be asked for although the first ones are gone."""
        frame = self.load(topic="a", startingOffsets='{"a": 0}').where("offset > 8")
        try:
            return [row.offset for row in frame.collect()] == [9]
        except PySparkException as error:
            self.assertIn("offsets 0 to 4 of topic 'a' are gone", str(error))
            return False

    def test_lost(self) -> Deferred[None]:
        """What is gone is an error that names it, or skipped; also when it goes between planning and reading."""
        return self.do(self._lost)

    def _lost(self) -> None:
        self.publish("a", *map(str, range(10)))
        self.publish("b", *map(str, range(4)))
        planned = {kind: self.load(topics="a,b", onDataLoss=kind) for kind in ("fail", "skip")}
        for frame in planned.values():
            self.assertEqual(frame.rdd.getNumPartitions(), 1)
            frame._jdf.queryExecution().executedPlan()
        with Sesp(self.daemon) as sesp:
            sesp.ask("@a")
            sesp.ask("%6")
            sesp.ask("!b")
        self.refused("offsets 2 to 5 of topic 'a' are gone", topic="a", startingOffsets='{"a": 2}')
        skipped = self.values(topic="a", startingOffsets='{"a": 2}', onDataLoss="skip")
        self.assertEqual([offset for _, offset, _ in skipped], [6, 7, 8, 9])
        error = self.assertRaises(PySparkException, planned["fail"].collect)
        self.assertIn("offsets 0 to 5 of topic 'a' are gone", str(error))
        self.assertEqual(
            [(row.topic, row.offset) for row in planned["skip"].collect()], [("a", n) for n in (6, 7, 8, 9)]
        )

    def test_large(self) -> Deferred[None]:
        """Many records in several partitions come in order, each once."""
        return self.do(self._large)

    def _large(self) -> None:
        count = 60_000
        self.publish("a", *(f"{number} {'x' * (number % 50)}" for number in range(count)))
        frame = self.load(topic="a", minPartitions=3)

        def check(rows: Iterable[Row]) -> Iterator[tuple[int, int]]:
            numbers = []
            for row in rows:
                assert bytes(row.value) == b"%d %s" % (row.offset, b"x" * (row.offset % 50)), row
                numbers.append(row.offset)
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            yield numbers[0], numbers[-1] + 1

        parts: list[Any] = sorted(frame.rdd.mapPartitions(check).collect())
        self.assertGreaterEqual(len(parts), 3)
        self.assertEqual([0, *[end for _, end in parts]], [*[first for first, _ in parts], count])


class ServerBatchTests(BatchTests):
    """From the daemon."""

    def where(self) -> dict[str, str]:
        return {"server": f"127.0.0.1:{self.daemon.port('pravega')}"}
