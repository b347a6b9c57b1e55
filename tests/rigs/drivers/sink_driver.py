"""A driver to be killed: ``python -m tests.rigs.drivers.sink_driver INPUT SERVER CHECKPOINT HOOKS``.

It writes the lines of all files in a directory to the topic ``lines``, one file in each batch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import streamd.spark
from tests.rigs.spark.session import CONFIG
from tests.rigs.spark.sink.failing import DRIVER, FailingSource

TOPIC = "lines"


def run(source: str, server: str, checkpoint: str, hooks: str) -> None:
    """Run the query until all files are written."""
    Path(hooks, DRIVER).write_text(str(os.getpid()))
    session = streamd.spark.session("sink", "local[2,3]", CONFIG)
    session.dataSource.register(FailingSource)
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(source)
    writer = lines.repartition(2).writeStream.format("failing").trigger(availableNow=True)
    options = {"server": server, "topic": TOPIC, "hooks": hooks, "checkpointLocation": checkpoint}
    writer.options(**options).start().awaitTermination()
    session.stop()


if __name__ == "__main__":
    run(*sys.argv[1:])
