"""How much a writer may have on its way to the disk: what the disk takes in the time of a commit."""

from __future__ import annotations

from streamd.batch import Batch
from streamd.store.commit.pace import Pace
from tests.rigs.store.case import StoreCase

MIB = 1 << 20


class PaceTests(StoreCase):
    """An estimate of the disk's speed."""

    def test_unknown(self) -> None:
        """Nothing is known at first, and small commits say nothing."""
        pace = Pace(0.01)
        pace.took(100, 5.0)
        self.assertGreaterEqual(pace.bytes, 1 << 30)

    def test_follows(self) -> None:
        """It is what a commit of the wanted time would hold, soon after the disk has become slower, or faster."""
        pace = Pace(0.01)
        for speed in (400 * MIB, 100 * MIB, 1600 * MIB):
            for _ in range(30):
                pace.took(4 * MIB, 4 * MIB / speed)
            self.assertApproximates(pace.bytes / (speed * 0.01), 1.0, 0.02)

    def test_one_slow_commit(self) -> None:
        """One commit that took long changes it, but not by much."""
        pace = Pace(0.01)
        pace.took(4 * MIB, 0.01)
        pace.took(4 * MIB, 0.04)
        self.assertGreater(pace.bytes, 2 * MIB)

    def test_bounds(self) -> None:
        """There is a least, however slow the disk; and no time at all is no division by zero."""
        pace = Pace(0.01)
        pace.took(MIB, 3600.0)
        self.assertEqual(pace.bytes, 256 << 10)
        pace = Pace(0.01)
        pace.took(MIB, 0.0)
        self.assertEqual(pace.bytes, 1 << 30)

    def test_store(self) -> None:
        """The store measures its commits, from when they are given to the writer until they are on disk."""
        (segment,) = self.create("a")
        for _ in range(30):
            answer = self.store.append(segment, Batch.of([bytes(MIB - 100)]))
            self.clock.advance(0.02)
            self.writer.run()
            self.assertTrue(answer.called)
        self.assertApproximates(self.store.pace.bytes / (MIB / 2), 1.0, 0.02)
