"""Options: what is understood, and what is refused with a sentence that helps."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.options import (
    BATCH_ONLY,
    BOTH,
    EARLIEST,
    KAFKAS,
    LATEST,
    STREAM_ONLY,
    OptionError,
    Place,
    ReadOptions,
    microseconds,
    read_options,
)
from tests.rigs.daemon import CHECKOUT

NOW = 1_700_000_000_000_000
HOUR = 3_600_000_000


def batch(**options: str) -> ReadOptions:
    return read_options({"path": "/store", "topic": "a", **options}, NOW, stream=False)


def stream(**options: str) -> ReadOptions:
    return read_options({"path": "/store", "topic": "a", **options}, NOW, stream=True)


class UnderstoodTests(SynchronousTestCase):
    def test_defaults(self) -> None:
        """All of the topic, in as few partitions as can be; what is gone is an error."""
        found = batch()
        self.assertEqual((found.path, found.server, found.topics, found.pattern), ("/store", None, ("a",), None))
        self.assertEqual((found.starting, found.ending), (Place(EARLIEST), Place(LATEST)))
        self.assertEqual((found.partitions_min, found.partition_records_max, found.on_data_loss), (1, None, "fail"))
        self.assertEqual((found.trigger_records_min, found.group), (0, None))

    def test_path(self) -> None:
        """A path is that of the driver, wherever tasks run."""
        self.assertEqual(batch(path="data/../store").path, os.path.join(os.getcwd(), "store"))

    def test_any_case(self) -> None:
        """Spark may change the case of names."""
        given = {"PATH": "/store", "topicpattern": "a.*", "STARTINGOFFSETS": "Latest", "onDATAloss": "SKIP"}
        found = read_options(given, NOW, stream=False)
        self.assertEqual((found.pattern, found.starting, found.on_data_loss), ("a.*", Place(LATEST), "skip"))

    def test_topics(self) -> None:
        """Names with commas between them, or in JSON; each counts once."""
        for text, wanted in (
            ("a", ("a",)),
            ("b, a,b", ("b", "a")),
            ('["a,b", "c"]', ("a,b", "c")),
            ("größe,x y", ("größe", "x y")),
        ):
            found = read_options({"path": "/store", "topics": text}, NOW, stream=False)
            self.assertEqual(found.topics, wanted)

    def test_pattern(self) -> None:
        """A regular expression is about whole names."""
        found = read_options({"path": "/store", "topicPattern": "a|b+"}, NOW, stream=False)
        self.assertEqual([name for name in ("a", "b", "bb", "ab", "xa") if found.selects(name)], ["a", "b", "bb"])

    def test_offsets(self) -> None:
        """By topic, a number or a word; the others begin at the beginning and end at the end."""
        found = batch(startingOffsets='{"a": 7}', endingOffsets='{"a": "latest"}')
        self.assertEqual(found.starting, Place(EARLIEST, {"a": 7}))
        self.assertEqual(found.ending, Place(LATEST, {"a": "latest"}))

    def test_times(self) -> None:
        """Absolute with and without a zone, in seconds, or so long ago."""
        for text, wanted in (
            ("1970-01-01T00:00:01Z", 1_000_000),
            ("1970-01-01T01:00:00.000001+01:00", 1),
            ("1970-01-01 00:00:02", 2_000_000),
            ("2023-11-14", NOW - NOW % (24 * HOUR)),
            ("1700000000", NOW),
            ("1700000000.000001", NOW + 1),
            ("-10 minutes", NOW - HOUR // 6),
            ("- 1 Hour", NOW - HOUR),
            ("-2days", NOW - 48 * HOUR),
        ):
            self.assertEqual(batch(startingTimestamp=text).starting, Place(EARLIEST, timestamp=wanted), text)
            self.assertEqual(batch(endingTimestamp=text).ending, Place(LATEST, timestamp=wanted), text)

    @given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)), st.integers(-14 * 60, 14 * 60))
    def test_moments(self, moment: datetime, minutes: int) -> None:
        """A time is the same time in every zone, to the microsecond."""
        zoned = moment.replace(tzinfo=UTC).astimezone(tz=_zone(minutes))
        self.assertEqual(microseconds(moment), microseconds(zoned))
        self.assertEqual(batch(startingTimestamp=zoned.isoformat()).starting.timestamp, microseconds(moment))
        self.assertEqual(datetime(1970, 1, 1) + timedelta(microseconds=microseconds(moment)), moment)

    def test_limits(self) -> None:
        """Numbers, sizes and times of a stream."""
        found = stream(
            maxRecordsPerTrigger="100", maxBytesPerTrigger="64m", minRecordsPerTrigger="10", maxTriggerDelay="2 minutes"
        )
        limits = (found.trigger_records_max, found.trigger_bytes_max, found.trigger_records_min)
        self.assertEqual((*limits, found.trigger_delay_seconds), (100, 64 << 20, 10, 120.0))
        self.assertEqual(batch(minPartitions="8", maxRecordsPerPartition="5").partition_records_max, 5)

    def test_group(self) -> None:
        """A group needs a daemon."""
        found = read_options({"server": "host:12345", "topic": "a", "group": "g"}, NOW, stream=True)
        self.assertEqual((found.server, found.group), ("host:12345", "g"))


def _zone(minutes: int) -> timezone:
    return timezone(timedelta(minutes=minutes))


class RefusedTests(SynchronousTestCase):
    def refused(self, wanted: str, options: dict[str, str], *, streaming: bool = False) -> None:
        error = self.assertRaises(OptionError, read_options, options, NOW, stream=streaming)
        self.assertIn(wanted, str(error), options)

    def test_where(self) -> None:
        """Files or a daemon, one of them; and an address that is one."""
        self.refused("path or server", {"topic": "a"})
        self.refused("path and server contradict", {"path": "/store", "server": "h:1", "topic": "a"})
        self.refused("path is empty", {"path": "", "topic": "a"})
        self.refused("every executor sees", {"path": "s3a://bucket/store", "topic": "a"})
        for address in ("host", "host:", ":1", "host:99999", "::1:80"):
            self.refused("Pravega service", {"server": address, "topic": "a"})

    def test_what(self) -> None:
        """Exactly one way to say which topics."""
        self.refused("topic or topics or topicPattern", {"path": "/store"})
        self.refused("topic and topicPattern contradict", {"path": "/store", "topic": "a", "topicPattern": "b"})
        self.refused("no regular expression", {"path": "/store", "topicPattern": "a("})
        for names in ("a,,b", ",", '["a"', "[]", "[1]", '[""]'):
            self.refused("topics", {"path": "/store", "topics": names})

    def test_unknown(self) -> None:
        """A slip is named, with what was meant."""
        self.refused("did you mean startingOffsets?", {"path": "/store", "topic": "a", "startingOffset": "latest"})
        self.refused("there are endingOffsets", {"path": "/store", "topic": "a", "zzz": "1"})

    def test_batch_or_stream(self) -> None:
        """What is for the other kind of read is refused, with what to do."""
        for name in STREAM_ONLY:
            self.refused(f"{name} is for spark.readStream", {"path": "/store", "topic": "a", name: "1"})
        for name in BATCH_ONLY:
            self.refused(
                f"{name} is for spark.read: a stream has no end",
                {"path": "/store", "topic": "a", name: "1"},
                streaming=True,
            )

    def test_places(self) -> None:
        """Offsets and times that are none, or both at once."""
        for which in ("starting", "ending"):
            offsets, time = f"{which}Offsets", f"{which}Timestamp"
            base = {"path": "/store", "topic": "a"}
            self.refused("contradict each other", {**base, offsets: "latest", time: "-1 hour"})
            for text in ("first", "[1]", "7", '{"a"', "{'a': 1}"):
                self.refused(f"{offsets} is", {**base, offsets: text})
            for number in ("-1", "1.5", "true", "null", '"7"', str(1 << 63), "[1]"):
                self.refused(f"{offsets} of 'a' is", {**base, offsets: f'{{"a": {number}}}'})
            self.refused("'b', which is not read", {**base, offsets: '{"b": 1}'})
            for text in ("yesterday", "-10", "-10 fortnights", "10 minutes", "2023-13-01", "-1.5 hours"):
                self.refused(f"{time} is", {**base, time: text})
            self.refused("seconds since 1970", {**base, time: "1700000000000"})

    def test_numbers(self) -> None:
        """Counts, sizes and times that are none."""
        base = {"path": "/store", "topic": "a"}
        for name in ("minPartitions", "maxRecordsPerPartition", "maxRecordsPerTrigger", "minRecordsPerTrigger"):
            for text in ("0", "-1", "1.5", "many", "9" * 19, "٣"):
                self.refused(f"{name} is", {**base, name: text}, streaming=name not in BOTH)
        for text in ("0", "-1", "1t", "m", "1.5g"):
            self.refused("maxBytesPerTrigger is", {**base, "maxBytesPerTrigger": text}, streaming=True)
        more = {**base, "minRecordsPerTrigger": "5"}
        for text in ("soon", "5", "-5 minutes"):
            self.refused("maxTriggerDelay is", {**more, "maxTriggerDelay": text}, streaming=True)

    def test_together(self) -> None:
        """What makes no sense together."""
        base = {"path": "/store", "topic": "a"}
        self.refused("give that too", {**base, "maxTriggerDelay": "5 minutes"}, streaming=True)
        most = {"minRecordsPerTrigger": "5", "maxRecordsPerTrigger": "4"}
        self.refused("more than maxRecordsPerTrigger", {**base, **most}, streaming=True)
        self.refused("give server in place of path", {**base, "group": "g"}, streaming=True)
        self.refused("onDataLoss is 'ignore'", {**base, "onDataLoss": "ignore"})


class PageTests(SynchronousTestCase):
    def test_told(self) -> None:
        """The page has a row for each option, and for no other."""
        text = (CHECKOUT / "docs" / "spark.md").read_text(encoding="utf-8")
        table = text.partition("\n## Options of a read\n")[2].partition("\n## ")[0]
        named = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
        found = [name.strip(" `") for cell in named for name in cell.split(",")]
        self.assertEqual(sorted(found), sorted([*BOTH, *BATCH_ONLY, *STREAM_ONLY]))


class KafkaTests(SynchronousTestCase):
    def test_names(self) -> None:
        """Who comes from Kafka's connector is told what an option is called here; all these names are options."""
        for name, ours in KAFKAS.items():
            error = str(self.assertRaises(OptionError, stream, **{name: "1"}))
            self.assertIn(f"with streamd it is {ours}", error)
            self.assertIn(ours.partition(",")[0], (*BOTH, *BATCH_ONLY, *STREAM_ONLY))
