"""Runs of records become Arrow batches: buffers are handed on or laid end to end, and no record is looked at.

Columns, of which only those in the schema are built::

    topic      string
    offset     long       counts the messages of the topic, from 0
    timestamp  timestamp  when it was stored
    type       string     of a message of Simple Message Queue, see `TYPES`; null where it has none
    value      binary
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from streamd.store.records.offsets import TAG_RAW

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql.types import StructType

    from streamd.spark.daemon import Run

BATCH_BYTES: Final = 4 << 20
BATCH_RECORDS: Final = 64 << 10
"""A batch is full when it has so many of either."""

# By the tag of a record: those of Simple Message Queue in the order of their numbers there, and pieces of byte streams.
TYPES: Final = {
    **dict(enumerate(("U8", "U16", "U32", "U64", "I8", "I16", "I32", "I64", "F32", "F64", "Str"), start=1)),
    TAG_RAW: "raw",
}

ARROW: Final = {
    "topic": pa.string(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "type": pa.string(),
    "value": pa.binary(),
}


def arrow_schema(schema: StructType) -> Any:
    """What Spark expects of batches with these columns."""
    return pa.schema([pa.field(each.name, ARROW[each.name], each.nullable) for each in schema.fields])


def batches(schema: Any, topic: str, runs: Iterable[Run]) -> Iterator[Any]:
    """Record batches with the columns of an Arrow schema, from runs of one topic in their order."""
    gathered: list[Run] = []
    records = size = 0
    for run in runs:
        # Not over a gap, where records are gone: within a batch offsets are counted on.
        full = records >= BATCH_RECORDS or size >= BATCH_BYTES
        if gathered and (full or run.number != gathered[0].number + records):
            yield _batch(schema, topic, gathered, records)
            gathered = []
            records = size = 0
        gathered.append(run)
        records += run.batch.count
        size += run.batch.size
    if gathered:
        yield _batch(schema, topic, gathered, records)


def _batch(schema: Any, topic: str, runs: Sequence[Run], records: int) -> Any:
    columns = []
    for name in schema.names:
        if name == "topic":
            columns.append(pa.repeat(pa.scalar(topic, pa.string()), records))
        elif name == "offset":
            columns.append(_fixed(ARROW[name], np.arange(runs[0].number, runs[0].number + records, dtype=np.int64)))
        elif name == "timestamp":
            columns.append(_fixed(ARROW[name], _repeated([run.timestamp for run in runs], runs)))
        elif name == "type":
            columns.append(_types(runs, records))
        else:
            columns.append(_values(runs, records))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fixed(kind: Any, numbers: NDArray[np.int64]) -> Any:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _repeated(each: Sequence[int], runs: Sequence[Run]) -> NDArray[np.int64]:
    """What is the same for all records of a run, for each of them."""
    return np.repeat(np.array(each, dtype=np.int64), [run.batch.count for run in runs])


def _values(runs: Sequence[Run], records: int) -> Any:
    """The payloads; a single one without a copy."""
    ends = np.zeros(records + 1, dtype=np.int32)
    lengths = [np.frombuffer(run.batch.lengths, dtype=np.uint32) for run in runs]
    np.cumsum(np.concatenate(lengths) if len(lengths) > 1 else lengths[0], dtype=np.int32, out=ends[1:])
    payload = runs[0].batch.payload if len(runs) == 1 else b"".join([run.batch.payload for run in runs])
    return pa.Array.from_buffers(pa.binary(), records, [None, pa.py_buffer(ends), pa.py_buffer(payload)])


def _types(runs: Sequence[Run], records: int) -> Any:
    tags = {run.tag for run in runs}
    if len(tags) == 1:
        return pa.repeat(pa.scalar(TYPES.get(runs[0].tag), pa.string()), records)
    words = pa.array([TYPES.get(run.tag) for run in runs], pa.string())
    return words.take(pa.array(_repeated(range(len(runs)), runs)))
