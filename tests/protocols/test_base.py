"""The laws of the base that all stream protocols share, with connections that a test holds in its hand.

`tests.protocols.test_sockets` tries those that concern sockets on real ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.interfaces import Core
from streamd.load import Load
from streamd.protocols.base import Reply, StreamProtocol
from streamd.protocols.factory import StreamFactory
from streamd.settings import Limits
from streamd.store import StoreError
from streamd.wire import WireError
from tests.protocols.rig import BUFFER_BYTES, Peer, Rig, Wire

HELD_MAX = 64 << 10


class Order:
    """A request of a small protocol: a line, whose first letter says what it does."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.size = len(line)
        self.reads = line.startswith("r")


class OrderCodec:
    """Lines; one that begins with ``x`` breaks the protocol, one with ``c`` is a bug of the codec."""

    def __init__(self) -> None:
        self._rest = b""
        self.error: WireError | None = None

    @property
    def buffered(self) -> int:
        return len(self._rest)

    def receive(self, data: bytes) -> list[Order]:
        assert self.error is None, "parsed after an error"
        *lines, self._rest = (self._rest + data).split(b"\n")
        orders = []
        for line in lines:
            if line.startswith(b"c"):
                raise ZeroDivisionError
            if line.startswith(b"x"):
                self.error = WireError("a line that begins with x")
                self._rest = b""
                break
            orders.append(Order(line.decode()))
        return orders


class OrderProtocol(StreamProtocol):
    """``w…`` and ``r…`` are answered when a test says so, the others at once."""

    name = "orders"

    def __init__(self, core: Core) -> None:
        super().__init__(core, OrderCodec())
        self.begun: list[str] = []
        self.waiting: dict[str, Deferred[bytes]] = {}

    def perform(self, request: Order) -> Reply:
        line = request.line
        self.begun.append(line)
        if line[0] in "wr":
            self.waiting[line] = Deferred()
            return self.waiting[line]
        if line[0] == "s":
            raise StoreError(line)
        if line[0] == "b":
            raise ZeroDivisionError
        if line[0] == "n":
            return None
        return line.encode() + b"\n"

    def refused(self, request: Order, error: StoreError) -> bytes:
        return b"-" + request.line.encode() + b"\n"

    def broken(self, error: WireError) -> bytes:
        return b"broken\n"

    def answer(self, line: str) -> None:
        self.waiting.pop(line).callback(line.encode() + b"\n")

    def fail(self, line: str, error: Exception) -> None:
        self.waiting.pop(line).errback(error)


class OrderFactory(StreamFactory):
    """Makes connections of the small protocol."""

    def build(self) -> OrderProtocol:
        return OrderProtocol(self.core)


class BaseCase(SynchronousTestCase):
    """Connections to a store of the test's own, of SESP or of the small protocol."""

    def setUp(self) -> None:
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)

    def make(self, **limits: Any) -> Rig:
        """A store with SESP connections."""
        rig = Rig(os.path.abspath(self.mktemp()), limits=Limits(**limits))
        self.addCleanup(rig.close)
        return rig

    def orders(self, **limits: Any) -> Rig:
        """The same with connections of the small protocol."""
        rig = Rig(os.path.abspath(self.mktemp()), limits=Limits(**limits), make_factory=OrderFactory)
        self.addCleanup(rig.close)
        return rig

    def said(self, text: str) -> int:
        """How often something was logged."""
        return sum(text in str(event.get("log_format")) for event in self.events)

    def assert_empty(self, rig: Rig) -> None:
        """Nothing is counted for connections that are gone."""
        for peer in list(rig.peers):
            peer.drop()
        self.assertEqual((rig.load.connections, rig.load.held_bytes), (0, 0))
        self.assertEqual(rig.clock.getDelayedCalls(), [])


def order_protocol(peer: Peer) -> OrderProtocol:
    assert isinstance(peer.protocol, OrderProtocol)
    return peer.protocol


