"""The sink in a real Spark session: tables and streams, tasks that fail, batches that come again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pandas
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupStateTimeout
from twisted.internet.defer import Deferred

import streamd.spark
from streamd.client import StorageClient
from streamd.spark.sink.hidden import SINKS
from streamd.spark.sink.writer import BATCH_PROPERTY, QUERY_PROPERTY
from tests.rigs.spark.session import SparkCase, spark
from tests.rigs.spark.sink.failing import RAISE, FailingSource, Hooks
from tests.rigs.spark.sink.written import written

T = TypeVar("T")


class SinkCase(SparkCase):
    def setUp(self) -> None:
        super().setUp()
        self.server = f"127.0.0.1:{self.daemon.port('pravega')}"

    def where(self) -> dict[str, str]:
        return {"server": self.server}

    def do(self, call: Callable[..., T], *args: Any, **more: Any) -> Deferred[T]:
        def active() -> T:
            # Spark looks for the source of a write in the thread's active session; this makes ours that.
            spark().createDataFrame([(0,)], "id int")
            return call(*args, **more)

        return super().do(active)

    def save(self, frame: DataFrame, **options: object) -> None:
        frame.write.format("streamd").mode("append").options(**self.options(**options)).save()

    def written(self, topic: str) -> list[str]:
        """The records of a topic, sorted."""
        return sorted(map(bytes.decode, written(self.server, topic)))

    def topics(self) -> list[str]:
        with StorageClient(self.server) as client:
            return sorted(segment.name for segment in client.segments())

    def refused(self, wanted: str, frame: DataFrame, **options: object) -> None:
        error = self.assertRaises(PySparkException, self.save, frame, **options)
        self.assertIn(wanted, str(error))


class TableTests(SinkCase):
    def test_table(self) -> Deferred[None]:
        """Rows go to the topic of their column, or of the option; several times, or once for each `txnId`."""
        return self.do(self._table)

    def _table(self) -> None:
        frame = spark().range(30).selectExpr("concat('t', id % 2) topic", "cast(id as string) value")
        self.save(frame)
        even, odd = sorted(map(str, range(0, 30, 2))), sorted(map(str, range(1, 30, 2)))
        self.assertEqual((self.written("t0"), self.written("t1")), (even, odd))
        # Values of the other type, and a topic for all of them.
        binary = frame.selectExpr("topic", "cast(value as binary) value")
        for _ in range(2):
            self.save(binary, topic="all", txnId="tonight")
        self.assertEqual(self.written("all"), sorted(even + odd))
        self.save(binary, topic="all", txnId="tomorrow")
        self.save(binary.drop("topic"), topic="all")
        self.assertEqual(self.written("all"), sorted(3 * (even + odd)))
        self.assertEqual(self.topics(), ["all", SINKS, "t0", "t1"])

    def test_refused(self) -> Deferred[None]:
        """What can't be written is refused with a sentence, and nothing of it is written."""
        return self.do(self._refused)

    def _refused(self) -> None:
        with StorageClient(self.server) as client:
            client.create("t")
        nulls = spark().range(10).selectExpr("cast(if(id = 7, null, id) as string) value")
        self.refused("1 rows have no value", nulls, topic="t")
        frame = nulls.na.drop()
        self.refused("there is no topic 'u'", frame, topic="u", createTopics=False)
        overwrite = frame.write.format("streamd").mode("overwrite").options(**self.options(topic="t"))
        self.assertIn("topics are appended to", str(self.assertRaises(PySparkException, overwrite.save)))
        self.refused("did you mean topic?", frame, topics="t")
        self.refused("say what to write to", frame)
        self.assertEqual(self.topics(), ["t"])
        self.assertEqual(self.written("t"), [])

    def test_retry(self) -> Deferred[None]:
        """A task that fails in the middle is tried again: each row is there once."""
        return self.do(self._retry)

    def _retry(self) -> None:
        def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
            context = TaskContext.get()
            assert context is not None
            for number, batch in enumerate(batches):
                yield batch
                if number == 1 and context.attemptNumber() < 2:
                    raise RuntimeError("as the test wanted")

        spark().conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
        self.addCleanup(spark().conf.unset, "spark.sql.execution.arrow.maxRecordsPerBatch")
        rows = spark().range(200).selectExpr("cast(id as string) value").mapInArrow(fail_once, "value string")
        self.save(rows, topic="t")
        self.assertEqual(self.written("t"), sorted(map(str, range(200))))


