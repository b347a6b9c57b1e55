"""Fujin byte by byte, on a real store: writers, transactions, readers, and how streams end."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.settings import FujinSettings
from streamd.settings import Limits
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin_replies import Code, Reply
from tests.rigs.protocols.fujin_case import MANUAL, FujinCase, StreamPeer, ack, acked, error, pushed, written
from tests.rigs.protocols.rig import Peer


class TranscriptTests(FujinCase):
    """The document's examples."""

    def test_write(self) -> None:
        """CONNECT WRITER is not answered, WRITE is."""
        peer = self.rig.connect()
        self.assertEqual(peer.ask(bytes([1, 0, 0, 0, 0])), b"")
        asked = bytes([4, 0, 1, 1, 1, 0, 0, 0, 3, 112, 117, 98, 0, 0, 0, 5, 104, 101, 108, 108, 111])
        self.assertEqual(peer.ask(asked), bytes([2, 0, 1, 1, 1, 0]))
        self.assertEqual(self.messages_of("pub"), [b"hello"])

    def test_transaction(self) -> None:
        """BEGIN, COMMIT and ROLLBACK are answered with five bytes."""
        peer = self.rig.connect_writer()
        self.assertEqual(peer.ask(bytes([5, 0, 0, 0, 1])), bytes([6, 0, 0, 0, 1]))
        self.assertEqual(peer.ask(bytes([6, 0, 0, 0, 1])), bytes([7, 0, 0, 0, 1]))
        self.assertEqual(peer.ask(bytes([5, 0, 0, 0, 1, 7, 0, 0, 0, 2])), bytes([6, 0, 0, 0, 1, 8, 0, 0, 0, 2]))

    def test_subscribe(self) -> None:
        """A subscriber gets what there is, and what comes."""
        self.topic("pub", b"hello")
        peer = self.rig.connect()
        asked = bytes([2, 0, 0, 0, 3, 112, 117, 98, 0])
        message = bytes([3, 0, 0, 0, 5, 104, 101, 108, 108, 111])
        self.assertEqual(peer.ask(asked), bytes([1, 1, 0, 0]) + message)
        self.rig.publish("pub", b"hello")
        self.assertEqual(peer.take(), message)

    def test_disconnect(self) -> None:
        """DISCONNECT is answered, and the stream ends in order."""
        for begin in (b"", client.connect_writer(0), client.connect_reader("pub", consumer=True)):
            peer = self.rig.connect()
            answer = peer.ask(begin + bytes([11]) + b"what comes behind it is nothing")
            self.assertEqual(answer[-1:], bytes([9]))
            self.assertEqual((peer.closed, peer.aborted, peer.code), (True, False, 0))


class TranscriptManualTests(FujinCase):
    settings = MANUAL

    def test_acknowledge(self) -> None:
        """Without auto commit messages have a meta, and ACK and NACK carry it."""
        self.topic("a", b"hello", b"world")
        peer = self.rig.consumer("manual")
        self.assertEqual(peer.take(), bytes([1, 0, 8, 0]))
        self.assertEqual(peer.ask(bytes([8, 0, 0, 0, 2])), pushed(b"hello", b"world", first=0))
        self.assertEqual(peer.ask(bytes([9, 0, 0, 0, 1]) + bytes(8)), bytes([4, 0, 0, 0, 1, 0]))
        self.assertEqual(peer.ask(bytes([10, 0, 0, 0, 2]) + pack(">Q", 1)), bytes([5, 0, 0, 0, 2, 0]))
        self.assertEqual(peer.ask(bytes([8, 0, 0, 0, 1])), pushed(b"world", first=1))


