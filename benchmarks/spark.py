"""Spark reads streamd, beside Parquet and beside a source that gives rows: ``python -m benchmarks.spark``.

Records of 100 bytes, published to a daemon, in `local[2]`. Values are used (the sum of their lengths and first bytes is
asked for), and each way is asked in turn, several rounds in one run: on a machine that does other things too, ratios
are worth more than rates.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import streamd.spark
from streamd.store.outside import OutsideReader
from tests.daemon import Daemon

RECORD_BYTES: Final = 100
TOPIC: Final = "bench"
_PUBLISH_AT_ONCE: Final = 50_000

# Spark tells of a query that is stopped in the middle as of an error.
_CONFIG: Final = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "FATAL"}

# What values are used for: an answer that can't be had without looking at each of them.
USE: Final = "sum(length(value)) AS bytes, sum(ascii(value)) AS firsts, count(*) AS n"


class RowSource(DataSource):
    """The same records as tuples, one by one: what a source does that knows nothing of Arrow."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "rows"

    def schema(self) -> str:
        """As streamd's, without what is the same for all."""
        return "offset long, value binary"

    def reader(self, schema: Any) -> DataSourceReader:
        """For ``spark.read``."""
        return RowReader(self.options["path"])


class RowReader(DataSourceReader):
    """Reads in as many parts as streamd's own source does."""

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        """Ranges of records."""
        with OutsideReader(self._path) as reader:
            end = reader.segment(TOPIC).number
            points = [0, *reader.split_points(TOPIC, 0, end, 8), end]
        return [InputPartition(each) for each in pairwise(points)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, bytes]]:
        """One record after the other."""
        first, end = partition.value
        with OutsideReader(self._path) as reader:
            for run in reader.read(TOPIC, first, end):
                for number, value in enumerate(run.batch.records(), run.number):
                    yield number, bytes(value)


def publish(daemon: Daemon, records: int) -> None:
    """Put so many records into the topic."""
    with daemon.connect() as connection:
        _ask(connection, f"#{TOPIC}\n@{TOPIC}\n".encode(), 2)
        for first in range(0, records, _PUBLISH_AT_ONCE):
            count = min(_PUBLISH_AT_ONCE, records - first)
            lines = [b">%0*d\n" % (RECORD_BYTES, number) for number in range(first, first + count)]
            _ask(connection, b"".join(lines), count)


def _ask(connection: socket.socket, data: bytes, replies: int) -> None:
    connection.sendall(data)
    left = 2 * replies
    while left:
        left -= len(connection.recv(min(left, 1 << 20)))


def rates(spark: SparkSession, daemon: Daemon, parquet: str, records: int, rounds: int) -> dict[str, list[float]]:
    """Records a second of each way, round by round."""
    places = {"path": str(daemon.data_dir), "server": f"127.0.0.1:{daemon.port('pravega')}"}

    def source(where: str, schema: str | None = None) -> DataFrame:
        reader = spark.read.format("streamd").option(where, places[where]).option("topic", TOPIC)
        return (reader if schema is None else reader.schema(schema)).load()

    spark.dataSource.register(RowSource)
    ways: dict[str, Callable[[], DataFrame]] = {
        "path": lambda: source("path"),
        "path, only value": lambda: source("path", "value binary"),
        "path, only offset": lambda: source("path", "offset long"),
        "server": lambda: source("server"),
        "server, only value": lambda: source("server", "value binary"),
        "Parquet": lambda: spark.read.parquet(parquet),
        "row tuples": lambda: spark.read.format("rows").option("path", places["path"]).load(),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, frame in ways.items():
            used = "sum(offset) AS firsts, count(*) AS n" if name.endswith("offset") else USE

            begin = time.monotonic()
            (row,) = frame().selectExpr(*used.split(", ")).collect()
            took = time.monotonic() - begin
            if row.n != records:
                raise SystemExit(f"{name}: {row.n} records in place of {records}")
            # The first round is for compilers and caches.
            if turn:
                found[name].append(records / took)
                print(f"{name}: {records / took:,.0f} records/s", file=sys.stderr, flush=True)
    return found


def trigger_seconds(spark: SparkSession, daemon: Daemon, checkpoint: str, triggers: int = 12) -> float:
    """What a trigger costs that reads next to nothing: median of several, without the first ones."""
    reader = spark.readStream.format("streamd").option("path", str(daemon.data_dir)).option("topic", TOPIC)
    frame = reader.option("startingOffsets", json.dumps({TOPIC: 0})).option("maxRecordsPerTrigger", 10).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        while len(query.recentProgress) < triggers:
            time.sleep(0.1)
        return median(
            [float(each["durationMs"]["triggerExecution"]) / 1000 for each in query.recentProgress[3:triggers]]
        )
    finally:
        query.stop()


def main() -> int:
    """Publish, ask, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=Path("build/benchmarks"), help="data, on a real disk (%(default)s)")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spark-", dir=options.dir) as directory:
        daemon = Daemon(directory)
        daemon.start()
        try:
            publish(daemon, options.records)
            spark = streamd.spark.session("streamd benchmarks", "local[2]", _CONFIG)
            parquet = f"{Path(directory).resolve()}/parquet"
            reader = spark.read.format("streamd").option("path", str(daemon.data_dir)).option("topic", TOPIC)
            reader.load().write.parquet(parquet)
            found = rates(spark, daemon, parquet, options.records, options.rounds)
            trigger = trigger_seconds(spark, daemon, f"{directory}/checkpoint")
            spark.stop()
        finally:
            daemon.close()
    print("| way | records/s, median | beside Parquet | beside row tuples |\n|---|---|---|---|")
    middle = {name: median(each) for name, each in found.items()}
    for name, rate in middle.items():
        print(f"| {name} | {rate:,.0f} | {rate / middle['Parquet']:.2f} | {rate / middle['row tuples']:.1f} |")
    print(f"\na trigger costs {trigger:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
