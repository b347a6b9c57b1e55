"""Spark beside streamd, in ``local[2]``: what is read, written and archived in a second, and what a trigger costs.

Records have 100 bytes. Each way is asked in turn, once to warm up and then some turns, and the median counts. Spark
reads and writes Parquet in the same turns, and a source and a sink that go row by row: ratios to these say more than
rates do.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.case import Bench, Case, Figure, Goal, Measure, Sample, alone, at_least, at_most
from benchmarks.servers import Running, ServerError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 5_000_000
_TURNS = 3
RECORD_BYTES = 100
_CORES = 2
_TRIGGERS = 12
_STREAM_ROWS = 500_000

# Spark tells of a query that is stopped in the middle as of an error.
_CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "FATAL",
}

# An answer that can't be had without looking at each value.
_USE = ("sum(length(value)) AS bytes", "sum(ascii(value)) AS firsts", "count(*) AS n")

_NUMBERED = f"lpad(CAST(id AS string), {RECORD_BYTES}, '0')"


@contextmanager
def session() -> Iterator[SparkSession]:
    from pyspark.errors import PySparkException

    import streamd.spark

    spark = streamd.spark.session("streamd benchmarks", f"local[{_CORES}]", _CONFIG)
    try:
        yield spark
    except PySparkException as error:
        raise ServerError(f"Spark failed: {str(error).splitlines()[0]}") from error
    finally:
        spark.stop()


def store_path(server: Running) -> str:
    return str(server.directory / "data")


def address(server: Running) -> str:
    return f"127.0.0.1:{server.port}"


def values(spark: SparkSession, records: int, value: str) -> DataFrame:
    return spark.range(0, records, 1, _CORES).selectExpr(f"CAST({value} AS binary) AS value")


def publish(frame: DataFrame, server: Running, topic: str) -> None:
    writer = frame.write.format("streamd").mode("append").option("server", address(server)).option("topic", topic)
    writer.option("createTopics", "true").save()


def in_turn(ways: Mapping[str, Callable[[], float]]) -> Sample:
    """The median of what each way gives, asked one after the other; the first turn is for compilers and caches."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(1 + _TURNS):
        for name, way in ways.items():
            value = way()
            if turn:
                found[name].append(value)
    return {name: median(values) for name, values in found.items()}


def rate(count: float, act: Callable[[], object]) -> float:
    begun = time.monotonic()
    act()
    return count / (time.monotonic() - begun)


def read(bench: Bench, server: Running, *, records: int) -> Sample:
    """Rows a second of a query that uses every value, by each way to read."""
    from benchmarks.spark_rows import RowSource

    count = bench.count(records)
    parquet = str(server.directory / "parquet")
    places = {"path": store_path(server), "server": address(server)}

    def source(spark: SparkSession, where: str, schema: str | None = None) -> DataFrame:
        reader = spark.read.format("streamd").option(where, places[where]).option("topic", "numbers")
        return (reader if schema is None else reader.schema(schema)).load()

    def asked(frame: DataFrame, *expressions: str) -> float:
        def ask() -> None:
            (row,) = frame.selectExpr(*(expressions or _USE)).collect()
            if row.n != count:
                raise ServerError(f"{row.n} records in place of {count}")

        return rate(count, ask)

    with session() as spark:
        spark.dataSource.register(RowSource)
        publish(values(spark, count, _NUMBERED), server, "numbers")
        source(spark, "path").write.parquet(parquet)
        rows = spark.read.format("rows").option("path", places["path"]).option("topic", "numbers")
        return in_turn(
            {
                "path": lambda: asked(source(spark, "path")),
                "path_value": lambda: asked(source(spark, "path", "value binary")),
                "path_offset": lambda: asked(source(spark, "path", "offset long"), "sum(offset)", "count(*) AS n"),
                "server": lambda: asked(source(spark, "server")),
                "server_value": lambda: asked(source(spark, "server", "value binary")),
                "parquet": lambda: asked(spark.read.parquet(parquet)),
                "rows": lambda: asked(rows.load()),
            }
        )