class WriteTests(FujinCase):
    def test_durable(self) -> None:
        """A write is answered when it is on disk, not before; writes do not wait for each other."""
        peer = self.rig.connect_writer()
        self.rig.held = True
        self.assertEqual(peer.ask(client.writes(1, "a", [b"x"] * 3) + client.write(9, "b", b"y")), b"")
        self.rig.release()
        self.assertEqual(peer.take(), written(1, 2, 3, 9))
        self.restart()
        self.assertEqual((self.messages_of("a"), self.messages_of("b")), ([b"x"] * 3, [b"y"]))

    def test_many(self) -> None:
        """Thousands in one go."""
        peer = self.rig.connect_writer()
        messages = [b"%d" % number for number in range(5000)]
        self.assertEqual(peer.send(client.writes(0, "a", messages)).take_all(), written(*range(5000)))
        self.assertEqual(self.messages_of("a"), messages)

    def test_refused(self) -> None:
        """Names that can't be, and sealed topics: an error that says so, and the stream goes on."""
        peer = self.rig.connect_writer()
        self.topic("sealed")
        self.rig.store.seal(self.rig.store.find("sealed"))
        self.rig.run()
        bad = b"\4\0\0\0\7\0\0\0\1\xff\0\0\0\0"
        for asked, code, word in (
            (client.write(7, "", b""), Code.BAD_TOPIC, "1 to 255"),
            (client.write(7, "x" * 256, b""), Code.BAD_TOPIC, "1 to 255"),
            (client.write(7, "a\0b", b""), Code.BAD_TOPIC, "control"),
            (client.write(7, "faststream/x", b""), Code.BAD_TOPIC, "number"),
            (bad, Code.BAD_TOPIC, "Unicode"),
            (client.write(7, "sealed", b""), Code.TOPIC_SEALED, "sealed"),
        ):
            found, text = error(peer.ask(asked))
            self.assertEqual(found, code)
            self.assertIn(word, text)
        self.assertEqual(peer.ask(client.write(8, "a", b"")), written(8))

    def test_full_disk(self) -> None:
        """A full disk is told, and that it is over."""
        peer = self.rig.connect_writer()
        self.rig.disk.full = True
        self.assertEqual(error(peer.ask(client.write(1, "a", b"x" * 3000)))[0], Code.READ_ONLY)
        self.rig.disk.full = False
        self.rig.advance(2)
        self.assertEqual(peer.ask(client.write(2, "a", b"y")), written(2))

    def test_too_large(self) -> None:
        """What is too large is told, and closes the stream with a code; what came before is answered."""
        peer = self.rig.connect_writer()
        too_large = b"\4\0\0\0\2\0\0\0\1a" + pack(">I", self.limits.message_bytes_max + 1)
        answer = peer.ask(client.write(1, "a", b"x") + too_large)
        self.assertEqual(answer[:6], written(1))
        self.assertEqual(error(answer[6:])[0], Code.TOO_LARGE)
        self.assertEqual((peer.closed, peer.code), (True, Code.TOO_LARGE))

    def test_out_of_place(self) -> None:
        """A command that does not belong here closes this stream, and no other."""
        other = self.rig.connect_writer()
        for asked, code in ((b"\3", Code.UNKNOWN_OPCODE), (client.fetch(1), Code.OUT_OF_PLACE)):
            peer = self.rig.connect_writer()
            self.assertEqual(peer.ask(client.write(1, "a", b"") + asked + client.write(2, "a", b"")), written(1))
            self.assertEqual((peer.closed, peer.code), (True, code))
        self.assertEqual(other.ask(client.write(3, "a", b"")), written(3))

    def test_overdue(self) -> None:
        """A command that never ends costs the stream."""
        peer = self.rig.connect_writer()
        peer.send(client.write(1, "a", b"xyz")[:-1])
        self.rig.advance(40)
        self.assertEqual((peer.closed, peer.code), (True, Code.CUT_OFF))


class NoCreateTests(FujinCase):
    settings = FujinSettings(auto_create=False)

    def test_missing(self) -> None:
        """Where topics are not made by themselves, one that is not there is refused: to writers and to readers."""
        peer = self.rig.connect_writer()
        code, text = error(peer.ask(client.write(1, "a", b"")))
        self.assertEqual((code, text), (Code.NO_SUCH_TOPIC, "there is no topic a"))
        self.assertEqual(peer.ask(client.begin(2)), replies.transaction(Reply.BEGUN, pack(">I", 2)))
        self.assertEqual(error(peer.ask(client.write(1, "a", b"")))[0], Code.NO_SUCH_TOPIC)
        reader = self.rig.subscriber("a")
        self.assertEqual(reader.take(), replies.reader_connected(False, 0, Code.NO_SUCH_TOPIC, "there is no topic a"))
        self.assertTrue(reader.closed)
        self.topic("a")
        self.assertEqual(self.rig.subscriber("a").take(), replies.reader_connected(True, 0))


