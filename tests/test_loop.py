"""Periodic jobs: a call that fails is logged and counted, and the next one comes all the same."""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.loop import Loop
from streamd.metrics import LOOPS, LoopCounts
from tests.rigs.daemon import CHECKOUT


class LoopTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.counted = LoopCounts()
        self.calls = 0
        self.error: Exception | None = None
        self.loop = Loop("retention", self.call, self.clock, self.counted)
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)

    def call(self) -> Any:
        self.calls += 1
        if self.error is not None:
            raise self.error

    def said(self) -> list[str]:
        """The lines of the log, as far as they are a loop's."""
        return [event["log_format"].partition(",")[0] for event in self.events if "loop" in event]

    def test_goes_on(self) -> None:
        """Whatever it raises, it is called again after each interval, and every failure is counted by its name."""
        self.error = ValueError("once")
        self.loop.start(10)
        self.assertEqual(self.calls, 1)
        for error in (OSError(5, "no disk"), ZeroDivisionError(), None, KeyError("x")):
            self.error = error
            self.clock.advance(10)
        self.assertEqual(self.calls, 5)
        self.assertEqual(+self.counted.failures, {"retention": 4})
        self.assertTrue(self.loop.running)
        self.assertEqual(len(self.flushLoggedErrors(ValueError, ZeroDivisionError, KeyError)), 3)

    def test_deferred(self) -> None:
        """A Deferred that fails is a failure too, and while one is waited for there is no other call."""
        waiting: list[Deferred[None]] = []

        def call() -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        loop = Loop("retention", call, self.clock, self.counted)
        loop.start(1)
        self.clock.advance(5)
        self.assertEqual(len(waiting), 1)
        waiting[0].errback(ValueError())
        self.clock.advance(1)
        self.assertEqual(len(waiting), 2)
        self.assertEqual(self.counted.failures["retention"], 1)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_said_once(self) -> None:
        """The same failure again and again is one line, and its end is another, with how often it was."""
        self.error = OSError(5, "no disk")
        self.loop.start(1)
        self.clock.pump([1.0] * 99)
        self.assertEqual(self.said(), ["{loop} failed"])
        self.error = OSError(28, "no room")
        self.clock.pump([1.0] * 10)
        self.assertEqual(self.said(), ["{loop} failed"] * 2)
        self.error = None
        self.clock.pump([1.0] * 10)
        self.assertEqual(self.said(), ["{loop} failed"] * 2 + ["{loop} works again"])
        self.assertEqual(self.events[-1]["count"], 110)
        self.error = OSError(28, "no room")
        self.clock.pump([1.0] * 10)
        self.assertEqual(self.said().count("{loop} failed"), 3)

    def test_part(self) -> None:
        """A part of a call that failed counts, and the loop does not work again before a call without one."""
        parts = iter((True, True, False))

        def call() -> None:
            if next(parts):
                fail(OSError("this part")).addErrback(loop.failed)

        loop = Loop("retention", call, self.clock, self.counted)
        loop.start(1)
        self.clock.advance(1)
        self.assertEqual(self.said(), ["{loop} failed"])
        self.clock.advance(1)
        self.assertEqual(self.said(), ["{loop} failed", "{loop} works again"])
        self.assertEqual(self.counted.failures["retention"], 2)

    def test_stop(self) -> None:
        """Once stopped it is not called, also where its last call failed; to stop it again does nothing."""
        self.error = OSError("x")
        self.loop.start(1)
        self.loop.stop()
        self.loop.stop()
        self.clock.advance(10)
        self.assertEqual(self.calls, 1)
        self.assertFalse(self.loop.running)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class HouseTests(SynchronousTestCase):
    def test_only_this_one(self) -> None:
        """Nothing in streamd loops by Twisted's LoopingCall but this, and each loop has a name that metrics know."""
        names = set()
        for path in (CHECKOUT / "streamd").rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if path.name != "loop.py":
                self.assertNotIn("LoopingCall", text, path)
            names.update(re.findall(r'\bLoop\("(\w+)"', text))
        self.assertEqual(names, set(LOOPS))
