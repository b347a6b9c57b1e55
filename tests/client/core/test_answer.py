"""Answers: resolved once, awaited by any number of commands."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from streamd.client.core.answer import Answer
from streamd.client.drivers.reactor import ReactorDriver


class AnswerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.answer: Answer[int] = Answer(ReactorDriver(Clock()).until)

    async def value(self) -> int:
        return await self.answer

    def test_value(self) -> None:
        """Who waits gets the value, who comes later gets it at once, and it does not change."""
        waiting = [Deferred.fromCoroutine(self.value()) for _ in range(3)]
        for each in waiting:
            self.assertNoResult(each)
        self.answer.resolve(7)
        self.answer.resolve(8)
        self.answer.fail(KeyError())
        waiting.append(Deferred.fromCoroutine(self.value()))
        self.assertEqual([self.successResultOf(each) for each in waiting], [7] * 4)

    def test_error(self) -> None:
        """So with an error."""
        waiting = [Deferred.fromCoroutine(self.value()) for _ in range(3)]
        self.answer.fail(KeyError())
        self.answer.resolve(8)
        for each in [*waiting, Deferred.fromCoroutine(self.value())]:
            self.failureResultOf(each, KeyError)

    def test_when_done(self) -> None:
        """Calls are made when it is done, and at once when it is."""
        calls: list[str] = []
        self.answer.when_done(lambda: calls.append("before"))
        self.assertEqual(calls, [])
        self.answer.resolve(7)
        self.answer.when_done(lambda: calls.append("after"))
        self.assertEqual(calls, ["before", "after"])
