"""The codec of FastStreamDB: every packet, cut anywhere, and what breaks it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from struct import pack
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import LENGTH_TYPE
from streamd.wire import WireError
from streamd.wire.faststream import (
    PONG,
    Check,
    Contents,
    Create,
    Delete,
    Enqueue,
    EnqueueMany,
    FastStreamCodec,
    Ping,
    contents_header,
    state,
)
from tests.rigs.wire.faststream import PING, WHOLE, plain, single
from tests.rigs.wire.pieces import CutLaws, cut

LIMIT = 1 << 20


EXPECTED: list[object] = [
    Ping(),
    Create(7),
    Delete(8),
    (7, b"one"),
    (7, b""),
    (9, b"three"),
    *[(7, b"same")] * 6,
    EnqueueMany(array(LENGTH_TYPE, (1, 2, 2)), False, b"many"),
    EnqueueMany(array(LENGTH_TYPE), False, b"nobody"),
    EnqueueMany(array(LENGTH_TYPE), True, b"all"),
    EnqueueMany(array(LENGTH_TYPE, (4,)), True, b""),
    Contents(7, True),
    Contents(7, False),
    Check(2**32 - 1),
]


class CutTests(CutLaws, SynchronousTestCase):
    whole = WHOLE
    expected = EXPECTED

    def codec(self) -> FastStreamCodec:
        return FastStreamCodec(LIMIT)

    def plain(self, requests: Iterable[Any]) -> list[object]:
        return plain(requests)

    def test_runs(self) -> None:
        """Enqueues to one stream in a row are one request, alike or not; to another one they are another."""
        for data in (single(1, b"abc") * 50, b"".join(single(1, bytes(size)) for size in range(50))):
            (request,) = FastStreamCodec(LIMIT).receive(data)
            assert isinstance(request, Enqueue)
            self.assertEqual(request.batch.count, 50)
        requests = list(FastStreamCodec(LIMIT).receive(single(1, b"a") + single(2, b"b") + single(1, b"c")))
        self.assertEqual([each.stream for each in requests if isinstance(each, Enqueue)], [1, 2, 1])

    @given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=6)), max_size=40), st.lists(st.integers(0, 600)))
    @settings(deadline=None, max_examples=150, derandomize=True)
    def test_identity(self, enqueues: list[tuple[int, bytes]], cuts: list[int]) -> None:
        """What goes in comes out, in order, whatever it is and wherever it is cut."""
        data = b"".join(single(stream, record) for stream, record in enqueues)
        self.assertEqual(self.received(*cut(data, cuts)), list(enqueues))


class BrokenTests(SynchronousTestCase):
    def test_each(self) -> None:
        """A server's packet, an unknown one, a size over the limit: refused before anything more is awaited."""
        for data in (
            pack("<I", 10),
            pack("<I", 11),
            pack("<I", 12),
            pack("<I", 13),
            pack("<I", 2**32 - 1),
            pack("<III", 3, 1, LIMIT + 1),
            pack("<III", 3, 1, 2**32 - 1),
            pack("<II", 4, LIMIT + 1),
            pack("<II", 5, 2**32 - 1),
            pack("<II", 4, 1) + b"x" + pack("<I", 2**32 - 1),
            pack("<II", 6, 0) + pack("<I", LIMIT // 4 + 1),
        ):
            codec = FastStreamCodec(LIMIT)
            self.assertEqual(len(list(codec.receive(PING + data))), 1)
            self.assertIsInstance(codec.error, WireError)
            self.assertRaises(WireError, codec.receive, b"")
            self.assertEqual(codec.buffered, 0)

    @given(st.binary(max_size=120), st.integers(0, 120))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_anything(self, data: bytes, place: int) -> None:
        """Whatever comes, nothing but a WireError, and the same wherever it is cut."""
        outcomes = []
        for pieces in ([data], cut(data, [place])):
            codec = FastStreamCodec(LIMIT)
            found: list[object] = []
            for piece in pieces:
                if codec.error is None:
                    found += plain(codec.receive(piece))
            outcomes.append((found, str(codec.error)))
        self.assertEqual(outcomes[0], outcomes[1])


class ReplyTests(SynchronousTestCase):
    def test_bytes(self) -> None:
        """The three packets of a server, to the byte."""
        self.assertEqual(PONG, b"\x0a\0\0\0")
        self.assertEqual(contents_header(258), b"\x0b\0\0\0\x02\x01\0\0")
        self.assertEqual(state(7, True), b"\x0c\0\0\0\x07\0\0\0\x01\0\0\0")
        self.assertEqual(state(2**32 - 1, False), b"\x0c\0\0\0\xff\xff\xff\xff\0\0\0\0")
