"""A stream of Fujin: answers in order, messages between them, and how it ends."""

from __future__ import annotations

from struct import pack

from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.client.errors import ConnectionLost, ProtocolBroken, Refused
from streamd.client.fujin.session import FujinSession, Message, StreamEnded, refusal_of
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as fujin_client
from streamd.wire.fujin_replies import Code, Reply
from tests.rigs.client.rig import TARGET, bare

RECORD_BYTES = 100_000


def written(count: int, code: int = Code.NONE, text: str = "") -> bytes:
    return replies.answers(Reply.WRITTEN, pack(f">{count}I", *range(count)), code, text)


def messages(*records: bytes) -> bytes:
    return replies.messages(Batch.of(records), None)


class FujinSessionTests(SynchronousTestCase):
    def session(self, reply: Reply | None = None) -> FujinSession:
        session = bare(FujinSession(TARGET, b"first", reply))
        session.flow = StringTransport()
        return session

    def test_opening(self) -> None:
        """A writer's first command is not answered, a reader's is, and may be refused."""
        writer = self.session()
        self.successResultOf(Deferred.fromCoroutine(writer.opening()))
        self.assertEqual(writer.outgoing(), b"first")
        for code in (Code.NONE, Code.NO_SUCH_TOPIC):
            reader = self.session(Reply.READER_CONNECTED)
            opening = Deferred.fromCoroutine(reader.opening())
            self.assertNoResult(opening)
            reader.receive(replies.reader_connected(False, 0, code, "none" if code else ""))
            if code:
                self.assertEqual(self.failureResultOf(opening, Refused).value.reason, "NO_SUCH_TOPIC")
            else:
                self.successResultOf(opening)
                self.assertFalse(reader.auto_commit)

    def test_cut_anywhere(self) -> None:
        """Answers find their commands and messages the reader, wherever the bytes are cut."""
        whole = written(2) + messages(b"one", b"two") + written(3, Code.TOO_LARGE, "large") + messages(b"")
        for cut in range(len(whole) + 1):
            session = self.session()
            answers = [session.ask(b"?", count, refusal_of(Reply.WRITTEN)) for count in (1, 2, 2)]
            session.receive(whole[:cut])
            session.receive(whole[cut:])
            first, second, third = (answer.result() for answer in answers)
            assert first is None and second is not None and third is not None
            self.assertEqual((second.reason, second.count, third.count, str(third)), ("TOO_LARGE", 1, 2, "large"))
            taken = [session.take() for _ in range(4)]
            self.assertEqual(taken, [Message(b"one", b""), Message(b"two", b""), Message(b"", b""), None])

    def test_nonsense(self) -> None:
        """An answer of another kind, or to nothing, ends the stream."""
        for data in (replies.transaction(Reply.COMMITTED, bytes(4)), written(2), replies.DISCONNECTED):
            session = self.session()
            answer = session.ask(b"?", 1, refusal_of(Reply.WRITTEN))
            self.assertIsInstance(session.receive(data), ProtocolBroken)
            self.assertTrue(answer.done)

    def test_flow(self) -> None:
        """A reader that takes nothing is sent no more than a megabyte and what is on its way."""
        session = self.session()
        count = 0
        while session.flow.producerState == "producing":
            session.receive(messages(bytes(RECORD_BYTES)))
            count += 1
        self.assertLess(count * RECORD_BYTES, 2 << 20)
        while session.flow.producerState == "paused":
            assert session.take() is not None
            count -= 1
        self.assertLess(count * RECORD_BYTES, 1 << 19)
        self.assertGreater(count, 0)

    def test_waits(self) -> None:
        """A reader waits for a message for as long as it takes."""
        session = self.session()
        filling = Deferred.fromCoroutine(session.fill())
        self.assertNoResult(filling)
        self.assertFalse(session.is_waiting)
        session.receive(messages(b"one"))
        self.assertTrue(self.successResultOf(filling))

    def test_stop(self) -> None:
        """When the daemon asks its clients to go, a reader takes what has come, says goodbye and ends."""
        session = self.session()
        session.receive(messages(b"one") + replies.STOP)
        self.assertTrue(self.successResultOf(Deferred.fromCoroutine(session.fill())))
        session.take()
        filling = Deferred.fromCoroutine(session.fill())
        self.assertNoResult(filling)
        self.assertEqual(session.outgoing(), fujin_client.DISCONNECT)
        session.receive(replies.DISCONNECTED)
        self.assertFalse(self.successResultOf(filling))
        self.successResultOf(Deferred.fromCoroutine(session.closing()))
        self.assertEqual(session.outgoing(), b"")

    def test_closing(self) -> None:
        """Closing drops what came, so that the answer gets through, and is content with a stream that is gone."""
        session = self.session()
        while session.flow.producerState == "producing":
            session.receive(messages(bytes(RECORD_BYTES)))
        closing = Deferred.fromCoroutine(session.closing())
        self.assertEqual(session.flow.producerState, "producing")
        self.assertNoResult(closing)
        session.lost(ConnectionLost("gone"))
        self.successResultOf(closing)

    def test_ended(self) -> None:
        """The end of a stream is an end for who waits for messages, and a loss for who waits for an answer."""
        session = self.session()
        filling = Deferred.fromCoroutine(session.fill())
        session.ended()
        self.failureResultOf(filling, StreamEnded)
        session = self.session()
        answer = session.ask(b"?", 1, refusal_of(Reply.WRITTEN))
        session.ended()
        error = self.assertRaises(ConnectionLost, answer.result)
        self.assertNotIsInstance(error, StreamEnded)
