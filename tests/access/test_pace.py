"""Rates: who is over one waits, and loses nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.access.pace import Bucket, Pace
from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.settings import Limits
from tests.rigs.access.rules import RuledCase, rule
from tests.rigs.wire.faststream import multiple, one


class BucketTests(SynchronousTestCase):
    @given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 10)), min_size=1, max_size=30))
    def test_rate(self, steps: list[tuple[float, float]]) -> None:
        """Who waits as told never has more than the rate gives, and a second of it to begin with."""
        bucket = Bucket(10.0, 0.0)
        now = taken = 0.0
        for tokens, pause in steps:
            wait = bucket.take(tokens, now)
            taken += tokens
            now += wait + pause
            self.assertLessEqual(taken, 10.0 * (now + 1.0) + 1e-6)

    def test_wait(self) -> None:
        """What is there is free, what is not is waited for, and a pause saves up a second at most."""
        bucket = Bucket(10.0, 0.0)
        self.assertEqual(bucket.take(10, 0.0), 0.0)
        self.assertEqual(bucket.take(5, 0.0), 0.5)
        self.assertEqual(bucket.take(0, 0.5), 0.0)
        self.assertEqual(bucket.take(10, 100.0), 0.0)
        self.assertEqual(bucket.take(1000, 100.0), 100.0)

    def test_both(self) -> None:
        """Of messages and bytes the longer wait counts, with its name; a rate of 0 is none."""
        messages, bytes = "messages_per_second", "bytes_per_second"
        self.assertEqual(Pace(10.0, 100.0, 0.0).take(20, 300, 0.0), (2.0, bytes))
        self.assertEqual(Pace(10.0, 1000.0, 0.0).take(20, 200, 0.0), (1.0, messages))
        self.assertEqual(Pace(10.0, 0.0, 0.0).take(0, 1 << 40, 0.0)[0], 0.0)
        self.assertEqual(Pace(0.0, 10.0, 0.0, of="connection_").take(1 << 40, 20, 0.0), (1.0, f"connection_{bytes}"))


class SlowedTests(RuledCase):
    """On connections."""

    def answered(self, lines: int, *, size: int = 1, limits: Limits = Limits()) -> list[int]:
        """How many of so many messages, sent one by one, are answered at the start and after each second."""
        rig = self.make(limits=limits)
        peer = rig.connect()
        peer.ask(b"#a\n@a\n")
        for _ in range(lines):
            peer.send(b">" + b"x" * size + b"\n")
        counts = [peer.take().count(b"+")]
        while sum(counts) < lines:
            rig.advance(1.0)
            counts.append(peer.take().count(b"+"))
        self.assertEqual(rig.store.find("a").number, lines)
        self.assertGreater(rig.load.slowed, 0)
        self.assertEqual(sum(rig.load.refusals.values()), 0)
        return counts

    def test_messages(self) -> None:
        """Messages of a connection come at its rate, all of them."""
        first, *rest = self.answered(100, limits=Limits(connection_messages_per_second_max=10.0))
        self.assertLessEqual(first, 11)
        self.assertTrue(all(count <= 11 for count in rest), rest)
        self.assertLessEqual(len(rest), 10)

    def test_bytes(self) -> None:
        """So do bytes."""
        first, *rest = self.answered(50, size=1000, limits=Limits(connection_bytes_per_second_max=5000.0))
        self.assertTrue(all(count <= 6 for count in [first, *rest]), (first, rest))
        self.assertGreaterEqual(len(rest), 8)

    def test_replies(self) -> None:
        """What is sent to a peer counts like what it sends: reading has a rate too."""
        rig = self.make()
        peer = rig.connect()
        peer.ask(b"#a\n@a\n" + (b">" + b"x" * 1000 + b"\n") * 30)
        self.put(rig, rule("read", bytes_per_second_max=5000.0))
        for _ in range(30):
            peer.send(b"<\n")
        told, seconds = peer.take(), 0
        while told.count(b"\n") < 30:
            rig.advance(1.0)
            seconds += 1
            told += peer.take()
        self.assertEqual(told, (b"+" + b"x" * 1000 + b"\n") * 30)
        self.assertGreaterEqual(seconds, 4)

    def test_shared(self) -> None:
        """The rate of a rule is for all that it fits together."""
        rig = self.make()
        peers = [rig.connect() for _ in range(4)]
        peers[0].ask(b"#a\n")
        self.put(rig, rule("read", "write", messages_per_second_max=10.0))
        for peer in peers:
            peer.ask(b"@a\n")
            for _ in range(20):
                peer.send(b">x\n")
        seconds = 0
        while rig.store.find("a").number < 80:
            rig.advance(1.0)
            seconds += 1
            self.assertLessEqual(rig.store.find("a").number, 10 * (seconds + 1) + len(peers))
        self.assertEqual([peer.take() for peer in peers], [b"+\n" * 20] * 4)

    def test_not_read(self) -> None:
        """A peer that has to wait is not read: what it sends meanwhile stays with it."""
        rig = self.make(limits=Limits(connection_messages_per_second_max=1.0))
        peer = rig.connect()
        peer.ask(b"#a\n@a\n" + b">x\n" * 100)
        for _ in range(10):
            peer.send(b">y\n" * 1000)
        self.assertGreaterEqual(peer.waiting_bytes, 9 * 3000)
        self.assertFalse(peer.read)

    def test_fan_out(self) -> None:
        """One message to many streams is one message."""
        rig = self.make(FastStreamFactory, Limits(connection_messages_per_second_max=1.0))
        peer = rig.connect()
        peer.send(one(1, 5) + one(1, 6))
        for _ in range(3):
            peer.send(multiple(b"a", 5, 6))
        self.assertLess(rig.store.find("faststream/5").number, 3)
        rig.advance(5.0)
        self.assertEqual([rig.store.find(f"faststream/{number}").number for number in (5, 6)], [3, 3])

    def test_end(self) -> None:
        """Who ends is still answered, at its pace; who is cut off leaves no timer behind."""
        rig = self.make(limits=Limits(connection_messages_per_second_max=5.0))
        peer = rig.connect()
        peer.ask(b"#a\n@a\n")
        for _ in range(20):
            peer.send(b">x\n")
        peer.shut()
        rig.advance(6.0)
        self.assertEqual(peer.take_all(), b"+\n" * 20)
        self.assertTrue(peer.closed)
        other = rig.connect()
        other.ask(b"@a\n")
        for _ in range(20):
            other.send(b">x\n")
        other.drop()
        self.assertEqual(rig.clock.getDelayedCalls(), [])
