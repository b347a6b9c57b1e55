"""The replies of Fujin, byte by byte."""

from __future__ import annotations

from struct import pack

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.wire import fujin_replies as replies
from streamd.wire.fujin_replies import Code, Reply
from tests.rigs.wire.fujin import id_bytes


class ReplyTests(SynchronousTestCase):
    def test_bytes(self) -> None:
        """What the server sends, to the byte."""
        self.assertEqual(replies.reader_connected(False, 0), bytes([1, 0, 0, 0]))
        self.assertEqual(replies.reader_connected(True, 0), bytes([1, 1, 0, 0]))
        self.assertEqual(replies.reader_connected(False, 8), bytes([1, 0, 8, 0]))
        self.assertEqual(replies.reader_connected(False, 0, Code.NO_SUCH_TOPIC, "no"), b"\1\0\0\2\0\0\0\2no")
        self.assertEqual(replies.answers(Reply.WRITTEN, id_bytes(0x010101)), bytes([2, 0, 1, 1, 1, 0]))
        self.assertEqual(replies.answers(Reply.ACKNOWLEDGED, id_bytes(1)), bytes([4, 0, 0, 0, 1, 0]))
        self.assertEqual(replies.answers(Reply.GIVEN_BACK, id_bytes(1)), bytes([5, 0, 0, 0, 1, 0]))
        self.assertEqual(
            replies.answers(Reply.WRITTEN, id_bytes(1, 2), 3, "no"),
            b"\2\0\0\0\1\3\0\0\0\2no\2\0\0\0\2\3\0\0\0\2no",
        )
        self.assertEqual(replies.answers(Reply.WRITTEN, b""), b"")
        for reply, byte in ((Reply.BEGUN, 6), (Reply.COMMITTED, 7), (Reply.ROLLED_BACK, 8)):
            self.assertEqual(replies.transaction(reply, id_bytes(1)), bytes([byte, 0, 0, 0, 1]))
        self.assertEqual(replies.messages(Batch.of([b"hello"]), None), bytes([3, 0, 0, 0, 5, 104, 101, 108, 108, 111]))
        self.assertEqual(replies.messages(Batch.of([b"hello", b""]), None), b"\3\0\0\0\5hello\3\0\0\0\0")
        self.assertEqual(
            replies.messages(Batch.of([b"ab", b""]), 255), b"\3" + pack(">QI", 255, 2) + b"ab\3" + pack(">QI", 256, 0)
        )
        self.assertEqual((replies.DISCONNECTED, replies.PING, replies.STOP), (b"\x09", b"\x0c", b"\x0d"))

    def test_messages(self) -> None:
        """Messages of one size and of many, of none and of large ones, are told in the same way, with numbers too."""
        for records in ([b""] * 9, [b"abc"] * 600, [bytes(2000)] * 5, [bytes(size) for size in range(300)]):
            for payload in (b"".join(records), memoryview(b"".join(records))):
                batch = Batch(Batch.of(records).lengths, payload)
                told = b"".join([b"\3" + pack(">I", len(record)) + record for record in records])
                self.assertEqual(replies.messages(batch, None), told)
                for first in (0, 2**40 + 250):
                    numbered = enumerate(records, first)
                    told = b"".join([b"\3" + pack(">QI", number, len(one)) + one for number, one in numbered])
                    self.assertEqual(replies.messages(batch, first), told)

    def test_text(self) -> None:
        """An error's text is cut at its limit, between characters, and can always be said."""
        data = replies.answers(Reply.WRITTEN, id_bytes(1), Code.BAD_TOPIC, "\u20ac" * 1000 + "\udcff")
        self.assertEqual(data[6:10], pack(">I", 1023))
        self.assertEqual(data[10:].decode(), "\u20ac" * 341)
        self.assertIn(b"udcff", replies.answers(Reply.WRITTEN, id_bytes(1), Code.BAD_TOPIC, "\udcff"))
