"""How the files of an archive run are written where only Spark gets to: each by a query of its own.

Spark writes a directory with one file in it, under a name that everybody overlooks; the file gets its own name when it
is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from streamd.spark.archives.write import COLUMNS, DELETED, Done, Job, is_written, truncated
from streamd.spark.daemon import open_storage
from streamd.spark.options import ReadOptions, read_options
from streamd.spark.read.places import Range
from streamd.spark.read.plan import Partition
from streamd.spark.read.records import read_partition
from streamd.spark.read.source import COLUMNS as KINDS
from streamd.store.errors import NoSuchSegment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamd.spark.archives.hadoop import HadoopFiles

# Others than Spark take its older kind of timestamps for something else.
_TIMESTAMPS: Final = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")

_AT_ONCE_MAX: Final = 32


def write_by_spark(spark: SparkSession, files: HadoopFiles, jobs: Sequence[Job]) -> list[Done]:
    """Write these files, as many at once as Spark has cores."""
    session = _like(spark)
    session.conf.set(*_TIMESTAMPS)
    session.dataSource.register(RangeSource)
    threads = min(spark.sparkContext.defaultParallelism, len(jobs), _AT_ONCE_MAX)
    with ThreadPoolExecutor(threads) as pool:
        failures = list(pool.map(partial(_carry_out, session, files), jobs))
    return [_judged(job, failure) for job, failure in zip(jobs, failures, strict=True)]


def _like(spark: SparkSession) -> SparkSession:
    """A session with the same settings, in which one can be changed that is the user's."""
    session = spark.newSession()
    for key, value in spark.conf.getAll.items():
        if session.conf.get(key, None) != value:
            session.conf.set(key, value)
    return session


def _carry_out(session: SparkSession, files: HadoopFiles, job: Job) -> PySparkException | None:
    """Write one file, in a thread of the pool; the failure of Spark's query where there is one."""
    file = job.output.file
    if is_written(files, file):
        return None
    made = files.beside(file.path)
    try:
        _rows(session, files, job).write.option("compression", "zstd").parquet(files.url(made))
        (name,) = (name for name in files.names(made) if name.endswith(".parquet"))
        # What may be there is not whole.
        files.delete(file.path)
        files.rename(f"{made}/{name}", file.path)
    except PySparkException as failure:
        return failure
    finally:
        files.delete(made)
    return None


def _judged(job: Job, failure: PySparkException | None) -> Done:
    """What came of a file. Storage is for one thread, so it is asked for here and not in the pool."""
    if failure is None:
        return Done(job.topic)
    gone = _gone(job)
    if not gone:
        raise failure
    return Done(job.topic, gone)


def _rows(session: SparkSession, files: HadoopFiles, job: Job) -> DataFrame:
    """What is to be in a file, in one partition and in order."""
    output = job.output
    young = [files.url(each.path) for each in output.young]
    merged = session.read.parquet(*young).select(*COLUMNS) if young else None
    if output.live == output.file.end:
        assert merged is not None, "a file is made of something"
        return merged.coalesce(1).sortWithinPartitions("offset")
    where = {"path": job.path} if job.path is not None else {"server": job.server or ""}
    numbers = {"id": job.id, "first": output.live, "end": output.file.end}
    live = session.read.format(RangeSource.name()).options(**where, **numbers, topic=job.topic).load()
    if merged is None:
        return live
    return merged.unionByName(live).coalesce(1).sortWithinPartitions("offset")


def _gone(job: Job) -> str:
    """What went while it was archived; nothing where it failed for another reason."""
    try:
        first = open_storage(job.path, job.server).segment(job.id).first_number
    except NoSuchSegment:
        return DELETED
    return truncated(first) if first > job.output.live else ""


class RangeSource(DataSource):
    """Records of one segment, by its id and their numbers, in one partition."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "streamd-range"

    def schema(self) -> StructType:
        """The columns of a file."""
        return StructType([StructField(name, KINDS[name]) for name in COLUMNS])

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        options = dict(self.options)
        numbers = {name: int(options.pop(name)) for name in ("id", "first", "end")}
        whole = Range(topic=options["topic"], bytes=0, **numbers)
        return RangeReader(read_options(options, 0, stream=False), schema, whole)


class RangeReader(DataSourceReader):
    """Reads them. That they are there is for the task to find out."""

    def __init__(self, options: ReadOptions, schema: StructType, whole: Range) -> None:
        self._options = options
        self._schema = schema
        self._whole = whole

    def partitions(self) -> list[InputPartition]:
        """The one partition. Called by Spark."""
        return [Partition((self._whole,))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """All of it. Called by Spark, in a task."""
        return read_partition(self._options, self._schema, partition)
