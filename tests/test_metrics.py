"""What is counted: durations by their bounds, and reasons as words."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.metrics import COMMIT_SECONDS, Durations, quantile, reason_of
from streamd.store import NoSuchSegment, RecordsTruncated, StoreError, StoreReadOnly


class DurationsTests(SynchronousTestCase):
    def test_bounds(self) -> None:
        """A duration counts at the first bound that is not below it, and behind all where there is none."""
        durations = Durations((0.1, 1.0))
        for seconds in (0.0, 0.1, 0.2, 1.0, 1.1, 50.0):
            durations.add(seconds)
        self.assertEqual(durations.counts, [2, 2, 2])
        self.assertAlmostEqual(durations.seconds, 52.4)

    def test_ascending(self) -> None:
        """The bounds of commits rise, each by at most five halves: a quantile is never off by more."""
        for one, other in pairwise(COMMIT_SECONDS):
            self.assertLess(one, other)
            self.assertLessEqual(other / one, 2.500001)

    @given(st.lists(st.floats(0, 9), min_size=1), st.sampled_from((0.5, 0.99)))
    def test_quantile(self, seconds: list[float], share: float) -> None:
        """A quantile lies between the two bounds that the right duration lies between."""
        durations = Durations(COMMIT_SECONDS)
        for each in seconds:
            durations.add(each)
        told = quantile(durations.bounds, durations.counts, share)
        assert told is not None
        ordered = sorted(seconds)
        right = next(each for at, each in enumerate(ordered, 1) if at >= len(ordered) * share)
        at = bisect_left(COMMIT_SECONDS, right)
        self.assertLessEqual(told, COMMIT_SECONDS[at] * 1.000001)
        self.assertGreaterEqual(told, COMMIT_SECONDS[at - 1] if at else 0.0)

    def test_quantile_of_nothing(self) -> None:
        """Of no durations there is none; what is above all bounds is told as the last one."""
        self.assertIsNone(quantile((1.0,), [0, 0], 0.5))
        self.assertEqual(quantile((1.0, 2.0), [0, 0, 5], 0.5), 2.0)


class WordTests(SynchronousTestCase):
    def test_words(self) -> None:
        """Each error of the store is one word."""
        self.assertEqual(reason_of(NoSuchSegment("x")), "no_such_segment")
        self.assertEqual(reason_of(StoreReadOnly("x")), "store_read_only")
        self.assertEqual(reason_of(RecordsTruncated(1, 2)), "records_truncated")
        self.assertEqual(reason_of(StoreError("x")), "store_error")
