"""A pipeline's sources, views and sinks as Spark's: nothing is read or written before a query is started."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, cast

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from streamd.spark.archives.delta import TopicTable
from streamd.spark.archives.location import ArchiveError, location_of
from streamd.spark.pipeline import smq as pipeline_smq
from streamd.spark.pipeline.file import Pipeline, PipelineError, Sink, Source
from streamd.spark.read.source import COLUMNS
from streamd.spark.sink.batches import each_batch, each_batch_to_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CORRUPT: Final = "corrupt"
"""The column of a JSON or CSV source with the text that does not fit the schema."""

WRITTEN: Final = "written"
"""The metric of a query's progress that counts the rows for its sink."""

RECORD: Final = "record_"
"""In a JSON or CSV source the record's own columns begin with this: those of the schema have the plain names."""

_PLACE: Final = re.compile(r"\(line (\d+), pos \d+\)|; line (\d+) pos \d+")


def build(spark: SparkSession, pipeline: Pipeline, sink: Sink) -> DataFrame:
    """The rows for a sink; PipelineError with the line of what Spark refuses.

    All views are made anew for each sink: its query is a reader group of its own, named in its sources.
    """
    for at, source in enumerate(pipeline.sources):
        try:
            _load(spark, pipeline, source, f"{pipeline.name}.{sink.name}").createOrReplaceTempView(source.name)
        except (ArchiveError, ValueError) as error:
            raise pipeline.error(str(error), "source", at)
        except PySparkException as error:
            key = "watermark" if source.watermark is not None and not isinstance(error, ParseException) else "schema"
            raise pipeline.error(_first_line(error), "source", at, key)
    for at, view in enumerate(pipeline.views):
        try:
            spark.sql(view.sql).createOrReplaceTempView(view.name)
        except PySparkException as error:
            place = _PLACE.search(str(error))
            line = int(next(filter(None, place.groups()))) if place else 1
            raise pipeline.error_in_sql(f"view {view.name}: {_first_line(error)}", at, line)
    at = pipeline.sinks.index(sink)
    try:
        return _shaped(spark.table(sink.view), sink)
    except (PySparkException, ValueError) as error:
        raise pipeline.error(_first_line(error), "sink", at)


def _load(spark: SparkSession, pipeline: Pipeline, source: Source, group: str) -> DataFrame:
    if source.static is not None:
        return _static(spark, source)
    reader = spark.readStream.format("streamd").options(**source.where).options(**source.options)
    if pipeline.path is not None:
        reader = reader.option("path", pipeline.path)
    else:
        reader = reader.option("server", pipeline.server).option("group", group)
    frame = _parsed(reader.load(), source)
    if source.watermark is not None:
        frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
    return frame


def _static(spark: SparkSession, source: Source) -> DataFrame:
    """A table that does not change while the pipeline runs."""
    assert source.static is not None
    kind, place = source.static
    if kind == "parquet":
        return spark.read.parquet(_located(place))
    if kind == "csv":
        return spark.read.options(**source.parse).csv(_located(place), source.schema)
    location = location_of(spark, place)
    table = TopicTable.open(location)
    if not table.exists:
        raise ValueError(f"{place} is no Delta table")
    return spark.createDataFrame(table.delta.to_pyarrow_table())


def _parsed(frame: DataFrame, source: Source) -> DataFrame:
    """The columns of a source, by its format."""
    if source.format == "raw":
        return frame
    if source.format == "text":
        return frame.withColumn("value", f.col("value").cast("string"))
    if source.format == "smq":
        decoded = frame.withColumn("decoded", pipeline_smq.column())
        return decoded.select(*COLUMNS, *(f.col(f"decoded.{name}").alias(name) for name in pipeline_smq.COLUMNS))
    assert source.schema is not None
    schema = cast(StructType, StructType.fromDDL(f"{source.schema}, {CORRUPT} string"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **source.parse}
    text = f.col("value").cast("string")
    if source.format == "json":
        parsed = f.from_json(text, schema, options)
    else:
        parsed = f.from_csv(text, schema.toDDL(), options)
    own = [f.col(name).alias(f"{RECORD}{name}") for name in COLUMNS]
    return frame.select(parsed.alias("parsed"), *own).select("parsed.*", *(f"{RECORD}{name}" for name in COLUMNS))


def _shaped(frame: DataFrame, sink: Sink) -> DataFrame:
    """The columns that a sink takes."""
    missing = [name for name in sink.partition_by if name not in frame.columns]
    if missing:
        raise ValueError(f"partition_by names {missing[0]!r}, and {sink.view} has {', '.join(frame.columns)}")
    if sink.topic is None:
        return frame
    if sink.format == "text":
        if "value" not in frame.columns:
            raise ValueError(f"{sink.view} has no column value, which text is taken from: name it so, or use json")
        return frame.select(f.col("value"))
    row = f.struct(*frame.columns)
    return frame.select((f.to_json(row) if sink.format == "json" else f.to_csv(row)).alias("value"))


def writer(pipeline: Pipeline, sink: Sink, frame: DataFrame) -> DataStreamWriter:
    """What writes to a sink, but for its trigger."""
    frame = frame.observe(WRITTEN, f.count(f.lit(1)).alias("rows"))
    made = frame.writeStream.queryName(f"{pipeline.name}/{sink.name}").outputMode(sink.mode)
    made = made.option("checkpointLocation", f"{_located(pipeline.checkpoint)}/{sink.name}")
    if sink.topic is not None:
        where = {"server": pipeline.server, "topic": sink.topic}
        if sink.mode == "update":
            # Spark refuses it to sinks like ours.
            return made.foreachBatch(each_batch(where))
        return made.format("streamd").options(**where)
    if sink.delta is not None:
        return made.foreachBatch(each_batch_to_delta(location_of(frame.sparkSession, sink.delta), sink.partition_by))
    if sink.parquet is not None:
        made = made.format("parquet").option("path", _located(sink.parquet)).option("compression", "zstd")
        return made.partitionBy(*sink.partition_by) if sink.partition_by else made
    return made.format("console").option("truncate", "false")


def refused(pipeline: Pipeline, sink: Sink, error: PySparkException) -> PipelineError:
    """An error for a query that Spark does not start."""
    key = "mode" if isinstance(error, AnalysisException) else "view"
    return pipeline.error(_first_line(error), "sink", pipeline.sinks.index(sink), key)


def _located(place: str) -> str:
    """A path without a scheme counts from the working directory, also for the tasks, which may have another one."""
    return place if "://" in place else f"file://{os.path.abspath(place)}"


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
