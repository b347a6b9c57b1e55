"""Partitions and triggers over a real store: everything once, in order, in pieces of the size that was asked for."""

from __future__ import annotations

from dataclasses import replace

from streamd.spark.options import OptionError, ReadOptions
from streamd.spark.read.places import Range, range_of
from streamd.spark.read.plan import PARTITIONS_MAX, Partition, partitions
from tests.rigs.spark.read import PlanCase


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
