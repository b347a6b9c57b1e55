"""The client's half of FastStreamDB: what it sends is what the daemon reads, and the other way round."""

from __future__ import annotations

from array import array
from functools import partial
from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import LENGTH_TYPE, Batch
from streamd.wire.client.faststream import FastStreamReplies, Pong, Reply, StreamContents, StreamState, request_bytes
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
    Request,
    contents_header,
    state,
)
from tests.rigs.wire.pieces import cut, made, received

LIMIT = 1 << 12
STREAMS = st.integers(0, 2**32 - 1)
LISTS = st.lists(STREAMS, max_size=4).map(partial(array, LENGTH_TYPE))
BATCHES = st.lists(st.binary(max_size=5), min_size=1, max_size=6).map(Batch.of)
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    made(Ping),
    made(Create, STREAMS),
    made(Delete, STREAMS),
    made(Enqueue, STREAMS, BATCHES),
    made(EnqueueMany, LISTS, st.booleans(), st.binary(max_size=20)),
    made(Contents, STREAMS, st.booleans()),
    made(Check, STREAMS),
)
REPLIES = st.lists(
    st.one_of(
        st.just((PONG, Pong())),
        st.binary(max_size=30).map(lambda data: (contents_header(len(data)) + data, StreamContents(data))),
        made(lambda stream, valid: (state(stream, valid), StreamState(stream, valid)), STREAMS, st.booleans()),
    ),
    max_size=20,
)


def make() -> FastStreamReplies:
    return FastStreamReplies(LIMIT)


class RequestTests(SynchronousTestCase):
    @given(REQUESTS)
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_identity(self, request: Request) -> None:
        """The daemon reads the request that was meant."""
        self.assertEqual(FastStreamCodec(LIMIT).receive(request_bytes(request)), [request])

    def test_alike(self) -> None:
        """A thousand records of one size are one request."""
        request = Enqueue(7, Batch.of([b"same"] * 1000))
        self.assertEqual(FastStreamCodec(LIMIT).receive(request_bytes(request)), [request])


class ReplyTests(SynchronousTestCase):
    @given(REPLIES, st.lists(st.integers(0, 300)))
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_identity(self, replies: list[tuple[bytes, Reply]], places: list[int]) -> None:
        """Every reply comes out as it was meant, wherever it is cut."""
        data = b"".join(sent for sent, _ in replies)
        found, error, buffered = received(make, cut(data, places))
        self.assertEqual((found, error, buffered), ([meant for _, meant in replies], None, 0))
        # Equal to bytes is not bytes: a reply holds no buffer that could change.
        self.assertLessEqual({type(each.data) for each in found if isinstance(each, StreamContents)}, {bytes})

    def test_broken(self) -> None:
        """A client's packet, an unknown one, contents over the limit: the daemon's fault, seen at once."""
        for data in (pack("<I", 0), pack("<I", 9), pack("<I", 13), contents_header(LIMIT + 1)):
            found, error, buffered = received(make, [PONG, data])
            self.assertEqual((found, buffered), ([Pong()], 0))
            self.assertIsNotNone(error)

    @given(st.binary(max_size=100), st.lists(st.integers(0, 100), max_size=5))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_anything(self, data: bytes, places: list[int]) -> None:
        """Whatever comes, it is the same wherever it is cut."""
        self.assertEqual(received(make, cut(data, places)), received(make, [data]))
