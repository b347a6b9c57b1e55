"""Readers whose messages take time to be read, or can't be: what they ask is answered as if those were there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import LogLevel, globalLogPublisher

from streamd.groups import Groups, Member
from streamd.protocols.fujin.settings import configure
from streamd.settings import GroupRule
from streamd.store import ReadFailed, StoreError
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin_replies import Code
from tests.rigs.protocols.fujin_case import FujinCase, StreamPeer, ack, acked, pushed

READERS = {"manual": {"topic": "a", "group": "g", "auto_commit": False}, "all": {"topic": "a", "group": ""}}
CONNECTED = replies.reader_connected(True, 0)
MANUAL = replies.reader_connected(False, 8)
MESSAGES = [b"%d" % number for number in range(5)]


class ReaderCase(FujinCase):
    """A topic `a` with a few messages, and readers of every kind."""

    settings = configure({"readers": READERS})

    def setUp(self) -> None:
        super().setUp()
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)
        self.reads: list[Deferred[None]] = []
        self.topic("a", *MESSAGES)
        self.traffic = self.rig.load.traffic_of("fujin")

    def cool(self) -> None:
        """From now on a read is done when `warm` says so."""
        read = self.rig.store.read

        def later(*args: Any, **keywords: Any) -> Deferred[Any]:
            self.reads.append(Deferred())
            return self.reads[-1].addCallback(lambda _: read(*args, **keywords))

        self.patch(self.rig.store, "read", later)

    def warm(self) -> None:
        """Let all reads be done, also those that follow."""
        while self.reads:
            self.reads.pop(0).callback(None)
            self.rig.run()

    def connect(self, *requests: bytes, name: str = "a", consumer: bool = True) -> StreamPeer:
        """A new reader, and what it sends in one piece."""
        peer = self.rig.connect()
        peer.send(b"".join([client.connect_reader(name, consumer=consumer), *requests]))
        return peer

    def begin_anew(self) -> None:
        """Another store, with nothing broken and nothing cold."""
        self.doCleanups()
        self.setUp()

    def failures(self) -> list[Any]:
        """What was logged as a bug."""
        return [event for event in self.events if event["log_level"] >= LogLevel.critical]


class OneWriteTests(ReaderCase):
    """What stands behind FETCH in the same write finds the messages sent that are there, be their pages cold or not."""

    def test_disconnect(self) -> None:
        """DISCONNECT is answered behind them, for a consumer and for a subscriber."""
        for cold in (False, True):
            if cold:
                self.cool()
            for name, connected, numbered in (("all", CONNECTED, None), ("manual", MANUAL, 0)):
                peer = self.connect(client.fetch(3), client.DISCONNECT, name=name)
                self.warm()
                self.assertEqual(peer.wire.value(), connected + pushed(*MESSAGES[:3], first=numbered) + b"\x09")
                peer = self.connect(client.DISCONNECT, name=name, consumer=False)
                self.warm()
                self.assertEqual(peer.wire.value(), connected + pushed(*MESSAGES, first=numbered) + b"\x09")
                self.assertEqual((peer.closed, peer.aborted, peer.code), (True, False, 0))

    def test_half_closed(self) -> None:
        """So is the end of a peer that shuts its side; what it did not acknowledge comes again."""
        for cold in (False, True):
            if cold:
                self.cool()
            for consumer in (True, False):
                peer = self.connect(*[client.fetch(5)] * consumer, name="manual", consumer=consumer)
                peer.shut()
                self.warm()
                self.assertEqual(peer.wire.value(), MANUAL + pushed(*MESSAGES, first=0))
                self.assertEqual((peer.closed, peer.aborted, peer.code), (True, False, 0))

    def test_acknowledge(self) -> None:
        """ACK and NACK of what is still being read are a success, and stay in order."""
        for cold in (False, True):
            if cold:
                self.cool()
            back = ack(3, 1, back=True)
            peer = self.connect(client.fetch(2), ack(1, 0), ack(2, 2**60), back, client.fetch(1), name="manual")
            self.warm()
            never = replies.answers(
                replies.Reply.ACKNOWLEDGED, b"\0\0\0\2", Code.NOT_DELIVERED, f"message {2**60} is not out"
            )
            given_back = replies.answers(replies.Reply.GIVEN_BACK, b"\0\0\0\3")
            sent, again = MANUAL + pushed(*MESSAGES[:2], first=0), pushed(MESSAGES[1], first=1)
            told = peer.wire.value()
            self.assertEqual(told[: len(sent)], sent)
            # Replies are in order; messages come between them.
            self.assertEqual(told[len(sent) :].replace(again, b"", 1), acked(1) + never + given_back)
            self.begin_anew()

    def test_slow(self) -> None:
        """Where the peer is slow, all that it has fetched comes before the end."""
        self.rig.publish("a", *[bytes(10_000)] * 50)
        for end in (lambda peer: peer.send(client.DISCONNECT), lambda peer: peer.shut()):
            peer = self.rig.connect()
            peer.wire.slow = True
            peer.send(client.connect_reader("all", consumer=True) + client.fetch(55))
            end(peer)
            told = peer.take_all()
            self.assertTrue(told.startswith(CONNECTED + pushed(*MESSAGES, *[bytes(10_000)] * 50)))
            self.assertTrue(peer.closed)

    def test_subscriber_leaves(self) -> None:
        """A subscriber that leaves does not have to take all there is first."""
        self.rig.publish("a", *[bytes(10_000)] * 500)
        for end in (lambda peer: peer.send(client.DISCONNECT), lambda peer: peer.shut()):
            peer = self.rig.connect()
            peer.wire.slow = True
            peer.send(client.connect_reader("all", consumer=False))
            end(peer)
            self.assertLess(len(peer.take_all()), 1_000_000)
            self.assertTrue(peer.closed)

    def test_breach(self) -> None:
        """So it is behind what no client may send: that is what ends the stream."""
        for cold in (False, True):
            if cold:
                self.cool()
            peer = self.connect(client.fetch(2), ack(1, 0), b"\0", client.fetch(3), name="manual")
            self.warm()
            self.assertEqual(peer.wire.value(), MANUAL + pushed(*MESSAGES[:2], first=0) + acked(1))
            self.assertEqual((peer.closed, peer.aborted, peer.code), (True, False, Code.UNKNOWN_OPCODE))
            self.begin_anew()

    def test_lost_while_reading(self) -> None:
        """Of a stream that is lost or cut off meanwhile nothing counts as sent."""
        ends: list[Callable[[StreamPeer], object]] = [StreamPeer.drop, lambda peer: peer.protocol.abort()]
        for end in ends:
            self.cool()
            peer = self.connect(client.fetch(5))
            end(peer)
            self.warm()
            self.assertEqual((peer.wire.value(), peer.closed), (CONNECTED, True))
            self.assertEqual((self.rig.store.find("a").groups or {}).get("fujin"), None)


class BugTests(ReaderCase):
    """What goes wrong while messages are sent ends that stream with its code, is logged and counted."""

    def ways(self) -> dict[str, Callable[[], StreamPeer]]:
        """All ways in which a reader comes to send: each returns the stream when it has gone wrong."""

        def connected() -> StreamPeer:
            self.spoil()
            return self.connect(consumer=False)

        def fetched() -> StreamPeer:
            peer = self.connect()
            self.spoil()
            peer.send(client.fetch(1))
            return peer

        def committed() -> StreamPeer:
            peer = self.connect(name="all", consumer=False)
            self.spoil()
            self.rig.publish("a", b"new")
            return peer

        def resumed() -> StreamPeer:
            self.rig.publish("a", *[bytes(10_000)] * 50)
            peer = self.rig.connect()
            peer.wire.slow = True
            peer.send(client.connect_reader("all", consumer=False))
            self.spoil()
            peer.take_all()
            return peer

        def read_cold() -> StreamPeer:
            self.cool()
            peer = self.connect(name="all", consumer=False)
            self.spoil()
            self.warm()
            return peer

        def in_its_turn() -> StreamPeer:
            self.rig.publish("a", *[bytes(100_000)] * 15)
            taken = Member.take

            def take(member: Member, count: int) -> Any:
                if len(peer.wire.value()) >= 1 << 20:
                    raise self.error
                return taken(member, count)

            peer = self.rig.connect()
            self.patch(Member, "take", take)
            peer.send(client.connect_reader("all", consumer=False))
            return peer

        return {way.__name__: way for way in (connected, fetched, committed, resumed, read_cold, in_its_turn)}

    def spoil(self) -> None:
        def take(member: Member, count: int) -> Any:
            raise self.error

        self.patch(Member, "take", take)

    def try_error(self, error: Exception, code: Code, reason: str) -> None:
        self.error = error
        for name in self.ways():
            peer = self.ways()[name]()
            self.assertEqual((peer.closed, peer.code), (True, code), name)
            self.assertEqual(+self.traffic.connections_cut_off, {reason: 1}, name)
            self.assertEqual(len(self.failures()), 0 if isinstance(error, StoreError) else 1, name)
            self.flushLoggedErrors(ZeroDivisionError)
            self.begin_anew()

    def test_bug(self) -> None:
        """A bug."""
        self.try_error(ZeroDivisionError("for a test"), Code.CUT_OFF, "failed")

    def test_store(self) -> None:
        """An error of the store."""
        self.try_error(ReadFailed("for a test"), Code.STORE_FAILED, "unanswerable")


class RuleTests(ReaderCase):
    def test_dead_letter(self) -> None:
        """A message that is refused as often as the rule allows becomes a dead letter, and is acknowledged with it."""
        groups = Groups.of(self.rig.core)
        groups.rules.replace([GroupRule(group="g", deliveries_max=2, dead_letter="dead")])
        peer = self.connect(client.fetch(5), name="manual")
        self.rig.run()
        for id in (1, 2):
            peer.send(client.fetch(1) + client.acknowledge(id, (0).to_bytes(8, "big"), back=True))
            self.rig.run()
            self.rig.advance(0)
            self.rig.run()
        (letter,) = [json.loads(bytes(record)) for record in self.stored("dead")]
        self.assertEqual((letter["topic"], letter["offset"], letter["deliveries"]), ("a", 0, 2))
        self.assertEqual(groups.describe_one(self.rig.store.find("a"), "g")["lag"], 4)

    def stored(self, topic: str) -> list[Any]:
        runs: list[Any] = []
        self.rig.store.read(self.rig.store.find(topic), 0, bytes_max=1 << 20).addCallback(runs.extend)
        self.rig.run()
        return [record for run in runs for record in run.batch.records()]
