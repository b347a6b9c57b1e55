"""A store that is planned over without Spark."""

from __future__ import annotations

from random import Random

from streamd.spark.options import read_options
from streamd.spark.read.filters import Bounds
from streamd.spark.read.path import PathStorage
from streamd.spark.read.places import Losses, Range, batch_ranges
from streamd.store.reading.outside import SegmentInfo
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import DIRECTORY, SMALL, Compactor


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
