"""/metrics: every metric under its name, with the figures of the store and of the protocols, and few labels."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import fields, replace

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.address import IPv4Address

from streamd import __version__
from streamd.batch import Batch
from streamd.metrics import CONNECTIONS_CUT_OFF, CONNECTIONS_REFUSED, CONNECTIONS_SLOWED, REQUESTS_REFUSED
from streamd.settings import AccessRule, Limits, RetentionRule
from streamd.store.retention import Retention
from tests.rigs.http.case import SiteCase

SampleKey = tuple[str, frozenset[tuple[str, str]]]


class MetricsCase(SiteCase):
    def metrics(self) -> dict[SampleKey, float]:
        """All samples by name and labels."""
        families = text_string_to_metric_families(self.ask("/metrics").text)
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.metrics()[name, frozenset(labels.items())]

    def talk(self, *lines: bytes) -> None:
        """Say something in SESP, on a connection of its own."""
        peer = self.rig.connect()
        peer.send(b"".join(line + b"\n" for line in lines))
        peer.take_all()
        peer.drop()


class FiguresTests(MetricsCase):
    def test_traffic(self) -> None:
        """What a protocol does is told under its name, to the record."""
        self.talk(b"#a", b"#a", b"@a", b">one", b">three", b"<", b"@b", b"$9", b"<")
        self.rig.connect()
        found = self.metrics()
        sesp = frozenset({("protocol", "sesp")})
        for name, value in {
            "streamd_appended_records_total": 2,
            "streamd_appended_bytes_total": 8,
            "streamd_read_records_total": 1,
            "streamd_read_bytes_total": 3,
            "streamd_connections": 1,
            "streamd_connections_opened_total": 2,
        }.items():
            self.assertEqual(found[name, sesp], value, name)
        refused = frozenset({("protocol", "sesp"), ("reason", "segment_exists")})
        self.assertEqual(found["streamd_requests_refused_total", refused], 1)

    def test_limits(self) -> None:
        """Every limit is told by its own name, those of rules with the rule; a reload changes them."""
        found = self.metrics()
        nothing: frozenset[tuple[str, str]] = frozenset()
        for each in fields(Limits):
            self.assertEqual(
                found[f"streamd_limits_{each.name}", nothing], getattr(self.rig.core.limits, each.name), each.name
            )
        self.rig.core.limits = replace(self.rig.core.limits, message_bytes_max=77)
        rules = (
            AccessRule(who="anyone", allow=("read",)),
            AccessRule(who="user:7", allow=("write",), topics_max=1, topic_bytes_max=2, bytes_per_second_max=3.5),
            AccessRule(who="user:7", allow=("write",), messages_per_second_max=4.0),
        )
        self.rig.core.access.replace(rules, 0.0)
        self.assertEqual(self.value("streamd_limits_message_bytes_max"), 77)
        found = self.metrics()
        for name, number, value in (
            ("topics_max", "2", 1),
            ("topic_bytes_max", "2", 2),
            ("bytes_per_second_max", "2", 3.5),
            ("messages_per_second_max", "3", 4),
        ):
            labels = frozenset({("rule", number), ("who", "user:7")})
            told = {key[1]: value for key, value in found.items() if key[0] == f"streamd_access_{name}"}
            self.assertEqual(told, {labels: value})

    def test_refusals(self) -> None:
        """What a limit or a rule refuses is counted once, by protocol and reason; others stay at 0."""
        self.rig.core.limits = self.rig.load.limits = replace(
            self.rig.core.limits, connection_messages_per_second_max=1.0, connections_max=1, frame_seconds_max=1.0
        )
        self.talk(b"nonsense", b"#a", b"@a", b">one", b">two", b">three")
        peer = self.rig.connect()
        self.assertIsNone(self.rig.factory.buildProtocol(IPv4Address("TCP", "10.0.0.1", 1)))
        self.rig.core.access.replace([AccessRule(who="anyone", allow=("read",), topics=("nothing",))], 0.0)
        peer.send(b"#b\n>never ends")
        self.rig.advance(5.0)
        told = {
            (name.removeprefix("streamd_").removesuffix("_total"), dict(labels)["reason"]): value
            for (name, labels), value in self.metrics().items()
            if ("protocol", "sesp") in labels and "reason" in dict(labels)
        }
        self.assertEqual(
            {key for key, value in told.items() if value},
            {
                ("connections_refused", "connections"),
                ("connections_cut_off", "overdue"),
                ("connections_slowed", "connection_messages_per_second"),
                ("requests_refused", "not_allowed"),
                ("requests_refused", "invalid"),
            },
        )
        for name, reasons in (
            ("connections_refused", CONNECTIONS_REFUSED),
            ("connections_cut_off", CONNECTIONS_CUT_OFF),
            ("connections_slowed", CONNECTIONS_SLOWED),
            ("requests_refused", REQUESTS_REFUSED),
        ):
            self.assertEqual([reason for reason in reasons if (name, reason) not in told], [])

    def test_commits(self) -> None:
        """Each commit counts once, in the count and in the histogram, whose last bucket holds all."""
        (segment,) = self.create("a")
        for _ in range(9):
            self.rig.store.append(segment, Batch.of([b"x"]))
            self.rig.run()
        commits = self.rig.store.commits
        self.assertEqual(commits, 10)
        found = self.metrics()
        nothing: frozenset[tuple[str, str]] = frozenset()
        self.assertEqual(found["streamd_commits_total", frozenset({("result", "stored")})], commits)
        self.assertEqual(found["streamd_commits_total", frozenset({("result", "no_room")})], 0)
        self.assertEqual(found["streamd_commit_seconds_count", nothing], commits)
        self.assertEqual(found["streamd_commit_seconds_bucket", frozenset({("le", "+Inf")})], commits)
        self.assertEqual(found["streamd_commit_entries_total", nothing], commits)
        self.assertEqual(found["streamd_unfolded_entries", nothing], commits)

    def test_full(self) -> None:
        """A full disk shows, and goes by."""
        (segment,) = self.create("a")
        self.assertEqual(self.value("streamd_store_writable"), 1)
        self.rig.disk.full = True
        self.rig.store.append(segment, Batch.of([b"x" * 5000] * 300)).addErrback(lambda _: None)
        self.rig.run()
        self.assertEqual(self.value("streamd_store_writable"), 0)
        self.assertEqual(self.value("streamd_ready"), 0)
        self.assertEqual(self.value("streamd_commits_total", result="no_room"), 1)

    def test_groups(self) -> None:
        """Reader groups, and how far they are behind, what is acknowledged out of order included."""
        one, other = self.create("a", "b")
        store = self.rig.store
        for segment in (one, other):
            store.append(segment, Batch.of([b"x"] * 10))
        self.rig.run()
        store.set_group(one, "g", 4)
        store.acknowledge(other, "h", [(0, 2), (5, 6)])
        store.set_group(other, "k", 10)
        self.rig.run()
        self.assertEqual(self.value("streamd_reader_groups"), 3)
        self.assertEqual(self.value("streamd_reader_group_lag_records"), 6 + 7)
        self.assertEqual(self.value("streamd_reader_group_lag_worst_records"), 7)
        self.assertEqual(self.value("streamd_reader_group_behind_records", topic="a", group="g"), 6)
        self.assertEqual(self.value("streamd_reader_group_behind_records", topic="b", group="h"), 7)
        store.drop_group(other, "h")
        store.delete(one)
        self.rig.advance(6)  # it is looked at again
        self.assertEqual(self.value("streamd_reader_groups"), 1)
        self.assertEqual(self.value("streamd_reader_group_lag_records"), 0)

    def test_disk(self) -> None:
        """The files of the store and the room around them."""
        self.assertEqual(self.value("streamd_journal_files"), 1)
        self.assertGreaterEqual(self.value("streamd_journal_bytes"), 1 << 20)
        self.assertGreater(self.value("streamd_catalog_bytes"), 0)
        self.assertGreater(self.value("streamd_disk_size_bytes"), self.value("streamd_disk_free_bytes"))

    def test_retention(self) -> None:
        """What retention drops and deletes is counted."""
        one, other = self.create("a", "idle")
        self.rig.store.append(one, Batch.of([b"x"] * 10))
        self.rig.run()
        rules = [RetentionRule(pattern="a", records_max=3), RetentionRule(pattern="idle", idle_seconds_max=60)]
        later = other.modified / 1e6 + 1000
        self.rig.store.retention = Retention(
            self.rig.store, rules, interval_seconds=10, hidden_seconds_max=0, clock=self.rig.clock, now=lambda: later
        )
        self.rig.store.retention.sweep()
        self.rig.advance(1)
        self.assertEqual(self.value("streamd_retention_sweeps_total"), 1)
        self.assertEqual(self.value("streamd_retention_truncated_records_total"), 7)
        self.assertEqual(self.value("streamd_retention_deleted_segments_total"), 1)
        self.assertEqual(self.value("streamd_segments"), 1)

    def test_time(self) -> None:
        """How far the store's time is ahead of the clock."""
        self.assertEqual(self.value("streamd_store_time_ahead_seconds"), 0)
        # The machine that the tests run on has a year of its own; this is later than that.
        self.rig.writer.now = 1 << 60
        self.create("a")
        self.assertGreater(self.value("streamd_store_time_ahead_seconds"), 10**9)
        self.assertLess(self.value("streamd_store_time_ahead_seconds"), (1 << 60) / 10**6)

    def test_process(self) -> None:
        """The version, and what the library knows of the process."""
        found = self.metrics()
        builds = [labels for name, labels in found if name == "streamd_build_info"]
        self.assertIn(("version", __version__), builds[0])
        for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"):
            self.assertIn((name, frozenset()), found)


