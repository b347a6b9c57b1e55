"""Partitions and triggers over a real store: everything once, in order, in pieces of the size that was asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from streamd.spark.options import OptionError, ReadOptions, read_options
from streamd.spark.read.filters import Bounds
from streamd.spark.read.path import PathStorage
from streamd.spark.read.places import DataLost, Losses, Range, batch_ranges, range_of
from streamd.spark.read.plan import PARTITIONS_MAX, Partition, partitions
from streamd.spark.read.triggers import Patience, by_bytes, by_records
from streamd.store.reading.outside import SegmentInfo
from tests.store.case import StoreCase
from tests.store.inline import DIRECTORY, SMALL, Compactor


class PlanCase(StoreCase):
    """A store with topics of several sizes, in packs and in the journal."""

    settings = SMALL

    def setUp(self) -> None:
        super().setUp()
        rng = Random(1)
        for name, count in (("large", 400), ("small", 7), ("empty", 0), ("one", 1)):
            (segment,) = self.create(name)
            for number in range(0, count, 4):
                records = [b"%d" % (number + at) * rng.choice((1, 50)) for at in range(min(4, count - number))]
                self.append(segment, *records)
        Compactor(self.disk, self.store).fold()
        self.storage = PathStorage(DIRECTORY, disk=self.disk)
        self.addCleanup(self.storage.close)
        self.base = read_options({"path": DIRECTORY, "topicPattern": ".*"}, 0, stream=False)

    def info(self, name: str) -> SegmentInfo:
        return self.storage.segment(name)

    def all(self) -> list[Range]:
        return batch_ranges(self.storage, self.base, Bounds(), Losses("fail"))


class PartitionTests(PlanCase):
    def planned(self, ranges: list[Range], **options: int | None) -> list[Partition]:
        """Partitions, after a look at whether they are all of the ranges, once and in order."""
        changed: ReadOptions = replace(self.base, **options)  # type: ignore[arg-type]
        made = partitions(self.storage, ranges, changed)
        joined: list[Range] = []
        for piece in [piece for each in made for piece in each.ranges]:
            if joined and (joined[-1].id, joined[-1].end) == (piece.id, piece.first):
                joined[-1] = joined[-1]._replace(end=piece.end)
            else:
                joined.append(piece)
            self.assertLess(piece.first, piece.end)
        self.assertEqual([each[:4] for each in joined], [each[:4] for each in ranges])
        return made

    def test_few(self) -> None:
        """What is small goes into one partition, also several topics; what is empty into none."""
        ranges = self.all()
        self.assertEqual([(each.topic, each.records) for each in ranges], [("large", 400), ("one", 1), ("small", 7)])
        self.assertEqual(len(self.planned(ranges)), 1)
        self.assertEqual(self.planned([]), [])

    def test_at_least(self) -> None:
        """As many as are wanted, if there are so many records; a record is never cut."""
        for wanted in (1, 2, 3, 7, 50, 407, 408, 500):
            made = self.planned(self.all(), partitions_min=wanted)
            self.assertGreaterEqual(len(made), min(wanted, 408))
        self.assertEqual(len(self.planned(self.all(), partitions_min=408)), 408)

    def test_at_most(self) -> None:
        """No partition has more records than are allowed, also of several topics together."""
        for most in (1, 3, 8, 100, 1000):
            for wanted in (1, 4):
                made = self.planned(self.all(), partition_records_max=most, partitions_min=wanted)
                self.assertLessEqual(max(sum(piece.records for piece in each.ranges) for each in made), most)

    def test_of_one_size(self) -> None:
        """Partitions are of about the same size in bytes."""
        made = self.planned([range_of(self.info("large"), 0, 400)], partitions_min=4)
        sizes = [sum(run.batch.size for run in self.storage.read(p.id, p.first, p.end)) for [p] in map(_ranges, made)]
        self.assertLess(max(sizes), 2 * sum(sizes) / len(sizes))

    def test_too_many(self) -> None:
        """A slip is refused before anything is made of it."""
        huge = Range(1, "a", 0, PARTITIONS_MAX + 1, 100)
        options = replace(self.base, partition_records_max=1)
        self.assertIn("fewer", str(self.assertRaises(OptionError, partitions, self.storage, [huge], options)))


def _ranges(partition: Partition) -> tuple[Range, ...]:
    return partition.ranges


class TriggerTests(PlanCase):
    def waiting(self) -> dict[str, Range]:
        return {each.topic: each for each in self.all()}

    def test_records(self) -> None:
        """All topics go on by the same share, and all together by the limit."""
        for most in (1, 2, 5, 100, 407, 408, 1000):
            cut = by_records(self.waiting(), most)
            self.assertEqual(sum(each.records for each in cut.values()), min(most, 408))
            for name, each in cut.items():
                self.assertEqual(each.first, self.waiting()[name].first)
                share = self.waiting()[name].records * min(most, 408) / 408
                self.assertLessEqual(abs(each.records - share), 1)

    def test_records_to_the_end(self) -> None:
        """Trigger after trigger, everything comes to its end."""
        left = self.waiting()
        turns = 0
        while left:
            cut = by_records(left, 10)
            left = {name: each._replace(first=cut[name].end) for name, each in left.items()}
            left = {name: each for name, each in left.items() if each.records}
            turns += 1
        self.assertEqual(turns, 41)

    def test_bytes(self) -> None:
        """About so many bytes, and never nothing: a query always goes on."""
        large = {"large": range_of(self.info("large"), 0, 400)}
        whole = large["large"].bytes
        self.assertEqual(by_bytes(self.storage, large, whole), large)
        for most in (1, 10, whole // 50, whole // 3, whole - 1):
            (cut,) = by_bytes(self.storage, large, most).values()
            self.assertTrue(0 < cut.records < 400, cut)
            read = sum(run.batch.size + 8 * run.batch.count for run in self.storage.read(cut.id, cut.first, cut.end))
            self.assertLess(read, most + 8192)

    def test_patience(self) -> None:
        """Too little waits for more, but not for ever; what was waited for counts anew."""
        patience = Patience(10, 60.0)
        self.assertTrue(patience.is_enough(0, 5.0))
        self.assertFalse(patience.is_enough(9, 10.0))
        self.assertFalse(patience.is_enough(9, 69.9))
        self.assertTrue(patience.is_enough(9, 70.0))
        self.assertFalse(patience.is_enough(1, 71.0))
        self.assertTrue(patience.is_enough(10, 72.0))
        self.assertFalse(patience.is_enough(1, 140.0))


class FilterTests(PlanCase):
    """What filters leave to read: all that they let through, and little else."""

    def left(self, *filters: Filter) -> list[tuple[str, int, int]]:
        bounds = Bounds()
        bounds.narrow(filters)
        ranges = batch_ranges(self.storage, self.base, bounds, Losses("fail"))
        return [(each.topic, each.first, each.end) for each in ranges]

    def test_topics(self) -> None:
        """By name, by several names, by how a name begins; all of them together."""
        small = [("small", 0, 7)]
        self.assertEqual(self.left(EqualTo(("topic",), "small")), small)
        self.assertEqual(self.left(In(("topic",), ("one", "small", "none"))), [("one", 0, 1), *small])
        self.assertEqual(self.left(StringStartsWith(("topic",), "s")), small)
        self.assertEqual(self.left(In(("topic",), ("one", "small")), StringStartsWith(("topic",), "s")), small)
        self.assertEqual(self.left(EqualTo(("topic",), "one"), EqualTo(("topic",), "small")), [])

    def test_offsets(self) -> None:
        """From, to, just this one."""
        here = EqualTo(("topic",), "small")
        for filter, first, end in (
            (GreaterThan(("offset",), 2), 3, 7),
            (GreaterThanOrEqual(("offset",), 2), 2, 7),
            (LessThan(("offset",), 2), 0, 2),
            (LessThanOrEqual(("offset",), 2), 0, 3),
            (EqualTo(("offset",), 2), 2, 3),
            (In(("offset",), (5, 2, 3)), 2, 6),
            (GreaterThan(("offset",), -1), 0, 7),
            (LessThan(("offset",), 1 << 62), 0, 7),
        ):
            self.assertEqual(self.left(here, filter), [("small", first, end)], filter)
        self.assertEqual(self.left(here, GreaterThan(("offset",), 6)), [])
        self.assertEqual(self.left(here, LessThan(("offset",), -5)), [])

    def test_times(self) -> None:
        """To the record, since times never go back in a topic."""
        info = self.info("large")
        times = [run.timestamp for run in self.storage.read(info.id, 0, 400) for _ in range(run.batch.count)]
        here = EqualTo(("topic",), "large")
        for at in (0, 3, 200, 399):
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=times[at])
            for kind, lets in (
                (GreaterThan, lambda time, at=at: time > times[at]),
                (GreaterThanOrEqual, lambda time, at=at: time >= times[at]),
                (LessThan, lambda time, at=at: time < times[at]),
                (LessThanOrEqual, lambda time, at=at: time <= times[at]),
                (EqualTo, lambda time, at=at: time == times[at]),
            ):
                numbers = [number for number, time in enumerate(times) if lets(time)]
                wanted = [("large", numbers[0], numbers[-1] + 1)] if numbers else []
                self.assertEqual(self.left(here, kind(("timestamp",), moment)), wanted, (kind, at))

    def test_others(self) -> None:
        """What is not understood leaves everything to Spark."""
        whole = self.left()
        for filter in (
            EqualNullSafe(("topic",), "small"),
            Not(EqualTo(("topic",), "small")),
            EqualTo(("value",), b"1"),
            EqualTo(("offset", "inner"), 1),
            EqualTo(("offset",), "1"),
            In(("offset",), ()),
            GreaterThan(("timestamp",), "now"),
        ):
            self.assertEqual(self.left(filter), whole, filter)


class PlaceTests(PlanCase):
    """Offsets of a user, against what is there."""

    def ranges(self, losses: Losses | None = None, **options: str) -> list[tuple[str, int, int]]:
        chosen = read_options({"path": DIRECTORY, **options}, 0, stream=False)
        found = batch_ranges(self.storage, chosen, Bounds(), losses or Losses("fail"))
        return [(each.topic, each.first, each.end) for each in found]

    def test_places(self) -> None:
        """Numbers, words, and the order in which topics were named."""
        self.assertEqual(self.ranges(topics="small,one"), [("small", 0, 7), ("one", 0, 1)])
        self.assertEqual(self.ranges(topic="small", startingOffsets="latest"), [])
        self.assertEqual(self.ranges(topic="small", endingOffsets="earliest"), [])
        some = '{"small": 2}'
        self.assertEqual(self.ranges(topics="small,one", startingOffsets=some), [("small", 2, 7), ("one", 0, 1)])
        self.assertEqual(self.ranges(topics="small,one", endingOffsets=some), [("small", 0, 2), ("one", 0, 1)])

    def test_refused(self) -> None:
        """What is not there is named."""
        for wanted, options in (
            ("did you mean 'small'?", {"topic": "smal"}),
            ("its next offset is 7", {"topic": "small", "startingOffsets": '{"small": 8}'}),
            ("its next offset is 7", {"topic": "small", "endingOffsets": '{"small": 8}'}),
            ("is behind", {"topic": "small", "startingOffsets": '{"small": 5}', "endingOffsets": '{"small": 4}'}),
            ("no topic that is read", {"topicPattern": "s.*", "startingOffsets": '{"one": 0}'}),
        ):
            self.assertIn(wanted, str(self.assertRaises(OptionError, self.ranges, **options)))

    def test_gone(self) -> None:
        """What was truncated is an error that names it, or is counted; filters that leave it out do not miss it."""
        self.do(self.store.truncate, self.store.find("small"), 4)
        self.storage.refresh()
        options = {"topic": "small", "startingOffsets": '{"small": 1}'}
        self.assertIn("offsets 1 to 3 of topic 'small'", str(self.assertRaises(DataLost, self.ranges, **options)))
        for more, left, told in (({}, [("small", 4, 7)], "1 to 3"), ({"endingOffsets": '{"small": 3}'}, [], "1 to 2")):
            losses = Losses("skip")
            with self.assertLogs("streamd.spark") as logged:
                self.assertEqual(self.ranges(losses, **options, **more), left)
            self.assertEqual(losses.records, 3 if left else 2)
            self.assertIn(f"offsets {told} are gone", logged.output[0])
        self.assertEqual(self.ranges(topic="small"), [("small", 4, 7)])
        bounds = Bounds()
        bounds.narrow([GreaterThan(("offset",), 3)])
        chosen = read_options({"path": DIRECTORY, **options}, 0, stream=False)
        self.assertEqual(len(batch_ranges(self.storage, chosen, bounds, Losses("fail"))), 1)
