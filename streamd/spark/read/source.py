"""What Spark calls for ``format("streamd")``."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType, TimestampType

from streamd.spark.options import OptionError, read_options

COLUMNS: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "type": StringType(),
    "value": BinaryType(),
}
"""The columns of a read, as `streamd.spark.read.columns` makes them."""


class StreamdSource(DataSource):
    """Topics of streamd, as a table and as a stream."""

    @classmethod
    def name(cls) -> str:
        """The word for ``format``."""
        return "streamd"

    def schema(self) -> StructType:
        """All columns. Who needs only some gives these with ``.schema(…)``, and no others are made."""
        if "provider" in self.options:
            # Spark gives this to CREATE TABLE alone, and none of the options to who reads the table later.
            raise OptionError(
                "CREATE TABLE keeps no options of a source like this one: use CREATE TEMPORARY VIEW name USING streamd "
                "OPTIONS (…) to read, and df.write.format('streamd') in place of INSERT INTO"
            )
        return StructType([StructField(name, kind) for name, kind in COLUMNS.items()])

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        from streamd.spark.read.records import batch_reader, microseconds_now

        check_columns(schema)
        return batch_reader(read_options(self.options, microseconds_now(), stream=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For ``spark.readStream``."""
        from streamd.spark.read.records import microseconds_now
        from streamd.spark.read.streaming import StreamReader

        check_columns(schema)
        return StreamReader(read_options(self.options, microseconds_now(), stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For ``df.write``."""
        from streamd.spark.sink import writer as sink

        return sink.writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For ``df.writeStream``."""
        from streamd.spark.sink import writer as sink

        return sink.stream_writer(schema, self.options, overwrite)


def check_columns(schema: StructType) -> None:
    """Whether a schema asks for columns that there are; OptionError."""
    told = ", ".join(f"{name} {kind.simpleString()}" for name, kind in COLUMNS.items())
    if not schema.fields:
        raise OptionError(f"the schema has no columns: take some of {told}")
    for each in schema.fields:
        if COLUMNS.get(each.name) != each.dataType:
            raise OptionError(f"the schema has {each.name} {each.dataType.simpleString()}: take columns out of {told}")
    if len(set(schema.names)) < len(schema.names):
        raise OptionError("the schema names a column twice")
