"""Fujin: each command is refused where no rule allows it, with a code, and nothing is done."""

from __future__ import annotations

from struct import pack

from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.protocol import _ACTIONS
from streamd.protocols.fujin.settings import configure
from streamd.settings import AccessRule
from streamd.wire import fujin
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin_replies import Code, Reply
from tests.rigs.access.rules import NOBODY, rule
from tests.rigs.protocols.fujin_case import MANUAL, FujinCase, StreamPeer, ack, acked, pushed, written


def refused(reply: Reply, topic: str, *ids: int) -> bytes:
    """That these are not allowed."""
    text = f"you may not do that with {topic}"
    return b"".join(replies.answers(reply, pack(">I", id), Code.NOT_ALLOWED, text) for id in ids)


def told(reply: Reply, id: int) -> bytes:
    return replies.transaction(reply, pack(">I", id))


class WriterTests(FujinCase):
    """Streams that write."""

    def put(self, *rules: AccessRule) -> None:
        self.rig.core.access.replace(rules, 0.0)

    def test_every(self) -> None:
        """No command is left out here and below. These touch no topic, or only end what was begun."""
        free = {fujin.ConnectWriter, fujin.Begin, fujin.Rollback, fujin.Disconnect}
        tried = {fujin.Write, fujin.Commit, fujin.ConnectReader, fujin.Fetch, fujin.Acknowledge}
        self.assertEqual(free | tried, set(_ACTIONS))

    def test_free(self) -> None:
        """What needs no right is answered as ever."""
        self.put(NOBODY)
        writer = self.rig.connect_writer()
        asked = client.begin(1) + client.rollback(2) + client.begin(3) + client.commit(4) + client.DISCONNECT
        answers = [told(Reply.BEGUN, 1), told(Reply.ROLLED_BACK, 2), told(Reply.BEGUN, 3), told(Reply.COMMITTED, 4)]
        self.assertEqual(writer.ask(asked), b"".join(answers) + replies.DISCONNECTED)
        self.assertEqual(sum(self.rig.load.refusals.values()), 0)

    def test_write(self) -> None:
        """A write takes the right to write, and to create where the topic is not there; the stream goes on."""
        self.topic("a")
        writer = self.rig.connect_writer()
        for rules in ([NOBODY], [rule("read", "create", "admin")], [rule("write", topics=("b",))]):
            self.put(*rules)
            asked = client.write(1, "a", b"x") + client.write(2, "a", b"y")
            self.assertEqual(writer.ask(asked), refused(Reply.WRITTEN, "a", 1, 2))
        self.assertEqual(self.rig.load.refusals["not_allowed"], 3)
        self.put(rule("write"))
        self.assertEqual(writer.ask(client.write(3, "new", b"x")), refused(Reply.WRITTEN, "new", 3))
        self.assertEqual(self.rig.store.names(), ["a"])
        self.put(rule("write", topics=("a",)), rule("write", "create", topics=("new",)))
        self.assertEqual(writer.ask(client.write(4, "a", b"x") + client.write(5, "new", b"x")), written(4, 5))

    def test_transaction(self) -> None:
        """So does a write in a transaction, when it is written; others of it are not lost by that."""
        self.topic("a")
        self.put(rule("write", topics=("a",)))
        writer = self.rig.connect_writer()
        writer.ask(client.begin(1))
        self.assertEqual(writer.ask(client.write(2, "b", b"x")), refused(Reply.WRITTEN, "b", 2))
        self.assertEqual(
            writer.ask(client.write(3, "a", b"y") + client.commit(4)), written(3) + told(Reply.COMMITTED, 4)
        )
        self.put(rule("read"))
        self.assertEqual(self.messages_of("a"), [b"y"])

    def test_commit(self) -> None:
        """A right that is taken away before the commit is missing there: nothing is stored, and the stream closes."""
        for size in (10, 1 << 20):
            self.put(rule("write", "create"))
            writer = self.rig.connect_writer()
            self.assertEqual(writer.ask(client.begin(1) + client.write(2, f"a{size}", b"x" * size))[-6:], written(2))
            self.put(rule("create", "read", "admin"))
            self.assertEqual(writer.ask(client.commit(3)), b"")
            self.assertEqual(writer.code, Code.COMMIT_FAILED)
            self.assertEqual(self.rig.store.names(), [])

    def test_limits(self) -> None:
        """Limits of rules are told with the same code."""
        self.topic("a", b"x" * 50)
        self.put(rule("write", "create", topics=("a*",), topic_bytes_max=100, topics_max=2))
        writer = self.rig.connect_writer()
        full = writer.ask(client.write(1, "a", b"y" * 60))
        self.assertEqual(full[5], Code.NOT_ALLOWED)
        self.assertEqual(writer.ask(client.write(2, "a2", b"")), written(2))
        self.assertEqual(writer.ask(client.write(3, "a3", b""))[5], Code.NOT_ALLOWED)
        self.assertEqual((self.rig.load.refusals["topic_bytes"], self.rig.load.refusals["topics"]), (1, 1))


class EndpointTests(FujinCase):
    """What the QUIC endpoint refuses before there is a stream."""

    def test_counted(self) -> None:
        """It is counted for Fujin, by the limit of the endpoint."""
        factory = self.rig.factory
        assert isinstance(factory, FujinFactory)
        factory.connectionRefused("handshakes")
        self.assertEqual(+self.rig.load.traffic_of("fujin").connections_refused, {"quic_handshakes": 1})


