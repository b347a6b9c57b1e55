"""A source and a sink that know nothing of Arrow: what streamd's are compared with, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition, WriterCommitMessage

from streamd.store.reading.outside import OutsideReader

_PARTS = 8


class RowSource(DataSource):
    """The records of a topic as tuples, one by one; as a sink, one that takes them so and stores nothing."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "rows"

    def schema(self) -> str:
        """As streamd's, without what is the same for all."""
        return "offset long, value binary"

    def reader(self, schema: Any) -> DataSourceReader:
        """For ``spark.read``."""
        return RowReader(self.options["path"], self.options["topic"])

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        """For ``write``."""
        return RowWriter()


class RowReader(DataSourceReader):
    """Reads a store's files in about as many parts as streamd's own source does."""

    def __init__(self, path: str, topic: str) -> None:
        self._path = path
        self._topic = topic

    def partitions(self) -> list[InputPartition]:
        """Ranges of records."""
        with OutsideReader(self._path) as reader:
            end = reader.segment(self._topic).number
            points = [0, *reader.split_points(self._topic, 0, end, _PARTS), end]
        return [InputPartition(each) for each in pairwise(points)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, bytes]]:
        """One record after the other."""
        first, end = partition.value
        with OutsideReader(self._path) as reader:
            for run in reader.read(self._topic, first, end):
                for number, value in enumerate(run.batch.records(), run.number):
                    yield number, bytes(value)


class RowWriter(DataSourceWriter):
    """Looks at each row, and that is all."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """One row after the other."""
        size = 0
        for row in iterator:
            size += len(row.value)
        return WriterCommitMessage()
