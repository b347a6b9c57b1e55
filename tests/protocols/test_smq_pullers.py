"""Who gets which message: many pullers, slow ones, and those that are gone before they have theirs."""

from __future__ import annotations

import random
from typing import Any

from twisted.internet.defer import Deferred

from streamd.store import ReadFailed
from streamd.wire.smq import EMPTY, PUSHED
from tests.rigs.protocols.rig import BUFFER_BYTES, Peer
from tests.rigs.protocols.smq_case import LARGE, SmqCase, frames, text, texts
from tests.rigs.wire.smq import pull


class PullerTests(SmqCase):
    """Many pullers, and none gets what another one has."""

    def test_any_pullers(self) -> None:
        """Pullers that come and go, pulling in runs of any length beside pushers: each message comes once."""
        for seed in range(5):
            chance = random.Random(seed)
            peers = [self.rig.connect() for _ in range(5)]
            pushed = 0
            pulled: list[int] = []
            for _ in range(300):
                peer = chance.choice(peers)
                if chance.random() < 0.4:
                    count = chance.randint(1, 20)
                    self.asks(texts(range(pushed, pushed + count), chance.choice((0, 500))), PUSHED * count, peer)
                    pushed += count
                else:
                    found = frames(peer.send(pull() * chance.randint(1, 15)).take_all())
                    numbers = [int(frame[14:]) for frame in found if frame != EMPTY]
                    self.assertEqual(numbers, sorted(numbers))
                    pulled += numbers
                if chance.random() < 0.05:
                    peer.drop()
                    peers[peers.index(peer)] = self.rig.connect()
            pulled += self.pull_all()
            self.assertEqual(pulled, list(range(pushed)))
            for peer in peers:
                peer.drop()

    def test_removed(self) -> None:
        """What was pulled goes from the segment too."""
        self.fill(100)
        self.asks(pull() * 100, texts(range(100)))
        self.assertIn(b'"messages": 0, "first_offset": 100, "next_offset": 100', self.sesp(b"?smq\n"))

    def slow_peer(self, count: int) -> Peer:
        """A puller that asks for so many and takes none."""
        peer = self.rig.connect()
        peer.wire.slow = True
        peer.send(pull() * count)
        self.assertFalse(peer.read)
        self.assertGreater(len(peer.wire.value()), BUFFER_BYTES)
        return peer

    def test_dropped(self) -> None:
        """What is still in our buffers when a connection drops is the next to be pulled, in order."""
        self.fill(100, LARGE)
        self.slow_peer(100).drop()
        self.assertEqual(self.pull_all(), list(range(100)))

    def test_dropped_in_part(self) -> None:
        """What it took before stays with it."""
        self.fill(200, LARGE)
        peer = self.slow_peer(200)
        taken = frames(peer.take())
        self.assertFalse(peer.read)
        peer.drop()
        self.assertTrue(b"".join(taken) == texts(range(len(taken)), LARGE))
        self.assertGreater(len(taken), 5)
        self.assertEqual(self.pull_all(), list(range(len(taken), 200)))

    def test_several_dropped(self) -> None:
        """Of several that drop in any order, with new messages meanwhile, all comes in the order of the pushes."""
        self.fill(200, LARGE)
        slow = [self.slow_peer(100) for _ in range(4)]
        self.fill(10, LARGE, first=200)
        for peer in (slow[2], slow[0], slow[3]):
            peer.drop()
        begun = frames(slow[1].wire.value())
        kept = [int(frame[14:]) for frame in begun]
        self.assertEqual(self.pull_all(), [number for number in range(210) if number not in kept])
        self.assertTrue(slow[1].take_all().startswith(b"".join(begun)))

    def test_others_go_on(self) -> None:
        """One that takes nothing holds up nobody: the others get what it has not."""
        self.fill(200, LARGE)
        slow = self.slow_peer(200)
        kept = len(frames(slow.wire.value()))
        self.assertEqual(self.pull_all(), list(range(kept, 200)))
        # It asked for more, and there is none by now.
        self.assertTrue(slow.take_all() == texts(range(kept), LARGE) + EMPTY * (200 - kept))

    def test_dropped_while_reading(self) -> None:
        """A pull behind a push that is not on disk yet, and the peer gone: nothing was taken."""
        self.fill(1)
        self.rig.held = True
        self.peer.send(text(1) + pull() * 2)
        self.peer.drop()
        self.rig.release()
        self.assertEqual(self.pull_all(), [0, 1])


