"""A driver for a cluster, in a process of its own: ``python -m tests.spark.job MASTER DIRECTORY OPTIONS …``.

Prints as JSON what a batch and a stream find with each of these options, and how many workers took part.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import streamd.spark
from tests.daemon import CHECKOUT
from tests.spark.session import CONFIG

SUMS = ("count(*)", "sum(offset)", "sum(length(value))")


def read(spark: SparkSession, checkpoint: str, options: dict[str, str]) -> dict[str, Any]:
    """Read everything twice, as a table and as a stream."""
    frame = spark.read.format("streamd").options(**options).option("minPartitions", "4").load()
    batch = list(frame.selectExpr(*SUMS).collect()[0])
    streamed: list[list[int]] = []

    def take(rows: DataFrame, number: int) -> None:
        streamed.append(list(rows.selectExpr(*SUMS).collect()[0]))

    stream = spark.readStream.format("streamd").options(**options).load()
    writer = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()
    workers = frame.rdd.mapPartitions(lambda rows: [os.getcwd() for _ in [list(rows)]]).distinct().count()
    return {"batch": batch, "stream": [sum(column) for column in zip(*streamed, strict=True)], "workers": workers}


def main(master: str, directory: str, *options: str) -> list[dict[str, Any]]:
    """What is found with each of the options."""
    config = {
        **CONFIG,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executorEnv.PYTHONPATH": str(CHECKOUT),
        # Both workers are to have a part in it.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": "2",
    }
    spark = streamd.spark.session("cluster", master, config)
    found = [read(spark, f"{directory}/checkpoint{at}", json.loads(each)) for at, each in enumerate(options)]
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
