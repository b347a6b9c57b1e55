"""An archive and what has come since as one table: no gap and no overlap, whatever goes on meanwhile."""

from __future__ import annotations

from threading import Event, Thread

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from twisted.internet.defer import Deferred

import streamd.spark
from streamd.spark.archives.location import ArchiveError
from streamd.spark.options import OptionError
from tests.rigs.daemon import Daemon
from tests.rigs.sesp_client import Sesp
from tests.rigs.spark.archives.case import ArchiveCase, Rows, numbered
from tests.rigs.spark.session import spark

# Drops what it may as soon as it can.
CONFIG = """
[store]
retention_seconds = 0.1
[[retention]]
pattern = "kept"
[[retention]]
records_max = 3
archived_only = true
"""


class TableTests(ArchiveCase):
    def setUp(self) -> None:
        super().setUp()
        self.daemon.close()
        (self.directory / "streamd.toml").write_text(CONFIG)
        self.daemon = Daemon(str(self.directory), "--config", "streamd.toml", "--data-dir", str(self.daemon.data_dir))
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def table(self, topic: str = "a") -> DataFrame:
        return streamd.spark.table(spark(), topic, self.uri, server=self.server())

    def rows(self, frame: DataFrame) -> Rows:
        found = frame.select("offset", "value").orderBy("offset").collect()
        return [(row.offset, bytes(row.value)) for row in found]

    def wait_until_dropped(self, topic: str, first: int) -> None:
        with Sesp(self.daemon) as sesp:
            while sesp.places(topic)[0] < first:
                pass

    def test_one_table(self) -> Deferred[None]:
        """Before there is an archive, with one, and when records went there since the table was made."""
        return self.do(self._one_table)

    def _one_table(self) -> None:
        self.numbers("a", 0, 10)
        self.assertEqual(self.rows(self.table()), numbered(0, 10))
        self.archive("a")
        self.numbers("a", 10, 20)
        self.archive("a")
        self.wait_until_dropped("a", 17)
        self.numbers("a", 20, 30)
        border = self.table()
        self.assertEqual(self.rows(border), numbered(0, 30))
        # Between the making of the table and the reading, its live part is archived and dropped.
        late = self.table()
        self.archive("a")
        self.wait_until_dropped("a", 27)
        self.numbers("a", 30, 31)
        # What came after it was made is not in it.
        self.assertEqual(self.rows(late), numbered(0, 30))
        streamd.spark.table(spark(), "a", self.uri, path=str(self.daemon.data_dir), view="whole")
        (counted,) = spark().sql("SELECT count(*), max(offset), min(topic), max(topic) FROM whole").collect()
        self.assertEqual(tuple(counted), (31, 30, "a", "a"))

    def test_refused(self) -> Deferred[None]:
        """What is gone and not archived is told of, and so is an archive of something else."""
        return self.do(self._refused)

    def _refused(self) -> None:
        self.assertRaises(ArchiveError, streamd.spark.table, spark(), "a", self.uri)
        self.numbers("kept", 0, 5)
        self.archive("kept")
        self.numbers("kept", 5, 20)
        late = self.table("kept")
        with Sesp(self.daemon) as sesp:
            sesp.ask("@kept")
            sesp.ask("%17")
        error = self.assertRaises(PySparkException, late.collect)
        self.assertIn("offsets 5 to 16 of topic 'kept' are gone and not archived", str(error))
        with Sesp(self.daemon) as sesp:
            sesp.ask("!kept")
        self.assertIn("there is no topic 'kept'", str(self.assertRaises(OptionError, self.table, "kept")))
        self.numbers("kept", 0, 5)
        error = self.assertRaises(ArchiveError, self.table, "kept")
        self.assertIn("is the archive of another topic 'kept'", str(error))
        self.assertEqual(self.rows(streamd.spark.table(spark(), "kept", self.uri)), numbered(0, 5))

    def test_meanwhile(self) -> Deferred[None]:
        """While somebody publishes, the archive runs and retention drops, a table is always whole."""
        return self.do(self._meanwhile)

    def _meanwhile(self) -> None:
        self.numbers("a", 0, 10)
        ended = Event()
        publisher = Thread(target=self.keep_publishing, args=(ended,))
        publisher.start()
        try:
            last = 0
            for number in range(4):
                frames = [self.table()]
                self.archive("a", file_bytes=100_000 if number % 2 else 1000)
                frames.append(self.table())
                for frame in frames:
                    found = self.rows(frame)
                    self.assertEqual(found, numbered(0, len(found)))
                    self.assertGreaterEqual(len(found), last)
                    last = len(found)
        finally:
            ended.set()
            publisher.join()
        self.assertGreater(last, 100)
        with Sesp(self.daemon) as sesp:
            self.assertGreater(sesp.places("a")[0], 0)

    def keep_publishing(self, ended: Event) -> None:
        with Sesp(self.daemon) as sesp:
            sesp.ask("@a")
            number = 10
            while not ended.is_set():
                sesp.ask(f">{number}")
                number += 1
