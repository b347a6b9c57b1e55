"""The sink, with somebody in it who kills: the driver or the daemon, at a place that a test has chosen, once.

A test puts a file into a directory: its name says where, ``BATCH-PLACE``, its text whom. Whoever comes by there first
takes the file away and does it. So what is killed is a real process, in the middle of the real sink's work.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from streamd.client import StorageClient
from streamd.spark.read.source import StreamdSource
from streamd.spark.sink.options import sink_options
from streamd.spark.sink.writer import BATCH_PROPERTY, StreamSink, Written
from streamd.wire.tools import LevelChange, Part
from tests.rigs.client.peers import begin_publication

COMMIT: Final = ("before", "in", "after")
"""Places of a commit: before it; with the request to publish on its way; when that was answered."""

PLACES: Final = ("task", *COMMIT)
"""And while a task writes."""

DRIVER: Final = "driver"
DAEMON: Final = "daemon"
RAISE: Final = "raise"


class Hooks:
    """What is to happen, as files of a directory."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def put(self, batch: int, place: str, whom: str) -> None:
        """This is to happen."""
        (self.directory / f"{batch}-{place}").write_text(whom)

    def left(self) -> list[str]:
        """What has not happened."""
        return sorted(each.name for each in self.directory.glob("*-*"))

    def pass_by(self, batch: int, place: str) -> None:
        """Let it happen, if it is for here."""
        file = self.directory / f"{batch}-{place}"
        try:
            whom = file.read_text()
            file.unlink()
        except FileNotFoundError:
            return
        if whom == RAISE:
            raise RuntimeError("as the test wanted")
        pid = int((self.directory / whom).read_text())
        if whom == DRIVER:
            # It leads a group of its own, in which Java is too. We are not in it, and end with them.
            os.killpg(pid, signal.SIGKILL)
            pid = os.getpid()
        os.kill(pid, signal.SIGKILL)


class FailingSource(StreamdSource):
    """``format("failing")``: the sink of ``format("streamd")`` with hooks."""

    @classmethod
    def name(cls) -> str:
        return "failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = {name: value for name, value in self.options.items() if name != "hooks"}
        return FailingSink(options, self.options["hooks"])


class FailingSink(StreamSink):
    """The real one, watched."""

    def __init__(self, options: dict[str, str], hooks: str) -> None:
        super().__init__(sink_options(options, stream=True))
        self._hooks = Hooks(hooks)

    def write(self, iterator: Iterator[Any]) -> Written:
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty(BATCH_PROPERTY) or -1)

        def rows() -> Iterator[Any]:
            for each in iterator:
                # One row at a time: some of them are written when it happens.
                for at in range(each.num_rows):
                    yield each.slice(at, 1)
                    if at == 1:
                        self._hooks.pass_by(batch, "task")

        return super().write(rows())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        original = StorageClient.publish
        hooks = self._hooks

        def publish(client: StorageClient, parts: Iterable[Part], levels: Iterable[LevelChange] = ()) -> bool:
            parts, levels = list(parts), list(levels)
            if f"{batchId}-in" in hooks.left():
                begin_publication(client, parts, levels)
                hooks.pass_by(batchId, "in")
            return original(client, parts, levels)

        hooks.pass_by(batchId, "before")
        with patch.object(StorageClient, "publish", publish):
            super().commit(messages, batchId)
        hooks.pass_by(batchId, "after")
