"""streamd in Spark: ``format("streamd")`` reads topics as tables and as streams.

This package runs in Spark's processes, and the daemon never imports it. It needs the extra ``spark``:
in a checkout, ``pip install '.[spark]'``.

    import streamd.spark

    spark = streamd.spark.session("first look")
    spark.read.format("streamd").option("path", "/var/lib/streamd").option("topic", "greetings").load().show()

`read` is the source and `sink` the sink; `archives` keeps topics as Delta tables; `pipeline` runs streaming SQL from a
file. `options` checks what a user gives, `daemon` opens the files or the daemon, `start` and `java` start Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamd.spark.start import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamd.spark.archives.run import Archived

__all__ = ["archive", "behind_latest", "each_batch", "session", "table"]

# What these need is imported when they are called: every Python process of Spark loads this module.


def archive(spark: SparkSession, topics: str | Sequence[str], uri: str, **settings: Any) -> list[Archived]:
    """Archive topics (names, or shell patterns) as Delta tables below a URI: what has come since the last time.

    Each record is archived once. Read with `server` (the daemon's Pravega service as host:port), `path` (a store's
    directory), or both: then records come from the files, and the daemon learns how far the archive is. `schema` names
    typed columns. Other settings are those of `streamd.spark.archives.run.Settings`. Raises ArchiveError and DataLost.
    """
    from streamd.spark.archives.run import ArchiveRun, Settings

    return ArchiveRun(spark, [topics] if isinstance(topics, str) else topics, uri, Settings(**settings)).run()


def behind_latest(
    progress: Mapping[str, Any], *, server: str | None = None, path: str | None = None
) -> dict[str, float]:
    """How many messages a streaming query is behind: the average, minimum and maximum over its topics.

    `progress` is the query's ``lastProgress``. The topics are looked at now, in a daemon (`server`) or in files
    (`path`): what Spark itself tells was measured when the trigger began.
    """
    from streamd.spark.read.lag import as_metrics, behind

    return as_metrics(behind(progress, path, server))


def each_batch(**options: str) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that writes each batch of a query to a topic once.

    For what Spark does not let a sink do by itself: ``outputMode("update")``. The options are those of the sink.
    """
    from streamd.spark.sink.batches import each_batch

    return each_batch(options)


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
    from streamd.spark.archives.table import read_table

    frame = read_table(spark, topic, archive, server, path)
    if view is not None:
        frame.createOrReplaceTempView(view)
    return frame
