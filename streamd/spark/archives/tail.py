"""The live part of a table: records behind an archive, and out of it those that were archived and dropped since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from streamd.spark.archives.delta import END, TopicTable
from streamd.spark.archives.history import archived_rows
from streamd.spark.archives.location import Location
from streamd.spark.daemon import open_storage
from streamd.spark.options import read_options
from streamd.spark.read.places import DataLost, Range, range_of
from streamd.spark.read.plan import Partition, partitions
from streamd.store.errors import NoSuchSegment, RecordsTruncated

if TYPE_CHECKING:
    from streamd.spark.archives.typed import Typing
    from streamd.spark.daemon import Run, Storage


class TailSource(DataSource):
    """The records of a topic behind its archive. Made by `streamd.spark.table`, and by nobody else."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "streamd-tail"

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        return TailReader(dict(self.options), schema)


class TailReader(DataSourceReader):
    """Reads live records, and out of the archive what has gone there since."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._archive = Location.decoded(options.pop("archive"))
        self._id, self._first, self._end = (int(options.pop(name)) for name in ("id", "first", "end"))
        self._options = read_options(options, 0, stream=False)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """The records that were there when the table was made. Called by Spark."""
        (topic,) = self._options.topics
        storage = open_storage(self._options.path, self._options.server)
        gone, bytes = self._end, 0
        with suppress(NoSuchSegment):
            info = storage.segment(self._id)
            gone = min(max(self._first, info.first_number), self._end)
            bytes = range_of(info, gone, self._end).bytes
        # Cut where records are not live any more: there nothing can be looked up.
        ranges = [Range(self._id, topic, self._first, gone, 0), Range(self._id, topic, gone, self._end, bytes)]
        return [*partitions(storage, [each for each in ranges if each.records], self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """One partition. Called by Spark, in a task."""
        assert isinstance(partition, Partition)
        typing = self._typing()
        for whole in partition.ranges:
            storage = open_storage(self._options.path, self._options.server)
            tail = _Tail(storage, whole)
            while tail.first < whole.end:
                yield from self._live(tail, typing)
                if tail.gone > tail.first:
                    yield from self._archived(whole, tail.first, tail.gone)
                    tail.first = tail.gone

    def _typing(self) -> Typing | None:
        """How live records become the typed columns that the archive has."""
        from streamd.spark.archives.typed import ERROR, stored_typing

        if ERROR not in self._schema.names:
            return None
        table = TopicTable.open(self._archive)
        format = table.number("streamd.format")
        return None if format is None else stored_typing(format, table.schema())

    def _live(self, tail: _Tail, typing: Typing | None) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from streamd.spark.archives.typed import UNTYPED
        from streamd.spark.read.columns import batches

        wanted = to_arrow_schema(self._schema, timezone="UTC")
        if typing is None:
            yield from batches(wanted, tail.topic, tail.runs())
            return
        for batch in batches(UNTYPED, tail.topic, tail.runs()):
            typed = typing.added(batch)
            topic = pa.repeat(pa.scalar(tail.topic, pa.string()), len(batch))
            columns = [topic if name == "topic" else typed.column(name) for name in wanted.names]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    def _archived(self, whole: Range, first: int, end: int) -> Iterator[Any]:
        """Records that were archived since, as batches."""
        table = TopicTable.open(self._archive)
        archived = table.number(END) if table.number("streamd.segment") == whole.id else None
        if archived is None or archived < end:
            raise DataLost(
                f"offsets {max(first, archived or 0)} to {end - 1} of topic {whole.topic!r} are gone and not archived: "
                "they were truncated, or have expired. archived_only in [[retention]] prevents it"
            )
        conditions = [("offset", ">=", first), ("offset", "<", end)]
        yield from archived_rows(self._archive, table.paths(conditions), self._schema, whole.topic, conditions)


class _Tail:
    """Live records of a range, up to where they are gone."""

    def __init__(self, storage: Storage, whole: Range) -> None:
        self._storage = storage
        self._whole = whole
        self.topic = whole.topic
        self.first = whole.first
        self.gone = whole.first
        """Records from `first` to here are not live any more."""

    def runs(self) -> Iterator[Run]:
        """What is live from `first` on, which moves with it."""
        whole = self._whole
        try:
            for run in self._storage.read(whole.id, self.first, whole.end):
                yield run
                self.first = run.number + run.batch.count
        except RecordsTruncated as error:
            self.gone = min(error.first_number, whole.end)
        except NoSuchSegment:
            self.gone = whole.end
