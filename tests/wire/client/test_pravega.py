"""The client's half of Pravega's append blocks: what it sends is what the daemon reads, and the other way round."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.wire import WireError
from streamd.wire.client.pravega import (
    AppendSetup,
    DataAppended,
    NoSuchSegment,
    PravegaReplies,
    Reply,
    SegmentCreated,
    SegmentExists,
    SegmentIsSealed,
    SegmentIsTruncated,
    SegmentRead,
    name_of,
    request_bytes,
    whole_events,
)
from streamd.wire.pravega.documented import (
    BLOCK_BYTES_MAX,
    HEADER,
    MESSAGE_BYTES_MAX,
    AppendBlock,
    CreateSegment,
    KeepAlive,
    Name,
    PravegaCodec,
    ReadSegment,
    Request,
    SetupAppend,
    Type,
    message,
    named,
)
from tests.rigs.wire.pieces import TEXT, cut, made, received
from tests.rigs.wire.pravega import sent

LIMIT = 1 << 20
WRITERS = st.binary(min_size=16, max_size=16)
OFFSETS = st.integers(0, 2**62)
NAMES = st.text(TEXT, min_size=1, max_size=6).map(name_of)
RECORDS = st.lists(st.binary(max_size=9), max_size=12)
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    made(SetupAppend, WRITERS, NAMES),
    made(AppendBlock, WRITERS, OFFSETS, RECORDS.map(Batch.of)),
    made(ReadSegment, NAMES, OFFSETS, st.integers(0, 2**31 - 1)),
    made(CreateSegment, NAMES),
    made(KeepAlive, st.binary(max_size=9)),
)


REPLIES: st.SearchStrategy[Reply] = st.one_of(
    made(AppendSetup, NAMES, WRITERS, OFFSETS),
    made(DataAppended, WRITERS, OFFSETS),
    made(SegmentRead, NAMES, OFFSETS, st.booleans(), st.booleans(), st.binary(max_size=20)),
    made(SegmentCreated, NAMES),
    made(SegmentIsSealed, NAMES),
    made(SegmentExists, NAMES),
    made(NoSuchSegment, NAMES),
    made(SegmentIsTruncated, NAMES, OFFSETS),
    made(KeepAlive, st.binary(max_size=9)),
)


class RequestTests(SynchronousTestCase):
    @given(REQUESTS)
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_identity(self, request: Request) -> None:
        """The daemon reads the request that was meant."""
        codec = PravegaCodec(LIMIT)
        if isinstance(request, AppendBlock):
            codec.receive(request_bytes(SetupAppend(request.writer, Name("s", b"s"))))
        self.assertEqual(codec.receive(request_bytes(request)), [request])

    def test_limits(self) -> None:
        """What the protocol has no room for is not sent."""
        self.assertRaises(ValueError, name_of, "")
        self.assertRaises(ValueError, name_of, "x" * 65536)
        large = AppendBlock(bytes(16), 0, Batch.of([bytes(BLOCK_BYTES_MAX)]))
        self.assertRaises(ValueError, request_bytes, large)


class ReplyTests(SynchronousTestCase):
    @given(st.lists(REPLIES, max_size=10), st.lists(st.integers(0, 400)))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_identity(self, replies: list[Reply], places: list[int]) -> None:
        """Every reply comes out as it was meant, wherever it is cut."""
        found, error, buffered = received(PravegaReplies, cut(b"".join(map(sent, replies)), places))
        self.assertEqual((found, error, buffered), (replies, None, 0))
        # Tuples with the same fields are equal, whatever they mean.
        self.assertEqual(list(map(type, found)), list(map(type, replies)))
        self.assertLessEqual({type(each.data) for each in found if isinstance(each, SegmentRead)}, {bytes})

    def test_broken(self) -> None:
        """A client's message, an unknown one, fields that are missing or too many: the daemon's fault."""
        name = Name("s", b"s")
        for data in (
            message(Type.SETUP_APPEND, b""),
            named(Type(20), name),
            HEADER.pack(77, 0),
            HEADER.pack(Type.KEEP_ALIVE, MESSAGE_BYTES_MAX + 1),
            HEADER.pack(Type.KEEP_ALIVE, -1),
            message(Type.DATA_APPENDED, b"short"),
            named(Type.APPEND_SETUP, name, b"short"),
            named(Type.SEGMENT_READ, name, b"short"),
            named(Type.SEGMENT_CREATED, name, b"more"),
            message(Type.NO_SUCH_SEGMENT, b"\0"),
            message(Type.NO_SUCH_SEGMENT, b"\0\2a"),
        ):
            found, error, buffered = received(PravegaReplies, [message(Type.KEEP_ALIVE, b""), data])
            self.assertEqual((found, buffered), ([KeepAlive(b"")], 0), data)
            self.assertIsNotNone(error)

    @given(st.binary(max_size=100), st.lists(st.integers(0, 100), max_size=5))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_anything(self, data: bytes, places: list[int]) -> None:
        """Whatever comes, it is the same wherever it is cut."""
        self.assertEqual(received(PravegaReplies, cut(data, places)), received(PravegaReplies, [data]))


class EventTests(SynchronousTestCase):
    @given(RECORDS, st.booleans(), st.integers(0, 300))
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_whole(self, records: list[bytes], alike: bool, end: int) -> None:
        """Of bytes that end anywhere, the events that are whole are found, and where the next one begins."""
        records = [bytes(5)] * 20 if alike else records
        events = [message(Type.EVENT, record) for record in records]
        data = b"".join(events)[:end]
        found, at = whole_events(data, LIMIT)
        self.assertEqual(found, records[: len(found)])
        self.assertEqual(at, len(b"".join(events[: len(found)])))
        self.assertTrue(len(found) == len(events) or at + len(events[len(found)]) > len(data))

    def test_no_event(self) -> None:
        """Where no event begins, or one that is too large, that is said."""
        for data in (HEADER.pack(1, 0), HEADER.pack(0, -1), HEADER.pack(0, LIMIT + 1)):
            self.assertRaises(WireError, whole_events, data, LIMIT)
