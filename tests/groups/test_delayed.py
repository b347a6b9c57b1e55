"""Delayed messages: none before its time, all in the order of their time, each once, also over crashes."""

from __future__ import annotations

import random

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.connections.load import Load
from streamd.groups.delayed import WIDTHS, Delayed, span_for, span_of
from streamd.settings import Limits
from streamd.store import LevelMismatch, Segment, SegmentSealed
from tests.rigs.store.case import StoreCase

BEGIN = 1_787_533_380.5
WRITER = b"w" * 16


class DelayedCase(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        self.create("t", "other")
        self.begin()

    def begin(self) -> None:
        """What a new process knows."""
        self.target: Segment = self.store.find("t")
        self.delayed = Delayed(Core(self.store, Limits(), Load(Limits()), self.clock, 0.0), self.now)
        self.delayed.start()

    def now(self) -> float:
        return BEGIN + self.clock.seconds()

    def restart(self) -> None:
        """The process dies, and another one begins with what is on the disk."""
        self.delayed.stop()
        self.kill()
        self.begin()

    def put(self, seconds: float, *messages: bytes, target: Segment | None = None) -> None:
        """Messages for later."""
        due = int((self.now() + seconds) * 1e6)
        self.do(self.delayed.put, target or self.target, Batch.of(messages), due)

    def pass_time(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass, and what it leads to come to the disk."""
        while seconds > 0:
            self.clock.advance(min(step, seconds))
            seconds -= step
            for _ in range(30):
                self.writer.run()
                self.clock.advance(0)


class TimeTests(DelayedCase):
    def test_order_and_time(self) -> None:
        """Messages for any time within minutes come at it, in its order, whatever order they were put in."""
        seconds = [random.Random(7).uniform(0.01, 200) for _ in range(60)]
        for each in seconds:
            self.put(each, b"%.3f" % each)
        for until in range(0, 201, 10):
            expected = [b"%.3f" % each for each in sorted(seconds) if each <= until]
            self.assertEqual(self.records("t"), expected)
            self.assertEqual(self.delayed.waiting, 60 - len(expected))
            self.pass_time(10)
        self.pass_time(10)
        self.assertEqual(len(self.records("t")), 60)
        self.pass_time(120, step=10)
        self.assertEqual(self.store.hidden_segments(), [], "nothing is left of what was published")

    def test_far(self) -> None:
        """What is due in days is moved to finer spans as its time comes, and comes at it."""
        far = 3 * 86400 + 0.25
        self.put(far, b"far")
        self.put(far + 1, b"farther")
        self.pass_time(far - 1, step=300)
        self.assertEqual(self.records("t"), [])
        self.pass_time(1.5, step=0.25)
        self.assertEqual(self.records("t"), [b"far"])
        self.pass_time(2)
        self.assertEqual(self.records("t"), [b"far", b"farther"])

    def test_at_once(self) -> None:
        """What is due already is published now."""
        self.put(0, b"now")
        self.put(-5, b"before")
        self.assertEqual(self.records("t"), [b"now", b"before"])

    def test_crashes(self) -> None:
        """A crash at any time loses nothing and repeats nothing."""
        for number in range(40):
            self.put(number * 1.7 + 0.3, b"%d" % number, target=self.store.find("t" if number % 2 else "other"))
        for _ in range(30):
            self.pass_time(2.5)
            self.restart()
        self.pass_time(5)
        self.assertEqual(self.records("t"), [b"%d" % number for number in range(40) if number % 2])
        self.assertEqual(self.records("other"), [b"%d" % number for number in range(40) if not number % 2])
        self.assertEqual(self.delayed.waiting, 0)

    def test_writer(self) -> None:
        """They count for the level of their writer at once: what is sent again is kept once."""
        due = int((self.now() + 5) * 1e6)
        batch = Batch.of([b"a", b"b"])
        place = self.do(self.delayed.put, self.target, batch, due, writer=WRITER, expected=0, level=2)
        self.assertFalse(place.duplicate)
        self.assertTrue(self.do(self.delayed.put, self.target, batch, due, writer=WRITER, level=2).duplicate)
        self.refuses(LevelMismatch, self.delayed.put, self.target, batch, due, writer=WRITER, expected=7, level=9)
        self.pass_time(6)
        self.assertEqual(self.records("t"), [b"a", b"b"])

    def test_gone(self) -> None:
        """A topic that is sealed takes none; messages for one that is deleted meanwhile are dropped, and told of."""
        self.put(2, b"x", target=self.store.find("other"))
        self.put(2, b"y")
        self.do(self.store.delete, self.store.find("other"))
        self.pass_time(4)
        self.assertEqual(self.records("t"), [b"y"])
        self.assertEqual(self.delayed.waiting, 0)
        self.do(self.store.seal, self.target)
        self.refuses(SegmentSealed, self.delayed.put, self.target, Batch.of([b"z"]), int((self.now() + 5) * 1e6))


class SpanTests(StoreCase):
    def test_spans(self) -> None:
        """A message's span holds its time, is the finest that is near, and is known by its name."""
        for seconds in (0.1, 5, 63, 70, 3600, 3900, 64 * 3600, 10 * 86400, 1000 * 86400):
            span = span_for(BEGIN + seconds, BEGIN)
            self.assertTrue(span.begin <= BEGIN + seconds < span.begin + span.width)
            self.assertEqual(span_of(span.name), span)
            finer = WIDTHS[: WIDTHS.index(span.width)]
            self.assertTrue(all(seconds > 63 * width for width in finer), (seconds, span))
        for name in ("delayed/", "delayed/2/3", "delayed/1/x", "fujin/1/1"):
            self.assertIsNone(span_of(name))
