"""SESP for clients: every command, what is refused, and how much is on its way."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from streamd.client.asynchronous import SespClient, Topic
from streamd.client.errors import ConnectionLost, ProtocolBroken, Refused
from streamd.client.sesp import SespSession
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.sesp import SespFactory
from streamd.settings import Limits
from streamd.wire.sesp import Create, List, Status
from tests.rigs.client.rig import TARGET, WHOLE, ClientCase, Driven, Endless, bare


def read_all(topic: Driven[Topic]) -> list[bytes]:
    return topic.everything(topic.client.read())


class SespCase(ClientCase):
    limits = Limits(line_bytes_max=1000)

    def make_factory(self, core: Core) -> StreamFactory:
        return SespFactory(core)

    def topic(self, name: str = "t", piece_bytes: int = WHOLE) -> Driven[Topic]:
        def make(*args: Any, **options: Any) -> Topic:
            return SespClient(*args, **options).topic(name)

        return self.drive(make, piece_bytes)

    def refused(self, driven: Driven[Any], operation: Awaitable[Any]) -> Refused:
        return self.assertRaises(Refused, driven.run, operation)  # type: ignore[no-any-return]


class AdminTests(SespCase):
    def test_topics(self) -> None:
        """Make, list, describe, seal and delete, however the replies are cut."""
        for admin in self.each_size(SespClient):
            client = admin.client
            admin.run(client.create("grüße"))
            admin.run(client.create("t"))
            self.assertEqual(admin.run(client.topics()), ["grüße", "t"])
            admin.run(client.seal("t"))
            info = admin.run(client.info("t"))
            self.assertEqual((info["messages"], info["sealed"]), (0, True))
            self.assertEqual(admin.run(client.state())["store"]["topics"], 2)
            admin.run(client.delete("t"))
            admin.run(client.delete("grüße"))
            self.assertEqual(admin.run(client.topics()), [])
            self.assertFalse(client._session.is_waiting)

    def test_refused(self) -> None:
        """The daemon's word is the reason, and the connection goes on."""
        admin = self.drive(SespClient)
        admin.run(admin.client.create("t"))
        for steps, reason in (
            (admin.client.create("t"), "AlreadyExists"),
            (admin.client.delete("u"), "NoSuchTopicExists"),
            (admin.client.info("u"), "NoSuchTopicExists"),
            (admin.client.create("x" * 256), "InvalidData"),
        ):
            self.assertEqual(self.refused(admin, steps).reason, reason)
        self.assertEqual(admin.run(admin.client.topics()), ["t"])

    def test_no_injection(self) -> None:
        """A name that would be two commands is none, and nothing is sent."""
        admin = self.drive(SespClient)
        self.assertRaises(ValueError, admin.run, admin.client.create("a\n#b"))
        self.assertEqual(admin.sent, b"")

    def test_nonsense(self) -> None:
        """A daemon that answers with something else is given up, and everybody who waits is told."""
        session = bare(SespSession(TARGET))
        answers = [session.command(Create("a")), session.command(List())]
        session.receive(b"hello\n")
        self.assertIsInstance(session.error, ProtocolBroken)
        for answer in answers:
            self.assertTrue(answer.done)
            self.assertRaises(ProtocolBroken, answer.result)

    def test_unasked(self) -> None:
        """A reply that nobody asked for is as bad."""
        session = bare(SespSession(TARGET))
        session.receive(b"+\n")
        self.assertIsInstance(session.error, ProtocolBroken)

    def test_no_json(self) -> None:
        """So is a description that is none."""
        session = bare(SespSession(TARGET))
        waiting = Deferred.fromCoroutine(session.json(Status()))
        session.receive(b"+{\n")
        self.failureResultOf(waiting, ProtocolBroken)