class StreamTests(SinkCase):
    def setUp(self) -> None:
        super().setUp()
        self.source = self.directory / "source"
        self.source.mkdir()
        self.hooks = Hooks(self.directory / "hooks")
        self.hooks.directory.mkdir()
        for file in range(3):
            self.add(file)

    def add(self, file: int) -> None:
        path = self.source / f"{file}.txt"
        path.write_text("\n".join(f"{file}:{row}" for row in range(20)))
        # Spark takes files in the order of their times.
        os.utime(path, (file, file))

    def lines(self, *files: int) -> list[str]:
        return sorted(f"{file}:{row}" for file in files for row in range(20))

    def run_query(self, topic: str = "t", kind: str = "streamd", **options: str) -> None:
        """Write a file in each batch until all are written, from where the checkpoint says."""
        frame = spark().readStream.option("maxFilesPerTrigger", 1).text(str(self.source)).repartition(2)
        writer = (
            frame.writeStream.format(kind).trigger(availableNow=True).options(**self.options(topic=topic, **options))
        )
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def test_replay(self) -> Deferred[None]:
        """Batches that Spark has forgotten, and writes again: they are known, whatever topic they go to then."""
        return self.do(self._replay)

    def _replay(self) -> None:
        self.run_query()
        self.assertEqual(self.written("t"), self.lines(0, 1, 2))
        for topic in ("t", "other"):
            for name in ("2", ".2.crc"):
                (self.checkpoint / "commits" / name).unlink()
            self.run_query(topic)
        self.assertEqual((self.written("t"), self.written("other")), (self.lines(0, 1, 2), []))
        self.add(3)
        self.run_query()
        self.assertEqual(self.written("t"), self.lines(0, 1, 2, 3))

    def test_commit_raises(self) -> Deferred[None]:
        """A commit that fails, before or after it was carried out: Spark aborts it, and the batch comes again."""
        return self.do(self._commit_raises)

    def _commit_raises(self) -> None:
        spark().dataSource.register(FailingSource)
        hooks = str(self.hooks.directory)
        for place, files in (("before", (0,)), ("after", (0, 1))):
            self.hooks.put(1, place, RAISE)
            error = self.assertRaises(PySparkException, self.run_query, kind="failing", hooks=hooks)
            self.assertIn("as the test wanted", str(error))
            self.assertEqual(self.written("t"), self.lines(*files))
        self.run_query(kind="failing", hooks=hooks)
        self.assertEqual(self.written("t"), self.lines(0, 1, 2))
        self.assertEqual(self.hooks.left(), [])

    def test_properties(self) -> Deferred[None]:
        """Spark tells its tasks the query, the same over restarts, and the batch: the sink relies on these names."""
        return self.do(self._properties)

    def _properties(self) -> None:
        seen = self.directory / "seen"
        seen.mkdir()
        place = str(seen)

        def note(batches: Iterator[Any]) -> Iterator[Any]:
            context = TaskContext.get()
            assert context is not None
            query, batch = (context.getLocalProperty(name) for name in (QUERY_PROPERTY, BATCH_PROPERTY))
            Path(place, f"{query}.{batch}").touch()
            yield from batches

        frame = spark().readStream.option("maxFilesPerTrigger", 1).text(str(self.source))
        noted = frame.mapInArrow(note, "value string")
        for file in (3, 4):
            writer = noted.writeStream.format("streamd").options(**self.options(topic="t")).trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(self.checkpoint)).start()
            query.awaitTermination()
            self.add(file)
        expected = [f"{query.id}.{batch}" for batch in range(4)]
        self.assertEqual(sorted(each.name for each in seen.iterdir()), expected)

    def test_update(self) -> Deferred[None]:
        """Running aggregates and states of any kind go to a topic by `each_batch`, each change once over restarts."""
        return self.do(self._update)

    def _update(self) -> None:
        def count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
            total = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
            state.update((total,))
            yield pandas.DataFrame({"value": [f"{key[0]}={total}"]})

        lines = spark().readStream.option("maxFilesPerTrigger", 1).text(str(self.source))
        keyed = lines.selectExpr("length(value) AS size")
        totals = keyed.groupBy("size").count().selectExpr("concat(size, '=', count) AS value")
        states = keyed.groupBy("size").applyInPandasWithState(
            count, "value string", "total long", "update", GroupStateTimeout.NoTimeout
        )
        for name, frame in (("totals", totals), ("states", states)):
            for _ in range(2):
                writer = frame.writeStream.outputMode("update").trigger(availableNow=True)
                writer = writer.foreachBatch(streamd.spark.each_batch(server=self.server, topic=name))
                query = writer.option("checkpointLocation", f"{self.checkpoint}-{name}").start()
                query.awaitTermination()
                # The last batch comes again, as after a crash before Spark had noted it.
                noted = list(Path(f"{self.checkpoint}-{name}", "commits").glob("[0-9]*"))
                last = max(noted, key=lambda path: int(path.name))
                last.unlink()
                last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        self.assertEqual(self.written("totals"), self.written("states"))
        self.assertEqual(len(self.written("totals")), len(set(self.written("totals"))))
        self.assertGreater(len(self.written("totals")), 1)
