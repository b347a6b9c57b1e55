"""Offsets in a checkpoint: they come back as they were, and what is none is refused."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.read.positions import BadCheckpoint, Position, decode, encode

NUMBERS = st.integers(0, (1 << 63) - 1)
POSITIONS = st.dictionaries(st.text(min_size=1), st.builds(Position, NUMBERS, NUMBERS, NUMBERS, NUMBERS))


class PositionTests(SynchronousTestCase):
    @given(POSITIONS)
    def test_same(self, positions: dict[str, Position]) -> None:
        """What was written is read, and writing that again gives the same text, by which Spark compares."""
        text = json.dumps(encode(positions))
        again = decode(json.loads(text))
        self.assertEqual(again, positions)
        self.assertEqual(json.dumps(encode(again)), text)

    def test_as_documented(self) -> None:
        """The text of version 1: checkpoints of users have it."""
        offset = {"version": 1, "topics": {"orders": {"id": 17, "first": 0, "next": 4200, "lost": 3}}}
        self.assertEqual(decode(offset), {"orders": Position(17, 0, 4200, 3)})
        self.assertEqual(encode(decode(offset)), offset)

    def test_refused(self) -> None:
        """Another version, or the checkpoint of another source."""
        self.assertIn("version 2", str(self.assertRaises(BadCheckpoint, decode, {"version": 2, "topics": {}})))
        self.assertRaises(BadCheckpoint, decode, {"orders": {"0": 23}})
        for topics in (None, {"a": 5}, {"a": {"id": 1}}, {"a": {"id": 1, "first": 0, "next": 1, "lost": 0, "more": 1}}):
            self.assertRaises(BadCheckpoint, decode, {"version": 1, "topics": topics})
        self.assertRaises(BadCheckpoint, decode, {"version": 1})
