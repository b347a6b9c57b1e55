"""The backlog of a writer: what is kept, and what is forgotten at which ack level."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from streamd.client.errors import ClientError
from streamd.client.pravega.backlog import Backlog

WRITER = UUID(int=7)
EVENTS = [b"one", b"two", b"three"]


class BacklogTests(SynchronousTestCase):
    def backlog(self, *, replay: bool = True) -> Backlog:
        return Backlog(WRITER, replay=replay)

    def kept(self, backlog: Backlog) -> list[bytes]:
        return [bytes(event) for block in backlog.following(0) for event in block.batch.records()]

    def test_acknowledge(self) -> None:
        """At each ack level where an event ends, also inside a block, the events above it are kept and no others."""
        for blocks in ([EVENTS], [[event] for event in EVENTS]):
            for count, level in enumerate((0, 11, 22, 35)):
                backlog = self.backlog()
                for events in blocks:
                    backlog.add(events)
                backlog.acknowledge(level)
                self.assertEqual((self.kept(backlog), backlog.acknowledged), (EVENTS[count:], level))
                self.assertEqual(backlog.held_bytes > 0, count < len(EVENTS))
                self.assertEqual(backlog.end, 35)

    def test_skips(self) -> None:
        """Events that are stored already are not kept."""
        backlog = self.backlog()
        backlog.resume(22)
        for event in EVENTS:
            backlog.add([event])
        self.assertEqual(self.kept(backlog), [b"three"])

    def test_differs(self) -> None:
        """A level where no event ends is of other events."""
        backlog = self.backlog()
        backlog.add(EVENTS)
        self.assertRaises(ClientError, backlog.acknowledge, 12)

    def test_resume(self) -> None:
        """A new writer begins at the daemon's level; a level that goes back, or is ahead of the writer, is refused."""
        backlog = self.backlog(replay=False)
        self.assertFalse(backlog.is_placed)
        backlog.resume(100)
        self.assertTrue(backlog.is_placed)
        self.assertEqual((backlog.end, backlog.acknowledged), (100, 100))
        self.assertIn("made again", str(self.assertRaises(ClientError, backlog.resume, 99)))
        self.assertIn("another client", str(self.assertRaises(ClientError, backlog.resume, 101)))

    def test_too_large(self) -> None:
        """An event that no block can hold is refused before it is kept."""
        backlog = self.backlog()
        self.assertRaises(ValueError, backlog.add, [bytes(16 << 20)])
        self.assertEqual((backlog.end, backlog.held_bytes), (0, 0))

    def test_following(self) -> None:
        """The blocks from an offset on, for a connection that has sent those before it."""
        backlog = self.backlog()
        for event in EVENTS:
            backlog.add([event])
        self.assertEqual([block.offset for block in backlog.following(11)], [11, 22])
        self.assertEqual(backlog.following(35), [])