class OrderTests(BaseCase):
    """Replies go out in the order of the requests."""

    def test_every_order(self) -> None:
        """In whatever order writes are done, all are begun at once and answered as they were asked."""
        lines = [f"w{number}" for number in range(5)]
        rig = self.orders()
        for order in permutations(lines):
            peer = rig.connect()
            peer.send("".join(line + "\n" for line in lines).encode())
            protocol = order_protocol(peer)
            self.assertEqual(protocol.begun, lines)
            done: set[str] = set()
            told = b""
            for line in order:
                protocol.answer(line)
                done.add(line)
                told += peer.take()
                first = next((at for at, each in enumerate(lines) if each not in done), len(lines))
                self.assertEqual(told.decode().split(), lines[:first])
            peer.drop()
        self.assert_empty(rig)

    def test_every_mixture(self) -> None:
        """Of reads, writes, immediate answers, refusals and silence, each is begun when it may be and answered in turn.

        A request begins when all before it have begun, no read before it is in progress, and, if it is a read itself,
        no write is.
        """
        rig = self.orders()
        for kinds in product("wrisn", repeat=5):
            lines = [f"{kind}{number}" for number, kind in enumerate(kinds)]
            for latest_first in (False, True):
                self.try_mixture(rig, lines, latest_first)
        self.assert_empty(rig)

    def try_mixture(self, rig: Rig, lines: Sequence[str], latest_first: bool) -> None:
        peer = rig.connect()
        protocol = order_protocol(peer)
        peer.send("".join(line + "\n" for line in lines).encode())
        done: set[str] = set()
        while True:
            begun = self.begun(lines, done)
            self.assertEqual(protocol.begun, begun)
            ready = 0
            while ready < len(begun) and (begun[ready] in done or begun[ready][0] in "isn"):
                ready += 1
            expected = [("-" if line[0] == "s" else "") + line for line in begun[:ready] if line[0] != "n"]
            self.assertEqual(peer.wire.value().decode().split(), expected)
            open_ = list(protocol.waiting)
            if not open_:
                break
            line = open_[-1] if latest_first else open_[0]
            protocol.answer(line)
            done.add(line)
            rig.run()
        self.assertEqual(protocol.begun, list(lines))
        peer.drop()

    def begun(self, lines: Sequence[str], done: set[str]) -> list[str]:
        begun: list[str] = []
        for line in lines:
            busy = [each[0] for each in begun if each[0] in "wr" and each not in done]
            if "r" in busy or (line[0] == "r" and busy):
                break
            begun.append(line)
        return begun

    def test_later_refusals(self) -> None:
        """A refusal that comes later stands in its place too, and the connection goes on."""
        rig = self.orders()
        peer = rig.connect()
        protocol = order_protocol(peer.send(b"w1\nw2\nr3\ni4\n"))
        protocol.fail("w2", StoreError())
        self.assertEqual(peer.take(), b"")
        protocol.answer("w1")
        self.assertEqual(peer.take(), b"w1\n-w2\n")
        protocol.fail("r3", StoreError())
        self.assertEqual(peer.take(), b"-r3\ni4\n")

    def test_many_in_flight(self) -> None:
        """A thousand writes are in progress at once, and what is done meanwhile is sent at once."""
        rig = self.orders()
        peer = rig.connect()
        lines = [f"w{number}" for number in range(1000)]
        protocol = order_protocol(peer.send("".join(line + "\n" for line in lines).encode()))
        self.assertEqual(len(protocol.waiting), 1000)
        for line in lines:
            protocol.answer(line)
            self.assertEqual(peer.take().decode(), line + "\n")

    def test_own_writes_only(self) -> None:
        """A read does not wait for the writes of other connections."""
        rig = self.orders()
        one, other = rig.connect(), rig.connect()
        one.send(b"w1\nr2\n")
        other.send(b"r3\n")
        self.assertEqual(list(order_protocol(one).waiting), ["w1"])
        self.assertEqual(list(order_protocol(other).waiting), ["r3"])