class ReadTests(FujinCase):
    settings = MANUAL

    def test_share(self) -> None:
        """Readers of a group share; a message goes to one of them, and to another one when that is lost."""
        self.topic("a")
        one, two = self.rig.subscriber("manual"), self.rig.subscriber("manual")
        self.rig.publish("a", b"0")
        self.rig.publish("a", b"1")
        self.assertEqual(
            (one.take(), two.take()),
            (
                replies.reader_connected(False, 8) + pushed(b"0", first=0),
                replies.reader_connected(False, 8) + pushed(b"1", first=1),
            ),
        )
        one.drop()
        self.assertEqual(two.take(), pushed(b"0", first=0))
        self.assertEqual(two.ask(ack(1, 0) + ack(2, 1)), acked(1, 2))

    def test_durable(self) -> None:
        """An acknowledgement is answered when it is on disk. What has none comes again after a restart."""
        self.topic("a", b"0", b"1", b"2")
        peer = self.rig.subscriber("manual")
        peer.take()
        self.rig.held = True
        self.assertEqual(peer.ask(ack(5, 1)), b"")
        self.rig.release()
        self.assertEqual(peer.take(), acked(5))
        self.restart()
        again = self.rig.subscriber("manual")
        self.assertEqual(
            again.take(), replies.reader_connected(False, 8) + pushed(b"0", first=0) + pushed(b"2", first=2)
        )

    def test_again_and_never(self) -> None:
        """An ack of what is acknowledged is a success, of what was never delivered an error; in one run."""
        self.topic("a", *[b"x"] * 3)
        peer = self.rig.consumer("manual")
        peer.ask(client.fetch(2))
        answer = peer.ask(ack(1, 0) + ack(2, 0) + ack(3, 2) + ack(4, 1) + ack(5, 2**64 - 1))
        self.assertEqual(answer[:12], acked(1, 2))
        never = replies.answers(Reply.ACKNOWLEDGED, pack(">I", 3), Code.NOT_DELIVERED, "message 2 is not out")
        self.assertEqual(answer[12 : 12 + len(never)], never)
        self.assertEqual(answer[12 + len(never) :][:6], acked(4))
        self.assertEqual(error(peer.ask(ack(6, 0, back=True)))[0], Code.NOT_DELIVERED)

    def test_overdue(self) -> None:
        """A message that is not acknowledged in time comes again."""
        self.topic("a", b"0")
        peer = self.rig.subscriber("manual")
        peer.take()
        self.rig.advance(29)
        self.assertEqual(peer.take(), b"")
        self.rig.advance(2)
        self.assertEqual(peer.take(), pushed(b"0", first=0))

    def test_credit(self) -> None:
        """FETCH is a credit, sent as messages come; a second one adds to it."""
        self.topic("a", b"0")
        peer = self.rig.consumer("manual")
        self.assertEqual(peer.take(), replies.reader_connected(False, 8))
        self.assertEqual(peer.ask(client.fetch(2) + client.fetch(1) + client.fetch(0)), pushed(b"0", first=0))
        self.rig.publish("a", *[b"%d" % number for number in range(1, 6)])
        self.assertEqual(peer.take(), pushed(b"1", b"2", first=1))
        self.assertEqual(peer.ask(client.fetch(2**32 - 1)), pushed(b"3", b"4", b"5", first=3))

    def test_in_one_breath(self) -> None:
        """Connected, fetched and acknowledged in one read: the reply to CONNECT comes first."""
        self.topic("a", b"0")
        peer = self.rig.connect()
        asked = client.connect_reader("manual", consumer=True) + client.fetch(1) + ack(1, 0)
        answer = peer.ask(asked)
        self.assertEqual(answer[:4], replies.reader_connected(False, 8))
        self.assertIn(pushed(b"0", first=0), answer)

    def test_disconnect(self) -> None:
        """DISCONNECT and FIN give back what is not acknowledged."""
        self.topic("a", b"0")
        ends: list[Callable[[StreamPeer], object]] = [lambda peer: peer.send(client.DISCONNECT), Peer.shut, Peer.drop]
        for end in ends:
            peer = self.rig.subscriber("manual")
            self.assertTrue(peer.take().endswith(pushed(b"0", first=0)))
            end(peer)
            self.assertTrue(peer.closed)

    def test_deleted(self) -> None:
        """A topic that is deleted under a reader: its stream is closed with a code."""
        self.topic("a")
        peer = self.rig.subscriber("manual")
        peer.take()
        self.rig.store.delete(self.rig.store.find("a"))
        self.rig.run()
        self.assertEqual((peer.closed, peer.code), (True, Code.NO_SUCH_TOPIC))

    def test_limit(self) -> None:
        """Who acknowledges nothing gets only so much."""
        self.limits = Limits(outstanding_records_max=10)
        self.restart()
        self.topic("a", *[b"x"] * 30)
        peer = self.rig.subscriber("manual")
        self.assertEqual(peer.take(), replies.reader_connected(False, 8) + pushed(*[b"x"] * 10, first=0))
        answer = peer.ask(ack(1, 3))
        # A message may come before the answer, and behind it.
        following = pushed(b"x", first=10)
        self.assertIn(answer, (acked(1) + following, following + acked(1)))

    def test_slow(self) -> None:
        """A reader that does not take its messages gets no more, and the others get them."""
        self.topic("a", *[bytes(10_000)] * 100)
        slow = self.rig.connect()
        slow.wire.slow = True
        slow.send(client.connect_reader("manual", consumer=False))
        self.assertTrue(slow.wire.full)
        held = slow.protocol._reader.member.records  # type: ignore[attr-defined]
        self.assertLess(held, 60)
        quick = self.rig.subscriber("manual")
        self.assertEqual(len(quick.take_all()), 4 + (100 - held) * 10_013)
        self.assertEqual(len(slow.take_all()), 4 + held * 10_013)


