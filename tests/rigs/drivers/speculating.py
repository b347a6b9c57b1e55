"""A driver whose task is done twice at once.

``python -m tests.rigs.drivers.speculating MASTER SERVER TOPIC DIRECTORY``

Of one partition Spark starts a second attempt, since the first one is slow. Both write all their rows and end together.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext

import streamd.spark
from tests.rigs.daemon import CHECKOUT
from tests.rigs.spark.java import OPTIONS
from tests.rigs.spark.session import CONFIG

ROWS = 1000

SPECULATION = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": OPTIONS,
    "spark.executorEnv.PYTHONPATH": str(CHECKOUT),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "1ms",
}


def run(master: str, server: str, topic: str, directory: str) -> None:
    """Write so many rows in two partitions."""
    for name in ("started", "written"):
        os.mkfifo(Path(directory, name))

    def twice(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        if context.partitionId() == 0:
            yield from batches
            return
        Path(directory, f"attempt {attempt}").touch()
        # The first one waits until there is a second one, and that until the first one has written all.
        with open(Path(directory, "started"), "wb" if attempt else "rb"):
            pass
        yield from batches
        with open(Path(directory, "written"), "rb" if attempt else "wb"):
            pass

    session = streamd.spark.session("speculation", master, {**CONFIG, **SPECULATION})
    rows = session.range(0, ROWS, 1, 2).selectExpr("cast(id as string) value").mapInArrow(twice, "value string")
    writer = rows.write.format("streamd").mode("append")
    writer.options(server=server, topic=topic).save()
    session.stop()


if __name__ == "__main__":
    run(*sys.argv[1:])