class SentProtocol(OrderProtocol):
    """Notes of each reply how many bytes of it were handed to the operating system."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.sent: list[tuple[str, int]] = []

    def perform(self, request: Order) -> Reply:
        name = request.line[:2]
        self.when_sent(lambda sent_bytes: self.sent.append((name, sent_bytes)))
        return super().perform(request)


class SentFactory(StreamFactory):
    """Makes connections of the small protocol that takes notes."""

    def build(self) -> SentProtocol:
        return SentProtocol(self.core)


class SentTests(BaseCase):
    """Who wants to know is told once what became of its reply."""

    large = BUFFER_BYTES + 1000

    def setUp(self) -> None:
        super().setUp()
        self.rig = Rig(os.path.abspath(self.mktemp()), make_factory=SentFactory)
        self.addCleanup(self.rig.close)
        self.peer = self.rig.connect()
        assert isinstance(self.peer.protocol, SentProtocol)
        self.protocol = self.peer.protocol

    def order(self, name: str) -> bytes:
        """An order whose reply is larger than a transport's buffer."""
        return (name + "x" * (self.large - 3) + "\n").encode()

    def test_at_once(self) -> None:
        """With the size of the reply, in order, when each has gone; a write's when it is done."""
        self.peer.ask(b"i1\nw2\ni3\n")
        self.assertEqual(self.protocol.sent, [("i1", 3)])
        self.protocol.answer("w2")
        self.assertEqual(self.protocol.sent, [("i1", 3), ("w2", 3), ("i3", 3)])

    def test_slow(self) -> None:
        """Not before the peer has taken it."""
        self.peer.wire.slow = True
        self.peer.send(self.order("i1"))
        self.assertEqual(self.protocol.sent, [])
        self.peer.take()
        self.assertEqual(self.protocol.sent, [("i1", self.large)])
        self.peer.drop()
        self.assertEqual(len(self.protocol.sent), 1)

    def test_lost(self) -> None:
        """Where the connection is lost first, none of what was still in buffers counts, nor what was never put out."""
        self.peer.wire.slow = True
        self.peer.send(b"i1\nw2\ni3\n" + self.order("i4"))
        self.protocol.answer("w2")
        self.peer.send(b"i5\n")
        self.peer.drop()
        self.assertEqual(self.protocol.sent[0], ("i1", 3))
        self.assertEqual(sorted(self.protocol.sent[1:]), [("i3", 0), ("i4", 0), ("w2", 0)])

    def test_lost_before_the_reply(self) -> None:
        """So it is with a reply that waits for another one, and with one that was never made."""
        self.peer.send(b"w1\ni2\n")
        self.peer.drop()
        self.assertEqual(sorted(self.protocol.sent), [("i2", 0), ("w1", 0)])
        self.protocol.answer("w1")
        self.assertEqual(len(self.protocol.sent), 2)

    def test_before_the_end(self) -> None:
        """A connection that ends is closed when the last of them is told."""
        for orders in (self.order("i1"), b"i1\n", b"i1" + b"x" * 60_000 + b"\n" + b"i2" + b"x" * 60_000 + b"\n"):
            self.setUp()
            self.peer.wire.slow = True
            for line in orders.splitlines(keepends=True):
                self.peer.send(line)
            self.rig.factory.drain()
            told = self.peer.take_all() + self.peer.wire.value()
            self.assertEqual(told, orders)
            self.assertTrue(self.peer.closed)
            self.assertEqual([size for _, size in self.protocol.sent], [*map(len, orders.splitlines(keepends=True))])


