"""An archive and what has come since, as one table: the Delta table up to the archived offset, live records behind it.

Both are settled when the table is made. If live records are archived and dropped before they are read, their tasks take
them from the archive: every record is in one of the two places at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from streamd.spark.archives.adopt import Archive
from streamd.spark.archives.delta import END, TopicTable
from streamd.spark.archives.history import HistorySource
from streamd.spark.archives.location import ArchiveError, is_reached, location_of, refuse_connect
from streamd.spark.archives.tail import TailSource
from streamd.spark.daemon import open_storage
from streamd.spark.options import OptionError, read_options
from streamd.spark.read.source import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(spark: SparkSession, topic: str, uri: str, server: str | None, path: str | None) -> DataFrame:
    """The table; ArchiveError, OptionError."""
    refuse_connect(spark)
    archive = Archive(location_of(spark, uri))
    table = archive.table(topic, adopt=False)
    has_live = server is not None or path is not None
    if not table.exists and not has_live:
        raise ArchiveError(f"{uri} has no archive of topic {topic!r}: give server or path to read what is live")
    where = {"topic": topic, "archive": table.location.encoded()}
    schema = columns(table)
    history = _history(spark, topic, table, schema, where) if table.exists else None
    if has_live:
        id, first, end = _live(topic, table, server, path)
        if first < end or history is None:
            spark.dataSource.register(TailSource)
            where |= {"path": path} if path is not None else {"server": server or ""}
            where |= {"id": str(id), "first": str(first), "end": str(end)}
            live = spark.read.format(TailSource.name()).options(**where).schema(schema).load()
            return live if history is None else history.unionByName(live)
    assert history is not None
    return history


def _live(topic: str, table: TopicTable, server: str | None, path: str | None) -> tuple[int, int, int]:
    """The topic's id, and the records of it that are not archived, as a range."""
    where = {"path": path} if path is not None else {"server": server or ""}
    checked = read_options({**where, "topic": topic}, 0, stream=False)
    infos = open_storage(checked.path, checked.server).named([topic])
    if not infos:
        raise OptionError(f"there is no topic {topic!r}: leave server and path out to read what is archived")
    (info,) = infos
    if not table.exists:
        return info.id, info.first_number, info.number
    if (table.number("streamd.segment"), table.number("streamd.created")) != (info.id, info.created):
        raise ArchiveError(
            f"{table.location.uri} is the archive of another topic {topic!r}, which was deleted since, or is of "
            "another store: leave server and path out to read it"
        )
    return info.id, table.number(END) or 0, info.number


def columns(table: TopicTable) -> StructType:
    """The columns of a table: those of a live read, then the typed ones."""
    own = [StructField(name, kind) for name, kind in COLUMNS.items()]
    if not table.exists:
        return StructType(own)
    stored: Any = from_arrow_schema(table.schema())
    return StructType([*own, *(field for field in stored.fields if field.name not in COLUMNS)])


def _history(
    spark: SparkSession, topic: str, table: TopicTable, schema: StructType, where: dict[str, str]
) -> DataFrame:
    """What is archived, as of the version that the table was opened at."""
    if not is_reached(spark, table.location):
        # S3, and Spark has no connector for it: tasks read the files in the way they write them.
        spark.dataSource.register(HistorySource)
        version = str(table.delta.version())
        return spark.read.format(HistorySource.name()).options(**where, version=version).schema(schema).load()
    paths = [f"{table.location.spark_uri}/{file.path}" for file in table.files()]
    if not paths:
        return spark.createDataFrame([], schema)
    in_files = StructType([field for field in schema.fields if field.name != "topic"])
    rows = spark.read.schema(in_files).option("basePath", table.location.spark_uri).parquet(*paths)
    return rows.withColumn("topic", functions.lit(topic)).select(*schema.names)
