"""An archive and what has come since, as one table: Parquet up to the archived offset, live records behind it.

The border is settled once, when the table is made. If records behind it are archived and dropped before they are read,
their tasks take them from the archive: every record is in one of the two places at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from streamd.spark.archive_files import ArchiveError, Files
from streamd.spark.archive_manifest import File, Manifest, Manifests, base
from streamd.spark.options import OptionError, read_options
from streamd.spark.places import DataLost, Range, range_of
from streamd.spark.plan import Partition, partitions
from streamd.spark.source import COLUMNS
from streamd.spark.storage import open_storage
from streamd.store.errors import NoSuchSegment, RecordsTruncated

if TYPE_CHECKING:
    from streamd.spark.storage import Info, Run, Storage

_FORMAT: Final = "streamd-tail"
_ALL: Final = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])
_IN_FILES: Final = StructType([field for field in _ALL.fields if field.name != "topic"])


def read_table(spark: SparkSession, topic: str, uri: str, server: str | None, path: str | None) -> DataFrame:
    """The table; ArchiveError, OptionError."""
    files = Files(uri)
    manifest = Manifests(files, topic).last()
    if manifest is None and server is None and path is None:
        raise ArchiveError(f"{uri} has no archive of topic {topic!r}: give server or path to read what is live")
    parts = [] if manifest is None else list(_archived(spark, files, manifest))
    if server is not None or path is not None:
        parts.append(_live(spark, topic, files.uri, manifest, server, path))
    if not parts:
        return spark.createDataFrame([], _ALL)
    return reduce(DataFrame.unionByName, parts)


def _archived(spark: SparkSession, files: Files, manifest: Manifest) -> Iterator[DataFrame]:
    """What is in place, and what is young."""
    for young in (False, True):
        paths = [files.url(file.path) for file in manifest.files if file.young == young]
        if paths:
            reader = spark.read.schema(_IN_FILES).option("basePath", base(files, young=young))
            yield reader.parquet(*paths).withColumn("topic", functions.lit(manifest.topic)).select(*COLUMNS)


def _live(
    spark: SparkSession, topic: str, uri: str, manifest: Manifest | None, server: str | None, path: str | None
) -> DataFrame:
    spark.dataSource.register(TailSource)
    where = {"server": server} if path is None else {"path": path}
    options = {"topic": topic, "archive": uri, "first": None if manifest is None else str(manifest.end), **where}
    if manifest is not None:
        options["id"] = f"{manifest.id}/{manifest.created}"
    given = {name: value for name, value in options.items() if value is not None}
    return spark.read.format(_FORMAT).options(**given).load()


class TailSource(DataSource):
    """The records of a topic behind its archive. Made by `read_table`, and by nobody else."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return _FORMAT

    def schema(self) -> StructType:
        """All columns."""
        return _ALL

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        return TailReader(dict(self.options), schema)


class TailReader(DataSourceReader):
    """Reads live records, and out of the archive what has gone there since."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._archive = options.pop("archive")
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
                f"{self._archive} is the archive of another topic {topic!r}, which was deleted since, or is of another "
                "store: leave server and path out to read it"
            )
        first = self._begin(info) if self._first is None else self._first
        if first >= info.number:
            return [Partition(())]
        return [*partitions(storage, _ranges(info, first), self._options)]

    def _begin(self, info: Info) -> int:
        """Where to begin if there was no archive when the table was made. Since then one may have been begun."""
        manifest = Manifests(Files(self._archive), info.name).last()
        return info.first_number if manifest is None else manifest.first

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """One partition. Called by Spark, in a task."""
        from streamd.spark.columns import arrow_schema, batches

        assert isinstance(partition, Partition)
        wanted = arrow_schema(self._schema)
        for whole in partition.ranges:
            storage = open_storage(self._options.path, self._options.server)
            tail = _Tail(storage, whole)
            while tail.first < whole.end:
                yield from batches(wanted, whole.topic, tail.runs())
                if tail.gone > tail.first:
                    yield from _from_archive(Files(self._archive), wanted, whole, tail.first, tail.gone)
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


def _from_archive(files: Files, schema: Any, whole: Range, first: int, end: int) -> Iterator[Any]:
    """Records that are archived since, as batches."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from streamd.spark.archive_write import read

    manifest = Manifests(files, whole.topic).last()
    if manifest is None or manifest.id != whole.id or manifest.end < end:
        archived = first if manifest is None else manifest.end
        raise DataLost(
            f"offsets {max(first, archived)} to {end - 1} of topic {whole.topic!r} are gone and not archived: they "
            "were truncated, or have expired. archived_only in [[retention]] prevents it"
        )
    for file in _holding(manifest.files, first, end):
        for batch in read(files, file):
            offsets = batch.column("offset")
            kept = batch.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end)))
            columns = [
                pa.repeat(pa.scalar(whole.topic, pa.string()), len(kept)) if name == "topic" else kept.column(name)
                for name in schema.names
            ]
            if len(kept):
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _holding(files: Sequence[File], first: int, end: int) -> list[File]:
    return [file for file in files if file.first < end and file.end > first]
