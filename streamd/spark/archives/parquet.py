"""The Parquet files of an archive: written and synced by tasks, with the statistics that the Delta log has of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from streamd.spark.archives.location import sync

if TYPE_CHECKING:
    from streamd.spark.archives.location import Location

_ROW_GROUP_BYTES: Final = 32 << 20
"""The size of a row group before compression: it is in memory when it is written, and fetched as a whole."""

_TEXT_MAX: Final = 64
"""Longer strings have no statistics."""

_MILLISECOND: Final = timedelta(milliseconds=1)


def write_file(location: Location, name: str, schema: Any, batches: Iterable[Any], *, is_new: bool) -> AddAction:
    """Write batches to a file in a table's directory; it is on disk afterwards. `is_new`: these rows are new ones."""
    files = location.files()
    footers: list[Any] = []
    nan = set[str]()
    with (
        files.open_output_stream(name) as target,
        pq.ParquetWriter(target, schema, metadata_collector=footers, **_how(schema)) as writer,
    ):
        for group in _groups(schema, batches):
            nan |= _columns_with_nan(group)
            writer.write_table(group, row_group_size=max(group.num_rows, 1))
    if location.is_local:
        # A synced file under an unsynced name is gone after a power cut.
        sync(Path(location.uri, name))
        sync(Path(location.uri))
    size = files.get_file_info(name).size
    return AddAction(name, size, {}, time.time_ns() // 1_000_000, is_new, _statistics(footers[0], nan))


def read_files(location: Location, paths: Sequence[str], schema: Any, filter: Any = None) -> Iterator[Any]:
    """The record batches of files in a table's directory, one file after the other. Columns they lack are null."""
    if paths:
        dataset = ds.dataset(list(paths), schema, format="parquet", filesystem=location.files())
        yield from dataset.to_batches(filter=filter)


def _how(schema: Any) -> dict[str, Any]:
    # Offsets count up and times hardly change: as differences they take next to nothing, and no number takes more than
    # by itself. A payload's smallest and largest value help nobody, and take long to find.
    kinds = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date32)
    deltas = [field.name for field in schema if any(is_one(field.type) for is_one in kinds)]
    return {
        "compression": "zstd",
        "use_dictionary": [name for name in schema.names if name not in (*deltas, "value")],
        "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        "write_statistics": [name for name in schema.names if name != "value"],
    }


def _groups(schema: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Batches gathered into row groups."""
    gathered: list[Any] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(gathered, schema)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered, schema)


def _columns_with_nan(table: Any) -> set[str]:
    """Columns whose statistics would be wrong: NaN is above all numbers for Spark, and left out by Parquet."""
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    return {name for name in floats if pc.any(pc.is_nan(table[name])).as_py()}


def _statistics(footer: Any, without: set[str]) -> str:
    """What the Delta log says of a file: rows, and for each column nulls and the smallest and largest value."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column in range(footer.num_columns):
        chunks = [footer.row_group(group).column(column) for group in range(footer.num_row_groups)]
        name = footer.schema.column(column).path
        found = [chunk.statistics for chunk in chunks]
        if not found or "." in name or any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounds = [(each.min, each.max) for each in found if each.has_min_max]
        full = len(bounds) == sum(each.null_count < chunk.num_values for each, chunk in zip(found, chunks, strict=True))
        if bounds and full and name not in without:
            smallest, largest = (
                _bound(min(first for first, _ in bounds), up=False),
                _bound(max(last for _, last in bounds), up=True),
            )
            if smallest is not None and largest is not None:
                low[name], high[name] = smallest, largest
    return statistics(footer.num_rows, low, high, nulls)


def statistics(rows: int, low: dict[str, Any], high: dict[str, Any], nulls: dict[str, int]) -> str:
    """Statistics as the Delta log has them."""
    return json.dumps({"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _bound(value: Any, *, up: bool) -> Any:
    """A value as statistics have it; None for types that are left out. Times are of milliseconds there."""
    if isinstance(value, datetime):
        return timestamp_bound(value, up=up)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= _TEXT_MAX else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def timestamp_bound(moment: datetime, *, up: bool) -> str:
    """A time in whole milliseconds, which the largest one is rounded up to: else what is there would be passed over."""
    moment = moment.astimezone(UTC)
    rounded = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    if up and rounded < moment:
        rounded += _MILLISECOND
    return rounded.strftime("%Y-%m-%dT%H:%M:%S.") + f"{rounded.microsecond // 1000:03}Z"
