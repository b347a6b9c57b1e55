"""A running pipeline: one streaming query for each sink, what they tell of their progress, and how they stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from streamd.spark.pipeline.build import WRITTEN, build, refused, writer
from streamd.spark.pipeline.file import Pipeline
from streamd.spark.read.lag import behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS: Final = 0.5
_BEGIN_LOOK_SECONDS: Final = 0.05
_BEGIN_SECONDS_MAX: Final = 30.0


@dataclass(frozen=True)
class Progress:
    """What one query did in one trigger."""

    sink: str
    batch: int
    rows: int
    """Read, of all sources."""
    written: int
    rows_per_second: float
    lag: int
    """Messages that are there and not read yet, when this is told."""


class QueryFailed(Exception):
    """A query ended with an error of Spark's."""

    def __init__(self, sink: str, error: BaseException) -> None:
        super().__init__(f"sink {sink}: {error}")
        self.sink = sink
        self.error = error


class Running:
    """The queries of a pipeline."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._queries: dict[str, StreamingQuery] = {}
        self._told: dict[str, int] = {}

    def start(self, *, once: bool) -> None:
        """Start all queries; with `once` they end where the data ends now. PipelineError where Spark refuses one."""
        spark, pipeline = self._spark, self._pipeline
        # All of them are checked before the first one writes something.
        frames = [(sink, build(spark, pipeline, sink)) for sink in pipeline.sinks]
        for sink, frame in frames:
            made = writer(pipeline, sink, frame)
            made = made.trigger(availableNow=True) if once else made.trigger(processingTime=pipeline.trigger)
            try:
                self._queries[sink.name] = made.start()
            except PySparkException as error:
                self.stop()
                raise refused(pipeline, sink, error)
            _wait_until_begun(self._queries[sink.name])

    def follow(self, stop: Event) -> Iterator[Progress]:
        """What the queries do, until they have ended or are to stop; QueryFailed when one of them fails."""
        running = True
        while running and not stop.is_set():
            running = any(query.isActive for query in self._queries.values())
            for name, query in self._queries.items():
                yield from self._news(name, query)
                error = query.exception()
                if error is not None:
                    raise QueryFailed(name, error)
            stop.wait(_LOOK_SECONDS if running else 0)

    def stop(self) -> None:
        """End all queries. What they were at is done again when they are started again, and written once."""
        for query in self._queries.values():
            query.stop()

    def _news(self, name: str, query: StreamingQuery) -> Iterator[Progress]:
        for each in query.recentProgress:
            if each["batchId"] <= self._told.get(name, -1) or not each["numInputRows"]:
                continue
            self._told[name] = each["batchId"]
            rate = float(each["processedRowsPerSecond"] or 0)
            lag = sum(behind(each, self._pipeline.path, self._pipeline.server).values())
            observed: Any = each["observedMetrics"].get(WRITTEN)
            written = observed["rows"] if observed else 0
            yield Progress(name, each["batchId"], each["numInputRows"], written, rate, lag)


def _wait_until_begun(query: StreamingQuery) -> None:
    """Let a query start its Python before the next one does.

    Spark gives each ten seconds for it, which many at once would need on a machine that has other things to do.
    """
    end = time.monotonic() + _BEGIN_SECONDS_MAX
    while query.isActive and query.status["message"].startswith("Initializing") and time.monotonic() < end:
        time.sleep(_BEGIN_LOOK_SECONDS)


def check(spark: SparkSession, pipeline: Pipeline) -> dict[str, str]:
    """Have Spark look at everything, and read nothing: the columns of each sink. PipelineError."""
    columns: dict[str, str] = {}
    for sink in pipeline.sinks:
        build(spark, pipeline, sink)
        columns[sink.name] = spark.table(sink.view).schema.simpleString()
    return columns
