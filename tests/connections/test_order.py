"""The base: replies in the order of requests, who is told that they were sent, and what an error costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import permutations, product

from streamd.connections.base import Reply
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.store import StoreError
from tests.rigs.protocols.orders import BaseCase, Order, OrderProtocol, order_protocol
from tests.rigs.protocols.rig import BUFFER_BYTES, Rig


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

    name = SentProtocol.name

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
