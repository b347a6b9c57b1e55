"""A turn: what many write is one commit, and when it is on disk all are told before anybody answers."""

from __future__ import annotations

from typing import Any

from streamd.batch import Batch
from tests.rigs.store.case import StoreCase
from tests.rigs.store.inline import result_of


class Writer:
    """Somebody who waits for a commit, and answers at the end of the turn in which it is told."""

    def __init__(self, case: TurnTests, name: str) -> None:
        self.case = case
        self.name = name
        self.next: Writer | None = None

    def callback(self, result: Any) -> None:
        self.case.events.append(f"{self.name} told")
        self.case.store.turn.due.append(self)

    def errback(self, error: Any) -> None:
        self.case.events.append(f"{self.name} refused")
        self.case.store.turn.due.append(self)

    def take_turn(self) -> None:
        self.case.events.append(f"{self.name} answers")
        if self.next is not None:
            self.case.append_for(self.next)


class TurnTests(StoreCase):
    """On a store whose commits are written when the test says so."""

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("a")
        self.events: list[str] = []

    def append_for(self, writer: Writer) -> None:
        self.store.append_for(writer, self.segment, Batch.of([b"x"]))

    def test_one_commit(self) -> None:
        """Nothing is written while a turn lasts; then all of it is, at once. Without a turn the first goes alone."""
        for in_turn, commits in ((True, 1), (False, 2)):
            before = self.store.commits
            if in_turn:
                self.store.turn.begin()
            for name in "abc":
                self.append_for(Writer(self, name))
            self.assertEqual(len(self.writer), 0 if in_turn else 1)
            if in_turn:
                self.store.turn.end()
            self.writer.run()
            self.assertEqual(self.store.commits - before, commits)

    def test_told_before_anybody_answers(self) -> None:
        """Each is told, then each answers, in the same order; what they write meanwhile is one more commit."""
        first, second = Writer(self, "a"), Writer(self, "b")
        first.next, second.next = Writer(self, "c"), Writer(self, "d")
        self.store.turn.begin()
        self.append_for(first)
        self.append_for(second)
        self.store.turn.end()
        self.writer.step()
        self.assertEqual(self.events, ["a told", "b told", "a answers", "b answers"])
        self.assertEqual(len(self.writer), 1)
        self.writer.step()
        self.assertEqual(self.events[4:], ["c told", "d told", "c answers", "d answers"])
        self.assertEqual((len(self.writer), self.segment.number), (0, 4))

    def test_nothing_is_left(self) -> None:
        """A turn in which nothing is written writes nothing; one that waits for nothing new still ends."""
        before = self.store.commits
        self.store.turn.begin()
        self.store.turn.end()
        self.assertEqual((len(self.writer), self.store.commits), (0, before))
        self.store.turn.begin()
        published = self.store.publish([])
        self.store.turn.end()
        self.writer.run()
        self.assertIsNone(result_of(published))
