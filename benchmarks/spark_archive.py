"""Archives as Delta tables: how fast they are written, and what a query over one costs beside plain Parquet."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.case import Bench, Case, Figure, Sample, at_least, at_most
from benchmarks.servers import Running, ServerError
from benchmarks.spark import RECORD_BYTES, RECORDS, address, case, in_turn, publish, rate, session, store_path, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE_BYTES = 32 << 20
_TOPICS = 1000

_HEX = f"left(concat(sha2(CAST(id AS string), 256), sha2(CAST(-id AS string), 256)), {RECORD_BYTES})"
_NUMBERS = "id div 60000 % 60, id div 1000 % 60, pmod(hash(id, 1), 1000000)"
_WORDS = "elt(1 + pmod(hash(id, 3), 4), 'cart', 'pay', 'search', 'item')"
_STATUS = "elt(1 + pmod(hash(id, 5), 5), '200', '200', '200', '304', '404'), pmod(hash(id, 6), 50000)"
# A line as programs log them, with words that come again and numbers that do not; about 100 bytes.
_LOG_LINE = (
    "format_string('2026-11-16T10:%02d:%02d.%06dZ INFO shop: request=%08x GET /%s/%d status=%s bytes=%d', "
    f"{_NUMBERS}, hash(id, 2), {_WORDS}, pmod(hash(id, 4), 100000), {_STATUS})"
)
# The same as JSON, and the columns of it.
_JSON = (
    'format_string(\'{"at":"2026-11-16T10:%02d:%02d.%06dZ","request":%d,"page":"%s","status":%s,"bytes":%d}\', '
    f"{_NUMBERS}, id, {_WORDS}, {_STATUS})"
)
_SCHEMA = "at timestamp, request long, page string, status int, bytes long"
_QUERY = "SELECT page, status, count(*) AS n, sum(bytes) AS bytes FROM {table} GROUP BY page, status"


def _archived(
    spark: SparkSession, server: Running, topic: str, megabytes: float, where: dict[str, str], schema: str | None = None
) -> float:
    import streamd.spark

    target = server.directory / "archive"
    shutil.rmtree(target, ignore_errors=True)
    settings: dict[str, Any] = {"group": None, "file_bytes": _FILE_BYTES, "schema": schema, **where}
    return rate(megabytes, lambda: streamd.spark.archive(spark, topic, str(target), **settings))


def archive(bench: Bench, server: Running, *, records: int) -> Sample:
    """Megabytes of records a second that are archived, each time anew, beside Spark's own copy to Parquet."""
    count = bench.count(records)
    path = store_path(server)
    with session() as spark:
        sizes: dict[str, float] = {}
        for topic, value in (("log", _LOG_LINE), ("hex", _HEX), ("json", _JSON)):
            publish(values(spark, count, value), server, topic)
            live = spark.read.format("streamd").option("path", path).option("topic", topic).load()
            sizes[topic] = live.selectExpr("sum(length(value))").collect()[0][0] / 1e6

        def copied() -> float:
            live = spark.read.format("streamd").option("path", path).option("topic", "log").load()
            writer = live.write.option("compression", "zstd").mode("overwrite")
            return rate(sizes["log"], lambda: writer.parquet(str(server.directory / "copy")))

        return in_turn(
            {
                "log_path": lambda: _archived(spark, server, "log", sizes["log"], {"path": path}),
                "log_server": lambda: _archived(spark, server, "log", sizes["log"], {"server": address(server)}),
                "hex_path": lambda: _archived(spark, server, "hex", sizes["hex"], {"path": path}),
                "json_typed": lambda: _archived(spark, server, "json", sizes["json"], {"path": path}, _SCHEMA),
                "copy": copied,
            }
        )


