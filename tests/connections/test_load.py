"""The base: a peer that is slow, one that is greedy, and many together. What all keep is in `laws.test_slow`."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from streamd.connections.load import Load
from streamd.settings import Limits
from tests.rigs.protocols.orders import BaseCase
from tests.rigs.protocols.rig import BUFFER_BYTES, Rig, Wire

HELD_MAX = 64 << 10


class SlowReaderTests(BaseCase):
    """For a peer that does not take its replies nothing more is read or done, and little is kept."""

    def rig_with(self, *sizes: int) -> Rig:
        """A topic with messages of these sizes."""
        rig = self.make()
        rig.connect().ask(b"#a\n")
        rig.publish("a", *[bytes([ord("a") + number % 26]) * size for number, size in enumerate(sizes)])
        return rig

    def test_bounded(self) -> None:
        """However much it asks for, in whatever way, a few buffers are filled and then it waits; nothing is lost."""
        size, count = 10_000, 500
        messages = [bytes([ord("a") + number % 26]) * size for number in range(count)]
        ways: dict[bytes, list[bytes]] = {
            b"@a\n" + b"<\n" * count: messages,
            b"@a\n" + b"".join(b"$%d\n<\n" % number for number in range(count)): messages,
            b"@a\n" + b"$7\n<\n" * count: messages[7:8] * count,
        }
        for asked, expected in ways.items():
            rig = self.rig_with(*[size] * count)
            peer = rig.connect()
            peer.wire.slow = True
            peer.send(asked)
            self.assertFalse(peer.read)
            self.assertLess(len(peer.wire.value()), BUFFER_BYTES + (600 << 10))
            self.assertGreaterEqual(rig.load.held_bytes, len(peer.wire.value()))
            begun = len(peer.wire.value())
            # Nothing that happens makes it take on more.
            peer.send(b"$0\n<\n" * 100)
            rig.publish("a", b"more")
            rig.advance(100)
            self.assertEqual(len(peer.wire.value()), begun)
            self.assertEqual(peer.waiting_bytes, 500)
            whole = b"".join(b"+\n" if line.startswith((b"@", b"$")) else b"" for line in asked.split(b"\n"))
            lines = peer.take_all().split(b"\n")
            self.assertEqual(
                [line for line in lines if len(line) > 1], [b"+" + each for each in expected + messages[:1] * 100]
            )
            self.assertEqual(lines.count(b"+"), len(whole) // 2 + 100)
            self.assertTrue(peer.read)
            self.assert_empty(rig)

    def test_slow_is_not_overdue(self) -> None:
        """It may be slow for as long as it likes, also with half a line behind what it asked."""
        rig = self.rig_with(*[10_000] * 100)
        peer = rig.connect()
        peer.wire.slow = True
        peer.send(b"@a\n" + b"<\n" * 100 + b">hal")
        rig.advance(1000)
        self.assertFalse(peer.closed)
        self.assertEqual(len(peer.take_all()), 2 + 100 * 10_002)
        self.assertEqual(peer.ask(b"f\n"), b"+\n")

    def test_turns(self) -> None:
        """However fast it takes its replies, it gets so much, and so many, before the others have their turn."""
        count = 3000
        rig = self.rig_with(*[10_000] * count)
        small = b"$1\n" * 20_000
        for asked in (b"<\n" * count, b"".join(b"$%d\n<\n" % number for number in range(count)), small):
            peer = rig.connect()
            self.assertEqual(peer.ask(b"@a\n"), b"+\n")
            turns: list[int] = []

            def turn(wire: Wire = peer.wire, turns: list[int] = turns) -> None:
                turns.append(len(wire.take()))
                if turns[-1]:
                    rig.clock.callLater(0, turn)

            peer.protocol.dataReceived(asked)
            turn()
            rig.run()
            self.assertEqual(sum(turns), asked.count(b"<") * 10_002 + 2 * asked.count(b"$"))
            self.assertLess(max(turns), 2 << 20)
            if asked is small:
                self.assertLess(max(turns), 2 * 1000)
        self.assert_empty(rig)


class CrowdTests(BaseCase):
    """A peer that sends too much is no longer read; when all together do, those who hold the most wait."""

    def test_fair_share(self) -> None:
        """Over the limit of all, a greedy connection waits, and modest ones and new ones go on."""
        total = 1 << 20
        rig = self.make(buffered_bytes_max=total)
        rig.connect().ask(b"#a\n")
        greedy = [rig.connect() for _ in range(2)]
        modest = [rig.connect() for _ in range(5)]
        rig.held = True
        for peer in greedy:
            peer.send(b"@a\n")
            for number in range(20):
                peer.send(b">%02d%b\n" % (number, b"x" * 60_000))
        self.assertTrue(rig.load.crowded)
        self.assertEqual([peer.read for peer in greedy], [False, False])
        for number, peer in enumerate(modest):
            peer.send(b"@a\n")
            for each in range(3):
                peer.send(b">modest %d %d\n" % (number, each))
            self.assertTrue(peer.read)
            self.assertEqual(peer.waiting_bytes, 0)
        self.assertLess(rig.load.held_bytes, 2 * total)
        rig.release()
        for peer in greedy:
            self.assertTrue(peer.read)
            self.assertEqual(peer.take(), b"+\n" * 21)
        for peer in modest:
            self.assertEqual(peer.take(), b"+\n" * 4)
        self.assertEqual(rig.store.find("a").number, 2 * 20 + 5 * 3)
        self.assert_empty(rig)

    def test_room_again(self) -> None:
        """Those who wait go on when somebody leaves."""
        rig = self.orders(buffered_bytes_max=1 << 20)
        one, other = rig.connect(), rig.connect()
        for number in range(8):
            for peer in (one, other):
                peer.send(b"w%d%b\n" % (number, b"x" * 100_000))
        self.assertFalse(one.read or other.read)
        waiting = other.waiting_bytes
        one.drop()
        self.assertTrue(other.read)
        self.assertLess(other.waiting_bytes, waiting)
        self.assert_empty(rig)

    def test_large_frame(self) -> None:
        """A request larger than what a connection may have in progress is still read to its end."""
        rig = self.make(connection_buffered_bytes_max=HELD_MAX, line_bytes_max=1 << 20)
        peer = rig.connect()
        message = b"x" * (10 * HELD_MAX)
        sent = b"#a\n@a\n>" + message + b"\n<\n"
        for at in range(0, len(sent), 10_000):
            peer.send(sent[at : at + 10_000])
        self.assertEqual(peer.take_all(), b"+\n+\n+\n+" + message + b"\n")
        self.assert_empty(rig)

    def test_no_deadlock(self) -> None:
        """Half requests that fill the memory and wait for each other to end are dropped when they are overdue."""
        rig = self.make(buffered_bytes_max=1 << 20, line_bytes_max=1 << 20)
        modest = rig.connect()
        self.assertEqual(modest.ask(b"#a\n@a\n"), b"+\n+\n")
        hogs = [rig.connect() for _ in range(4)]
        for _ in range(10):
            for hog in hogs:
                hog.send(b">" + b"x" * 50_000)
        self.assertTrue(rig.load.crowded)
        self.assertFalse(any(hog.read for hog in hogs))
        self.assertEqual(modest.ask(b">x\n"), b"+\n")
        rig.advance(rig.limits.frame_seconds_max + 2)
        self.assertFalse(rig.load.crowded)
        self.assertTrue(any(hog.aborted for hog in hogs))
        big = b">" + b"x" * 900_000 + b"\n"
        other = rig.connect()
        rig.advance(rig.limits.frame_seconds_max + 2)
        self.assertEqual(other.ask(b"@a\n") + other.send(big[:500_000]).ask(big[500_000:]), b"+\n+\n")
        self.assert_empty(rig)

    def test_connections(self) -> None:
        """So many connections are let in, the next is refused, and when one leaves there is room for one."""
        rig = self.make(connections_max=3)
        peers = [rig.connect() for _ in range(3)]
        for _ in range(2):
            self.assertIsNone(rig.factory.buildProtocol(None))
        self.assertEqual((rig.load.connections, rig.load.refusals["connections"]), (3, 2))
        for peer in peers:
            self.assertEqual(peer.ask(b"&x\n"), b"-InvalidData\n")
        peers[1].drop()
        self.assertEqual(rig.connect().ask(b"&x\n"), b"-InvalidData\n")
        self.assertIsNone(rig.factory.buildProtocol(None))
        self.assert_empty(rig)


class Waiter:
    """Somebody who waits for room."""

    def __init__(self) -> None:
        self.called = 0

    def uncrowded(self) -> None:
        self.called += 1


class LoadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.load = Load(Limits(buffered_bytes_max=1000, connection_buffered_bytes_max=500, connections_max=10))

    def test_must_wait(self) -> None:
        """Under the limit of all one's own limit counts, over it also an equal share."""
        for _ in range(10):
            self.assertIsNone(self.load.admit())
        self.assertEqual(self.load.admit(), "connections")
        for held, busy, waits in ((0, 0, False), (500, 500, False), (501, 501, True), (5000, 500, False)):
            self.assertEqual(self.load.must_wait(held, busy) is not None, waits)
        self.load.change(1000)
        self.assertFalse(self.load.crowded)
        self.load.change(1)
        self.assertTrue(self.load.crowded)
        for held, busy, waits in ((0, 0, False), (100, 100, False), (101, 0, True), (101, 101, True)):
            self.assertEqual(self.load.must_wait(held, busy) is not None, waits)

    def test_called_once(self) -> None:
        """Who waits is called once, when the total has fallen; who was forgotten is not."""
        waits, forgotten = Waiter(), Waiter()
        self.load.change(2000)
        self.load.wait(waits)
        self.load.wait(waits)
        self.load.wait(forgotten)
        self.load.forget(forgotten)
        for delta, called in ((-500, 0), (-499, 0), (-1, 1), (-1, 1), (2000, 1), (-2000, 1)):
            self.load.change(delta)
            self.assertEqual((waits.called, forgotten.called), (called, 0))