class BrokenTests(BaseCase):
    """Two errors, two fates; everything else is a bug, and costs one connection."""

    def test_last_words(self) -> None:
        """Who breaks the protocol is answered what it asked before, told, and closed; what it sends then is nothing."""
        for behind in (b"", b"i5\n", b"xx\n", b"c\n"):
            rig = self.orders()
            peer = rig.connect().send(b"i1\nw2\nr3\ni4\nx\n" + behind)
            protocol = order_protocol(peer)
            peer.send(b"i6\n").send(b"c\n")
            protocol.answer("w2")
            peer.send(b"i7\n")
            self.assertFalse(peer.closed)
            protocol.answer("r3")
            rig.run()
            self.assertEqual(peer.take(), b"i1\nw2\nr3\ni4\nbroken\n")
            self.assertTrue(peer.closed)
            self.assertFalse(peer.aborted)
            self.assert_empty(rig)
        self.assertEqual(self.said("broke {wire}"), 4)

    def test_bugs(self) -> None:
        """A bug in the codec or in the protocol, now or later, cuts off its own connection and nobody else's."""

        def later(protocol: OrderProtocol, line: str) -> None:
            protocol.fail(line, ZeroDivisionError())

        bugs: dict[bytes, Callable[[OrderProtocol], None]] = {
            b"c\n": lambda _: None,
            b"b\n": lambda _: None,
            b"i1\nb\ni2\n": lambda _: None,
            b"w1\n": lambda protocol: later(protocol, "w1"),
            b"r1\nw2\n": lambda protocol: later(protocol, "r1"),
            b"w1\nw2\nr3\n": lambda protocol: later(protocol, "w2"),
        }
        for lines, act in bugs.items():
            rig = self.orders()
            other = rig.connect().send(b"w1\n")
            peer = rig.connect().send(lines)
            act(order_protocol(peer))
            rig.run()
            self.assertTrue(peer.aborted, lines)
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
            for line in list(order_protocol(peer).waiting):
                order_protocol(peer).answer(line)
            order_protocol(other).answer("w1")
            self.assertEqual(other.ask(b"i2\n"), b"w1\ni2\n")
            self.assert_empty(rig)

    def test_bug_in_refused(self) -> None:
        """So does a bug where a refusal is put into words."""
        rig = self.orders()
        for lines in (b"s\n", b"w1\n"):
            peer = rig.connect()
            protocol = order_protocol(peer)
            self.patch(protocol, "refused", lambda request, error: 1 // 0)
            peer.send(lines)
            if "w1" in protocol.waiting:
                protocol.fail("w1", StoreError())
                rig.run()
            self.assertTrue(peer.aborted, lines)
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assert_empty(rig)


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

    def test_bounded_when_crowded(self) -> None:
        """Also while memory is short and answers are small: they are not gathered instead."""
        rig = self.rig_with(*[10_000] * 500)
        crowd = rig.limits.buffered_bytes_max + 1
        rig.load.change(crowd)
        peer = rig.connect()
        peer.wire.slow = True
        peer.send(b"@a\n" + b"<\n" * 500)
        self.assertLess(len(peer.wire.value()), BUFFER_BYTES + (600 << 10))
        rig.load.change(-crowd)
        self.assertEqual(len(peer.take_all()), 2 + 500 * 10_002)

    def test_others_go_on(self) -> None:
        """It costs the others nothing: they publish and read the same topic."""
        rig = self.rig_with(*[10_000] * 100)
        slow, quick = rig.connect(), rig.connect()
        slow.wire.slow = True
        slow.send(b"@a\n" + b"<\n" * 100)
        self.assertEqual(quick.ask(b"@a\n>x\n$100\n<\n"), b"+\n+\n+\n+x\n")
        self.assertFalse(slow.read)

    def test_replies_of_writes(self) -> None:
        """A flood of publishes whose replies nobody takes ends when the buffer is full, and goes on when it is not."""
        rig = self.rig_with(0)
        peer = rig.connect()
        peer.wire.slow = True
        segment = b">\n" * 10_000
        peer.send(b"@a\n")
        for _ in range(40):
            peer.send(segment)
        self.assertFalse(peer.read)
        self.assertGreater(peer.waiting_bytes, 20 * len(segment))
        self.assertLess(len(peer.wire.value()), 2 * BUFFER_BYTES)
        stored = rig.store.find("a").number
        rig.advance(100)
        self.assertEqual(rig.store.find("a").number, stored)
        self.assertEqual(peer.take_all(), b"+\n" * (1 + 40 * 10_000))
        self.assertEqual(rig.store.find("a").number, 1 + 40 * 10_000)
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

    def test_dropped(self) -> None:
        """When it goes instead, what was kept for it is free."""
        rig = self.rig_with(*[10_000] * 100)
        peer = rig.connect()
        peer.wire.slow = True
        peer.send(b"@a\n" + b"<\n" * 100)
        self.assertGreater(rig.load.held_bytes, 0)
        self.assert_empty(rig)

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

    def test_own_limit(self) -> None:
        """While the disk is busy one connection holds so much and no more; then everything is stored, in order."""
        rig = self.make(connection_buffered_bytes_max=HELD_MAX)
        peer = rig.connect()
        peer.ask(b"#a\n@a\n")
        rig.held = True
        segment = b"".join(b">%04d%b\n" % (number, b"x" * 95) for number in range(100))
        for _ in range(30):
            peer.send(segment)
            self.assertLessEqual(rig.load.held_bytes, HELD_MAX + 2 * len(segment))
        self.assertFalse(peer.read)
        self.assertGreater(peer.waiting_bytes, 15 * len(segment))
        self.assertEqual(peer.take(), b"")
        rig.release()
        self.assertTrue(peer.read)
        self.assertEqual(peer.take(), b"+\n" * 3000)
        self.assertEqual(peer.ask(b"<\n" * 3000), segment.replace(b">", b"+") * 30)
        self.assert_empty(rig)

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
        self.assertEqual((rig.load.connections, rig.load.refused), (3, 2))
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
            self.assertTrue(self.load.admit())
        self.assertFalse(self.load.admit())
        for held, busy, waits in ((0, 0, False), (500, 500, False), (501, 501, True), (5000, 500, False)):
            self.assertEqual(self.load.must_wait(held, busy), waits)
        self.load.change(1000)
        self.assertFalse(self.load.crowded)
        self.load.change(1)
        self.assertTrue(self.load.crowded)
        for held, busy, waits in ((0, 0, False), (100, 100, False), (101, 0, True), (101, 101, True)):
            self.assertEqual(self.load.must_wait(held, busy), waits)

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


class DeadlineTests(BaseCase):
    """A peer that begins a frame and never ends it is dropped after a deadline."""

    def setUp(self) -> None:
        super().setUp()
        self.rig = self.make(frame_seconds_max=30.0)
        self.peer = self.rig.connect()

    def test_idle(self) -> None:
        """Between frames it may be idle for as long as it likes, from the first moment on."""
        self.rig.advance(1000)
        self.assertEqual(self.peer.ask(b"#a\n"), b"+\n")
        self.rig.advance(1000)
        self.assertEqual(self.peer.ask(b"#b\n"), b"+\n")
        self.assertEqual(self.rig.clock.getDelayedCalls(), [])

    def test_never_ended(self) -> None:
        """It has so many seconds and no more."""
        self.peer.send(b">unfinished")
        self.rig.advance(29)
        self.assertFalse(self.peer.closed)
        self.rig.advance(1)
        self.assertTrue(self.peer.aborted)
        self.assertEqual(self.said("did not end what it began"), 1)
        self.assert_empty(self.rig)

    def test_trickle(self) -> None:
        """A byte from time to time does not help it."""
        for seconds in range(30):
            self.assertFalse(self.peer.closed, seconds)
            self.peer.send(b"x")
            self.rig.advance(1)
        self.assertTrue(self.peer.aborted)

    def test_greeting(self) -> None:
        """Nor does it where the bytes could still become an HTTP request."""
        self.peer.send(b"G").send(b"E")
        self.rig.advance(30)
        self.assertTrue(self.peer.aborted)

    def test_each_frame_anew(self) -> None:
        """Each frame has its own seconds, whenever the last one began, and whatever else came with it."""
        for pause in (0, 1, 29, 31):
            for begin, end in ((b"#x", b"\n"), (b"#y\n#z", b"\n"), (b"!", b"x\n!y\n!z\n")):
                self.peer.send(begin)
                self.rig.advance(29)
                self.peer.send(end)
                self.rig.advance(pause)
                self.assertFalse(self.peer.closed, (pause, begin))

    def test_ends_one_begins_one(self) -> None:
        """One that always ends a frame and begins the next in one piece may go on like this."""
        for _ in range(10):
            self.peer.send(b"x\n>")
            self.rig.advance(20)
        self.assertFalse(self.peer.closed)
        self.rig.advance(10)
        self.assertTrue(self.peer.aborted)

    def test_not_read(self) -> None:
        """Time in which it is not read does not count; when it is read again it has all its seconds."""
        rig = self.make(frame_seconds_max=30.0, connection_buffered_bytes_max=HELD_MAX)
        peer = rig.connect()
        peer.ask(b"#a\n@a\n")
        rig.held = True
        peer.send(b">" + b"x" * HELD_MAX + b"\n>unfinished")
        self.assertFalse(peer.read)
        rig.advance(1000)
        self.assertFalse(peer.closed)
        rig.release()
        self.assertTrue(peer.read)
        rig.advance(29)
        self.assertFalse(peer.closed)
        rig.advance(1)
        self.assertTrue(peer.aborted)


class HttpTests(BaseCase):
    """No web page in a browser can speak to us."""

    methods = (b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"PRI")

    def test_closed(self) -> None:
        """Who begins with an HTTP request is cut off without a word or a deed, wherever it is cut."""
        rig = self.make()
        for method in self.methods:
            request = method + b" / HTTP/1.1\r\nHost: x\r\n\r\n#made\n"
            for cut in range(len(method) + 3):
                peer = rig.connect().send(request[:cut])
                self.assertEqual(peer.aborted, cut > len(method), request[:cut])
                peer.send(request[cut:])
                self.assertTrue(peer.aborted, request[:cut])
                self.assertEqual(peer.wire.value(), b"")
            peer = rig.connect()
            for byte in request:
                peer.send(bytes([byte]))
            self.assertTrue(peer.aborted)
            self.assertEqual(peer.wire.value(), b"")
        self.assertEqual(rig.store.names(), [])
        self.assert_empty(rig)

    def test_others(self) -> None:
        """What only looks like one is answered, wherever it is cut, as is one that is not at the beginning."""
        rig = self.make()
        for line in (b"G", b"GE", b"GETS x", b"GET", b"get / HTTP/1.1", b"P", b"PRIM ", b"X", b"", b"CONNECTED "):
            whole = line + b"\n&x\n"
            for cut in range(len(whole)):
                peer = rig.connect()
                told = peer.ask(whole[:cut]) + peer.ask(whole[cut:])
                self.assertEqual(told, b"-InvalidCommand\n-InvalidData\n", (line, cut))
        self.assertEqual(rig.connect().ask(b"&x\nGET / HTTP/1.1\n"), b"-InvalidData\n-InvalidCommand\n")


class EndTests(BaseCase):
    """At the end, the peer's or the daemon's, what was asked is finished and answered first."""

    def ends(self) -> Iterator[tuple[str, Callable[[Rig, Peer], object]]]:
        yield "peer", lambda rig, peer: peer.shut()
        yield "daemon", lambda rig, peer: rig.factory.drain()

    def test_idle(self) -> None:
        """An idle connection is closed at once, also one with half a line, or nothing sent yet."""
        for name, end in self.ends():
            for sent in (b"", b"G", b"#a\n", b">half", b"\n\n"):
                rig = self.make()
                peer = rig.connect().send(sent)
                end(rig, peer)
                rig.run()
                self.assertTrue(peer.closed, (name, sent))
                self.assertFalse(peer.aborted)
                self.assert_empty(rig)

    def test_finished_first(self) -> None:
        """Requests in progress, and those that wait for them, are answered, and then it is closed."""
        for _, end in self.ends():
            rig = self.make()
            peer = rig.connect()
            rig.held = True
            peer.send(b"#a\n@a\n>1\n>2\n<\n<\n<\n>half")
            end(rig, peer)
            rig.run()
            self.assertFalse(peer.closed)
            rig.release()
            self.assertTrue(peer.closed)
            self.assertFalse(peer.aborted)
            self.assertEqual(peer.wire.value(), b"+\n+\n+\n+\n+1\n+2\n-None\n")
            self.assert_empty(rig)

    def test_slow(self) -> None:
        """One that takes its replies slowly gets all of them."""
        for _, end in self.ends():
            rig = self.make()
            peer = rig.connect()
            peer.ask(b"#a\n@a\n")
            rig.publish("a", *[b"x" * 10_000] * 100)
            peer.wire.slow = True
            peer.send(b"<\n" * 100)
            end(rig, peer)
            rig.run()
            self.assertFalse(peer.closed)
            self.assertEqual(peer.take_all(), (b"+" + b"x" * 10_000 + b"\n") * 100)
            self.assertTrue(peer.closed)
            self.assertFalse(peer.aborted)

    def test_shut_while_not_read(self) -> None:
        """A peer that sent everything and shut its side gets all answers, also where it was not read for a while."""
        rig = self.make(connection_buffered_bytes_max=HELD_MAX)
        peer = rig.connect()
        rig.held = True
        peer.send(b"#a\n@a\n")
        for _ in range(20):
            peer.send(b">" + b"x" * 10_000 + b"\n")
        peer.send(b"<\n" * 20)
        peer.shut()
        self.assertFalse(peer.closed)
        rig.release()
        self.assertTrue(peer.closed)
        self.assertEqual(peer.wire.value(), b"+\n" * 22 + (b"+" + b"x" * 10_000 + b"\n") * 20)

    def test_drain_takes_nothing_more(self) -> None:
        """What comes in while it drains is not done."""
        rig = self.make()
        peer = rig.connect()
        rig.held = True
        peer.send(b"#a\n")
        rig.factory.drain()
        peer.send(b"#b\n")
        rig.release()
        self.assertEqual(peer.wire.value(), b"+\n")
        self.assertEqual(rig.store.names(), ["a"])

    def test_drained(self) -> None:
        """It fires when the last connection is gone: at once where there is none."""
        rig = self.make()
        self.assertTrue(rig.factory.drain().called)
        peers = [rig.connect() for _ in range(3)]
        rig.held = True
        peers[0].send(b"#a\n")
        peers[1].send(b"#b\n")
        drained, again = rig.factory.drain(), rig.factory.drain()
        rig.run()
        self.assertEqual([peer.closed for peer in peers], [False, False, True])
        peers[0].drop()
        self.assertFalse(drained.called)
        rig.release()
        self.assertTrue(drained.called and again.called)
        self.assertEqual(peers[1].wire.value(), b"+\n")
        self.assert_empty(rig)

    def test_drain_deadline(self) -> None:
        """Who has not taken its replies when the time is up is cut off."""
        rig = self.make(drain_seconds_max=10.0)
        peer = rig.connect()
        peer.ask(b"#a\n@a\n")
        rig.publish("a", *[b"x" * 10_000] * 100)
        peer.wire.slow = True
        peer.send(b"<\n" * 100)
        drained = rig.factory.drain()
        rig.advance(9)
        self.assertFalse(peer.closed or drained.called)
        rig.advance(1)
        self.assertTrue(peer.aborted and drained.called)
        self.assert_empty(rig)

    def test_dropped_anywhere(self) -> None:
        """A peer that goes after any byte, with its commits done or not, hurts nobody and leaves nothing behind.

        What it sent whole is done: the messages are there, in order.
        """
        whole = b"#b\n@a\n>1\n<\n>2\n>3\n?\n$0\n<\n%1\n&\nnonsense\n>\xff\n!b\n>4\n"
        rig = self.make()
        witness = rig.connect()
        witness.ask(b"#a\n@a\n")
        for held in (False, True):
            for cut in range(len(whole) + 1):
                before = rig.store.find("a").number
                rig.held = held
                peer = rig.connect().send(whole[:cut])
                peer.drop()
                rig.release()
                stored = rig.store.find("a").number - before
                sent = whole[:cut].count(b"\n>") - (whole[:cut].count(b"\n>\xff")) - (whole[:cut].endswith(b"\n>"))
                self.assertLessEqual(stored, sent + 1)
                self.assertEqual(witness.ask(b"$%d\n>w\n<\n" % rig.store.find("a").number), b"+\n+\n+w\n")
                if b"b" in witness.ask(b"?\n"):
                    witness.ask(b"!b\n")
                self.assertEqual(rig.load.connections, 1)
        self.assert_empty(rig)
