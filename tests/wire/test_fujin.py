"""The codec of Fujin: every command, cut anywhere, runs, what breaks it; and the client's half against ours."""

from __future__ import annotations

from itertools import pairwise
from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.wire import WireError
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
from streamd.wire.fujin_replies import Code
from tests.rigs.wire.fujin import LIMIT, MANUAL, READER, WRITER, ack, id_bytes, nack, plain


def codec() -> FujinCodec:
    return FujinCodec(LIMIT, lambda name: 8 if name == MANUAL else 0)


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

READER_EXPECTED: list[object] = [
    ConnectReader(MANUAL, Role.CONSUMER),
    Fetch(2**32 - 1),
    ("ack", 1, 5),
    ("ack", 2, 2**64 - 1),
    ("nack", 3, 0),
    *[("ack", id, id + 1000) for id in range(50)],
    Disconnect(),
]


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
