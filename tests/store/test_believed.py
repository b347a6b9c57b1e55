"""A clock that is set ahead, and back: timestamps keep their order, nothing goes too early, and nothing stays for ever.

The clock of these tests and the time that really passes are two things.
"""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.settings import RetentionRule
from streamd.store import Segment
from streamd.store.believed import BelievedClock, next_timestamp
from streamd.store.retention import Retention
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import Compactor, result_of

SECOND = 1_000_000
HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
SLACK = 0.03
"""Retention looks for old records again when more than so much of their age has gone by."""


class NextTests(SynchronousTestCase):
    """One timestamp after the other."""

    def test_any_clock(self) -> None:
        """Whatever the clock does, timestamps never go back, and are those of the clock where that is not behind."""
        rng = Random(1)
        for _ in range(200):
            last, now, passed = 0, rng.randrange(1 << 50), 0
            begin = furthest = now
            for _ in range(50):
                elapsed = rng.choice((0, 1, 5, SECOND))
                passed += elapsed
                step = rng.choice((0, 0, SECOND, -SECOND, HOUR * SECOND, -HOUR * SECOND, YEAR * SECOND, -YEAR * SECOND))
                now = max(now + elapsed + step, 0)
                given = next_timestamp(last, elapsed, now)
                self.assertGreaterEqual(given, max(last, now))
                if now >= last:
                    self.assertEqual(given, now)
                # It is no further ahead than the clock once was, and than time has gone on since.
                furthest = max(furthest, now)
                self.assertLessEqual(given, furthest + passed)
                last = given
            self.assertGreaterEqual(furthest, begin)

    def test_catches_up(self) -> None:
        """A clock that was set back catches up with the store's time, in eight times what it was ahead or less."""
        for step in (1, 60, HOUR, DAY):
            now, seconds, more = YEAR * SECOND, 0, max(step // 100, 1)
            last = now + step * SECOND
            while last > now:
                seconds += more
                now += more * SECOND
                last = next_timestamp(last, more * SECOND, now)
            self.assertLessEqual(seconds, 8 * step + step // 10 + 2)


class ClockCase(StoreCase):
    """A store, its retention, a clock that can be set, and time that goes on."""

    def setUp(self) -> None:
        self.passed = 0.0
        super().setUp()
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)
        self.writer.now = 50 * YEAR * SECOND
        self.segment, self.other = self.create("a", "b")

    def said(self) -> list[str]:
        """What was logged of the clock."""
        texts = [str(event["log_format"]).format(**event) for event in self.events if event.get("log_format")]
        return [text for text in texts if "the clock" in text]

    def later(self, seconds: float) -> None:
        """Time goes on, and the clock with it."""
        self.passed += seconds
        self.clock.advance(seconds)
        self.writer.now += int(seconds * SECOND)
        self.writer.passed += int(seconds * SECOND)

    def set_clock(self, seconds: float) -> None:
        """Somebody sets the clock, ahead or back."""
        self.writer.now += int(seconds * SECOND)

    def retention(self, **rule: float) -> Retention:
        """Retention as the daemon has it."""
        hidden_seconds_max = rule.pop("hidden_seconds_max", 0)
        clock = BelievedClock(lambda: self.store.timestamp, lambda: self.writer.now / SECOND, lambda: self.passed)
        return Retention(
            self.store,
            [RetentionRule(pattern="a", **rule)],  # type: ignore[arg-type]
            interval_seconds=10,
            hidden_seconds_max=hidden_seconds_max,
            clock=self.clock,
            now=clock,
        )

    def sweep(self, retention: Retention) -> None:
        """Let it look at all segments once."""
        swept = retention.sweep()
        for _ in range(50):
            self.clock.advance(0)
            self.writer.run()
        self.successResultOf(swept)

    def wrong_for_a_moment(self, step: float, segment: Segment | None = None) -> None:
        """The clock is set ahead, something is stored, and it is set back."""
        self.set_clock(step)
        self.append(segment or self.segment, b"stored while the clock was wrong")
        self.set_clock(-step)


class OrderTests(ClockCase):
    """Timestamps, and what is read by them."""

    def test_order(self) -> None:
        """Each record is found by its time, also over restarts and folds, and never one that is too late."""
        times = []
        for step in (0, HOUR, 0, 0, 10 * YEAR, 0, DAY, 0):
            self.wrong_for_a_moment(step)
            for _ in range(3):
                self.later(60)
                self.append(self.segment, b"x" * 100)
            self.kill()
            self.segment = self.store.find("a")
        Compactor(self.disk, self.store).fold()
        for run in self.runs("a"):
            times += [run.timestamp] * run.batch.count
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[-1], self.writer.now)
        self.assertGreater(len(set(times)), len(times) // 2, "time goes on while the clock is behind")
        for number, timestamp in enumerate(times):
            self.assertLessEqual(result_of(self.store.number_at(self.segment, timestamp)), number)


class RetentionTests(ClockCase):
    """What is dropped for its age, and when."""

    def test_nothing_early(self) -> None:
        """A clock that goes ahead for less than an hour drops nothing: no record, no segment, no hidden one."""
        retention = self.retention(age_seconds_max=DAY, idle_seconds_max=DAY, hidden_seconds_max=DAY)
        hidden = self.do(self.store.create, "h", hidden=True)
        for step in (2 * DAY, 10 * YEAR):
            self.later(60)
            self.append(self.segment, b"here")
            self.sweep(retention)
            self.set_clock(step)
            for _ in range(50):
                self.sweep(retention)
                self.later(60)
            self.append(self.segment, b"stored while the clock is wrong")
            self.sweep(retention)
            self.set_clock(-step)
            self.sweep(retention)
            self.assertEqual(self.segment.first_number, 0)
            self.assertEqual(self.store.hidden_segments(), [hidden])
        self.assertEqual(self.store.names(), ["a", "b"])
        said = self.said()
        self.assertEqual(len([text for text in said if "has gone ahead by" in text]), 2, said)
        self.assertEqual(len([text for text in said if "is back" in text]), 2, said)

    def test_believed(self) -> None:
        """A clock that stays there is right: what is too old by it goes, an hour later than it would have."""
        retention = self.retention(age_seconds_max=DAY)
        self.append(self.segment, b"here")
        self.sweep(retention)
        self.set_clock(2 * DAY)
        self.append(self.segment, b"stored when the clock was right")
        for _ in range(59):
            self.sweep(retention)
            self.later(60)
        self.assertEqual(self.segment.first_number, 0)
        self.later(SLACK * DAY)
        self.sweep(retention)
        self.assertEqual(self.segment.first_number, 1)
        self.assertEqual(len(self.said()), 2)

    def test_small_steps(self) -> None:
        """A clock that is adjusted a little is believed at once, and nothing is said."""
        retention = self.retention(age_seconds_max=60)
        self.append(self.segment, b"here")
        for step in (30, -20, 45):
            self.sweep(retention)
            self.set_clock(step)
            self.later(10)
        self.later(60)
        self.sweep(retention)
        self.assertEqual(self.segment.first_number, 1)
        self.assertEqual(self.said(), [])

    def test_nothing_for_ever(self) -> None:
        """What was stored with a time that is yet to come is dropped when it is that old, and not an eighth later."""
        for age in (HOUR, 7 * DAY):
            self.wrong_for_a_moment(10 * YEAR)
            number = self.segment.number
            retention = self.retention(age_seconds_max=age)
            for _ in range(9):
                self.later(age / 10)
                self.append(self.other, b"something else goes on")
                self.sweep(retention)
                self.assertLess(self.segment.first_number, number)
            self.later(age * 0.26)
            self.append(self.segment, b"young")
            self.sweep(retention)
            self.assertEqual((self.segment.first_number, self.segment.number), (number, number + 1))

    def test_before_it(self) -> None:
        """What was stored before the clock went wrong goes by its own time, however far ahead the store's time is."""
        self.append(self.segment, b"before")
        self.later(HOUR)
        self.wrong_for_a_moment(10 * YEAR)
        retention = self.retention(age_seconds_max=2 * HOUR)
        self.later(HOUR - 60)
        self.sweep(retention)
        self.assertEqual(self.segment.first_number, 0)
        self.later(60 + SLACK * 2 * HOUR)
        self.sweep(retention)
        self.assertEqual(self.segment.first_number, 1)

    def test_idle(self) -> None:
        """A segment that was written to with a time that is yet to come is idle after its time, not after years."""
        self.wrong_for_a_moment(10 * YEAR)
        self.wrong_for_a_moment(10 * YEAR, self.do(self.store.create, "h", hidden=True))
        retention = self.retention(idle_seconds_max=DAY, hidden_seconds_max=DAY)
        retention._since = -YEAR
        self.sweep(retention)
        self.later(DAY * 0.9)
        self.sweep(retention)
        self.assertEqual((self.store.names(), len(self.store.hidden_segments())), (["a", "b"], 1))
        self.later(DAY * 0.3)
        self.sweep(retention)
        self.assertEqual((self.store.names(), self.store.hidden_segments()), (["b"], []))

    def test_start(self) -> None:
        """A clock that is far ahead at the start is not believed for an hour; after a night's rest it is."""
        for down, waits in ((DAY - 60, False), (30 * DAY, True)):
            self.later(YEAR)
            self.append(self.segment, b"here")
            self.set_clock(down)
            number = self.segment.number
            retention = self.retention(age_seconds_max=HOUR)
            self.sweep(retention)
            self.assertEqual(self.segment.first_number < number, waits)
            self.later(HOUR + SLACK * HOUR)
            self.sweep(retention)
            self.assertEqual(self.segment.first_number, number)


class LogTests(ClockCase):
    """What an operator is told."""

    def test_once(self) -> None:
        """That the store's time is ahead is said once, with how much, and once that it is over."""
        retention = self.retention(records_max=100)
        for step in (HOUR, 2 * HOUR):
            del self.events._events[:]
            self.wrong_for_a_moment(step)
            for _ in range(9):
                for _ in range(5):
                    self.append(self.segment, b"x")
                self.sweep(retention)
                self.later(step)
            self.append(self.segment, b"x")
            self.sweep(retention)
            (begun, ended) = self.said()
            self.assertIn(f"the clock is {step} s behind the store's time", begun)
            self.assertIn("has caught up", ended)
