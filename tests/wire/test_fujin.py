"""The codec of Fujin: every command, cut anywhere, runs, what breaks it; and the client's half against ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.wire import WireError
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin import (
    Acknowledge,
    Begin,
    Commit,
    ConnectReader,
    ConnectWriter,
    Disconnect,
    Fetch,
    FujinCodec,
    Refused,
    Role,
    Rollback,
    Write,
)
from streamd.wire.fujin_replies import Code, Reply

LIMIT = 1 << 20
MANUAL = "manual"
"""The reader whose messages have a meta."""


def id_bytes(*ids: int) -> bytes:
    return pack(f">{len(ids)}I", *ids)


def codec() -> FujinCodec:
    return FujinCodec(LIMIT, lambda name: 8 if name == MANUAL else 0)


def ack(id: int, number: int) -> bytes:
    return client.acknowledge(id, pack(">Q", number))


def nack(id: int, number: int) -> bytes:
    return client.acknowledge(id, pack(">Q", number), back=True)


WRITER = b"".join(
    [
        client.connect_writer(7),
        client.write(1, "a", b"one") + client.write(2, "a", b"") + client.write(3, "b", b"three"),
        client.writes(10, "a", [b"same"] * 6),
        client.write(4, "\xe4" * 20, b"x" * 300),
        client.begin(20),
        client.commit(21),
        client.rollback(22),
        client.DISCONNECT,
    ]
)
WRITER_EXPECTED: list[object] = [
    ConnectWriter(7),
    (1, "a", b"one"),
    (2, "a", b""),
    (3, "b", b"three"),
    *[(id, "a", b"same") for id in range(10, 16)],
    (4, "\xe4" * 20, b"x" * 300),
    Begin(id_bytes(20)),
    Commit(id_bytes(21)),
    Rollback(id_bytes(22)),
    Disconnect(),
]

READER = b"".join(
    [
        client.connect_reader(MANUAL, consumer=True),
        client.fetch(2**32 - 1),
        ack(1, 5) + ack(2, 2**64 - 1),
        nack(3, 0),
        b"".join(ack(id, id + 1000) for id in range(50)),
        client.DISCONNECT,
    ]
)
READER_EXPECTED: list[object] = [
    ConnectReader(MANUAL, Role.CONSUMER),
    Fetch(2**32 - 1),
    ("ack", 1, 5),
    ("ack", 2, 2**64 - 1),
    ("nack", 3, 0),
    *[("ack", id, id + 1000) for id in range(50)],
    Disconnect(),
]


REPLIES = b"".join(
    [
        replies.reader_connected(False, 8),
        replies.messages(Batch.of([b"one", b"", b"three"]), 5),
        replies.answers(Reply.ACKNOWLEDGED, id_bytes(1, 2, 3)),
        replies.answers(Reply.ACKNOWLEDGED, id_bytes(4), Code.NOT_DELIVERED, "never"),
        replies.answers(Reply.GIVEN_BACK, id_bytes(5)),
        replies.transaction(Reply.BEGUN, id_bytes(6)),
        replies.transaction(Reply.COMMITTED, id_bytes(7)),
        replies.transaction(Reply.ROLLED_BACK, id_bytes(8)),
        replies.STOP,
        replies.DISCONNECTED,
    ]
)
REPLIES_EXPECTED: list[object] = [
    client.Connected(False, 8, 0, ""),
    (pack(">Q", 5), b"one"),
    (pack(">Q", 6), b""),
    (pack(">Q", 7), b"three"),
    *[(Reply.ACKNOWLEDGED, id, 0, "") for id in (1, 2, 3)],
    (Reply.ACKNOWLEDGED, 4, Code.NOT_DELIVERED, "never"),
    (Reply.GIVEN_BACK, 5, 0, ""),
    (Reply.BEGUN, 6, 0, ""),
    (Reply.COMMITTED, 7, 0, ""),
    (Reply.ROLLED_BACK, 8, 0, ""),
    client.Told(Reply.STOP),
    client.Told(Reply.DISCONNECTED),
]


def plain(requests: Iterable[object]) -> list[object]:
    """Requests with runs taken apart: however they were cut or joined, this is the same."""
    found: list[object] = []
    for request in requests:
        if isinstance(request, Write):
            ids = replies.U32.iter_unpack(request.ids)
            records = request.batch.records()
            found += [(id, request.topic, bytes(record)) for (id,), record in zip(ids, records, strict=True)]
        elif isinstance(request, Acknowledge):
            word = "nack" if request.back else "ack"
            unpacked = [id for (id,) in replies.U32.iter_unpack(request.ids)]
            numbers: Sequence[int | None] = request.numbers or [None] * len(unpacked)
            found += [(word, id, number) for id, number in zip(unpacked, numbers, strict=True)]
        else:
            found.append(request)
    return found


def received(*pieces: bytes) -> list[object]:
    parser = codec()
    found: list[object] = []
    for piece in pieces:
        found += plain(parser.receive(piece))
    if parser.error is not None:
        raise parser.error
    return found


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


class CommandTests(SynchronousTestCase):
    def test_layout(self) -> None:
        """Each command to the byte, as a client of another make would send it."""
        for data, expected in (
            ([1, 0, 0, 0, 1], ConnectWriter(1)),
            ([2, 0, 0, 0, 3, 112, 117, 98, 0], ConnectReader("pub", Role.SUBSCRIBER)),
            ([2, 0, 0, 0, 3, 112, 117, 98, 1], ConnectReader("pub", Role.CONSUMER)),
        ):
            self.assertEqual(received(bytes(data)), [expected])
        written = [4, 0, 1, 1, 1, 0, 0, 0, 3, 112, 117, 98, 0, 0, 0, 5, 104, 101, 108, 108, 111]
        self.assertEqual(received(client.connect_writer(0), bytes(written))[1:], [(0x010101, "pub", b"hello")])
        self.assertEqual(client.write(0x010101, "pub", b"hello"), bytes(written))
        consumer = client.connect_reader(MANUAL, consumer=True)
        for data, one in (
            ([8, 0, 0, 0, 1], Fetch(1)),
            ([9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9], ("ack", 1, 9)),
            ([10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0], ("nack", 1, 256)),
            ([11], Disconnect()),
        ):
            self.assertEqual(received(consumer, bytes(data))[1:], [one])

    def test_auto_commit(self) -> None:
        """A reader that need not acknowledge may: without a meta."""
        data = client.connect_reader("a", consumer=False) + client.acknowledge(1, b"") * 3
        self.assertEqual(received(data)[1:], [("ack", 1, None)] * 3)

    def test_cut_anywhere(self) -> None:
        """A command is the same command wherever it is cut."""
        for whole, expected in ((WRITER, WRITER_EXPECTED), (READER, READER_EXPECTED)):
            self.assertEqual(received(whole), expected)
            for cut in range(len(whole)):
                self.assertEqual(received(whole[:cut], whole[cut:]), expected, cut)
            parser = codec()
            found: list[object] = []
            for at in range(len(whole)):
                found += plain(parser.receive(whole[at : at + 1]))
            self.assertEqual((found, parser.buffered), (expected, 0))

    def test_runs(self) -> None:
        """Writes to one topic in a row are one request, alike or not; to another one they are another. So with ACKs."""
        for messages in ([b"abc"] * 50, [bytes(size) for size in range(50)], [b"", b"x"] * 25):
            parser = codec()
            _, request = parser.receive(client.connect_writer(0) + client.writes(2**32 - 25, "a", messages))
            assert isinstance(request, Write)
            self.assertEqual([bytes(each) for each in request.batch.records()], messages)
            self.assertEqual(request.ids, id_bytes(*range(2**32 - 25, 2**32), *range(25)))
        _, *requests = codec().receive(
            client.connect_writer(0)
            + client.write(1, "a", b"")
            + client.write(2, "aa", b"")
            + client.write(3, "a", b"")
        )
        self.assertEqual([each.topic for each in requests if isinstance(each, Write)], ["a", "aa", "a"])
        _, *requests = codec().receive(
            client.connect_reader(MANUAL, consumer=False) + ack(1, 1) * 20 + nack(2, 2) * 2 + ack(3, 3)
        )
        self.assertEqual([len(each.ids) // 4 for each in requests if isinstance(each, Acknowledge)], [20, 2, 1])

    @given(
        st.lists(st.tuples(st.sampled_from(["a", "b", "\xe4"]), st.binary(max_size=4)), max_size=40),
        st.lists(st.integers(0, 600)),
    )
    @settings(deadline=None, max_examples=150, derandomize=True)
    def test_identity(self, writes: list[tuple[str, bytes]], cuts: list[int]) -> None:
        """What goes in comes out, in order, whatever it is and wherever it is cut."""
        data = client.connect_writer(0)
        data += b"".join(client.write(id, topic, message) for id, (topic, message) in enumerate(writes))
        expected = [(id, topic, message) for id, (topic, message) in enumerate(writes)]
        self.assertEqual(received(*pieces_of(data, cuts))[1:], expected)


class BrokenTests(SynchronousTestCase):
    def refused(self, before: bytes, data: bytes) -> Refused:
        """What a codec says to this, and that it keeps nothing and takes nothing more."""
        parser = codec()
        parser.receive(before + data)
        self.assertRaises(WireError, parser.receive, b"")
        self.assertEqual(parser.buffered, 0)
        assert isinstance(parser.error, Refused)
        return parser.error

    def test_opcodes(self) -> None:
        """Opcodes that no client has, and those that are out of place: the stream is closed with a code."""
        writer, subscriber = client.connect_writer(0), client.connect_reader("a", consumer=False)
        consumer = client.connect_reader("a", consumer=True)
        allowed = {b"": {1, 2, 11}, writer: {4, 5, 6, 7, 11}, subscriber: {9, 10, 11}, consumer: {8, 9, 10, 11}}
        for before, opcodes in allowed.items():
            for opcode in set(range(256)) - opcodes:
                known = opcode in {1, 2, 4, 5, 6, 7, 8, 9, 10, 11}
                error = self.refused(before, bytes((opcode,)))
                self.assertEqual(error.code, Code.OUT_OF_PLACE if known else Code.UNKNOWN_OPCODE)
                self.assertEqual(error.last_words, b"")

    def test_sizes(self) -> None:
        """A size over the limit is refused before more is awaited, and the peer is told."""
        writer = client.connect_writer(0)
        for size in (LIMIT + 1, 2**32 - 1):
            error = self.refused(writer, b"\4\0\0\0\x09\0\0\0\1a" + pack(">I", size))
            self.assertEqual(error.code, Code.TOO_LARGE)
            self.assertEqual(error.last_words[:6], b"\2\0\0\0\x09\4")
        error = self.refused(writer, b"\4\0\0\0\x09" + pack(">I", 4097))
        self.assertEqual(error.last_words[:6], b"\2\0\0\0\x09\4")
        error = self.refused(b"", b"\2" + pack(">I", 4097))
        self.assertEqual(error.last_words[:4], b"\1\0\0\4")

    def test_reader_type(self) -> None:
        """There are two types of readers."""
        for kind in (2, 255):
            error = self.refused(b"", b"\2\0\0\0\1a" + bytes((kind,)))
            self.assertEqual(error.last_words[:4], b"\1\0\0\x09")
            self.assertIn(str(kind), str(error))

    def test_bad_names(self) -> None:
        """A name that is no UTF-8 is handed on: it is the store that refuses it, and the stream goes on."""
        data = client.connect_writer(0) + b"\4\0\0\0\1\0\0\0\1\xff\0\0\0\0"
        self.assertEqual(received(data)[1:], [(1, "\udcff", b"")])

    @given(st.sampled_from([b"", WRITER[:5], READER[:12]]), st.binary(max_size=120), st.integers(0, 140))
    @settings(deadline=None, max_examples=400, derandomize=True)
    def test_anything(self, begin: bytes, data: bytes, cut: int) -> None:
        """Whatever comes, nothing but a WireError, and the same wherever it is cut."""
        outcomes = []
        data = begin + data
        for pieces in ([data], [data[:cut], data[cut:]]):
            parser = codec()
            found: list[object] = []
            for piece in pieces:
                if parser.error is None:
                    found += plain(parser.receive(piece))
            outcomes.append((found, str(parser.error)))
        self.assertEqual(outcomes[0], outcomes[1])


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


def told(events: Iterable[object]) -> list[object]:
    """What a client is told, with runs taken apart."""
    found: list[object] = []
    for event in events:
        if isinstance(event, client.Answers):
            found += [(event.reply, id, event.code, event.text) for id in event.ids]
        elif isinstance(event, client.Messages):
            records = [bytes(each) for each in event.batch.records()]
            metas: Sequence[bytes | None] = event.metas or [None] * len(records)
            found += zip(metas, records, strict=True)
        else:
            found.append(event)
    return found


def events(*pieces: bytes) -> list[object]:
    """What a client makes of this, runs taken apart."""
    parser = client.FujinReplies(LIMIT)
    found: list[object] = []
    for piece in pieces:
        if parser.error is None:
            found += told(parser.receive(piece))
    return [*found, str(parser.error)] if parser.error is not None else found


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
