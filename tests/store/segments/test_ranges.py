"""Ranges of numbers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.store.segments.ranges import Acknowledged

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair))), max_size=12)


class RangesTests(SynchronousTestCase):
    """`Acknowledged` is a set of numbers, said with few words."""

    @given(st.lists(st.one_of(RANGES, st.integers(0, 70)), max_size=8))
    @settings(derandomize=True, max_examples=300, deadline=None)
    def test_is_a_set(self, steps: list[list[tuple[int, int]] | int]) -> None:
        """Whatever is acknowledged or skipped, in whatever order, what counts is the set of it."""
        known = Acknowledged(5)
        expected = set(range(5))
        for step in steps:
            if isinstance(step, int):
                known.skip_to(step)
                expected.update(range(step))
            else:
                known.add(step)
                for first, end in step:
                    expected.update(range(first, end))
            self.assertEqual({number for number in range(100) if number in known}, expected)
            self.assertEqual(known.lag(100), 100 - len(expected))
            spots = [known.position, *[edge for pair in known.ranges for edge in pair]]
            self.assertEqual(spots, sorted(set(spots)), "ranges that touch are one")
