"""How the files of an archive run are written: by Spark's tasks, large files one each and small ones many together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import pyarrow.compute as pc
from deltalake.transaction import AddAction

from streamd.spark.archives.parquet import read_files, write_file
from streamd.spark.archives.typed import ERROR, UNTYPED
from streamd.spark.daemon import open_storage
from streamd.spark.read.columns import batches
from streamd.store.errors import NoSuchSegment, RecordsTruncated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamd.spark.archives.location import Location
    from streamd.spark.archives.plan import Output
    from streamd.spark.archives.typed import Typing

_TASKS_PER_CORE: Final = 2


class Job(NamedTuple):
    """One file to write."""

    location: Location
    path: str | None
    server: str | None
    topic: str
    typing: Typing | None
    output: Output


class Done(NamedTuple):
    """What came of a job."""

    topic: str
    file: AddAction | None
    unfit: int = 0
    """How many of the new records do not fit the schema."""
    gone: str = ""
    """Where records went before they were read: what went."""


def write_in_tasks(spark: SparkSession, jobs: Sequence[Job]) -> list[Done]:
    """Write these files, as many at once as Spark has cores."""
    context = spark.sparkContext
    packs = list(_packed(jobs, _TASKS_PER_CORE * context.defaultParallelism))
    done: list[list[Done]] = context.parallelize(packs, len(packs)).map(_carry_out_all).collect()
    return [each for some in done for each in some]


def _packed(jobs: Sequence[Job], packs: int) -> Iterator[list[Job]]:
    """The jobs in order, in about so many packs of the same size, or one each: a task costs as much as a small file."""
    # An empty file costs something too.
    sizes = [job.output.new.bytes + (64 << 10) for job in jobs]
    share = sum(sizes) / packs
    pack: list[Job] = []
    filled = 0
    for job, size in zip(jobs, sizes, strict=True):
        if pack and filled + size > share:
            yield pack
            pack, filled = [], 0
        pack.append(job)
        filled += size
    yield pack


def _carry_out_all(jobs: Sequence[Job]) -> list[Done]:
    return [_carry_out(job) for job in jobs]


def _carry_out(job: Job) -> Done:
    new = job.output.new
    # A name of its own: what another attempt or a run that was cut off wrote is never taken for this one.
    name = f"part-{job.output.first:020}-{new.end:020}-{uuid4().hex}.parquet"
    schema = UNTYPED if job.typing is None else job.typing.schema
    rows = _Rows(job, schema)
    try:
        file = write_file(job.location, name, schema, rows.all(), is_new=True)
    except RecordsTruncated as error:
        return Done(job.topic, None, gone=f"records below {error.first_number} were truncated, or have expired")
    except NoSuchSegment:
        return Done(job.topic, None, gone="it was deleted")
    wanted = sum(merged.rows for merged in job.output.merged) + new.records
    if rows.count != wanted:
        raise ValueError(f"{name}: {rows.count} records were read, and {wanted} are to be in it")
    return Done(job.topic, file, rows.unfit)


class _Rows:
    """The rows of a file, counted as they pass."""

    def __init__(self, job: Job, schema: Any) -> None:
        self._job = job
        self._schema = schema
        self.count = self.unfit = 0

    def all(self) -> Iterator[Any]:
        """Merged ones, then new ones."""
        job, new = self._job, self._job.output.new
        for batch in read_files(job.location, [file.path for file in job.output.merged], self._schema):
            self.count += len(batch)
            yield batch
        for batch in batches(UNTYPED, job.topic, open_storage(job.path, job.server).read(new.id, new.first, new.end)):
            made = batch if job.typing is None else job.typing.added(batch)
            self.count += len(made)
            if job.typing is not None:
                self.unfit += len(made) - pc.sum(pc.is_null(made.column(ERROR))).as_py()
            yield made
