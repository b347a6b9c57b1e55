"""The messages for tools: what one end writes the other reads, wherever it is cut, and nothing breaks it badly."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import LENGTH_TYPE, Batch
from streamd.wire import WireError, work
from streamd.wire import tools as storage
from streamd.wire.client.tools import StorageReplies, request_bytes
from streamd.wire.fields import to_bytes
from streamd.wire.pravega.documented import HEADER, MESSAGE_BYTES_MAX, PravegaCodec, Type, in_parts, message
from tests.rigs.wire.pieces import TEXT, cut, made, received
from tests.rigs.wire.tools import EACH, WHOLE, several

LIMIT = 1 << 20
REPLY_BYTES_MAX = 64 << 20

IDS = st.integers(0, 2**64 - 1)
COUNTS = st.integers(0, 2**63 - 1)
SIGNED = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(0, 2**32 - 1)
BYTES = st.integers(0, 255)
TEXTS = st.text(TEXT, max_size=6)
WRITERS = st.binary(min_size=16, max_size=16)
BATCHES = st.lists(st.binary(max_size=9), max_size=12).map(Batch.of)
INFOS = made(storage.SegmentInfo, COUNTS, TEXTS, COUNTS, COUNTS, COUNTS, COUNTS, SIGNED, SIGNED, st.booleans())
RUNS = made(storage.Run, COUNTS, COUNTS, SIGNED, SMALL, BATCHES)


REQUESTS = st.one_of(
    made(storage.ListSegments, IDS, TEXTS, COUNTS),
    made(storage.NameSegments, IDS, several(TEXTS)),
    made(storage.DescribeSegment, IDS, COUNTS),
    made(storage.ReadRecords, IDS, COUNTS, COUNTS, COUNTS, SMALL),
    made(storage.FindRecord, IDS, COUNTS, BYTES, SIGNED),
    made(storage.SplitRecords, IDS, COUNTS, COUNTS, COUNTS, SMALL),
    made(storage.MakeSegment, IDS, TEXTS, st.booleans(), BYTES),
    made(storage.AppendRecords, IDS, COUNTS, COUNTS, BATCHES),
    made(
        storage.PublishSegments,
        IDS,
        several(made(storage.Part, COUNTS, COUNTS)),
        several(made(storage.LevelChange, COUNTS, WRITERS, COUNTS, COUNTS)),
    ),
    made(storage.DeleteHidden, IDS, several(COUNTS)),
    made(storage.GetGroup, IDS, COUNTS, TEXTS),
    made(storage.SetGroup, IDS, COUNTS, TEXTS, COUNTS),
    made(storage.GetLevel, IDS, COUNTS, WRITERS),
    made(work.ListGroups, IDS, TEXTS, COUNTS),
    made(work.MoveGroup, IDS, COUNTS, TEXTS, COUNTS, st.booleans()),
    made(work.DropGroup, IDS, COUNTS, TEXTS, st.booleans()),
    made(work.SetGroupRule, IDS, COUNTS, TEXTS, TEXTS),
    made(work.TakeRecords, IDS, COUNTS, TEXTS, st.booleans(), COUNTS, SMALL, SMALL),
    made(work.AcknowledgeRecords, IDS, COUNTS, TEXTS, several(COUNTS)),
    made(work.RefuseRecords, IDS, COUNTS, TEXTS, several(COUNTS), SIGNED, TEXTS),
    made(work.LeaveGroup, IDS, COUNTS, TEXTS),
    made(work.StoreRecords, IDS, COUNTS, WRITERS, COUNTS, COUNTS, BATCHES),
    made(work.DescribeTopic, IDS, COUNTS),
    made(work.SealTopic, IDS, COUNTS),
    made(work.DeleteTopic, IDS, COUNTS),
    made(work.TruncateTopic, IDS, COUNTS, COUNTS),
    made(work.AwaitRecord, IDS, COUNTS, COUNTS, SMALL),
)
REPLIES = st.one_of(
    made(storage.Segments, IDS, several(INFOS), COUNTS),
    made(storage.RecordsRead, IDS, COUNTS, COUNTS, several(RUNS)),
    made(storage.RecordFound, IDS, COUNTS, COUNTS),
    made(storage.SplitPoints, IDS, several(COUNTS)),
    made(storage.RecordsAppended, IDS, COUNTS),
    made(storage.SegmentsPublished, IDS, st.booleans()),
    made(storage.HiddenDeleted, IDS, SMALL),
    made(storage.GroupPosition, IDS, st.booleans(), COUNTS),
    made(storage.LevelFound, IDS, st.booleans(), SIGNED),
    made(work.GroupList, IDS, several(made(work.GroupInfo, COUNTS, TEXTS, TEXTS, *[COUNTS] * 8, TEXTS)), COUNTS),
    made(work.Done, IDS),
    made(work.RecordsTaken, IDS, several(RUNS), several(SMALL)),
    made(work.RecordsSettled, IDS, several(COUNTS)),
    made(work.RecordsStored, IDS, COUNTS, st.booleans()),
    made(work.TopicDescribed, IDS, TEXTS),
    made(storage.Refusal, IDS, st.integers(0, 2**16 - 1), SIGNED, COUNTS, TEXTS),
)
PLACES = st.lists(st.integers(0, 300), max_size=4)


def codec() -> PravegaCodec:
    return PravegaCodec(LIMIT)


def replies() -> StorageReplies:
    return StorageReplies(REPLY_BYTES_MAX)


class IdentityTests(SynchronousTestCase):
    @given(st.lists(REQUESTS, max_size=4), PLACES)
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_requests(self, requests: list[storage.Request], places: list[int]) -> None:
        """What a client sends is what the daemon reads, cut anywhere."""
        data = b"".join(map(request_bytes, requests))
        self.assertEqual(received(codec, cut(data, places)), (requests, None, 0))

    @given(st.lists(REPLIES, max_size=4), PLACES)
    @settings(deadline=None, max_examples=200, derandomize=True)
    def test_replies(self, told: list[storage.Reply], places: list[int]) -> None:
        """What the daemon sends is what a client reads, cut anywhere."""
        data = b"".join(map(to_bytes, told))
        self.assertEqual(received(replies, cut(data, places)), (told, None, 0))

    def test_cut_anywhere(self) -> None:
        """A message is the same message wherever TCP cuts it."""
        reply = storage.RecordsRead(8, 1, 9, (storage.Run(1, 9, -5, 3, Batch.of([b"x", b"yz"])),))
        told: list[object] = [reply, storage.RecordsAppended(9, 1)]
        for make, whole, expected in ((codec, WHOLE, EACH), (replies, b"".join(map(to_bytes, told)), told)):  # type: ignore[arg-type]
            for at in range(len(whole)):
                self.assertEqual(received(make, [whole[:at], whole[at:]]), (expected, None, 0))

    def test_beside_pravega(self) -> None:
        """Messages of both kinds share a connection, and these come in parts too, as all do."""
        request = storage.GetGroup(1, 2, "readers")
        whole = request_bytes(request)
        alive = message(Type.KEEP_ALIVE, b"x")
        parts = b"".join(
            message(Type.PARTIAL, bytes((part,)) + piece)
            for part, piece in zip(range(3), (whole[:5], whole[5:9], whole[9:]), strict=True)
        )
        found, error, _ = received(codec, [alive + whole + parts + alive])
        self.assertEqual((found[1:3], error), ([request, request], None))

    def test_types(self) -> None:
        """Each message has a type of its own, and none that Pravega ever had."""
        kinds = [*storage.REQUESTS, *storage.REPLIES]
        self.assertEqual(len(set(kinds)), 43)
        self.assertTrue(all(kind >= storage.FIRST_TYPE for kind in kinds))
        self.assertFalse(storage.REQUESTS.keys() & storage.REPLIES.keys())


class BytesTests(SynchronousTestCase):
    def test_append(self) -> None:
        """An append, byte by byte, as the page has it."""
        request = storage.AppendRecords(0x0102, 3, 4, Batch.of([b"ab", b"c"]))
        columns = bytes.fromhex("00000002 00000001") + b"abc"
        crc = bytes.fromhex("b3c37ac3")
        payload = (258).to_bytes(8) + (3).to_bytes(8) + (4).to_bytes(8) + bytes.fromhex("00000002 00000003")
        self.assertEqual(request_bytes(request), HEADER.pack(10007, 24 + 12 + 11) + payload + crc + columns)

    def test_refusal(self) -> None:
        """And a refusal."""
        told = to_bytes(storage.Refusal(1, storage.Code.RECORDS_TRUNCATED, 5, 40, "gone"))
        payload = (1).to_bytes(8) + b"\0\4" + (5).to_bytes(8) + (40).to_bytes(8) + b"\0\4gone"
        self.assertEqual(told, HEADER.pack(10199, len(payload)) + payload)


class LargeTests(SynchronousTestCase):
    def test_parts(self) -> None:
        """A reply with a record that no message has room for comes in parts, and is one again."""
        batch = Batch.of([bytes(MESSAGE_BYTES_MAX + 1000)])
        reply = storage.RecordsRead(1, 0, 1, (storage.Run(0, 0, 0, 0, batch),))
        data = in_parts(to_bytes(reply))
        at = 0
        while at < len(data):
            kind, length = HEADER.unpack_from(data, at)
            self.assertEqual(kind, Type.PARTIAL)
            self.assertLessEqual(length, MESSAGE_BYTES_MAX)
            at += HEADER.size + length
        self.assertEqual(received(replies, [data]), ([reply], None, 0))
        _, error, held = received(lambda: StorageReplies(1 << 20), [data])
        self.assertIn("more than 1048576 bytes", str(error))
        self.assertEqual(held, 0)

    def test_small_stays_whole(self) -> None:
        data = to_bytes(storage.RecordsAppended(1, 2))
        self.assertIs(in_parts(data), data)

    def test_no_room(self) -> None:
        """What a message has no room for is refused before it is sent."""
        for request in (
            storage.AppendRecords(1, 2, 3, Batch.of([bytes(MESSAGE_BYTES_MAX)])),
            storage.AppendRecords(1, 2, 3, Batch(array(LENGTH_TYPE, [0]) * (storage.RECORDS_MAX + 1), b"")),
            storage.NameSegments(1, ("x",) * (storage.NAMES_MAX + 1)),
            storage.DescribeSegment(1, -1),
            storage.DescribeSegment(1, 1 << 63),
            storage.GetLevel(1, 2, b"short"),
            storage.GetGroup(1, 2, "x" * 65536),
        ):
            self.assertRaises(ValueError, request_bytes, request)


class BrokenTests(SynchronousTestCase):
    def test_each(self) -> None:
        """What breaks a message closes the connection, with a reason."""
        append = request_bytes(storage.AppendRecords(1, 2, 3, Batch.of([b"abc"])))
        id = bytes(8)
        for data, reason in (
            (message_of(10_000 + 99, id), "no place here"),
            (message_of(10_100, id), "no place here"),
            (message_of(10_002, b"short"), "inside one of its fields"),
            (message_of(10_002, id + bytes(9)), "behind the last field"),
            (message_of(10_002, id + b"\xff" * 8), "below 0"),
            (message_of(10_006, id + b"\0\1x\2\0"), "neither 0 nor 1"),
            (message_of(10_006, id + b"\0\1\xff\0\0"), "no UTF-8"),
            (message_of(10_001, id + b"\xff\xff\xff\xff"), "at once"),
            (message_of(10_001, id + b"\0\0\0\2\0\1x"), "inside one of its fields"),
            (append[:-1] + b"d", "checksum"),
            (message_of(10_007, id + bytes(16) + b"\xff" * 12), "records at once"),
            (message_of(10_007, id + bytes(16) + b"\0\0\0\1\0\0\0\1" + bytes(4)), "1 records of 1 bytes in 0"),
        ):
            found, error, held = received(codec, [data])
            self.assertEqual((found, held), ([], 0))
            self.assertIn(reason, str(error))

    def test_lengths(self) -> None:
        """Lengths that are not those of the payload, under a checksum that fits."""
        batch = Batch(array(LENGTH_TYPE, [5]), b"abc")
        _, error, _ = received(codec, [request_bytes(storage.AppendRecords(1, 2, 3, batch))])
        self.assertIn("records of 5 bytes in 3", str(error))

    def test_replies(self) -> None:
        """What is no reply, whole or in parts, breaks the client's end."""
        for data in (
            message_of(10_000, bytes(18)),
            message_of(0, b""),
            message_of(-2, b""),
            message_of(-2, b"\1x"),
            message_of(-2, b"\3x"),
            message_of(-2, b"\0x") + message_of(-2, b"\0x"),
            message_of(-2, b"\0x") + message_of(-2, b"\2x"),
            message_of(-2, b"\0x") + to_bytes(storage.RecordsAppended(1, 2)),
            message_of(-2, b"\0" + HEADER.pack(10_104, 5)) + message_of(-2, b"\2x"),
        ):
            found, error, held = received(replies, [data])
            self.assertEqual((found, held), ([], 0))
            self.assertIsNotNone(error)

    @given(st.integers(10_000, 10_013), st.binary(max_size=80), PLACES)
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_anything(self, kind: int, payload: bytes, places: list[int]) -> None:
        """Whatever comes, nothing but a WireError, and the same wherever it is cut."""
        data = message_of(kind, payload)
        self.assertEqual(received(codec, [data]), received(codec, cut(data, places)))

    @given(st.sampled_from(sorted(storage.REPLIES)), st.binary(max_size=80), PLACES)
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_any_reply(self, kind: int, payload: bytes, places: list[int]) -> None:
        """The same for what a client receives."""
        data = message_of(kind, payload)
        self.assertEqual(received(replies, [data]), received(replies, cut(data, places)))

    @given(REQUESTS, st.integers(0, 2000), st.integers(1, 255))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_damaged(self, request: storage.Request, at: int, change: int) -> None:
        """A byte that changed on the way gives another request, or a WireError, never anything else."""
        data = bytearray(request_bytes(request))
        at = HEADER.size + at % (len(data) - HEADER.size)
        data[at] ^= change
        try:
            found = storage.request(request.type, bytes(data[HEADER.size :]))
        except WireError:
            return
        self.assertEqual(request_bytes(found), bytes(data))


def message_of(kind: int, payload: bytes) -> bytes:
    return HEADER.pack(kind, len(payload)) + payload
