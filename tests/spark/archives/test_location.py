"""Archives elsewhere than on a local disk: on S3, and on a file system that only Spark's Java reaches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import get_ident
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from twisted.internet.defer import Deferred

import streamd.spark
from streamd.spark.archives import spark as archive_spark
from streamd.spark.archives.arrow import ArrowFiles
from streamd.spark.archives.files import ArchiveError, Files
from streamd.spark.archives.hadoop import HadoopFiles
from streamd.spark.archives.location import files_of
from streamd.spark.archives.manifest import Manifests
from streamd.spark.daemon import Storage, open_storage
from streamd.spark.read.places import DataLost
from tests.sesp_client import Sesp
from tests.spark.archives.case import ArchiveCase, Rows, numbered
from tests.spark.archives.s3 import KEYS, S3Server
from tests.spark.session import spark

BUCKET = "lake"


class PlacesCase(ArchiveCase):
    """An archive at another place."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Settings of the session that all tests share, for this test."""
        for key, value in settings.items():
            spark().conf.set(key, value)
            self.addCleanup(spark().conf.unset, key)

    def table(self, topic: str = "a") -> DataFrame:
        return streamd.spark.table(spark(), topic, self.uri, server=self.server())

    def rows(self, frame: DataFrame) -> Rows:
        found = frame.select("offset", "value").orderBy("offset").collect()
        return [(row.offset, bytes(row.value)) for row in found]

    def archive_and_look(self) -> None:
        """What holds at every place: each record once, in place or young, and the table is whole."""
        topic = "größe/{x}=%2F*?[0]"
        for first in range(0, 4000, 1000):
            self.numbers("a", first, first + 1000)
        self.publish(topic, "drei", "")
        self.archive("*", wait=False, file_bytes=20_000)
        self.assertEqual(self.in_place(), {"a": numbered(0, 4000), topic: [(0, b"drei"), (1, b"")]})
        self.assertGreater(len(self.manifest("a").files), 1)
        # Young files, one after the other; in the end they are put together.
        end = 4000
        for _ in range(2):
            self.numbers("a", end, end + 3)
            end += 3
            self.archive("a")
        self.assertEqual(self.archived("a"), numbered(0, end))
        self.assertEqual(len(self.in_place()["a"]), 4000)
        self.numbers("a", end, end + 5)
        whole = self.table()
        self.assertEqual(whole.schema.names, ["topic", "offset", "timestamp", "type", "value"])
        self.assertEqual(self.rows(whole), numbered(0, end + 5))
        live = self.load(topicPattern=".*").orderBy("topic", "offset").collect()
        both = self.table().union(self.table(topic)).orderBy("topic", "offset").collect()
        self.assertEqual(both, live)
        self.archive("*", wait=False)
        self.assertEqual(self.in_place()["a"], numbered(0, end + 5))
        self.assertEqual(self.position("a"), end + 5)
        # Hadoop keeps checksums beside local files.
        self.assertEqual([path for path in self.paths("*/.*") if not path.endswith(".crc")], [])

    def cut_anywhere(self, kind: type[Files], *names: str) -> None:
        """Wherever the driver ends, the next run goes on, and each record is there once."""
        end = 0
        for at in range(100):
            self.numbers("a", end, end + 5)
            end += 5
            steps = [(kind, name) for name in names]
            was_cut = self.cut_off(at, steps, lambda: self.archive("a", file_bytes=40, young_seconds=0))
            placed = [offset for offset, _ in self.in_place().get("a", [])]
            self.assertEqual(len(set(placed)), len(placed))
            manifest = Manifests(files_of(spark(), self.uri), "a").last()
            if manifest is not None:
                self.assertEqual(self.archived("a"), numbered(0, manifest.end))
                self.assertLessEqual(self.position("a") or 0, manifest.end)
            if not was_cut:
                break
        self.assertGreater(at, 3)
        self.archive("a", wait=False)
        self.assertEqual(self.in_place(), {"a": numbered(0, end)})


