"""How the files of an archive run are written: each by a task that does nothing else, or finds that this was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from streamd.spark.archives.arrow import ArrowFiles
from streamd.spark.archives.files import Location
from streamd.spark.archives.manifest import Output
from streamd.spark.daemon import open_storage
from streamd.spark.read.columns import ARROW, batches
from streamd.store.errors import NoSuchSegment, RecordsTruncated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamd.spark.archives.files import Files
    from streamd.spark.archives.manifest import File

COLUMNS: Final = ("offset", "timestamp", "type", "value")
"""The columns in a file. The topic and the date are in its path."""

SCHEMA: Final = pa.schema([(name, ARROW[name]) for name in COLUMNS])

_ROW_GROUP_BYTES: Final = 32 << 20
"""So much is in memory at once, and is what a reader of one column fetches of it."""

_HOW: Final[dict[str, Any]] = {
    "compression": "zstd",
    "use_dictionary": ["type"],
    # Offsets count up and times hardly change: as differences they take next to nothing.
    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
    # The smallest and the largest value of a payload help nobody, and take long to find.
    "write_statistics": ["offset", "timestamp", "type"],
}


class Job(NamedTuple):
    """One file to write."""

    location: Location
    path: str | None
    server: str | None
    topic: str
    id: int
    output: Output


class Done(NamedTuple):
    """What came of it."""

    topic: str
    gone: str = ""
    """Where records went before they were read: what went."""


DELETED: Final = "it was deleted"


def write_in_tasks(spark: SparkSession, jobs: Sequence[Job]) -> list[Done]:
    """Write these files, as many at once as Spark has cores."""
    done: list[Done] = spark.sparkContext.parallelize(jobs, len(jobs)).map(_carry_out).collect()
    return done


def _carry_out(job: Job) -> Done:
    files = ArrowFiles(job.location)
    try:
        if not is_written(files, job.output.file):
            files.put(job.output.file.path, lambda file: _write(file, files, job))
    except RecordsTruncated as error:
        return Done(job.topic, truncated(error.first_number))
    except NoSuchSegment:
        return Done(job.topic, DELETED)
    return Done(job.topic)


def is_written(files: Files, file: File) -> bool:
    """Whether a file is there: by a run that was cut off, or another attempt. It has its name when it is whole."""
    return files.rows(file.path) == file.rows


def truncated(first: int) -> str:
    """What to say where a topic begins at this record by now."""
    return f"records below {first} were truncated, or have expired"


def _write(target: Any, files: ArrowFiles, job: Job) -> None:
    output = job.output
    rows = 0
    with pq.ParquetWriter(target, SCHEMA, **_HOW) as writer:
        for group in _groups(_batches(files, job)):
            writer.write_table(group, row_group_size=max(group.num_rows, 1))
            rows += group.num_rows
    if rows != output.file.rows:
        raise ValueError(f"{output.file.path}: {rows} records were read, and {output.file.rows} are to be in it")


def _batches(files: ArrowFiles, job: Job) -> Iterator[Any]:
    for young in job.output.young:
        yield from files.batches(young.path)
    live, end = job.output.live, job.output.file.end
    if live < end:
        storage = open_storage(job.path, job.server)
        yield from batches(SCHEMA, job.topic, storage.read(job.id, live, end))


def _groups(some: Iterable[Any]) -> Iterator[Any]:
    """Batches put together into groups of rows."""
    gathered: list[Any] = []
    size = 0
    for batch in some:
        gathered.append(batch)
        size += batch.nbytes
        if size >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(gathered, SCHEMA)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered, SCHEMA)
