"""Retention: rules on names, limits on bytes, records and age, idle segments; never more than the rule says."""

from __future__ import annotations

from collections.abc import Callable

from streamd.metrics import LoopCounts
from streamd.settings import RetentionRule
from streamd.store import NoSuchSegment, Segment
from streamd.store.retention import Retention
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import Compactor

SECOND = 1_000_000


class RetentionTests(StoreCase):
    """What one sweep leaves."""

    def retention(self, *rules: RetentionRule, hidden_seconds_max: float = 0, interval: float = 10) -> Retention:
        """Retention by these rules, with the clock of the test and the time of the writer."""
        return Retention(
            self.store,
            rules,
            interval_seconds=interval,
            hidden_seconds_max=hidden_seconds_max,
            clock=self.clock,
            now=lambda: self.writer.now / SECOND,
        )

    def sweep(self, *rules: RetentionRule, hidden_seconds_max: float = 0) -> None:
        """Sweep once."""
        self.run_to_end(self.retention(*rules, hidden_seconds_max=hidden_seconds_max))

    def run_to_end(self, retention: Retention) -> None:
        """Let a sweep come to its end."""
        swept = retention.sweep()
        for _ in range(100):
            self.clock.advance(0)
            self.writer.run()
        self.successResultOf(swept)

    def fill(self, name: str, records: int, size: int = 12) -> Segment:
        """A segment with records of equal size, a second between them."""
        (segment,) = self.create(name)
        for number in range(records):
            self.writer.now += SECOND
            self.append(segment, b"%02d" % (number % 100) * (size // 2))
        return segment

    def test_records(self) -> None:
        """By number: just so many stay."""
        segment = self.fill("a", 20)
        self.sweep(RetentionRule(records_max=5))
        self.assertEqual((segment.first_number, segment.number), (15, 20))
        self.sweep(RetentionRule(records_max=5))
        self.assertEqual(segment.first_number, 15)

    def test_bytes(self) -> None:
        """By bytes, as offsets count them: at least so many stay, and less than one record more."""
        segment = self.fill("a", 20)  # 20 bytes each, with the 8 of their header
        for limit in (399, 100, 99, 41, 40, 1):
            self.sweep(RetentionRule(bytes_max=limit))
            kept = segment.offset - segment.first_offset
            self.assertTrue(limit <= kept < limit + 20, f"{limit}: {kept}")

    def test_age(self) -> None:
        """By age: nothing younger goes."""
        segment = self.fill("a", 20)
        self.sweep(RetentionRule(age_seconds_max=4.5))
        self.assertEqual(segment.number - segment.first_number, 5)
        self.writer.now += 100 * SECOND
        self.sweep(RetentionRule(age_seconds_max=4.5))
        self.assertEqual(segment.first_number, 20)

    def test_age_in_packs(self) -> None:
        """In packs it goes block by block: what is younger stays, with what is in a block with it."""
        segment = self.fill("a", 10, 300_000)
        self.reopen()
        Compactor(self.disk, self.store).fold()
        segment = self.store.find("a")
        self.writer.now = segment.modified
        self.sweep(RetentionRule(age_seconds_max=4.5))
        self.assertEqual(segment.first_number, 5)

    def test_all_limits(self) -> None:
        """Each limit of a rule counts: the one that keeps least decides."""
        segment = self.fill("a", 20)
        self.sweep(RetentionRule(records_max=10, bytes_max=100, age_seconds_max=7.5))
        self.assertEqual(segment.first_number, 15)

    def test_idle(self) -> None:
        """A segment that nobody wrote to for so long is deleted; one that was written to is not."""
        self.fill("idle", 3)
        self.writer.now += 10 * SECOND
        self.fill("busy", 3)
        self.sweep(RetentionRule(idle_seconds_max=8))
        self.assertEqual(self.store.names(), ["busy"])
        self.kill()
        self.assertEqual(self.store.names(), ["busy"])

    def test_first_rule(self) -> None:
        """The first rule that fits a name counts; without one nothing goes."""
        names = ["log/a", "log/b", "other"]
        for name in names:
            self.fill(name, 9)
        self.sweep(RetentionRule("log/a", records_max=7), RetentionRule("log/*", records_max=2))
        self.assertEqual([self.store.find(name).first_number for name in names], [2, 7, 0])

    def test_hidden(self) -> None:
        """Abandoned hidden segments go by age, whatever they are called; rules are not for them."""
        hidden = self.do(self.store.create, "h", hidden=True)
        self.append(hidden, *[b"x"] * 9)
        self.sweep(RetentionRule(records_max=1), hidden_seconds_max=5)
        self.assertEqual((hidden.first_number, self.store.hidden_segments()), (0, [hidden]))
        self.writer.now += 6 * SECOND
        self.sweep(hidden_seconds_max=5)
        self.assertEqual(self.store.hidden_segments(), [])

    def test_archived_only(self) -> None:
        """What is not archived stays, whatever the limit; a segment that was never archived keeps everything."""
        segment = self.fill("a", 20)
        rule = RetentionRule(records_max=5, bytes_max=1, age_seconds_max=0.5, archived_only=True)
        for position, expected in ((None, 0), (0, 0), (7, 7), (7, 7), (12, 12), (20, 19)):
            if position is not None:
                self.do(self.store.set_group, segment, "archive", position)
            self.writer.now = segment.modified
            self.sweep(rule)
            self.assertEqual(segment.first_number, expected, position)

    def test_archived_by_another(self) -> None:
        """The group that counts is the one that the rule names."""
        segment = self.fill("a", 20)
        self.do(self.store.set_group, segment, "archive", 9)
        self.do(self.store.set_group, segment, "cold", 4)
        self.sweep(RetentionRule(records_max=5, archived_only=True, archive_group="cold"))
        self.assertEqual(segment.first_number, 4)

    def test_archived_and_idle(self) -> None:
        """An idle segment is deleted only when all of it is archived."""
        segment = self.fill("a", 3)
        rule = RetentionRule(idle_seconds_max=8, archived_only=True)
        for position, names in ((2, ["a"]), (3, [])):
            self.do(self.store.set_group, segment, "archive", position)
            self.writer.now += 10 * SECOND
            self.sweep(rule)
            self.assertEqual(self.store.names(), names)

    def test_replayed(self) -> None:
        """What went is gone after a restart, whatever time it is then."""
        self.fill("a", 20)
        self.sweep(RetentionRule(age_seconds_max=4.5))
        self.writer.now = 0
        self.kill()
        self.assertEqual(self.store.find("a").first_number, 15)

    def test_deleted_under_it(self) -> None:
        """A segment that is deleted while it is looked at disturbs nobody."""
        a, b = self.fill("a", 9), self.fill("b", 9)
        retention = self.retention(RetentionRule(bytes_max=50))
        swept = retention.sweep()
        deleted = self.store.delete(a)
        for _ in range(20):
            self.clock.advance(0)
            self.writer.run()
        self.successResultOf(swept)
        self.successResultOf(deleted)
        self.refuses(NoSuchSegment, self.store.truncate, a, 1)
        self.assertEqual(b.number - b.first_number, 3)

    def test_again_and_again(self) -> None:
        """It looks each interval, until it is stopped."""
        segment = self.fill("a", 9)
        retention = self.retention(RetentionRule(records_max=3), interval=10)
        retention.start()
        for expected in (0, 6):
            self.assertEqual(segment.first_number, expected)
            self.clock.advance(10)
            self.clock.advance(0)
            self.writer.run()
        self.append(segment, b"more")
        for _ in range(3):
            self.clock.advance(5)
            self.writer.run()
        self.assertEqual(segment.first_number, 7)
        retention.stop()
        self.append(segment, b"more")
        self.clock.advance(100)
        self.assertEqual(len(self.writer), 0)
        self.assertEqual(segment.first_number, 7)

    def test_goes_on(self) -> None:
        """A sweep that fails for a reason nobody foresaw is counted, and the next one comes."""
        segment = self.fill("a", 9)
        clocks: list[Callable[[], float]] = [lambda: 1.0, lambda: 1 // 0, lambda: 1 // 0]
        counted = LoopCounts()
        retention = Retention(
            self.store,
            [RetentionRule(records_max=3)],
            interval_seconds=10,
            hidden_seconds_max=0,
            clock=self.clock,
            now=lambda: (clocks.pop(0) if clocks else lambda: 1.0)(),
            loops=counted,
        )
        retention.start()
        for _ in range(3):
            self.assertEqual(segment.first_number, 0)
            self.clock.advance(10)
            self.clock.advance(0)
            self.writer.run()
        self.assertEqual(segment.first_number, 6)
        self.assertEqual(counted.failures["retention"], 2)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        retention.stop()

    def test_one_segment_fails(self) -> None:
        """What goes wrong with one segment, at each sweep, costs the others nothing."""
        segments = [self.fill(name, 9) for name in "abc"]
        segments[1].groups = {"archive": object()}  # type: ignore[dict-item]  # what no code expects
        rules = (RetentionRule("b", records_max=3, archived_only=True), RetentionRule(records_max=3))
        retention = self.retention(*rules, interval=10)
        retention.start()
        for number in range(4):
            self.append(segments[0], b"more")
            self.append(segments[2], b"more")
            self.clock.advance(10)
            for _ in range(20):
                self.clock.advance(0)
                self.writer.run()
            self.assertEqual([each.first_number for each in segments], [7 + number, 0, 7 + number])
        self.assertEqual(len(self.flushLoggedErrors(AttributeError)), 1)
        retention.stop()
