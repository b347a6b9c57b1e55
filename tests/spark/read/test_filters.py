"""Filter push-down over a real store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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

from streamd.spark.read.filters import Bounds
from streamd.spark.read.places import Losses, batch_ranges
from tests.rigs.spark.read import PlanCase


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
