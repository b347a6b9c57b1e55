"""Rows to records: Arrow's columns become batches, without a loop over rows."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamd.batch import LENGTH_TYPE, Batch

_OFFSETS: Final[dict[Any, Any]] = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}


def by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, Batch]]:
    """The values of these rows for each topic, in their order; `topic` is for all of them, whatever a column says."""
    values = rows.column("value")
    _refuse_null(values, "value")
    if not len(values):
        return
    if topic is not None:
        yield topic, records(values)
        return
    topics = rows.column("topic")
    _refuse_null(topics, "topic")
    encoded = topics.dictionary_encode()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices
    if len(names) == 1:
        yield names[0], records(values)
        return
    # The sort is stable: within a topic rows stay as they were.
    order = pc.array_sort_indices(codes)
    values = values.take(order)
    counts = np.bincount(codes.to_numpy(), minlength=len(names))
    first = 0
    for name, count in zip(names, counts.tolist(), strict=True):
        yield name, records(values.slice(first, count))
        first += count


def records(values: Any) -> Batch:
    """The values of a string or binary array as records."""
    _, offsets, data = values.buffers()
    kind = np.dtype(_OFFSETS[values.type])
    ends = np.frombuffer(offsets, kind, len(values) + 1, values.offset * kind.itemsize)
    lengths = array(LENGTH_TYPE)
    lengths.frombytes(np.diff(ends).astype(np.uint32).tobytes())
    return Batch(lengths, memoryview(data)[int(ends[0]) : int(ends[-1])] if data is not None else b"")


def _refuse_null(column: Any, name: str) -> None:
    if column.null_count:
        raise ValueError(
            f"{column.null_count} rows have no {name}, and a record can't be null: leave them out, or coalesce"
        )
