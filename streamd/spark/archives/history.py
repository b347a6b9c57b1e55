"""The files of a Delta table, read by tasks themselves: for S3, where Spark has no connector for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from streamd.spark.archives.location import Location
from streamd.spark.read.records import PUSHING

Condition = tuple[str, str, Any]

_SIGNS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


class HistorySource(DataSource):
    """A version of a Delta table. Made by `streamd.spark.table`, and by nobody else."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "streamd-history"

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        # Where push-down is off, Spark refuses a reader that could be told of filters.
        kind = FilteredHistoryReader if PUSHING in sys.modules else HistoryReader
        return kind(dict(self.options), schema)


class HistoryReader(DataSourceReader):
    """Reads the files, each in a task."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._topic = options["topic"]
        self._location = Location.decoded(options["archive"])
        self._version = int(options["version"])
        self._schema = schema
        self._conditions: list[Condition] = []

    def partitions(self) -> list[InputPartition]:
        """One for each file that the query may need by its statistics. Called by Spark."""
        from streamd.spark.archives.delta import TopicTable

        table = TopicTable.open(self._location)
        table.delta.load_as_version(self._version)
        return [InputPartition(path) for path in table.paths(self._conditions)] or [InputPartition("")]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a file. Called by Spark, in a task."""
        return archived_rows(
            self._location, [partition.value] if partition.value else [], self._schema, self._topic, self._conditions
        )


class FilteredHistoryReader(HistoryReader):
    """A reader that is told of the query's filters first."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Read less. Spark is to apply all of them again: here they only save work."""
        for each in filters:
            sign = _SIGNS.get(type(each))
            column: Sequence[str] = getattr(each, "attribute", ())
            if sign is not None and len(column) == 1 and column[0] != "topic":
                self._conditions.append((column[0], sign, vars(each)["value"]))
        return filters


def archived_rows(
    location: Location, paths: list[str], schema: StructType, topic: str, conditions: Iterable[Condition]
) -> Iterator[Any]:
    """The rows of files for which all conditions hold, with the columns that Spark expects."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyspark.sql.pandas.types import to_arrow_schema

    from streamd.spark.archives.parquet import read_files

    wanted = to_arrow_schema(schema, timezone="UTC")
    stored = pa.schema([field for field in wanted if field.name != "topic"])
    filter = None
    for name, sign, value in conditions:
        one = _COMPARE[sign](ds.field(name), pa.scalar(value, stored.field(name).type))
        filter = one if filter is None else filter & one
    for batch in read_files(location, paths, stored, filter):
        if len(batch):
            columns = [
                pa.repeat(pa.scalar(topic, pa.string()), len(batch)) if name == "topic" else batch.column(name)
                for name in wanted.names
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)


_COMPARE: Final[dict[str, Any]] = {
    "=": lambda field, value: field == value,
    ">": lambda field, value: field > value,
    ">=": lambda field, value: field >= value,
    "<": lambda field, value: field < value,
    "<=": lambda field, value: field <= value,
}