class ColdTests(SmqCase):
    """Messages that are read in a thread, since they are not in memory: meanwhile nobody else can have them."""

    def setUp(self) -> None:
        super().setUp()
        self.reads: list[Deferred[None]] = []

    def cool(self) -> None:
        """From now on a read is done when `warm` says so."""
        read = self.rig.store.read

        def later(*args: Any, **keywords: Any) -> Deferred[Any]:
            self.reads.append(Deferred())
            return self.reads[-1].addCallback(lambda _: read(*args, **keywords))

        self.patch(self.rig.store, "read", later)

    def warm(self, at: int = 0) -> None:
        """Let a read be done, the oldest one if nothing is said."""
        self.reads.pop(at).callback(None)
        self.rig.run()

    def test_not_empty(self) -> None:
        """Who pulls while another one is still reading is not told that there is nothing: it gets what that leaves."""
        self.fill(50, LARGE)
        self.cool()
        other = self.rig.connect()
        self.peer.send(pull() * 50)
        self.asks(pull(), b"", other)
        self.warm()
        # A reply has so many bytes: the rest is for everybody again.
        count = len(frames(self.peer.wire.value()))
        self.assertTrue(0 < count < 50)
        while self.reads:
            self.warm()
        self.assertTrue(other.take() == text(count, LARGE))
        self.assertTrue(self.peer.take() == texts([number for number in range(50) if number != count], LARGE) + EMPTY)

    def test_empty_in_the_end(self) -> None:
        """Where nothing is left, it is told so then."""
        self.fill(3)
        self.cool()
        other = self.rig.connect()
        self.peer.send(pull() * 3)
        self.asks(pull() * 2, b"", other)
        self.warm()
        self.assertEqual(self.peer.take(), texts(range(3)))
        self.assertEqual(other.take(), EMPTY * 2)

    def test_dropped(self) -> None:
        """What was being read for one that is gone goes to those who wait, in order."""
        self.fill(5)
        self.cool()
        others = [self.rig.connect() for _ in range(3)]
        self.peer.send(pull() * 5)
        for other in others:
            self.asks(pull() * 2, b"", other)
        self.peer.drop()
        others[1].drop()
        self.warm()
        while self.reads:
            self.warm()
        self.assertEqual(others[0].take(), texts(range(2)))
        self.assertEqual(others[2].take(), texts(range(2, 4)))

    def test_unreadable(self) -> None:
        """Where the read fails, they go on too; who asked for it is closed."""
        self.fill(2)
        self.cool()
        other = self.rig.connect()
        self.peer.send(pull() * 2)
        self.asks(pull() * 2, b"", other)
        self.reads.pop().errback(ReadFailed("for a test"))
        self.rig.run()
        self.assertEqual((self.peer.wire.value(), self.peer.closed, self.peer.aborted), (b"", True, False))
        self.warm()
        self.assertEqual(other.take(), texts(range(2)))

    def test_gone_meanwhile(self) -> None:
        """Messages that are truncated, or deleted, while they are read: what is in the queue then comes."""
        self.fill(5)
        self.cool()
        self.peer.send(pull() * 3)
        truncated = self.rig.store.truncate(self.rig.store.find("smq"), 3)
        self.warm(1)
        self.successResultOf(truncated)
        while self.reads:
            self.warm()
        self.assertEqual(self.peer.take(), texts([3, 4]) + EMPTY)
        for following in (0, 2):
            self.fill(5)
            self.peer.send(pull() * 3)
            self.sesp(b"!smq\n")
            self.fill(following, first=10)
            while self.reads:
                self.warm()
            self.assertEqual(self.peer.take(), texts(range(10, 10 + following)) + EMPTY * (3 - following))

    def test_drain(self) -> None:
        """At the end, those who wait are answered."""
        self.fill(5)
        self.cool()
        other = self.rig.connect()
        self.peer.send(pull() * 3)
        other.send(pull() * 3)
        drained = self.rig.factory.drain()
        self.assertFalse(drained.called)
        while self.reads:
            self.warm()
        self.assertTrue(drained.called)
        self.assertEqual(self.peer.wire.value(), texts(range(3)))
        self.assertEqual(other.wire.value(), texts([3, 4]) + EMPTY)


class EndTests(SmqCase):
    """At the end, the peer's or the daemon's, what was asked is answered, and what was answered is done."""

    def ask_slowly(self, count: int, at_once: int) -> Peer:
        """A puller that asks for so many, so many in one segment, and takes none."""
        peer = self.rig.connect()
        peer.wire.slow = True
        for _ in range(0, count, at_once):
            peer.send(pull() * at_once)
        self.assertTrue(peer.wire.full)
        return peer

    def test_slow_and_half_closed(self) -> None:
        """One that takes its answers slowly after it shut its side gets each message, and nobody else does."""
        for count, at_once in ((20, 20), (100, 100), (10, 5)):
            self.fill(count, LARGE)
            peer = self.ask_slowly(count, at_once)
            peer.shut()
            self.assertFalse(peer.closed)
            self.assertTrue(peer.take_all() == texts(range(count), LARGE))
            self.assertEqual((peer.closed, peer.aborted), (True, False))
            self.assertEqual(self.pull_all(), [])

    def test_drain(self) -> None:
        """At shutdown it is the same."""
        for count, at_once in ((20, 20), (100, 100), (10, 5)):
            self.fill(count, LARGE)
            peer = self.ask_slowly(count, at_once)
            drained = self.rig.factory.drain()
            self.assertFalse(drained.called)
            self.assertTrue(peer.take_all() == texts(range(count), LARGE))
            self.assertTrue(drained.called and peer.closed and not peer.aborted)
            self.restart()
            self.assertEqual(self.pull_all(), [])

    def test_drain_deadline(self) -> None:
        """Who does not take its answers in time is cut off, and its messages stay."""
        self.fill(100, LARGE)
        peer = self.rig.connect()
        peer.wire.slow = True
        peer.send(pull() * 100)
        self.rig.factory.drain()
        self.rig.advance(self.rig.limits.drain_seconds_max)
        self.assertTrue(peer.aborted)
        self.restart()
        self.assertEqual(self.pull_all(), list(range(100)))
