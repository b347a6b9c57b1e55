"""The archive: each record once in a Delta table, wherever a run is cut off, and whoever else runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import polars
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from twisted.internet.defer import Deferred

import streamd.spark
from streamd.client import StorageClient
from streamd.spark.archives import run as archive_run
from streamd.spark.archives.delta import TopicTable
from streamd.spark.archives.location import ArchiveError
from streamd.spark.archives.write import Done, Job, write_in_tasks
from streamd.spark.read.places import DataLost
from tests.rigs.daemon import CHECKOUT, Daemon
from tests.rigs.sesp_client import Sesp
from tests.rigs.spark.archives.case import ArchiveCase, numbered
from tests.rigs.spark.session import Collected, spark

OLD = CHECKOUT / "tests" / "spark" / "archives" / "golden" / "v1"


class RunTests(ArchiveCase):
    def test_all_columns(self) -> Deferred[None]:
        """What is archived is what was stored: offset, time, type and value, under names of any kind."""
        return self.do(self._all_columns)

    def _all_columns(self) -> None:
        # Polars can't read a local table below a directory with a space in its name.
        self.uri = str(self.directory / "archive")
        topics = {"a": ["one", ""], "größe/{x}=%2F*?[0]": ["drei"], "17": ["number"], "_x~": ["u"]}
        topics |= {name: [name] for name in ("a/b", "a%2Fb", "a~2Fb", "a b", "50%", "..", ".x", "@")}
        for topic, messages in topics.items():
            self.publish(topic, *messages)
        self.publish_smq()
        done = self.archive("*")
        wanted = {**{topic: len(messages) for topic, messages in topics.items()}, "smq": 1}
        self.assertEqual({each.topic: each.end for each in done}, wanted)
        names = {topic: quote(topic, safe="").replace("..", "%2E%2E") for topic in wanted}
        self.assertEqual({path.name for path in Path(self.uri).iterdir()}, {*names.values(), "@"})
        for topic, name in names.items():
            self.assert_read_by_others(topic, f"{self.uri}/{name}")
        self.assertEqual(self.columns("smq")["type"], ["U32"])
        live = self.load(topicPattern=".*").collect()
        for topic in wanted:
            mine = [row for row in live if row.topic == topic]
            columns = self.columns(topic)
            self.assertEqual(columns["offset"], [row.offset for row in mine])
            self.assertEqual(columns["value"], [bytes(row.value) for row in mine])
            self.assertEqual(streamd.spark.table(spark(), topic, self.uri).orderBy("offset").collect(), mine)
            self.assertEqual(self.position(topic), len(mine))
        # Nothing is new: nothing is written.
        before = self.delta("a").version()
        self.assertEqual([each.rows for each in self.archive("a")], [0])
        self.assertEqual(self.delta("a").version(), before)

    def assert_read_by_others(self, topic: str, table: str) -> None:
        """A table is read by its percent-encoded name, with each of the recipes for local files."""
        offsets = [row.offset for row in self.load(topic=topic).orderBy("offset").collect()]
        paths = DeltaTable(table).file_uris()
        for found in (
            DeltaTable(table).to_pandas(columns=["offset"])["offset"].tolist(),
            polars.scan_delta(table).collect()["offset"].to_list(),
            duckdb.read_parquet(paths).project('"offset"').fetchnumpy()["offset"].tolist(),
            [row.offset for row in spark().read.parquet(f"file://{table}").collect()],
        ):
            self.assertEqual(sorted(found), offsets, topic)

    def publish_smq(self) -> None:
        with self.daemon.connect("smq") as connection, connection.makefile("rwb") as queue:
            queue.write(bytes.fromhex("00 0000000000000009 02 00000001 00000007"))
            queue.flush()
            self.assertEqual(queue.read(9), bytes(9))

    def test_small_files(self) -> Deferred[None]:
        """Small files are merged as more comes, every version is whole, and merged files go after the grace period."""
        return self.do(self._small_files)

    def _small_files(self) -> None:
        for number in range(0, 56, 4):
            self.numbers("a", number, number + 4)
            self.archive("a", file_bytes=450, grace_seconds=0, server=None)
            self.assertEqual(self.archived("a"), numbered(0, number + 4))
            self.assertLess(len(self.delta("a").file_uris()), 6)
        self.assertEqual(len(list(Path(self.uri).glob("a/*.parquet"))), len(self.delta("a").file_uris()))
        self.numbers("a", 56, 160)
        before = {path.name for path in Path(self.uri).glob("a/*.parquet")}
        self.archive("a", file_bytes=1 << 20, server=None)
        self.assertEqual(self.archived("a"), numbered(0, 160))
        # Readers of the version before find its files.
        self.assertLess(before, {path.name for path in Path(self.uri).glob("a/*.parquet")})
        self.assertEqual(len(self.delta("a").file_uris()), 1)

    def test_typed(self) -> Deferred[None]:
        """Columns of a schema, which the table keeps; more of them later; what does not fit is counted and kept."""
        return self.do(self._typed)

    def _typed(self) -> None:
        self.publish("a", '{"id": 1, "timestamp": "2026-01-02T03:04:05Z"}', "no JSON", '{"id": 3, "name": "c"}')
        (done,) = self.archive("a", schema="id long, timestamp timestamp")
        self.assertEqual((done.rows, done.unfit), (3, 1))
        self.publish("a", '{"id": 4}')
        self.archive("a")
        columns = self.columns("a")
        self.assertEqual((columns["id"], columns["error"][1]), ([1, None, 3, 4], "not a JSON object"))
        self.publish("a", '{"id": 5, "name": "e"}')
        self.archive("a", schema="name string")
        columns = self.columns("a")
        self.assertEqual((columns["id"], columns["name"]), ([1, None, 3, 4, 5], [None] * 4 + ["e"]))
        self.publish("a", '{"id": 6, "name": "f"}', "none")
        table = streamd.spark.table(spark(), "a", self.uri, server=self.server()).orderBy("offset")
        rows = [(row.id, row.name, row.error, row.topic) for row in table.collect()]
        self.assertEqual([row[0] for row in rows], [1, None, 3, 4, 5, 6, None])
        self.assertEqual(rows[-2:], [(6, "f", None, "a"), (None, None, "not a JSON object", "a")])
        error = self.assertRaises(ArchiveError, self.archive, "a", schema="id string")
        self.assertIn("column 'id' is int64 in the archive, and string in the schema", str(error))
        for schema, why in (
            ("id lon", "can't be used"),
            ("error long", "is taken"),
            ("m map<string,long>", "no values"),
        ):
            self.assertIn(why, str(self.assertRaises(ArchiveError, self.archive, "a", schema=schema)))

    def test_adopted(self) -> Deferred[None]:
        """An archive of the layout before Delta becomes tables, and goes on; files in place are not copied."""
        return self.do(self._adopted)

    def _adopted(self) -> None:
        shutil.copytree(OLD, self.uri)
        topics = {"a": 406, "b/c%": 406, "young": 7}
        for topic, end in topics.items():
            self.numbers(topic, 0, end + 4)
        with StorageClient(self.server()) as client:
            known = {info.name: info for info in client.segments()}
        for path in Path(self.uri).glob("_streamd/manifests/*/*.json"):
            manifest = json.loads(path.read_text())
            info = known[manifest["topic"]]
            path.write_text(json.dumps({**manifest, "id": info.id, "created": info.created}))
        error = self.assertRaises(ArchiveError, streamd.spark.table, spark(), "a", self.uri)
        self.assertIn("run streamctl archive once", str(error))
        places = {path.name: path.stat().st_ino for path in Path(self.uri).glob("topic=a/*/*.parquet")}
        done = self.archive("*")
        self.assertEqual(
            {each.topic: (each.rows, each.end) for each in done}, {t: (4, e + 4) for t, e in topics.items()}
        )
        for topic, end in topics.items():
            self.assertEqual(self.archived(topic), numbered(0, end + 4))
            self.assertEqual(self.position(topic), end + 4)
        self.assertEqual({path.name: path.stat().st_ino for path in Path(self.uri).glob("topic=a/*/*.parquet")}, places)
        self.assertEqual(list(Path(self.uri).glob("_streamd/*/*")), [])
        self.assertEqual([each.rows for each in self.archive("*")], [0, 0, 0])

    def test_gone(self) -> Deferred[None]:
        """Records that went before they were archived are an error, or a gap that the archive tells of."""
        return self.do(self._gone)

    def _gone(self) -> None:
        self.numbers("a", 0, 10)
        self.archive("a")
        self.numbers("a", 10, 30)
        with Sesp(self.daemon) as sesp:
            sesp.ask("@a")
            sesp.ask("%20")
        error = self.assertRaises(DataLost, self.archive, "a")
        self.assertIn("offsets 10 to 19 of topic 'a' are gone", str(error))
        (done,) = self.archive("a", on_data_loss="skip")
        self.assertEqual((done.end, done.rows, done.lost), (30, 10, 10))
        self.assertEqual(self.archived("a"), numbered(0, 10) + numbered(20, 30))
        # Nothing is left to write behind what is gone.
        self.numbers("a", 30, 40)
        with Sesp(self.daemon) as sesp:
            sesp.ask("@a")
            sesp.ask("%40")
        (done,) = self.archive("a", on_data_loss="skip")
        self.assertEqual((done.end, done.rows, done.lost, self.end("a"), self.position("a")), (40, 0, 20, 40, 40))

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
        for uri, why in (("hdfs://x/y", "HDFS and others"), ("s3a:///x", "names no bucket"), ("/a%20b", "has a %")):
            self.uri = uri
            refused(why, "orders")
        self.uri = elsewhere
        # Another topic of the same name.
        with Sesp(self.daemon) as sesp:
            sesp.ask("!orders")
        self.numbers("orders", 0, 5)
        refused("has an archive of another topic 'orders'", "orders")
        (log,) = Path(self.uri).glob("orders/_delta_log/*.json")
        log.write_text("damaged")
        refused("can't be read", "orders")


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
        error = self.assertRaises(ArchiveError, self.archive, "a")
        self.assertIn('groups = ["archive"]', str(error))
        where = {"server": self.server(), "topic": "a", "group": "reports"}
        query = spark().readStream.format("streamd").options(**where).load()
        self.assertEqual(Collected().run(query, self.directory / "checkpoint"), {"a": numbered(0, 3)})
        self.assertEqual(self.positions(), {"archive": None, "reports": None})
        self.serve("archive", "reports")
        self.archive("a")
        where["server"] = self.server()
        query = spark().readStream.format("streamd").options(**where).load()
        self.assertEqual(Collected().run(query, self.directory / "another"), {"a": numbered(0, 3)})
        self.assertEqual(self.positions(), {"archive": 3, "reports": 3})
        self.assertEqual(self.archived("a"), numbered(0, 3))


class CrashTests(ArchiveCase):
    """A run is cut off, and the next one goes on; or another one is faster."""

    def run_and_cut(self, at: int) -> bool:
        """A run that is cut off at a change that it makes."""
        steps = [(archive_run, "write_in_tasks"), (TopicTable, "commit"), (TopicTable, "vacuum")]
        steps.append((StorageClient, "set_group"))
        return self.cut_off(at, steps, lambda: self.archive("a", "b", file_bytes=250, grace_seconds=0))

    def test_anywhere(self) -> Deferred[None]:
        """Wherever the driver ends, nothing is there twice or missing, and the group is never ahead of the table."""
        return self.do(self._anywhere)

    def _anywhere(self) -> None:
        end = 0
        for at in range(100):
            for topic in ("a", "b"):
                self.numbers(topic, end, end + 5)
            end += 5
            was_cut = self.run_and_cut(at)
            for topic in ("a", "b"):
                archived = self.end(topic)
                self.assertLessEqual(self.position(topic) or 0, archived or 0)
                if archived is not None:
                    self.assertEqual(self.archived(topic), numbered(0, archived))
            if not was_cut:
                break
        self.assertGreater(at, 12)
        self.assertEqual((self.end("a"), self.end("b"), self.position("a"), self.position("b")), (end,) * 4)
        # What the runs left that were cut off is gone.
        for topic in ("a", "b"):
            self.assertEqual(len(list(Path(self.uri).glob(f"{topic}/*.parquet"))), len(self.delta(topic).file_uris()))

    def test_torn(self) -> Deferred[None]:
        """A commit that a power cut left empty is dropped, and done again."""
        return self.do(self._torn)

    def _torn(self) -> None:
        self.numbers("a", 0, 5)
        self.archive("a")
        self.numbers("a", 5, 9)
        (Path(self.uri) / "a" / "_delta_log" / f"{1:020}.json").touch()
        self.archive("a")
        self.assertEqual(self.archived("a"), numbered(0, 9))

    def test_two_at_once(self) -> Deferred[None]:
        """Another run that commits first, whether it made the table or not, is gone on from; all is there once."""
        return self.do(self._two_at_once)

    def _two_at_once(self) -> None:
        real = write_in_tasks

        def while_another_runs(session: Any, jobs: list[Job]) -> list[Done]:
            patch.restore()
            done = real(session, jobs)
            self.archive("a")
            return done

        for first in range(0, 30, 10):
            self.numbers("a", first, first + 10)
            patch = self.patch(archive_run, "write_in_tasks", while_another_runs)
            (done,) = self.archive("a")
            self.assertEqual((done.rows, done.end), (0, first + 10))
            self.assertEqual(self.archived("a"), numbered(0, first + 10))
        self.assertEqual(len(list(Path(self.uri).glob("a/*.parquet"))), 3)
        # A stale writer of any kind changes nothing.
        stale = self.delta("a")
        self.numbers("a", 30, 31)
        self.archive("a")
        mark = CommitProperties(max_commit_retries=0, app_transactions=[Transaction("streamd", 5)])
        with self.assertRaises(CommitFailedError):
            stale.create_write_transaction([], "append", stale.schema(), commit_properties=mark)
