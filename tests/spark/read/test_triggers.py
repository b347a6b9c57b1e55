"""Triggers of streaming reads over a real store: everything once, in order, within their limits."""

from __future__ import annotations

from streamd.spark.read.places import Range, range_of
from streamd.spark.read.triggers import Patience, by_bytes, by_records
from tests.rigs.spark.read import PlanCase


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
