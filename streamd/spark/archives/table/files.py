"""The files of an archive as a table, read by tasks themselves: for S3, where Spark has no connector for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from streamd.spark.archives.files import Location
from streamd.spark.archives.manifest import Manifest
from streamd.spark.read.source import COLUMNS

ALL: Final = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])
"""The columns of a table."""


def file_options(files: Any, manifest: Manifest) -> dict[str, str]:
    """What the source is to be told to read all files of a manifest."""
    paths = json.dumps([file.path for file in manifest.files])
    return {"topic": manifest.topic, "archive": files.location.encoded(), "files": paths}


class FilesSource(DataSource):
    """Some files of an archive. Made by `streamd.spark.table`, and by nobody else."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "streamd-files"

    def schema(self) -> StructType:
        """All columns."""
        return ALL

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        return FilesReader(dict(self.options), schema)


class FilesReader(DataSourceReader):
    """Reads files, each in a task."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._topic = options["topic"]
        self._location = Location.decoded(options["archive"])
        self._files: list[str] = json.loads(options["files"])
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One for each file. Called by Spark."""
        return [InputPartition(path) for path in self._files]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of a file. Called by Spark, in a task."""
        from streamd.spark.archives.arrow import ArrowFiles
        from streamd.spark.read.columns import arrow_schema, as_columns

        wanted = arrow_schema(self._schema)
        for batch in ArrowFiles(self._location).batches(partition.value):
            yield as_columns(wanted, self._topic, batch)