class S3Tests(PlacesCase):
    """A bucket, reached with the settings that Spark has for it, and without a connector of Hadoop's."""

    def setUp(self) -> None:
        super().setUp()
        self.s3 = S3Server(self.directory / "s3.log")
        self.addCleanup(self.s3.stop)
        self.system = self.s3.system(BUCKET)
        self.root = f"{BUCKET}/an archive"
        self.uri = f"s3a://{self.root}/"

    def test_archive(self) -> Deferred[None]:
        """All that a local one does; nothing of the keys is told in a plan."""
        return self.do(self._archive)

    def _archive(self) -> None:
        self.configure(self.s3.settings(BUCKET))
        self.assertIsInstance(files_of(spark(), self.uri), ArrowFiles)
        self.archive_and_look()
        self.assertNotIn(KEYS["secret_key"], self.table()._jdf.queryExecution().toString())

    def test_cut(self) -> Deferred[None]:
        """A run that is cut off is gone on with."""
        return self.do(self._cut)

    def _cut(self) -> None:
        self.configure(self.s3.settings(BUCKET))
        self.cut_anywhere(ArrowFiles, "create", "put", "delete")

    def test_not_there(self) -> Deferred[None]:
        """A bucket that is none, or keys that are none, end a run with an error that names the place."""
        return self.do(self._not_there)

    def _not_there(self) -> None:
        self.numbers("a", 0, 3)
        self.configure(self.s3.settings("nowhere"))
        self.uri = "s3a://nowhere/an archive"
        error = self.assertRaises((ArchiveError, OSError, PySparkException), self.archive, "a")
        self.assertIn("nowhere", str(error))
        self.uri = "s3a:///x"
        self.assertIn("names no bucket", str(self.assertRaises(ArchiveError, self.archive, "a")))


class HadoopTests(PlacesCase):
    """A file system of Hadoop's that Arrow knows nothing of: a table of mounts, with a directory in it."""

    def setUp(self) -> None:
        super().setUp()
        self.root = str(self.directory / "mounted")
        Path(self.root).mkdir()
        # Java keeps a file system that it has seen once: each test has one of its own.
        mounts = f"mounts{uuid4().hex}"
        self.uri = f"viewfs://{mounts}/lake"
        self.mounts = {f"fs.viewfs.mounttable.{mounts}.link./lake": f"file://{self.root}"}

    def test_archive(self) -> Deferred[None]:
        """All that a local one does."""
        return self.do(self._archive)

    def _archive(self) -> None:
        self.configure(self.mounts)
        self.assertIsInstance(files_of(spark(), self.uri), HadoopFiles)
        self.archive_and_look()

    def test_cut(self) -> Deferred[None]:
        """A run that is cut off is gone on with."""
        return self.do(self._cut)

    def _cut(self) -> None:
        self.configure(self.mounts)
        self.cut_anywhere(HadoopFiles, "rename")

    def test_gone(self) -> Deferred[None]:
        """Live records that go after a table was made, and were archived, are told of: tasks do not get there."""
        return self.do(self._gone)

    def _gone(self) -> None:
        self.configure(self.mounts)
        self.numbers("a", 0, 10)
        late = self.table()
        self.archive("a")
        with Sesp(self.daemon) as sesp:
            sesp.ask("@a")
            sesp.ask("%7")
        error = self.assertRaises(PySparkException, late.collect)
        self.assertIn("offsets 0 to 6 of topic 'a' are gone since this table was made", str(error))
        self.assertEqual(self.rows(self.table()), numbered(0, 10))

    def test_gone_meanwhile(self) -> Deferred[None]:
        """Records that go while they are archived are told of, and only the thread that archives asks the daemon."""
        return self.do(self._gone_meanwhile)

    def _gone_meanwhile(self) -> None:
        self.configure(self.mounts)
        topics = ["a", "b", "c"]
        for topic in topics:
            self.numbers(topic, 0, 10)
        beside, asking = HadoopFiles.beside, set[int]()

        def truncate(files: HadoopFiles, path: str) -> str:
            # All is planned by now.
            for topic in topics if path.endswith(".parquet") else ():
                with Sesp(self.daemon) as sesp:
                    sesp.ask(f"@{topic}")
                    sesp.ask("%4")
            return beside(files, path)

        def note(path: str | None, server: str | None) -> Storage:
            asking.add(get_ident())
            return open_storage(path, server)

        self.patch(HadoopFiles, "beside", truncate)
        self.patch(archive_spark, "open_storage", note)
        error = self.assertRaises(DataLost, self.archive, *topics, path=None)
        self.assertIn("records below 4 were truncated, or have expired while they were archived", str(error))
        self.assertEqual(asking, {get_ident()})

    def test_no_connector(self) -> Deferred[None]:
        """A scheme that Spark has no connector for says what to do."""
        return self.do(self._no_connector)

    def _no_connector(self) -> None:
        self.numbers("a", 0, 1)
        self.uri = "gs://bucket/archive"
        error = self.assertRaises(ArchiveError, self.archive, "a")
        self.assertIn("Spark has no connector for gs://", str(error))
