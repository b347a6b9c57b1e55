"""The client's half of Simple Message Queue: what it sends is what the daemon reads, and the other way round."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.wire.client.smq import Outcome, Response, SmqReplies, pull_frames, push_frames
from streamd.wire.smq import EMPTY, PUSHED, REFUSED, STR, Pull, Push, SmqCodec, replies, tag_of
from tests.rigs.wire.pieces import cut, received

LIMIT = 1000
SIZES = (1, 2, 4, 8, 1, 2, 4, 8, 4, 8)


def make() -> SmqReplies:
    return SmqReplies(LIMIT)


@st.composite
def typed(draw: st.DrawFn) -> tuple[int, list[bytes]]:
    """Messages of one type."""
    kind = draw(st.integers(0, STR))
    if kind == STR:
        element = st.binary(max_size=5).map(lambda data: data.replace(b"\0", b"x") + b"\0")
    else:
        element = st.binary(min_size=SIZES[kind], max_size=SIZES[kind])
    message = st.lists(element, max_size=3).map(b"".join)
    alike = draw(st.booleans())
    return kind, [draw(message)] * 6 if alike else draw(st.lists(message, min_size=1, max_size=6))


class RequestTests(SynchronousTestCase):
    @given(typed())
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_push(self, sent: tuple[int, list[bytes]]) -> None:
        """The daemon reads the messages that were meant, of the type that was meant."""
        kind, records = sent
        (request,) = SmqCodec(LIMIT).receive(push_frames(kind, records))
        assert isinstance(request, Push)
        self.assertEqual((request.tag, [bytes(each) for each in request.batch.records()]), (tag_of(kind), records))

    def test_pull(self) -> None:
        """So many pulls are read as so many."""
        self.assertEqual(SmqCodec(LIMIT).receive(pull_frames(1000)), [Pull(1000)])


class ReplyTests(SynchronousTestCase):
    @given(st.lists(typed(), max_size=4), st.integers(0, 5), st.lists(st.integers(0, 400)))
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_identity(self, runs: list[tuple[int, list[bytes]]], others: int, places: list[int]) -> None:
        """Every response comes out as it was meant, wherever it is cut."""
        data = PUSHED * others + REFUSED * others + EMPTY * others
        expected = [
            Response(outcome) for outcome in (Outcome.PUSHED, Outcome.REFUSED, Outcome.EMPTY) for _ in range(others)
        ]
        for kind, records in runs:
            data += replies(tag_of(kind), records)
            expected += [Response(Outcome.PULLED, kind, record) for record in records]
        found, error, buffered = received(make, cut(data, places))
        self.assertEqual((found, error, buffered), (expected, None, 0))
        self.assertLessEqual({type(each.data) for each in found}, {bytes})

    def test_broken(self) -> None:
        """A size over the limit, no room for a type, an unknown type, data that does not fit: the daemon's fault."""
        for data in (
            struct.pack(">BQ", 0, LIMIT + 6),
            struct.pack(">BQ", 0, 2**63),
            struct.pack(">BQ", 0, 4) + bytes(4),
            struct.pack(">BQBI", 0, 5, 11, 0),
            struct.pack(">BQBI", 0, 5, 16, 0),
            struct.pack(">BQBI", 0, 6, 1, 1) + b"x",
            struct.pack(">BQBI", 0, 6, 10, 1) + b"x",
        ):
            found, error, buffered = received(make, [PUSHED * 3, data])
            self.assertEqual((len(found), buffered), (3, 0))
            self.assertIsNotNone(error)

    def test_broken_among_others(self) -> None:
        """What came before a bad message in a run that looks alike is there, wherever it is cut."""
        whole = (
            push_frames(STR, [b"ab\0"] * 5)
            + struct.pack(">BQBI", 0, 8, STR, 1)
            + b"a\0\0"
            + push_frames(STR, [b"ab\0"])
        )
        for place in range(len(whole)):
            found, error, _ = received(make, cut(whole, [place]))
            self.assertEqual(found, [Response(Outcome.PULLED, STR, b"ab\0")] * 5)
            self.assertIsNotNone(error)

    @given(st.binary(max_size=100), st.lists(st.integers(0, 100), max_size=5))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_anything(self, data: bytes, places: list[int]) -> None:
        """Whatever comes, it is the same wherever it is cut."""
        self.assertEqual(received(make, cut(data, places)), received(make, [data]))
