"""What a task does, to read a partition as Arrow batches; and the reader of a batch query, which plans these."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from streamd.spark.daemon import Storage, open_storage
from streamd.spark.options import ReadOptions
from streamd.spark.read.filters import Bounds
from streamd.spark.read.places import Losses, Range, batch_ranges
from streamd.spark.read.plan import Partition, partitions
from streamd.store.errors import NoSuchSegment, RecordsTruncated

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from streamd.spark.daemon import Run

# The program that Spark runs to push filters down. It is loaded only where push-down is on.
PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def microseconds_now() -> int:
    """The time, as the store counts it."""
    return time.time_ns() // 1000


def read_partition(options: ReadOptions, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    """The record batches of a partition."""
    from streamd.spark.read.columns import arrow_schema, batches

    assert isinstance(partition, Partition)
    if not partition.ranges:
        return
    storage = open_storage(options.path, options.server)
    losses = Losses(options.on_data_loss)
    wanted = arrow_schema(schema)
    for each in partition.ranges:
        yield from batches(wanted, each.topic, _runs(storage, each, losses))


def _runs(storage: Storage, range: Range, losses: Losses) -> Iterator[Run]:
    """The records of a range. What goes while it is read is an error, or skipped."""
    first = range.first
    while first < range.end:
        try:
            for run in storage.read(range.id, first, range.end):
                yield run
                first = run.number + run.batch.count
        except RecordsTruncated as error:
            end = min(error.first_number, range.end)
            losses.truncated(range.topic, first, end)
            first = end
        except NoSuchSegment:
            losses.deleted(range.topic, first, again=False)
            return


class BatchReader(DataSourceReader):
    """One read of ``spark.read``: what it reads is settled when it is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        """What there is to read now. Called by Spark."""
        options = self._options
        storage = open_storage(options.path, options.server)
        ranges = batch_ranges(storage, options, self._bounds, Losses(options.on_data_loss))
        # Spark takes no partition at all for one of which nothing is known.
        return [*partitions(storage, ranges, options)] or [Partition(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """One partition. Called by Spark, in a task."""
        return read_partition(self._options, self._schema, partition)


class FilteredBatchReader(BatchReader):
    """A batch reader that is told of the query's filters first."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read less. Spark is to apply all of them again: here they only save work."""
        self._bounds.narrow(filters)
        return filters


def batch_reader(options: ReadOptions, schema: StructType) -> BatchReader:
    """The reader that suits this process: where push-down is off, Spark refuses one that could be told of filters."""
    return (FilteredBatchReader if PUSHING in sys.modules else BatchReader)(options, schema)