class ReaderTests(FujinCase):
    """Streams that read."""

    settings = MANUAL

    def put(self, *rules: AccessRule) -> None:
        self.rig.core.access.replace(rules, 0.0)

    def connected(self, *, consumer: bool = True) -> StreamPeer:
        """A reader of a topic with two messages, from when there were no rules."""
        self.topic("a", b"one", b"two")
        peer = self.rig.consumer("manual") if consumer else self.rig.subscriber("manual")
        peer.take_all()
        return peer

    def test_connect(self) -> None:
        """To connect takes the right to read the topic, by whatever name; else the stream is told and closed."""
        self.topic("a")
        for consumer in (False, True):
            for rules in ([NOBODY], [rule("write", "create", "admin")], [rule("read", topics=("manual",))]):
                self.put(*rules)
                peer = self.rig.connect()
                text = "you may not do that with manual"
                expected = replies.reader_connected(False, 0, Code.NOT_ALLOWED, text)
                self.assertEqual(peer.ask(client.connect_reader("manual", consumer=consumer)), expected)
                self.assertTrue(peer.closed)
            self.put(rule("read", topics=("a",)))
            peer = self.rig.connect()
            self.assertEqual(
                peer.ask(client.connect_reader("manual", consumer=consumer)), replies.reader_connected(False, 8)
            )

    def test_create(self) -> None:
        """A reader makes its topic only where it may."""
        self.put(rule("read"))
        expected = replies.reader_connected(False, 0, Code.NOT_ALLOWED, "you may not do that with manual")
        self.assertEqual(self.rig.connect().ask(client.connect_reader("manual", consumer=True)), expected)
        self.assertEqual(self.rig.store.names(), [])
        self.put(rule("read", "create"))
        self.rig.connect().ask(client.connect_reader("manual", consumer=True))
        self.assertEqual(self.rig.store.names(), ["a"])

    def test_fetch(self) -> None:
        """A consumer that may no longer read gets nothing more: its stream is closed with the code."""
        peer = self.connected()
        self.assertEqual(peer.ask(client.fetch(1)), pushed(b"one", first=0))
        self.put(NOBODY)
        self.assertEqual(peer.ask(client.fetch(1)), b"")
        self.assertEqual((peer.closed, peer.code), (True, Code.NOT_ALLOWED))
        self.assertEqual(self.rig.load.refusals["not_allowed"], 1)

    def test_push(self) -> None:
        """So is a subscriber's, instead of the next message."""
        peer = self.connected(consumer=False)
        self.put(NOBODY)
        self.rig.publish("a", b"secret")
        self.assertEqual(peer.take(), b"")
        self.assertEqual((peer.closed, peer.code), (True, Code.NOT_ALLOWED))

    def test_acknowledge(self) -> None:
        """ACK and NACK are refused with the code; nothing is acknowledged."""
        peer = self.connected()
        peer.ask(client.fetch(1))
        self.put(NOBODY)
        self.assertEqual(peer.ask(ack(1, 0)), refused(Reply.ACKNOWLEDGED, "manual", 1))
        self.assertEqual(peer.ask(ack(2, 0, back=True)), refused(Reply.GIVEN_BACK, "manual", 2))
        self.put(rule("read"))
        self.assertEqual(peer.ask(ack(3, 0)), acked(3))

    def test_alias(self) -> None:
        """No refusal tells a reader which topic its name stands for, whatever it is refused for."""
        alias = {"alias": {"topic": "secret", "group": "g", "auto_commit": False}}

        def refusal(asked: bytes, *rules: AccessRule, create: bool = True) -> None:
            self.put(*rules)
            factory = FujinFactory(self.rig.core, configure({"readers": alias, "auto_create": create}))
            told = self.rig.connect(factory).ask(client.connect_reader("alias", consumer=True) + asked)
            self.assertEqual(sum(self.rig.load.refusals.values()), 1, told)
            self.assertNotIn(b"secret", told)
            self.rig.load.traffic_of("fujin").requests_refused.clear()

        for rules in ([NOBODY], [rule("read")], [rule("read", "create", topics_max=1)]):
            self.topic(f"other {len(self.rig.store)}")
            refusal(b"", *rules)
        refusal(b"", create=False)
        for back in (False, True):
            for lose in (lambda: self.put(NOBODY), lambda: self.rig.store.delete(self.rig.store.find("secret"))):
                self.put()
                self.topic("secret", b"x")
                factory = FujinFactory(self.rig.core, configure({"readers": alias}))
                peer = self.rig.connect(factory)
                peer.ask(client.connect_reader("alias", consumer=True) + client.fetch(1))
                lose()
                self.rig.run()
                self.assertNotIn(b"secret", peer.ask(ack(1, 0, back=back)))
                if "secret" in self.rig.store.names():
                    self.rig.store.delete(self.rig.store.find("secret"))
                    self.rig.run()

    def test_rate(self) -> None:
        """A subscriber is pushed to at the rate of its rule, and gets everything."""
        messages = [b"x" * 900 + b"%d" % number for number in range(100)]
        self.topic("a", *messages)
        self.put(rule("read", bytes_per_second_max=10_000.0))
        peer = self.rig.connect()
        data = peer.send(client.connect_reader("manual", consumer=False)).take_all()
        for _ in range(50):
            self.rig.publish("a", b"y" * 1000)
            data += peer.take_all()
        seconds = 0
        while data.count(b"y" * 1000) < 50:
            self.rig.advance(1.0)
            seconds += 1
            data += peer.take_all()
        # What was there is sent at once, and paid for before what came next.
        self.assertGreaterEqual(seconds, 8)
        self.assertEqual([message in data for message in messages], [True] * 100)
        self.assertGreater(self.rig.load.slowed, 0)
