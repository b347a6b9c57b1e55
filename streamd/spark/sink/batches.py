"""Batches of a streaming query that are written by ``foreachBatch``: to a topic or a Delta table, each once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamd.spark.sink.writer import QUERY_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamd.spark.archives.location import Location


def each_batch(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Return a function that writes a batch to topics, with these options of the sink."""

    def write(frame: DataFrame, number: int) -> None:
        once = {"txnId": f"query/{_query(frame)}", "txnVersion": str(number)}
        frame.write.format("streamd").mode("append").options(**options, **once).save()

    return write


def each_batch_to_delta(location: Location, partition_by: Sequence[str]) -> Callable[[DataFrame, int], None]:
    """Return a function that appends a batch to a Delta table, through the driver: for results, not for raw data."""

    def write(frame: DataFrame, number: int) -> None:
        import pyarrow as pa
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        query = f"streamd/{_query(frame)}"
        where: Any = {"storage_options": location.storage_options}
        location.make()
        if DeltaTable.is_deltatable(location.delta_uri, location.storage_options):
            done = DeltaTable(location.delta_uri, **where).transaction_version(query)
            if done is not None and done >= number:
                return
        rows = frame.toArrow()
        # Spark names the zone of the session, and a Delta table has times in UTC.
        fields = [
            field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field
            for field in rows.schema
        ]
        write_deltalake(
            location.delta_uri,
            rows.cast(pa.schema(fields)),
            mode="append",
            partition_by=list(partition_by) or None,
            commit_properties=CommitProperties(app_transactions=[Transaction(query, number)]),
            **where,
        )

    return write


def _query(frame: DataFrame) -> str:
    query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if not query:
        raise RuntimeError("this function is for foreachBatch of a streaming query")
    return query
