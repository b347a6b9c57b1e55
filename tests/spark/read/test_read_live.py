"""Spark reads while the daemon writes, compacts, and is killed: every message once, in order."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from pyspark.sql import DataFrame
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from tests.rigs.publishers import Publisher
from tests.rigs.spark.session import spark
from tests.rigs.store.loaded import LoadedDaemon

ROUNDS = 2


class Watched:
    """A running query that puts together what came of each topic."""

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        self._news = threading.Condition()
        self.found: dict[str, list[bytes]] = {}
        self.errors: list[str] = []
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint))
        self.query = writer.start()

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = frame.orderBy("topic", "offset").collect()
        with self._news:
            for topic, offset, value in [(row.topic, row.offset, row.value) for row in rows]:
                messages = self.found.setdefault(topic, [])
                if offset != len(messages):
                    self.errors.append(f"{topic}: {offset} in place of {len(messages)} in batch {number}")
                messages.append(bytes(value))
            self._news.notify_all()

    def wait(self, more: int) -> None:
        """Until so many more messages have come."""
        with self._news:
            wanted = sum(map(len, self.found.values())) + more
            self._news.wait_for(lambda: sum(map(len, self.found.values())) >= wanted or not self.query.isActive, 120)


class LiveTests(TestCase):
    """From files, with a compactor at work."""

    timeout = 300

    def setUp(self) -> None:
        self.loaded = LoadedDaemon(self.mktemp())
        self.addCleanup(self.loaded.daemon.close)

    def where(self) -> dict[str, str]:
        return {"path": self.loaded.data}

    def test_live(self) -> Deferred[None]:
        """A query goes on over crashes and restarts of the daemon, and misses nothing that was acknowledged."""
        return deferToThread(self._live)

    def _live(self) -> None:
        with self.loaded:
            options = {**self.where(), "topics": "one,many", "maxRecordsPerTrigger": "5000"}
            frame = spark().readStream.format("streamd").options(**options).load()
            watched = Watched(frame, self.loaded.directory / "checkpoint")
            self.addCleanup(watched.query.stop)
            for _ in range(ROUNDS):
                self.loaded.load()
                self.loaded.wait_for_folds(2)
                watched.wait(100)
                self.loaded.daemon.kill()
                self.assertEqual(self.loaded.join(), [])
                self.loaded.daemon.start()
                watched.query.processAllAvailable()
                self.assertEqual(watched.errors, [])
                for publisher in self.loaded.publishers[:2]:
                    self.settle(publisher, watched.found.get(publisher.topic, []))

    def settle(self, publisher: Publisher, found: list[bytes]) -> None:
        """All that was acknowledged is there, and it is what was sent."""
        self.assertEqual(found, [publisher.line(number) for number in range(len(found))])
        self.assertIsNone(publisher.settle(list(range(publisher.stored, len(found)))))


class ServerLiveTests(LiveTests):
    """From the daemon, which is away for a moment when it is started again."""

    def setUp(self) -> None:
        super().setUp()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        at = self.loaded.daemon.options.index("--pravega")
        port = self.address.rpartition(":")[2]
        self.loaded.daemon.options[at + 1] = f"tcp:{port}:interface=127.0.0.1"

    def where(self) -> dict[str, str]:
        return {"server": self.address}
