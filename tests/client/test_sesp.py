"""The session of SESP: every operation, what is refused, and how much is on its way."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.client.errors import ProtocolBroken, Refused
from streamd.client.sesp import SespSession, TopicSession
from streamd.client.session import Steps
from streamd.interfaces import Core
from streamd.protocols.factory import StreamFactory
from streamd.protocols.sesp import SespFactory
from streamd.settings import Limits
from tests.client.driver import Driver, Endless, SessionCase

LIMIT = 1 << 20


def read_all(topic: Driver[TopicSession]) -> list[bytes]:
    found: list[bytes] = []
    while topic.run(topic.session.fill()):
        found += topic.session.unread
        topic.session.unread.clear()
    return found


class SespCase(SessionCase):
    limits = Limits(line_bytes_max=1000)

    def make_factory(self, core: Core) -> StreamFactory:
        return SespFactory(core)

    def topic(self, name: str = "t", piece_bytes: int = 1 << 20) -> Driver[TopicSession]:
        return self.drive(TopicSession(LIMIT, name), piece_bytes)

    def refused(self, driver: Driver[Any], steps: Steps[Any]) -> Refused:
        return self.assertRaises(Refused, driver.run, steps)  # type: ignore[no-any-return]


class AdminTests(SespCase):
    def test_topics(self) -> None:
        """Make, list, describe, seal and delete, however the replies are cut."""
        for admin in self.each_size(lambda: SespSession(LIMIT)):
            session = admin.session
            admin.run(session.create("grüße"))
            admin.run(session.create("t"))
            self.assertEqual(admin.run(session.topics()), ["grüße", "t"])
            admin.run(session.seal("t"))
            info = admin.run(session.info("t"))
            self.assertEqual((info["messages"], info["sealed"]), (0, True))
            self.assertEqual(admin.run(session.state())["store"]["topics"], 2)
            admin.run(session.delete("t"))
            admin.run(session.delete("grüße"))
            self.assertEqual(admin.run(session.topics()), [])
            self.assertFalse(session.is_waiting)

    def test_refused(self) -> None:
        """The daemon's word is the reason, and the connection goes on."""
        admin = self.drive(SespSession(LIMIT))
        admin.run(admin.session.create("t"))
        for steps, reason in (
            (admin.session.create("t"), "AlreadyExists"),
            (admin.session.delete("u"), "NoSuchTopicExists"),
            (admin.session.info("u"), "NoSuchTopicExists"),
            (admin.session.create("x" * 256), "InvalidData"),
        ):
            self.assertEqual(self.refused(admin, steps).reason, reason)
        self.assertEqual(admin.run(admin.session.topics()), ["t"])

    def test_no_injection(self) -> None:
        """A name that would be two commands is none, and nothing is sent."""
        admin = self.drive(SespSession(LIMIT))
        self.assertRaises(ValueError, admin.run, admin.session.create("a\n#b"))
        self.assertEqual(admin.sent, b"")

    def test_nonsense(self) -> None:
        """A daemon that answers with something else is given up, and everybody who waits is told."""
        session = SespSession(LIMIT)
        waiting = [session.create("a"), session.topics()]
        answers = [next(steps) for steps in waiting]
        session.receive(b"hello\n")
        self.assertIsInstance(session.error, ProtocolBroken)
        for answer in answers:
            self.assertTrue(answer.done)
            self.assertRaises(ProtocolBroken, answer.result)

    def test_unasked(self) -> None:
        """A reply that nobody asked for is as bad."""
        session = SespSession(LIMIT)
        session.receive(b"+\n")
        self.assertIsInstance(session.error, ProtocolBroken)

    def test_no_json(self) -> None:
        """So is a description that is none."""
        session = SespSession(LIMIT)
        steps = session.state()
        next(steps)
        session.receive(b"+{\n")
        self.assertRaises(ProtocolBroken, next, steps)


