"""Archives on S3: all that a local one does, without a connector of Hadoop's, and only what a query needs is read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, LessThan
from twisted.internet.defer import Deferred

import streamd.spark
from streamd.spark.archives import run as archive_run
from streamd.spark.archives.adopt import Archive
from streamd.spark.archives.history import FilteredHistoryReader
from streamd.spark.archives.location import ArchiveError, Location, directory_of, location_of, name_of, refuse_connect
from streamd.spark.archives.table import columns
from streamd.spark.archives.write import write_in_tasks
from tests.rigs.spark.archives.case import ArchiveCase, Rows, numbered
from tests.rigs.spark.archives.s3 import KEYS, S3Server
from tests.rigs.spark.session import spark

BUCKET = "lake"


class S3Tests(ArchiveCase):
    """A bucket, reached with the settings that Spark has for it."""

    def setUp(self) -> None:
        super().setUp()
        self.s3 = S3Server(self.directory / "s3.log")
        self.addCleanup(self.s3.stop)
        self.s3.system(BUCKET)
        self.uri = f"s3a://{BUCKET}/archive/"

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

    def test_archive(self) -> Deferred[None]:
        """Each record once, in files that are merged; the table is whole; nothing of the keys is told in a plan."""
        return self.do(self._archive)

    def _archive(self) -> None:
        self.configure(self.s3.settings(BUCKET))
        topic = "größe/{x}=%2F*?[0]"
        self.publish(topic, "drei", "")
        for first in range(0, 4000, 1000):
            self.numbers("a", first, first + 1000)
        self.archive("*", file_bytes=20_000, grace_seconds=0)
        self.assertGreater(len(self.delta("a").file_uris()), 1)
        for end in (4003, 4006):
            self.numbers("a", end - 3, end)
            self.archive("a", grace_seconds=0)
        self.assertEqual(self.archived("a"), numbered(0, 4006))
        self.assertEqual(self.archived(topic), [(0, b"drei"), (1, b"")])
        self.numbers("a", 4006, 4011)
        self.assertEqual(self.rows(self.table()), numbered(0, 4011))
        self.assertEqual(self.rows(self.table().where("offset >= 3990 and offset < 4008")), numbered(3990, 4008))
        self.assertEqual(self.position("a"), 4006)
        self.assertNotIn(KEYS["secret_key"], self.table()._jdf.queryExecution().toString())
        self.assert_pruned()
        self.assert_refused_by_the_log()

    def assert_pruned(self) -> None:
        """Files that have nothing for a query are not read: by offset and by time, to the microsecond."""
        location = location_of(spark(), self.uri).at("a")
        table = Archive(location_of(spark(), self.uri)).table("a", adopt=False)
        last = self.columns("a")["timestamp"][-1]
        for filters, least, most in (
            ([], 4, 99),
            ([EqualTo(("offset",), 5)], 1, 1),
            ([GreaterThanOrEqual(("offset",), 4000), LessThan(("offset",), 4003)], 1, 1),
            ([EqualTo(("timestamp",), last)], 1, 3),
            ([GreaterThan(("timestamp",), last + timedelta(seconds=1))], 0, 0),
        ):
            options = {"topic": "a", "archive": location.encoded(), "version": str(table.delta.version())}
            reader = FilteredHistoryReader(options, columns(table))
            list(reader.pushFilters(list(filters)))
            partitions = [partition for partition in reader.partitions() if partition.value]
            self.assertTrue(least <= len(partitions) <= most, (filters, len(partitions)))

    def assert_refused_by_the_log(self) -> None:
        """Another run that commits first is gone on from."""
        real = write_in_tasks

        def while_another_runs(session: Any, jobs: Any) -> Any:
            patch.restore()
            done = real(session, jobs)
            self.archive("a")
            return done

        patch = self.patch(archive_run, "write_in_tasks", while_another_runs)
        (done,) = self.archive("a")
        self.assertEqual((done.rows, done.end), (0, 4011))
        self.assertEqual(self.archived("a"), numbered(0, 4011))

    def test_not_there(self) -> Deferred[None]:
        """A bucket that is none ends a run with an error that names the place."""
        return self.do(self._not_there)

    def _not_there(self) -> None:
        self.numbers("a", 0, 3)
        self.configure(self.s3.settings("nowhere"))
        self.uri = "s3a://nowhere/an archive"
        error = self.assertRaises((ArchiveError, OSError, PySparkException, DeltaError), self.archive, "a")
        self.assertIn("nowhere", str(error))


class LocationTests(ArchiveCase):
    def setUp(self) -> None:
        """No daemon is needed."""

    def test_directories(self) -> None:
        """A topic has its percent-encoded name, and a directory that is never another topic's, hidden, or quoted."""
        plain = ["a", "logs.x-1_2", "a~b", "a~2Fb", "topic", "17"]
        names = {name: name for name in plain} | {"a/b": "@/a~2Fb", "50%": "@/50~25", "a%2Fb": "@/a~252Fb"}
        names |= {"größe": "@/gr~C3~B6~C3~9Fe", "_x": "@/~5Fx", "..": "@/~2E~2E", ".x": "@/~2Ex", "a ~b": "@/a~20~7Eb"}
        names |= {"@": "@/~40", "@/a": "@/~40~2Fa", "_streamd": "@/~5Fstreamd", ".": "@/~2E"}
        for name, expected in names.items():
            self.assertEqual(directory_of(name), expected)
            self.assertEqual(unquote(name_of(name)), name)
        self.assertEqual({name_of(name) for name in plain}, set(plain))
        self.assertEqual([name_of("a/b c%"), name_of(".."), name_of("_x")], ["a%2Fb%20c%25", "%2E%2E", "_x"])
        self.assertFalse({name_of(name) for name in names} & {"@", ".", "..", "_streamd"})
        error = self.assertRaises(ArchiveError, name_of, "ü" * 43)
        self.assertIn("takes 258 bytes", str(error))
        location = Location("s3://b/x", (("AWS_REGION", "here"),))
        self.assertEqual(Location.decoded(location.encoded()), location)

    def test_connect(self) -> None:
        """A session of Spark Connect is told what to use, in one sentence."""
        session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
        self.assertIn("need a classic Spark session", str(self.assertRaises(ArchiveError, refuse_connect, session)))