def write(bench: Bench, server: Running, *, records: int) -> Sample:
    """Rows a second that are written, from Parquet: on disk and published, once."""
    from benchmarks.spark_rows import RowSource

    count = bench.count(records)
    parquet, copy = (str(server.directory / name) for name in ("parquet", "copy"))

    def streamed(spark: SparkSession) -> None:
        checkpoint = server.directory / "checkpoint"
        reader = spark.readStream.schema("value binary").option("maxFilesPerTrigger", 1)
        writer = reader.parquet(parquet).writeStream.format("streamd").option("checkpointLocation", str(checkpoint))
        query = writer.options(server=address(server), topic="streamed", createTopics="true")
        query.trigger(availableNow=True).start().awaitTermination()
        shutil.rmtree(checkpoint)

    with session() as spark:
        spark.dataSource.register(RowSource)
        files = max(_CORES, count // _STREAM_ROWS)
        values(spark, count, _NUMBERED).repartition(files).write.parquet(parquet)
        frame = spark.read.parquet(parquet)
        return in_turn(
            {
                "batch": lambda: rate(count, lambda: publish(frame, server, "written")),
                "stream": lambda: rate(count, lambda: streamed(spark)),
                "parquet": lambda: rate(count, lambda: frame.write.mode("overwrite").parquet(copy)),
                "rows": lambda: rate(count, lambda: frame.write.format("rows").mode("append").save()),
            }
        )


def trigger(bench: Bench, server: Running) -> Sample:
    """What a trigger takes that reads ten records, to nowhere: the median without the first ones."""
    with session() as spark:
        publish(values(spark, 10 * 1000, _NUMBERED), server, "numbers")
        reader = spark.readStream.format("streamd").option("path", store_path(server)).option("topic", "numbers")
        frame = reader.option("startingOffsets", json.dumps({"numbers": 0})).option("maxRecordsPerTrigger", 10).load()
        checkpoint = str(server.directory / "checkpoint")
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            while len(query.recentProgress) < _TRIGGERS:
                if not query.isActive:
                    raise ServerError(f"the query ended: {query.exception()}")
                time.sleep(0.1)
            progress: list[Any] = query.recentProgress[3:_TRIGGERS]
        finally:
            query.stop()
    return {"seconds": median(float(each["durationMs"]["triggerExecution"]) / 1000 for each in progress)}


def _rows(name: str, title: str) -> Figure:
    return Figure(name, title, "/s")


def case(name: str, title: str, measure: Measure, *figures: Figure, goals: tuple[Goal, ...]) -> Case:
    """A case with turns of its own in place of rounds."""
    return alone(name, title, measure, *figures, goals=goals, service="pravega", rounds_max=1)


SPARK: tuple[Case, ...] = (
    case(
        "spark-read",
        "Spark reads 100 B and uses them, rows/s",
        partial(read, records=RECORDS),
        _rows("path", "from `path`"),
        _rows("path_value", "from `path`, only `value`"),
        _rows("path_offset", "from `path`, only `offset`"),
        _rows("server", "from `server`"),
        _rows("server_value", "from `server`, only `value`"),
        _rows("parquet", "Parquet"),
        _rows("rows", "row tuples"),
        goals=(at_least("path", 2_500_000), at_least("server", 1_500_000)),
    ),
    case(
        "spark-write",
        "Spark writes 100 B, rows/s",
        partial(write, records=RECORDS),
        _rows("batch", "a table"),
        _rows("stream", f"a stream, {_STREAM_ROWS:,} a trigger"),
        _rows("parquet", "Parquet"),
        _rows("rows", "row tuples, stored nowhere"),
        goals=(at_least("batch", 1_000_000),),
    ),
    case(
        "spark-trigger",
        "a trigger with ten records",
        trigger,
        Figure("seconds", "fixed cost", "s", 2),
        goals=(at_most("seconds", 0.4),),
    ),
)
