"""Places where a read begins and ends."""

from __future__ import annotations

from pyspark.sql.datasource import (
    GreaterThan,
)

from streamd.spark.options import OptionError, read_options
from streamd.spark.read.filters import Bounds
from streamd.spark.read.places import DataLost, Losses, batch_ranges
from tests.rigs.spark.read import PlanCase
from tests.rigs.store.inline import DIRECTORY


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
