"""The live part of a table: records behind an archive, and out of it those that went there since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from streamd.spark.archives.arrow import ArrowFiles
from streamd.spark.archives.files import ArchiveError, Location
from streamd.spark.archives.manifest import File, Manifests
from streamd.spark.archives.table.files import ALL
from streamd.spark.daemon import open_storage
from streamd.spark.options import OptionError, read_options
from streamd.spark.read.places import DataLost, Range, range_of
from streamd.spark.read.plan import Partition, partitions
from streamd.store.errors import NoSuchSegment, RecordsTruncated

if TYPE_CHECKING:
    from streamd.spark.daemon import Info, Run, Storage


class TailSource(DataSource):
    """The records of a topic behind its archive. Made by `streamd.spark.table`, and by nobody else."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "streamd-tail"

    def schema(self) -> StructType:
        """All columns."""
        return ALL

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        return TailReader(dict(self.options), schema)


class TailReader(DataSourceReader):
    """Reads live records, and out of the archive what has gone there since."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._uri = options.pop("uri")
        archive = options.pop("archive", None)
        self._archive = None if archive is None else Location.decoded(archive)
        first = options.pop("first", None)
        self._first = None if first is None else int(first)
        self._identity = options.pop("id", None)
        self._options = read_options(options, 0, stream=False)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """What there is now. Called by Spark."""
        (topic,) = self._options.topics
        storage = open_storage(self._options.path, self._options.server)
        found = storage.named([topic])
        if not found:
            raise OptionError(f"there is no topic {topic!r}: leave server and path out to read what is archived")
        (info,) = found
        if self._identity not in (None, f"{info.id}/{info.created}"):
            raise ArchiveError(
                f"{self._uri} is the archive of another topic {topic!r}, which was deleted since, or is of another "
                "store: leave server and path out to read it"
            )
        first = self._begin(info) if self._first is None else self._first
        if first >= info.number:
            return [Partition(())]
        return [*partitions(storage, _ranges(info, first), self._options)]

    def _begin(self, info: Info) -> int:
        """Where to begin if there was no archive when the table was made. Since then one may have been begun."""
        manifest = None if self._archive is None else Manifests(ArrowFiles(self._archive), info.name).last()
        return info.first_number if manifest is None else manifest.first

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """One partition. Called by Spark, in a task."""
        from streamd.spark.read.columns import arrow_schema, batches

        assert isinstance(partition, Partition)
        wanted = arrow_schema(self._schema)
        for whole in partition.ranges:
            storage = open_storage(self._options.path, self._options.server)
            tail = _Tail(storage, whole)
            while tail.first < whole.end:
                yield from batches(wanted, whole.topic, tail.runs())
                if tail.gone > tail.first:
                    yield from _from_archive(self._archive, wanted, whole, tail.first, tail.gone)
                    tail.first = tail.gone


def _ranges(info: Info, first: int) -> list[Range]:
    """The records from `first` on, cut where they are not live any more: there nothing can be looked up."""
    gone = max(first, info.first_number)
    ranges = [Range(info.id, info.name, first, gone, 0), range_of(info, gone, info.number)]
    return [each for each in ranges if each.records]


class _Tail:
    """Live records of a range, up to where they are gone."""

    def __init__(self, storage: Storage, whole: Range) -> None:
        self._storage = storage
        self._whole = whole
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


def _from_archive(archive: Location | None, schema: Any, whole: Range, first: int, end: int) -> Iterator[Any]:
    """Records that are archived since, as batches."""
    import pyarrow.compute as pc

    from streamd.spark.read.columns import as_columns

    if archive is None:
        raise DataLost(
            f"offsets {first} to {end - 1} of topic {whole.topic!r} are gone since this table was made. If they are "
            "archived by now, make the table again: tasks can't read this archive"
        )
    files = ArrowFiles(archive)
    manifest = Manifests(files, whole.topic).last()
    if manifest is None or manifest.id != whole.id or manifest.end < end:
        archived = first if manifest is None else manifest.end
        raise DataLost(
            f"offsets {max(first, archived)} to {end - 1} of topic {whole.topic!r} are gone and not archived: they "
            "were truncated, or have expired. archived_only in [[retention]] prevents it"
        )
    for file in _holding(manifest.files, first, end):
        for batch in files.batches(file.path):
            offsets = batch.column("offset")
            kept = batch.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end)))
            if len(kept):
                yield as_columns(schema, whole.topic, kept)


def _holding(files: Sequence[File], first: int, end: int) -> list[File]:
    return [file for file in files if file.first < end and file.end > first]
