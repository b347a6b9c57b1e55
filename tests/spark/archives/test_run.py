"""The archive: each record once, in files laid out by topic and day, wherever a run is cut off."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred

import streamd.spark
from streamd.client import StorageClient
from streamd.spark.archives.arrow import ArrowFiles
from streamd.spark.archives.files import ArchiveError, Location
from streamd.spark.archives.manifest import Manifests
from streamd.spark.read.places import DataLost
from tests.daemon import CHECKOUT, Daemon
from tests.sesp_client import Sesp
from tests.spark.archives.case import ArchiveCase, numbered
from tests.spark.session import Collected, spark

GOLDEN = CHECKOUT / "tests" / "store" / "golden" / "v2" / "store"


class RunTests(ArchiveCase):
    def test_all_columns(self) -> Deferred[None]:
        """What is archived is what was stored: offset, time, type and value, under names of any kind."""
        return self.do(self._all_columns)

    def _all_columns(self) -> None:
        topics = {"a": ["one", ""], "größe/{x}=%2F*?[0]": ["drei"], "17": ["number"]}
        for topic, messages in topics.items():
            self.publish(topic, *messages)
        self.publish_smq()
        done = self.archive("*", wait=False)
        self.assertEqual({each.topic: each.end for each in done}, {"a": 2, "größe/{x}=%2F*?[0]": 1, "17": 1, "smq": 1})
        # By whoever reads Parquet laid out like this, with the topic and the day from the path.
        plain = spark().read.parquet(self.uri)
        rows = plain.selectExpr("string(topic)", "offset", "timestamp", "type", "value", "date").collect()
        live = self.load(topicPattern=".*").collect()
        self.assertEqual(sorted(tuple(row)[:3] for row in rows), sorted(tuple(row)[:3] for row in live))
        self.assertEqual({row.type for row in rows}, {None, "U32"})
        for row in rows:
            self.assertEqual(row.date, row.timestamp.astimezone(UTC).date())
        for topic in ("a", "größe/{x}=%2F*?[0]", "17", "smq"):
            mine = [row for row in live if row.topic == topic]
            self.assertEqual(streamd.spark.table(spark(), topic, self.uri).orderBy("offset").collect(), mine)
            self.assertEqual(self.position(topic), len(mine))
        # Nothing is new: nothing is written.
        before = self.manifest("a")
        self.assertEqual([each.rows for each in self.archive("a")], [0])
        self.assertEqual(self.manifest("a"), before)

    def publish_smq(self) -> None:
        with self.daemon.connect("smq") as connection, connection.makefile("rwb") as queue:
            queue.write(bytes.fromhex("00 0000000000000009 02 00000001 00000007"))
            queue.flush()
            self.assertEqual(queue.read(9), bytes(9))

    def test_small_files(self) -> Deferred[None]:
        """Small files wait out of sight until they are enough, and are put together; files in place never change."""
        return self.do(self._small_files)

    def _small_files(self) -> None:
        seen: dict[str, int] = {}
        count = 0
        for number in range(0, 56, 4):
            self.numbers("a", number, number + 4)
            self.archive("a", file_bytes=450, young_seconds=0, server=None)
            self.assertEqual(self.archived("a"), numbered(0, number + 4))
            placed = self.in_place().get("a", [])
            self.assertEqual(placed, numbered(0, len(placed)))
            files = {str(path): path.stat().st_mtime_ns for path in Path(self.uri).glob("topic=a/*/*.parquet")}
            self.assertLessEqual(seen.items(), files.items())
            seen = files
            count = max(count, len(self.manifest("a").young))
        self.assertEqual(len(seen), 1)
        self.assertEqual(count, 8)
        # Young files that went into others are gone, but for those of the last run.
        left = len(list(Path(self.uri).glob("_streamd/young/*/*/*.parquet")))
        self.assertEqual(left, len(self.manifest("a").young))
        self.assertLess(len(list(Path(self.uri).glob("_streamd/manifests/*/*.json"))), 10)
        self.archive("a", wait=False)
        self.assertEqual(self.in_place(), {"a": numbered(0, 56)})

    def test_days(self) -> Deferred[None]:
        """A store of days gone by, and no daemon: what is of another day is in another file, and waits for nothing."""
        return self.do(self._days)

    def _days(self) -> None:
        self.archive("*", path=str(GOLDEN), server=None)
        found = {topic: len(rows) for topic, rows in self.in_place().items()}
        with_path = spark().read.format("streamd").option("path", str(GOLDEN)).option("topicPattern", ".*").load()
        wanted = with_path.groupBy("topic").count().collect()
        self.assertEqual(found, {row.topic: row["count"] for row in wanted})
        for path in Path(self.uri).glob("topic=*/date=*"):
            day = datetime.fromisoformat(path.name.removeprefix("date=")).date()
            frame = spark().read.parquet(str(path)).selectExpr("timestamp").distinct()
            self.assertEqual({row.timestamp.astimezone(UTC).date() for row in frame.collect()}, {day})

    def test_gone(self) -> Deferred[None]:
        """Records that went before they were archived are an error, or a gap that the archive tells of."""
        return self.do(self._gone)

    def _gone(self) -> None:
        self.numbers("a", 0, 10)
        self.archive("a", wait=False)
        self.numbers("a", 10, 30)
        with Sesp(self.daemon) as sesp:
            sesp.ask("@a")
            sesp.ask("%20")
        error = self.assertRaises(DataLost, self.archive, "a")
        self.assertIn("offsets 10 to 19 of topic 'a' are gone", str(error))
        (done,) = self.archive("a", on_data_loss="skip")
        self.assertEqual((done.end, done.rows, done.lost), (30, 10, 10))
        self.assertEqual(self.archived("a"), numbered(0, 10) + numbered(20, 30))
        self.assertEqual(self.manifest("a").lost, ((10, 20),))
        # Put together, the gap is in the middle of a file.
        self.numbers("a", 30, 31)
        self.archive("a", wait=False)
        self.assertEqual(self.in_place(), {"a": numbered(0, 10) + numbered(20, 31)})

    def test_refused(self) -> Deferred[None]:
        """What does not belong together is refused, and says what to do."""
        return self.do(self._refused)

    def _refused(self) -> None:
        def refused(text: str, *topics: str, **settings: Any) -> None:
            self.assertIn(text, str(self.assertRaises(ArchiveError, self.archive, *topics, **settings)))

        self.numbers("orders", 0, 3)
        refused("there is no topic 'order'; did you mean 'orders'?", "order")
        refused("say what to archive")
        refused("say where to read", "orders", path=None, server=None)
        self.archive("orders")
        # A second archive needs a group of its own.
        elsewhere, self.uri = self.uri, str(self.directory / "another")
        refused("it is another archive's. Give this one a group of its own", "orders")
        self.archive("orders", group="second")
        self.uri = elsewhere
        # Another topic of the same name.
        with Sesp(self.daemon) as sesp:
            sesp.ask("!orders")
        self.numbers("orders", 0, 5)
        refused("has an archive of another topic 'orders'", "orders")
        # Two runs at once: the second to commit is told.
        manifests = Manifests(ArrowFiles(Location(self.uri)), "orders")
        last = self.manifest("orders")
        manifests.commit(last)
        self.assertRaises(ArchiveError, manifests.commit, last)
        newest = max(Path(self.uri).glob("_streamd/manifests/*/*.json"))
        newest.write_text("{}")
        refused("is damaged", "orders")
        newest.write_text('{"format": 99}')
        refused("is of format 99", "orders")


class AccessTests(ArchiveCase):
    """A daemon with rules of access, and Spark with the rights that docs/security.md tells it needs."""

    def serve(self, *groups: str) -> None:
        """Start the daemon again: everybody reads and writes, and moves these groups."""
        self.daemon.close()
        rules = f"[[access]]\nwho = 'anyone'\nallow = ['read', 'write', 'create']\ngroups = {list(groups)}\n"
        (self.directory / "streamd.toml").write_text(rules)
        self.daemon = Daemon(str(self.directory), "--config", "streamd.toml", "--data-dir", str(self.daemon.data_dir))
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def positions(self) -> dict[str, int | None]:
        with StorageClient(self.server()) as client:
            topic = client.segment("a").id
            return {group: client.group(topic, group) for group in ("archive", "reports")}

    def test_groups(self) -> Deferred[None]:
        """The archive, and a query with a group, move theirs where a rule names it; else they say what is missing."""
        return self.do(self._groups)

    def _groups(self) -> None:
        self.serve()
        self.numbers("a", 0, 3)
        error = self.assertRaises(ArchiveError, self.archive, "a", wait=False)
        self.assertIn('groups = ["archive"]', str(error))
        where = {"server": self.server(), "topic": "a", "group": "reports"}
        query = spark().readStream.format("streamd").options(**where).load()
        self.assertEqual(Collected().run(query, self.directory / "checkpoint"), {"a": numbered(0, 3)})
        self.assertEqual(self.positions(), {"archive": None, "reports": None})
        self.serve("archive", "reports")
        self.archive("a", wait=False)
        where["server"] = self.server()
        query = spark().readStream.format("streamd").options(**where).load()
        self.assertEqual(Collected().run(query, self.directory / "another"), {"a": numbered(0, 3)})
        self.assertEqual(self.positions(), {"archive": 3, "reports": 3})
        self.assertEqual(self.in_place(), {"a": numbered(0, 3)})


class CrashTests(ArchiveCase):
    """A run is cut off, and the next one goes on."""

    def run_and_cut(self, at: int) -> bool:
        """A run that is cut off at a change that it makes."""
        steps = [(ArrowFiles, "create"), (ArrowFiles, "delete"), (StorageClient, "set_group")]
        return self.cut_off(at, steps, lambda: self.archive("a", "b", file_bytes=250, young_seconds=0))

    def test_anywhere(self) -> Deferred[None]:
        """Wherever the driver ends, nothing is there twice or missing, and the group is never ahead of the files."""
        return self.do(self._anywhere)

    def _anywhere(self) -> None:
        end = 0
        for at in range(100):
            for topic in ("a", "b"):
                self.numbers(topic, end, end + 5)
            end += 5
            was_cut = self.run_and_cut(at)
            self.check(end)
            if not was_cut:
                break
        self.assertGreater(at, 12)
        self.archive("a", "b", wait=False)
        self.assertEqual(self.in_place(), {"a": numbered(0, end), "b": numbered(0, end)})
        self.assertEqual((self.position("a"), self.position("b")), (end, end))

    def check(self, end: int) -> None:
        for topic, rows in self.in_place().items():
            self.assertEqual(len({offset for offset, _ in rows}), len(rows), topic)
        for topic in ("a", "b"):
            manifest = Manifests(ArrowFiles(Location(self.uri)), topic).last()
            if manifest is None:
                self.assertIsNone(self.position(topic))
                continue
            self.assertEqual(self.archived(topic), numbered(0, manifest.end))
            self.assertLessEqual(self.position(topic) or 0, manifest.end)
            self.assertLessEqual(manifest.end, end)

    def test_gone_meanwhile(self) -> Deferred[None]:
        """What was planned by a run that was cut off and can't be carried out any more is given up, and told of."""
        return self.do(self._gone_meanwhile)

    def _gone_meanwhile(self) -> None:
        self.numbers("a", 0, 10)
        self.numbers("b", 0, 1)
        self.assertTrue(self.run_and_cut(1))
        self.assertTrue(self.manifest("a").plan)
        with Sesp(self.daemon) as sesp:
            sesp.ask("@a")
            sesp.ask("%4")
        self.assertRaises(DataLost, self.archive, "a")
        self.archive("a", on_data_loss="skip", wait=False)
        self.assertEqual(self.in_place(), {"a": numbered(4, 10)})
        self.assertEqual(self.manifest("a").lost, ((0, 4),))