class TopicTests(SespCase):
    def setUp(self) -> None:
        super().setUp()
        admin = self.drive(SespSession(LIMIT))
        admin.run(admin.session.create("t"))

    @given(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=9), max_size=30),
        st.sampled_from([1, 3, 1000]),
    )
    @settings(deadline=None, max_examples=50, derandomize=True)
    def test_publish(self, texts: list[str], piece_bytes: int) -> None:
        """What is published is read, in order."""
        topic = self.topic(piece_bytes=piece_bytes)
        topic.run(topic.session.seek(self.rig.store.find("t").number))
        messages = [text.encode() for text in texts]
        topic.run(topic.session.publish(messages))
        self.assertEqual(read_all(topic), messages)

    def test_foreign(self) -> None:
        """What another protocol stored is read as it is, newlines and all."""
        records = [b"two\nlines", b"\xff\\", b"", b"plain"]
        self.rig.publish("t", *records)
        self.assertEqual(read_all(self.topic()), records)

    def test_offset(self) -> None:
        """Messages that came and were not taken are next, and `seek` forgets them."""
        topic = self.topic()
        session = topic.session
        topic.run(session.publish([b"%d" % number for number in range(100)]))
        topic.run(session.fill())
        self.assertEqual((session.offset, session.unread.popleft(), session.offset), (0, b"0", 1))
        topic.run(session.seek(90))
        self.assertEqual((session.offset, read_all(topic)[0], session.offset), (90, b"90", 100))
        self.assertEqual(self.refused(topic, session.seek(-1)).reason, "ReadOffsetCanNotBeNegative")
        topic.run(session.truncate(50))
        topic.run(session.seek(0))
        self.assertEqual(self.refused(topic, session.fill()).reason, "OffsetTruncated")
        topic.run(session.seek(50))
        self.assertEqual(len(read_all(topic)), 50)

    def test_ahead(self) -> None:
        """Many small messages are asked for in growing numbers; large ones in small numbers again."""
        topic = self.topic()

        def asked() -> int:
            before = len(topic.sent)
            topic.run(topic.session.fill())
            topic.session.unread.clear()
            return topic.sent.count(b"<", before)

        self.rig.publish("t", *[b"x"] * 20_000)
        numbers = [asked() for _ in range(9)]
        self.assertEqual(numbers, [64, 128, 256, 512, 1024, 2048, 4096, 8192, 8192])
        self.rig.publish("t", *[b"x" * 100_000] * 30)
        self.assertEqual([asked(), asked()], [8192, 4096])

    def test_refused_messages(self) -> None:
        """Publishing to a sealed topic tells the reason and how many; a topic that is not there says so at once."""
        topic = self.topic()
        self.rig.store.seal(self.rig.store.find("t"))
        self.rig.run()
        error = self.refused(topic, topic.session.publish([b"a", b"b"]))
        self.assertEqual((error.reason, error.count), ("TopicSealed", 2))
        self.assertEqual(self.assertRaises(Refused, self.topic, "u").reason, "NoSuchTopicExists")

    def test_too_long(self) -> None:
        """After a line over the limit the daemon hangs up: that is the reason, not a lost connection."""
        topic = self.topic()
        error = self.refused(topic, topic.session.publish([b"good", b"x" * 1001]))
        self.assertEqual(error.reason, "TooLong")
        self.assertEqual(self.refused(topic, topic.session.publish([b"more"])).reason, "TooLong")
        self.assertEqual(read_all(self.topic()), [b"good"])

    def test_bad_message(self) -> None:
        """What can't be sent is an error of the caller; what was sent before it is answered first."""
        topic = self.topic()
        good = [b"x" * 900] * 300
        self.assertRaises(ValueError, topic.run, topic.session.publish([*good, b"two\nlines"]))
        self.assertFalse(topic.session.is_waiting)
        self.assertEqual(set(read_all(topic)), {b"x" * 900})
        self.assertRaises(TypeError, topic.run, topic.session.publish(b"one"))  # type: ignore[arg-type]

    def test_bounded(self) -> None:
        """Endless messages are taken no faster than the daemon answers."""
        endless = Endless()
        session = TopicSession(LIMIT, "t")
        answer = next(session.publish(endless))
        self.assertFalse(answer.done)
        size = len(session.outgoing())
        self.assertGreaterEqual(size, session.pipelined_bytes_max)
        self.assertLess(size, 2 * session.pipelined_bytes_max)
        self.assertLess(endless.taken_bytes, 2 * session.pipelined_bytes_max)
