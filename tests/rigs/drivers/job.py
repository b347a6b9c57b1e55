"""A driver for a cluster, in a process of its own: ``python -m tests.rigs.drivers.job MASTER DIRECTORY PATH SERVER``.

Reads the topic ``a`` by each way, writes it to others, archives it and reads the archive. Prints as JSON what it found.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import streamd.spark
from tests.rigs.daemon import CHECKOUT
from tests.rigs.spark.java import OPTIONS
from tests.rigs.spark.session import CONFIG

TOPIC = "a"
SUMS = ("count(*)", "sum(offset)", "sum(length(value))")

# Both workers are to have a part in it.
SETTINGS = {
    **CONFIG,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": OPTIONS,
    "spark.executorEnv.PYTHONPATH": str(CHECKOUT),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.cores.max": "2",
}


def sums(frame: DataFrame) -> list[int]:
    """What tells whether all of it is there."""
    return list(frame.selectExpr(*SUMS).collect()[0])


class Job:
    """All that is done with one session."""

    def __init__(self, spark: SparkSession, directory: str, path: str, server: str) -> None:
        self._spark = spark
        self._directory = directory
        self._places = {"path": path, "server": server}
        self._server = server

    def read(self, where: str) -> dict[str, Any]:
        """Read everything twice, as a table and as a stream; and how many workers took part."""
        options = {where: self._places[where], "topic": TOPIC}
        frame = self._spark.read.format("streamd").options(**options).option("minPartitions", "4").load()
        streamed: list[list[int]] = []

        def take(rows: DataFrame, number: int) -> None:
            streamed.append(sums(rows))

        stream = self._spark.readStream.format("streamd").options(**options).load()
        writer = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
        writer.option("checkpointLocation", f"{self._directory}/{where}").start().awaitTermination()
        workers = frame.rdd.mapPartitions(lambda rows: [os.getcwd() for _ in [list(rows)]]).distinct().count()
        return {
            "batch": sums(frame),
            "stream": [sum(column) for column in zip(*streamed, strict=True)],
            "workers": workers,
        }

    def write(self) -> None:
        """Write the topic to another one, as a table, and to a third one, as a stream that is started twice."""
        options = {"server": self._server, "topic": TOPIC}
        frame = self._spark.read.format("streamd").options(**options).option("minPartitions", "4").load()
        for _ in range(2):
            writer = frame.select("value").write.format("streamd").mode("append")
            writer.options(server=self._server, topic="written", txnId="once").save()
            stream = self._spark.readStream.format("streamd").options(**options, maxRecordsPerTrigger="7000").load()
            streaming = stream.select("value").repartition(2).writeStream.format("streamd").trigger(availableNow=True)
            streaming = streaming.options(server=self._server, topic="streamed")
            streaming.option("checkpointLocation", f"{self._directory}/write").start().awaitTermination()

    def archive(self) -> dict[str, Any]:
        """Archive the topic, and read the archive with what is live."""
        uri = f"{self._directory}/archive"
        (done,) = streamd.spark.archive(self._spark, TOPIC, uri, server=self._server, file_bytes=self.bytes() // 4)
        table = streamd.spark.table(self._spark, TOPIC, uri, server=self._server)
        return {"end": done.end, "files": done.files, "table": sums(table)}

    def bytes(self) -> int:
        """Of the topic, as it counts for an archive."""
        frame = self._spark.read.format("streamd").options(server=self._server, topic=TOPIC).load()
        return int(frame.selectExpr("sum(length(value) + 8)").collect()[0][0])


def main(master: str, *places: str) -> dict[str, Any]:
    """All that is found."""
    spark = streamd.spark.session("cluster", master, SETTINGS)
    job = Job(spark, *places)
    found: dict[str, Any] = {where: job.read(where) for where in ("path", "server")}
    job.write()
    found["archive"] = job.archive()
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