class AutoCommitTests(FujinCase):
    def test_sent_is_acknowledged(self) -> None:
        """With auto commit what was sent is done with; ACK and NACK need no meta and do nothing."""
        self.topic("a", b"0", b"1")
        peer = self.rig.subscriber("a")
        self.assertEqual(peer.take(), replies.reader_connected(True, 0) + pushed(b"0", b"1"))
        back = client.acknowledge(2, b"", back=True)
        nacked = replies.answers(Reply.GIVEN_BACK, pack(">I", 2))
        self.assertEqual(peer.ask(client.acknowledge(1, b"") + back), acked(1) + nacked)
        peer.drop()
        self.restart()
        self.rig.publish("a", b"2")
        self.assertEqual(self.rig.subscriber("a").take(), replies.reader_connected(True, 0) + pushed(b"2"))

    def test_everything(self) -> None:
        """A backlog of megabytes, in order, as fast as the reader takes it."""
        messages = [b"%07d" % number * 100 for number in range(5000)]
        self.topic("a", *messages)
        peer = self.rig.connect()
        peer.wire.slow = True
        self.assertEqual(
            peer.send(client.connect_reader("a", consumer=False)).take_all(),
            replies.reader_connected(True, 0) + pushed(*messages),
        )

    def test_created(self) -> None:
        """A reader of a topic that is not there makes it, also where a writer is just about to."""
        self.rig.held = True
        writer, reader = self.rig.connect_writer(), self.rig.subscriber("new")
        writer.send(client.write(1, "newer", b"x"))
        other = self.rig.subscriber("newer")
        self.assertEqual((reader.take(), other.take()), (b"", b""))
        self.rig.release()
        self.assertEqual(reader.take(), replies.reader_connected(True, 0))
        self.assertEqual(other.take(), replies.reader_connected(True, 0) + pushed(b"x"))
        bad = self.rig.subscriber("a\0")
        self.assertEqual(bad.take()[3], Code.BAD_TOPIC)
        self.assertTrue(bad.closed)


class EndTests(FujinCase):
    settings = MANUAL

    def test_stop(self) -> None:
        """At shutdown every stream is told, and goes on until it disconnects."""
        writer, reader, idle = self.rig.connect_writer(), self.rig.subscriber("manual"), self.rig.connect()
        reader.take()
        drained = self.rig.factory.drain()
        self.rig.run()
        self.assertEqual((writer.take(), reader.take()), (b"\x0d", b"\x0d"))
        self.assertTrue(idle.closed, "it had not begun")
        self.assertEqual(writer.ask(client.write(1, "a", b"last") + client.DISCONNECT), written(1) + b"\x09")
        self.rig.advance(14)
        self.assertNoResult(drained)
        self.assertEqual(reader.take(), pushed(b"last", first=0))
        self.rig.advance(2)
        self.successResultOf(drained)
        self.assertEqual((reader.closed, reader.code), (True, Code.CUT_OFF))

    def test_several_endpoints(self) -> None:
        """Groups are the same on all endpoints."""
        self.topic("a", b"0")
        one = self.rig.subscriber("manual")
        self.assertTrue(one.take().endswith(pushed(b"0", first=0)))
        other = self.rig.connect(FujinFactory(self.rig.core, self.settings))
        self.assertEqual(other.ask(client.connect_reader("manual", consumer=False)), replies.reader_connected(False, 8))
        one.drop()
        self.assertEqual(other.take(), pushed(b"0", first=0))
