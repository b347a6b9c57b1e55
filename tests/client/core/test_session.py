"""Sessions: which reply answers which request, how much is on its way, and how they end."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from streamd.client.core.session import Answer, OrderedSession, chunks
from streamd.client.errors import ConnectionLost, ProtocolBroken, Refused
from tests.rigs.client.lines import Lines, joined
from tests.rigs.client.rig import RECORD_BYTES, TARGET, Endless, bare, wait


class AnswerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.answer: Answer[int] = Answer(wait)

    async def value(self) -> int:
        return await self.answer

    def test_value(self) -> None:
        """Who waits gets the value, who comes later gets it at once, and it does not change."""
        waiting = [Deferred.fromCoroutine(self.value()) for _ in range(3)]
        for each in waiting:
            self.assertNoResult(each)
        self.answer.resolve(7)
        self.answer.resolve(8)
        self.answer.fail(KeyError())
        waiting.append(Deferred.fromCoroutine(self.value()))
        self.assertEqual([self.successResultOf(each) for each in waiting], [7] * 4)

    def test_error(self) -> None:
        """So with an error."""
        waiting = [Deferred.fromCoroutine(self.value()) for _ in range(3)]
        self.answer.fail(KeyError())
        self.answer.resolve(8)
        for each in [*waiting, Deferred.fromCoroutine(self.value())]:
            self.failureResultOf(each, KeyError)

    def test_when_done(self) -> None:
        """Calls are made when it is done, and at once when it is."""
        calls: list[str] = []
        self.answer.when_done(lambda: calls.append("before"))
        self.assertEqual(calls, [])
        self.answer.resolve(7)
        self.answer.when_done(lambda: calls.append("after"))
        self.assertEqual(calls, ["before", "after"])


class OrderedSessionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.session = bare(OrderedSession(Lines(), TARGET))

    def test_cut_anywhere(self) -> None:
        """Replies answer requests in their order, as many as each gets, wherever they are cut."""
        whole = b"a\nb\nc\nd\ne\nf\n"
        for cut in range(len(whole) + 1):
            session = bare(OrderedSession(Lines(), TARGET))
            answers = [session.ask(b"?", count, joined) for count in (1, 3, 2)]
            self.assertTrue(session.is_waiting)
            session.receive(whole[:cut])
            session.receive(whole[cut:])
            self.assertEqual([answer.result() for answer in answers], [b"a", b"b c d", b"e f"])
            self.assertFalse(session.is_waiting)

    def test_refused(self) -> None:
        """A refusal is the error of its own request alone."""
        answers = [self.session.ask(b"?", 1, joined) for _ in range(3)]
        self.assertIsNone(self.session.receive(b"a\nno\nb\n"))
        self.assertRaises(Refused, answers[1].result)
        self.assertEqual((answers[0].result(), answers[2].result()), (b"a", b"b"))

    def test_broken(self) -> None:
        """A reply that is none of the protocol's, or that nobody asked for, ends the session for all."""
        for data in (b"what\n", b"\n", b"a\nb\nc\n"):
            session = bare(OrderedSession(Lines(), TARGET))
            answers = [session.ask(b"?", 1, joined) for _ in range(2)]
            self.assertIsInstance(session.receive(data), ProtocolBroken)
            self.assertIsInstance(session.error, ProtocolBroken)
            self.assertTrue(all(answer.done for answer in answers))
            self.assertRaises(ProtocolBroken, session.ask, b"?", 1, joined)
            self.assertIsNone(session.receive(b"more\n"))

    def test_lost(self) -> None:
        """Everything that is awaited fails with the reason, which stays the first one; nothing more is sent."""
        answer = self.session.ask(b"?", 1, joined)
        waiting = Deferred.fromCoroutine(self.session.until(lambda: False))
        self.session.lost(ConnectionLost("first"))
        self.session.lost(ConnectionLost("second"))
        self.assertEqual(str(self.assertRaises(ConnectionLost, answer.result)), "first")
        self.assertEqual(str(self.failureResultOf(waiting, ConnectionLost).value), "first")
        self.assertFalse(self.session.is_sending)
        self.failureResultOf(Deferred.fromCoroutine(self.session.until(lambda: False)), ConnectionLost)

    def test_ask_many(self) -> None:
        """Requests without an end are taken no faster than they are answered."""
        endless = Endless()
        asking = Deferred.fromCoroutine(self.session.ask_many(((record, 1) for record in endless), joined))
        bound = TARGET.pipelined_bytes_max + RECORD_BYTES
        self.assertTrue(self.session.is_full)
        for _ in range(3):
            self.assertLessEqual(len(self.session.outgoing()), bound)
            self.assertFalse(self.session.is_sending)
            before = endless.taken_bytes
            self.session.receive(b"a\n" * 10)
            self.assertEqual(endless.taken_bytes, before + 10 * RECORD_BYTES)
        self.session.lost(ConnectionLost("gone"))
        self.failureResultOf(asking, ConnectionLost)

    def test_ask_many_fails(self) -> None:
        """A request that can't be made is an error after those before it are answered."""
        asking = Deferred.fromCoroutine(self.session.ask_many(((b"%d" % (1 // left), 1) for left in (1, 1, 0)), joined))
        self.assertNoResult(asking)
        self.session.receive(b"a\nb\n")
        self.failureResultOf(asking, ZeroDivisionError)

    def test_room(self) -> None:
        """Requests without a reply wait where much is to be sent, until it is on its way."""

        async def tell(size: int) -> None:
            self.session.send(bytes(size))
            await self.session.room()

        self.successResultOf(Deferred.fromCoroutine(tell(100)))
        telling = Deferred.fromCoroutine(tell(TARGET.pipelined_bytes_max))
        self.assertNoResult(telling)
        self.assertTrue(self.session.is_waiting)
        self.session.outgoing()
        self.session.changed()
        self.successResultOf(telling)

    def test_until(self) -> None:
        """A condition is looked at whenever something was received; the daemon is waited for meanwhile."""
        lines: list[bytes] = []

        def meaning(replies: list[bytes]) -> None:
            lines.extend(replies)

        for _ in range(3):
            self.session.ask(b"?", 1, meaning)
        waiting = [Deferred.fromCoroutine(self.session.until(lambda: len(lines) == 3)) for _ in range(2)]
        for line in (b"a\n", b"b\n"):
            self.session.receive(line)
            self.assertTrue(self.session.is_waiting)
            for begun in waiting:
                self.assertNoResult(begun)
        self.session.receive(b"c\n")
        for begun in waiting:
            self.successResultOf(begun)
        self.assertFalse(self.session.is_waiting)


class ChunkTests(SynchronousTestCase):
    def test_chunks(self) -> None:
        """All messages, in order, in lists of about a size; empty messages are not endless."""
        messages = [b"x" * number for number in range(100)]
        for size in (1, 50, 1000, 1 << 20):
            lists = list(chunks(messages, size))
            self.assertEqual([message for chunk in lists for message in chunk], messages)
            self.assertTrue(all(sum(map(len, chunk[:-1])) < size for chunk in lists))
        self.assertLess(max(map(len, chunks([b""] * 1000, 100))), 100)
        self.assertEqual(list(chunks([])), [])

    def test_one(self) -> None:
        """One message is not several."""
        for message in (b"x", bytearray(b"x"), memoryview(b"x"), "x"):
            self.assertRaises(TypeError, list, chunks(message))  # type: ignore[arg-type]