def query(bench: Bench, server: Running, *, records: int) -> Sample:
    """An aggregate over typed columns of an archive, in Spark and DuckDB, beside the same columns in plain Parquet."""
    import duckdb
    from deltalake import DeltaTable

    import streamd.spark

    count = bench.count(records)
    path, uri = store_path(server), str(server.directory / "archive")
    plain = str(server.directory / "plain")
    tail = count // 100
    names = [column.split()[0] for column in _SCHEMA.split(", ")]

    def asked(answer: Callable[[], list[Any]], wanted: int = count) -> float:
        def ask() -> None:
            found = sum(row[2] for row in answer())
            if found != wanted:
                raise ServerError(f"{found} records in place of {wanted}")

        return rate(wanted, ask)

    def in_spark(spark: SparkSession, frame: DataFrame) -> list[Any]:
        frame.createOrReplaceTempView("asked")
        return spark.sql(_QUERY.format(table="asked")).collect()

    with session() as spark:
        publish(values(spark, count, _JSON), server, "json")
        streamd.spark.archive(spark, "json", uri, path=path, schema=_SCHEMA, file_bytes=_FILE_BYTES)
        streamd.spark.table(spark, "json", uri).select(*names).write.option("compression", "zstd").parquet(plain)
        publish(values(spark, tail, _JSON), server, "json")
        engine = duckdb.connect()
        engine.read_parquet(DeltaTable(f"{uri}/json").file_uris()).create_view("archived")
        engine.execute(f"CREATE VIEW plain AS SELECT * FROM '{plain}/*.parquet'")
        rates = in_turn(
            {
                "spark": lambda: asked(lambda: in_spark(spark, streamd.spark.table(spark, "json", uri))),
                "spark_parquet": lambda: asked(lambda: in_spark(spark, spark.read.parquet(plain))),
                "spark_live": lambda: asked(
                    lambda: in_spark(spark, streamd.spark.table(spark, "json", uri, path=path)), count + tail
                ),
                "duckdb": lambda: asked(lambda: engine.execute(_QUERY.format(table="archived")).fetchall()),
                "duckdb_parquet": lambda: asked(lambda: engine.execute(_QUERY.format(table="plain")).fetchall()),
            }
        )
    rates["spark_ratio"] = rates["spark_parquet"] / rates["spark"]
    rates["duckdb_ratio"] = rates["duckdb_parquet"] / rates["duckdb"]
    rates["live_ratio"] = rates["spark"] / rates["spark_live"]
    return rates


def small(bench: Bench, server: Running) -> Sample:
    """Seconds to write 100 records to each of many topics from four partitions, and to archive these."""
    import streamd.spark

    target = server.directory / "small"
    with session() as spark:
        rows = spark.range(0, 100 * _TOPICS, 1, 4)
        frame = rows.selectExpr(f"concat('t', id % {_TOPICS}) AS topic", "CAST(id AS string) AS value")

        def write() -> float:
            writer = frame.write.format("streamd").mode("append").option("server", address(server))
            return 1 / rate(1, writer.save)

        def archived() -> float:
            shutil.rmtree(target, ignore_errors=True)
            settings: dict[str, Any] = {"path": store_path(server), "group": None}
            return 1 / rate(1, lambda: streamd.spark.archive(spark, "t*", str(target), **settings))

        seconds = in_turn({"write": write, "archive": archived})
    return {**seconds, "files": sum(len(names) for _, _, names in os.walk(target))}


def _megabytes(name: str, title: str) -> Figure:
    return Figure(name, title, "MB/s")


SPARK_ARCHIVE: tuple[Case, ...] = (
    case(
        "spark-archive",
        "archive to Delta tables",
        partial(archive, records=RECORDS),
        _megabytes("log_path", "log lines, from `path`"),
        _megabytes("log_server", "log lines, from `server`"),
        _megabytes("hex_path", "random hex, from `path`"),
        _megabytes("json_typed", "JSON with a schema, from `path`"),
        _megabytes("copy", "log lines, copied by Spark"),
        goals=(at_least("log_path", 300), at_least("json_typed", 150)),
    ),
    case(
        "spark-table",
        "an aggregate over an archive with a schema, rows/s",
        partial(query, records=RECORDS),
        Figure("spark", "Spark", "/s"),
        Figure("spark_live", "Spark, history and tail", "/s"),
        Figure("spark_parquet", "Spark, plain Parquet", "/s"),
        Figure("duckdb", "DuckDB", "/s"),
        Figure("duckdb_parquet", "DuckDB, plain Parquet", "/s"),
        Figure("spark_ratio", "the archive's time beside plain Parquet's, Spark", "x", 2),
        Figure("duckdb_ratio", "the archive's time beside plain Parquet's, DuckDB", "x", 2),
        Figure("live_ratio", "history and tail beside history", "x", 2),
        goals=(at_most("spark_ratio", 1.2), at_most("duckdb_ratio", 1.2), at_most("live_ratio", 1.2)),
    ),
    case(
        "spark-small",
        f"{_TOPICS:,} topics of 100 records",
        small,
        Figure("write", "written from 4 partitions", "s", 1),
        Figure("archive", "archived", "s", 1),
        Figure("files", "files of the archive", "", 0),
        goals=(at_most("write", 4), at_most("archive", 10)),
    ),
)
