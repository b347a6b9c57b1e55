"""streamd in Spark: ``format("streamd")`` reads topics as tables and as streams.

This package runs in Spark's processes, and the daemon never imports it. It needs ``pip install 'streamd[spark]'``.

    import streamd.spark

    spark = streamd.spark.session("first look")
    spark.read.format("streamd").option("path", "/var/lib/streamd").option("topic", "greetings").load().show()

The way of the data, one module each: `options` checks what the user wants, `storage` opens the files or the daemon,
`places` turns words and times into record numbers, `plan` cuts these into partitions, `columns` makes Arrow batches of
what is read. `source` is what Spark calls. `archive` keeps topics as Parquet for good; `table` shows an archive and
what has come since as one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streamd.spark.start import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamd.spark.archives.run import Archived

__all__ = ["archive", "session", "table"]

# What these need is imported when they are called: every Python process of Spark loads this module.


def archive(spark: SparkSession, topics: str | Sequence[str], uri: str, **settings: Any) -> list[Archived]:
    """Archive topics (names, or shell patterns) as Parquet below a URI: what has come since the last time, each once.

    Read with `server` (the daemon's Pravega service as host:port), `path` (a store's directory), or both: then records
    come from the files, and the daemon is told how far the archive is. Other settings are those of
    `streamd.spark.archives.run.Settings`. ArchiveError and DataLost say what to do.
    """
    from streamd.spark.archives.run import ArchiveRun, Settings

    return ArchiveRun(spark, [topics] if isinstance(topics, str) else topics, uri, Settings(**settings)).run()


def table(
    spark: SparkSession,
    topic: str,
    archive: str,
    *,
    server: str | None = None,
    path: str | None = None,
    view: str | None = None,
) -> DataFrame:
    """A topic from its first archived record to its last live one, as one table, as it is now.

    `archive` is the URI that `archive` writes to; what is behind it comes from `server` or `path`, and without both
    there is only what is archived. With `view` it is a view of that name for SQL too.
    """
    from streamd.spark.archives.table.read import read_table

    frame = read_table(spark, topic, archive, server, path)
    if view is not None:
        frame.createOrReplaceTempView(view)
    return frame
