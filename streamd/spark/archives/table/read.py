"""An archive and what has come since, as one table: Parquet up to the archived offset, live records behind it.

The border is settled once, when the table is made. If records behind it are archived and dropped before they are read,
their tasks take them from the archive: every record is in one of the two places at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from streamd.spark.archives.arrow import ArrowFiles
from streamd.spark.archives.files import ArchiveError, Files
from streamd.spark.archives.hadoop import is_reached
from streamd.spark.archives.location import files_of
from streamd.spark.archives.manifest import Manifest, Manifests, base
from streamd.spark.archives.table.files import ALL, FilesSource, file_options
from streamd.spark.archives.table.tail import TailSource
from streamd.spark.daemon import open_storage
from streamd.spark.read.source import COLUMNS

_IN_FILES = StructType([field for field in ALL.fields if field.name != "topic"])


def read_table(spark: SparkSession, topic: str, uri: str, server: str | None, path: str | None) -> DataFrame:
    """The table; ArchiveError, OptionError."""
    files = files_of(spark, uri)
    manifest = Manifests(files, topic).last()
    if manifest is None and server is None and path is None:
        raise ArchiveError(f"{uri} has no archive of topic {topic!r}: give server or path to read what is live")
    parts = [] if manifest is None else list(_archived(spark, files, manifest))
    if server is not None or path is not None:
        parts.append(_live(spark, topic, files, manifest, server, path))
    if not parts:
        return spark.createDataFrame([], ALL)
    return reduce(DataFrame.unionByName, parts)


def _archived(spark: SparkSession, files: Files, manifest: Manifest) -> Iterator[DataFrame]:
    """What is in place, and what is young."""
    if isinstance(files, ArrowFiles) and not is_reached(spark, files.uri.partition("://")[0]):
        # S3, and Spark has no connector for it: tasks read the files in the way they are written.
        if manifest.files:
            spark.dataSource.register(FilesSource)
            yield spark.read.format(FilesSource.name()).options(**file_options(files, manifest)).load()
        return
    for young in (False, True):
        urls = [files.url(file.path) for file in manifest.files if file.young == young]
        if urls:
            reader = spark.read.schema(_IN_FILES).option("basePath", base(files, young=young))
            yield reader.parquet(*urls).withColumn("topic", functions.lit(manifest.topic)).select(*COLUMNS)


def _live(
    spark: SparkSession, topic: str, files: Files, manifest: Manifest | None, server: str | None, path: str | None
) -> DataFrame:
    spark.dataSource.register(TailSource)
    where = {"server": server} if path is None else {"path": path}
    options = {"topic": topic, "uri": files.uri, **where}
    if manifest is not None:
        options |= {"first": str(manifest.end), "id": f"{manifest.id}/{manifest.created}"}
    if isinstance(files, ArrowFiles):
        options["archive"] = files.location.encoded()
    elif manifest is None:
        # Nobody can look later whether there is an archive by now: what goes there is missed, and told of.
        for info in open_storage(path, server).named([topic]):
            options["first"] = str(info.first_number)
    given = {name: value for name, value in options.items() if value is not None}
    return spark.read.format(TailSource.name()).options(**given).load()
