"""One Spark session for all tests of a run, and a test case that asks it from a thread."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

import streamd.spark
from tests.rigs.daemon import CHECKOUT, Daemon
from tests.rigs.sesp_client import Sesp
from tests.rigs.spark.java import OPTIONS

T = TypeVar("T")

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "FATAL",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": OPTIONS,
}


@cache
def spark() -> SparkSession:
    """The session, started when it is first asked for."""
    # Spark's Python processes have no path to this checkout but this one.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    directory = tempfile.mkdtemp(prefix="streamd-spark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    places = {"spark.local.dir": directory, "spark.sql.warehouse.dir": f"{directory}/warehouse"}
    session = streamd.spark.session("streamd tests", "local[2,3]", {**CONFIG, **places})
    atexit.register(session.stop)
    return session


def in_session(call: Callable[..., T], *args: Any, **more: Any) -> T:
    """Call something in a thread that may not be the one that made the session: only there it is the active one.

    A stream is written to a source of Python's only where it is.
    """
    if spark.cache_info().currsize:
        session: Any = spark()
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)
    return call(*args, **more)


class SparkCase(TestCase):
    """A test that has a daemon, and asks Spark. What it asks runs in a thread: the reactor stays free."""

    timeout = 240

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.daemon = Daemon(str(self.directory))
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def do(self, call: Callable[..., T], *args: Any, **more: Any) -> Deferred[T]:
        """Call something in a thread."""
        return deferToThread(in_session, call, *args, **more)

    def publish(self, topic: str, *messages: str) -> None:
        """Publish to a topic, which is made where it is not there."""
        with Sesp(self.daemon) as sesp:
            sesp.reply(f"#{topic}")
            sesp.ask(f"@{topic}")
            sesp.publish(messages)

    def where(self) -> dict[str, str]:
        """The option that says where to read: here the daemon's files."""
        return {"path": str(self.daemon.data_dir)}

    def options(self, **more: object) -> dict[str, str]:
        """Options of a read."""
        return {**self.where(), **{name: str(value) for name, value in more.items()}}

    def load(self, schema: str | None = None, **options: object) -> DataFrame:
        """A batch read with these options; those for where come from `options`."""
        reader = spark().read.format("streamd").options(**self.options(**options))
        return (reader if schema is None else reader.schema(schema)).load()

    def stream(self, **options: object) -> DataFrame:
        """A streaming read with these options."""
        return spark().readStream.format("streamd").options(**self.options(**options)).load()

    def available_now(self, checkpoint: str, **options: object) -> Mapping[str, list[tuple[int, bytes]]]:
        """Read what there is, from where the checkpoint says; what came, by topic, in the order in which it came."""
        return Collected().run(self.stream(**options), self.directory / checkpoint)


class Collected:
    """The rows of a streaming query, and its progress."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[int, bytes]]] = {}
        self.batches: list[int] = []
        self.progress: list[Any] = []

    def take(self, frame: DataFrame, number: int) -> None:
        """A batch of the query."""
        rows = frame.select("topic", "offset", "value").collect()
        self.batches.append(len(rows))
        for topic, offset, value in rows:
            self.rows.setdefault(topic, []).append((offset, bytes(value)))

    def run(self, frame: DataFrame, checkpoint: Path) -> dict[str, list[tuple[int, bytes]]]:
        """Run a query over what is there now, to its end."""
        writer = frame.writeStream.foreachBatch(self.take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.awaitTermination()
            self.progress = list(query.recentProgress)
        finally:
            query.stop()
        return self.rows