class FormTests(MetricsCase):
    def test_bounded(self) -> None:
        """However many segments, connections and names there are, the page has the same samples; a hundred groups."""
        self.talk(b"#first", b"#first", b"@first", b">x", b"<", b"@nosuch", b"!nosuch")
        before = set(self.metrics())
        (first,) = self.create("many")
        for number in range(300):
            self.talk(b"#topic-%d" % number, b"#topic-%d" % number, b"@nosuch-%d" % number)
            self.rig.store.set_group(first, f"group-{number}", 0)
        self.rig.run()
        self.rig.advance(6)
        by_group = {each for each in self.metrics() if each[0] == "streamd_reader_group_behind_records"}
        self.assertEqual(len(by_group), 100)
        self.assertEqual(set(self.metrics()) - by_group, before)
        self.assertEqual(self.value("streamd_reader_groups"), 300)

    def test_open_metrics(self) -> None:
        """Who asks for OpenMetrics gets it, with the same figures."""
        self.talk(b"#a", b"@a", b">x")
        answer = self.ask("/metrics", accept="application/openmetrics-text; version=1.0.0")
        self.assertIn("application/openmetrics-text", answer.headers["content-type"])
        samples = {sample.name: sample.value for family in open_metrics(answer.text) for sample in family.samples}
        self.assertEqual(samples["streamd_commit_seconds_count"], self.rig.store.commits)
        self.assertIn("text/plain", self.ask("/metrics").headers["content-type"])

    def test_conventions(self) -> None:
        """Names have their unit last, counters end in total, and each has a text; promtool agrees where it is there."""
        self.talk(b"#a", b"#a", b"@a", b">x")
        text = self.ask("/metrics").text
        for family in text_string_to_metric_families(text):
            self.assertTrue(family.documentation, family.name)
            self.assertRegex(family.name, r"^(streamd|process|python)_[a-z_]+[a-z]$")
            for sample in family.samples:
                if family.type == "counter":
                    self.assertTrue(sample.name.endswith("_total"), sample.name)
                known = {"protocol", "reason", "result", "le", "loop", "version", "python"}
                self.assertLessEqual(set(sample.labels), known)
        promtool = shutil.which("promtool")
        if promtool is not None:
            command = [promtool, "check", "metrics"]
            ended = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((ended.returncode, ended.stdout + ended.stderr), (0, ""))