class TopicTests(SespCase):
    def setUp(self) -> None:
        super().setUp()
        admin = self.drive(SespClient)
        admin.run(admin.client.create("t"))

    @given(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=9), max_size=30),
        st.sampled_from([1, 3, 1000]),
    )
    @settings(deadline=None, max_examples=50, derandomize=True)
    def test_publish(self, texts: list[str], piece_bytes: int) -> None:
        """What is published is read, in order."""
        topic = self.topic(piece_bytes=piece_bytes)
        topic.run(topic.client.seek(self.rig.store.find("t").number))
        messages = [text.encode() for text in texts]
        topic.run(topic.client.publish(messages))
        self.assertEqual(read_all(topic), messages)

    def test_foreign(self) -> None:
        """What another protocol stored is read as it is, newlines and all."""
        records = [b"two\nlines", b"\xff\\", b"", b"plain"]
        self.rig.publish("t", *records)
        self.assertEqual(read_all(self.topic()), records)

    def test_offset(self) -> None:
        """Messages that came and were not taken are next, and `seek` forgets them."""
        topic = self.topic()
        client = topic.client
        topic.run(client.publish([b"%d" % number for number in range(100)]))
        self.assertEqual(client.offset, 0)
        for number in range(2):
            self.assertEqual((topic.run(anext(client.read())), client.offset), (b"%d" % number, number + 1))
        self.assertEqual(topic.sent.count(b"<"), 64)
        topic.run(client.seek(90))
        self.assertEqual((client.offset, read_all(topic)[0], client.offset), (90, b"90", 100))
        self.assertEqual(self.refused(topic, client.seek(-1)).reason, "ReadOffsetCanNotBeNegative")
        topic.run(client.truncate(50))
        topic.run(client.seek(0))
        self.assertEqual(self.refused(topic, anext(client.read())).reason, "OffsetTruncated")
        topic.run(client.seek(50))
        self.assertEqual(len(read_all(topic)), 50)

    def test_ahead(self) -> None:
        """Many small messages are asked for in growing numbers; large ones in small numbers again."""
        topic = self.topic()

        def asked() -> int:
            before = len(topic.sent)
            topic.run(topic.client._carry_out(topic.client._fill()))
            topic.client._unread.clear()
            return topic.sent.count(b"<", before)

        self.rig.publish("t", *[b"x"] * 20_000)
        numbers = [asked() for _ in range(9)]
        self.assertEqual(numbers, [64, 128, 256, 512, 1024, 2048, 4096, 8192, 8192])
        self.rig.publish("t", *[b"x" * 100_000] * 30)
        self.assertEqual([asked(), asked()], [8192, 4096])

    def test_refused_messages(self) -> None:
        """Publishing to a sealed topic tells the reason and how many; a topic that is not there says so at once."""
        topic, unknown = self.topic(), self.topic("u")
        self.rig.store.seal(self.rig.store.find("t"))
        self.rig.run()
        error = self.refused(topic, topic.client.publish([b"a", b"b"]))
        self.assertEqual((error.reason, error.count), ("TopicSealed", 2))
        self.assertEqual(self.refused(unknown, unknown.client.connect()).reason, "NoSuchTopicExists")

    def test_too_long(self) -> None:
        """After a line over the limit the daemon hangs up: that is the reason, not a lost connection."""
        topic = self.topic()
        error = self.refused(topic, topic.client.publish([b"good", b"x" * 1001]))
        self.assertEqual(error.reason, "TooLong")
        self.assertEqual(self.refused(topic, topic.client.publish([b"more"])).reason, "TooLong")
        self.assertEqual(read_all(self.topic()), [b"good"])

    def test_bad_message(self) -> None:
        """What can't be sent is an error of the caller; what was sent before it is answered first."""
        topic = self.topic()
        good = [b"x" * 900] * 300
        self.assertRaises(ValueError, topic.run, topic.client.publish([*good, b"two\nlines"]))
        self.assertFalse(topic.client._session.is_waiting)
        self.assertEqual(set(read_all(topic)), {b"x" * 900})
        self.assertRaises(TypeError, topic.run, topic.client.publish(b"one"))  # type: ignore[arg-type]

    def test_bounded(self) -> None:
        """Endless messages are taken no faster than the daemon answers."""
        endless = Endless()
        topic = self.topic()
        topic.run(topic.client.connect())
        publishing = topic.begin(topic.client.publish(endless))
        self.assertNoResult(publishing)
        size = len(topic.wire.value())
        self.assertGreaterEqual(size, TARGET.pipelined_bytes_max)
        self.assertLess(size, 2 * TARGET.pipelined_bytes_max)
        self.assertLess(endless.taken_bytes, 2 * TARGET.pipelined_bytes_max)
        topic.wire.drop()
        self.failureResultOf(publishing, ConnectionLost)
