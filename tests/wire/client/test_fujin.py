"""The client's half of Fujin: what it sends is what the daemon reads, and the other way round."""

from __future__ import annotations

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin_replies import Code, Reply
from tests.rigs.wire.fujin import LIMIT, REPLIES, REPLIES_EXPECTED, events, id_bytes


class ClientTests(SynchronousTestCase):
    def test_cut_anywhere(self) -> None:
        """A client understands what the server says, wherever it is cut."""
        whole = REPLIES
        for cut in range(len(whole)):
            self.assertEqual(events(whole[:cut], whole[cut:]), REPLIES_EXPECTED, cut)
        self.assertEqual(events(*[whole[at : at + 1] for at in range(len(whole))]), REPLIES_EXPECTED)
        self.assertEqual(client.number_of(pack(">Q", 5)), 5)

    def test_runs(self) -> None:
        """Messages in a row are one batch, like answers one."""
        parser = client.FujinReplies(LIMIT)
        (several,) = parser.receive(replies.messages(Batch.of([b"x"] * 9), None))
        assert isinstance(several, client.Messages)
        self.assertEqual((several.batch.count, several.metas), (9, []))
        (answers,) = parser.receive(replies.answers(Reply.WRITTEN, id_bytes(*range(9))))
        self.assertEqual(answers, client.Answers(Reply.WRITTEN, list(range(9))))

    def test_alike(self) -> None:
        """Runs of one size, with others before, between and behind them, are what they are one by one."""
        records = [b"x", *[b"abc"] * 40, b"", b"ab", *[b"" for _ in range(9)], *[b"abcd"] * 5, b"y"]
        for first in (None, 7):
            whole = replies.reader_connected(first is None, 0 if first is None else 8)
            whole += replies.messages(Batch.of(records), first)
            for id in range(3):
                whole += replies.answers(Reply.WRITTEN, id_bytes(*range(id, 2**32, 2**28)))
                whole += replies.answers(Reply.WRITTEN, id_bytes(id), Code.READ_ONLY, "full")
                whole += replies.answers(Reply.ACKNOWLEDGED, id_bytes(*range(5)))
            expected = events(*[whole[at : at + 1] for at in range(len(whole))])
            numbers = [None if first is None else pack(">Q", first + at) for at in range(len(records))]
            self.assertEqual(expected[1 : len(records) + 1], list(zip(numbers, records, strict=True)))
            self.assertEqual(len(expected), 1 + len(records) + 3 * (16 + 1 + 5))
            for cut in range(0, len(whole), 7):
                self.assertEqual(events(whole[:cut], whole[cut:]), expected, cut)

    def test_broken(self) -> None:
        """A reply that is none, and one that is too large: those before it count."""
        for data in (b"\0", b"\x0a", b"\xff", b"\3" + pack(">I", LIMIT + 1), b"\2\0\0\0\1\1" + pack(">I", LIMIT + 1)):
            found = events(replies.messages(Batch.of([b"x"]), None) + data)
            self.assertEqual((found[0], len(found)), ((None, b"x"), 2))

    @given(st.binary(max_size=120), st.integers(0, 120))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_anything(self, data: bytes, cut: int) -> None:
        """Whatever comes, nothing but a WireError, and the same wherever it is cut."""
        self.assertEqual(events(data), events(data[:cut], data[cut:]))
