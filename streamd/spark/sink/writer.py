"""The sink of ``format("streamd")``: rows become records of topics, each exactly once.

Tasks write to hidden segments, which nobody sees. The driver's commit publishes all of them in one atomic request,
together with an ack level that says how far this query is: ``batchId + 1``. A batch that comes again, because the
driver or the daemon died before Spark had noted the commit, finds the level stored, and what it wrote is dropped. The
levels of all queries are kept by one segment of their own (`streamd.spark.sink.hidden.SINKS`): so a replay is known
whatever topics it writes to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4, uuid5

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from streamd.client.errors import ClientError
from streamd.spark.sink.hidden import Delivery, HiddenWriter
from streamd.spark.sink.options import SinkOptions, check_columns, sink_options
from streamd.spark.sink.rows import by_topic
from streamd.wire.tools import Part

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

# Where Spark tells a task what it is part of. These names are its own affair, so a test watches over them.
QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"

_NAMESPACE: Final = UUID("b6ab7a27-8b1c-4d3e-9f57-2f5b8f0d9c11")
"""Ids of writers are made within it, so that a query and a transaction never have the same one."""


@dataclass
class Written(WriterCommitMessage):
    """What one task has written: hidden segments, each for a topic, and which query and batch it did so for."""

    parts: tuple[Part, ...]
    query: str | None = None
    batch: int | None = None


def writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> BatchSink:
    """Who writes a table; OptionError where that can't be written."""
    chosen = sink_options(options, stream=False)
    check_columns(schema, chosen.topic, overwrite)
    return BatchSink(chosen)


def stream_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> StreamSink:
    """Who writes a stream; OptionError where that can't be written."""
    chosen = sink_options(options, stream=True)
    check_columns(schema, chosen.topic, overwrite)
    return StreamSink(chosen)


class BatchSink(DataSourceArrowWriter):
    """Writes a table. With a `txnId`, once: whoever writes with the same one again writes nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._run = uuid4()

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """In a task: write all rows to hidden segments."""
        return Written(_write(self._options, f"batch/{self._run}", iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver: publish what all tasks have written."""
        txn = self._options.txn_id
        delivery = Delivery(self._options.server, _parts(messages))
        if txn is None:
            delivery.publish()
        else:
            delivery.publish_once(uuid5(_NAMESPACE, f"txn/{txn}"), self._options.txn_version + 1)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver: drop what tasks have written, if it was not published."""
        _abandon(self._options, messages)


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a query, each once, over restarts from the checkpoint."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """In a task: write all rows to hidden segments."""
        context = TaskContext.get()
        query = context and context.getLocalProperty(QUERY_PROPERTY)
        batch = context and context.getLocalProperty(BATCH_PROPERTY)
        if not query or not batch:
            raise ClientError("this version of Spark does not tell its tasks the query and the batch: can't write once")
        return Written(_write(self._options, f"{query}/{batch}", iterator), query, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver: publish what all tasks of a batch have written, unless that was done before."""
        tasks = _tasks(messages)
        if not tasks:
            return
        # Spark makes a new writer for each commit, which knows of its query only what the tasks tell.
        named = {(task.query, task.batch) for task in tasks}
        if len(named) != 1 or batchId != tasks[0].batch:
            raise ClientError(f"tasks of {sorted(map(str, named))} can't be committed as batch {batchId}")
        delivery = Delivery(self._options.server, _parts(messages))
        delivery.publish_once(uuid5(_NAMESPACE, f"query/{tasks[0].query}"), batchId + 1)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver: drop what tasks have written, if it was not published."""
        _abandon(self._options, messages)


def _write(options: SinkOptions, what: str, batches: Iterator[RecordBatch]) -> tuple[Part, ...]:
    context = TaskContext.get()
    assert context is not None, "rows are written in a task"
    # Two attempts of a task never share a hidden segment. After a restart attempts are counted anew: what an earlier
    # one left under the name is replaced.
    name = f"spark/{what}/{context.partitionId()}/{context.taskAttemptId()}"
    with HiddenWriter(options.server, name, create_topics=options.create_topics) as hidden:
        for batch in batches:
            parts = list(by_topic(batch, options.topic))
            hidden.open(topic for topic, _ in parts)
            for topic, records in parts:
                hidden.append(topic, records)
        return hidden.finish()


def _tasks(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    return [part for task in _tasks(messages) for part in task.parts]


def _abandon(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    # A commit that failed for us may have been carried out. Published segments are no hidden ones any more: what was
    # published stays, and what was not is gone.
    Delivery(options.server, _parts(messages)).abandon()
