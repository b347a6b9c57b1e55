"""The codec of Simple Message Queue: the same requests wherever TCP cuts them, and no input that it can't stand."""

from __future__ import annotations

import struct
import time
import tracemalloc
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.wire import TooLarge, WireError, smq
from streamd.wire.smq import BadPush, Pull, Push, Request, SmqCodec
from tests.rigs.wire.smq import BAD, CONVERSATION, GOODBYE, NUMBERS, PULL, STR, WHOLE, One, good, pull, push, singles

LIMIT = 1000


def expected(whole: bytes, limit: int = LIMIT) -> tuple[list[One], str | None]:
    """What the document makes of these bytes, one frame after the other, as plainly as it can be said."""
    found: list[One] = []
    while whole:
        if whole[0] == 0xFF:
            return [*found, GOODBYE], None
        if whole[0] > 1:
            return found, "action"
        if len(whole) < 9:
            break
        action, size = struct.unpack_from(">BQ", whole)
        if size > limit + 5:
            return found, "large"
        if len(whole) < 9 + size:
            break
        found.append(PULL if action else expected_push(whole[9 : 9 + size]))
        whole = whole[9 + size :]
    return found, None


def expected_push(body: bytes) -> One:
    if len(body) < 5:
        return BAD
    first, count = struct.unpack_from(">BI", body)
    code, kind, data = first >> 4, first & 15, body[5:]
    if code not in (0, 2) or kind > STR:
        return BAD
    if kind == STR:
        elements = data.split(b"\0")
        # The public library tells the low byte of the number.
        fits = elements.pop() == b"" and count in (len(elements), len(elements) % 256)
    else:
        fits = len(data) == count * dict(NUMBERS)[kind]
    return good(kind, data) if fits else BAD


def decode(*pieces: bytes, limit: int = LIMIT) -> tuple[list[One], str | None]:
    """The requests of what arrived in these pieces, and how the peer broke the protocol."""
    codec = SmqCodec(limit)
    found: list[One] = []
    for piece in pieces:
        if codec.error is None:
            found += singles(codec.receive(piece))
    broken = None if codec.error is None else "large" if isinstance(codec.error, TooLarge) else "action"
    return found, broken


def one(frame: bytes) -> One:
    """The request in a frame."""
    (found,), broken = decode(frame)
    assert broken is None
    return found


REQUESTS = [request for _, request in CONVERSATION]


class CutTests(SynchronousTestCase):
    """Requests are the same wherever TCP cuts them."""

    def test_whole(self) -> None:
        """The whole conversation at once gives the requests in order, as does the plain reading of the document."""
        self.assertEqual(decode(WHOLE), (REQUESTS, None))
        self.assertEqual(expected(WHOLE), (REQUESTS, None))

    def test_cut_anywhere(self) -> None:
        """In two pieces, cut at every byte, it is the same conversation."""
        for cut in range(len(WHOLE) + 1):
            self.assertEqual(decode(WHOLE[:cut], WHOLE[cut:]), (REQUESTS, None), cut)

    def test_byte_by_byte(self) -> None:
        """So it is one byte at a time, and each request is there with its last byte, not before and not later."""
        codec = SmqCodec(LIMIT)
        for frame, request in CONVERSATION:
            for byte in frame[:-1]:
                self.assertEqual(codec.receive(bytes([byte])), [])
                self.assertGreater(codec.buffered, 0)
            self.assertEqual(singles(codec.receive(frame[-1:])), [request])
            self.assertEqual(codec.buffered, 0)

    def test_every_frame_alone(self) -> None:
        """A frame means the same whatever stands before and behind it."""
        for frame, request in CONVERSATION:
            self.assertEqual(one(frame), request)
            for before, first in CONVERSATION:
                self.assertEqual(decode(before + frame), ([first, request], None))

    def test_trailing(self) -> None:
        """What follows the last whole frame waits, and takes part in nothing before."""
        for rest in (b"\0", b"\1", pull()[:8], push(0, 3, b"abc")[:-1], pull(b"of no use")[:-1]):
            for cut in (0, 1, 9, 20, len(WHOLE)):
                codec = SmqCodec(LIMIT)
                found = [*codec.receive(WHOLE[:cut]), *codec.receive(WHOLE[cut:] + rest)]
                self.assertEqual(singles(found), REQUESTS)
                self.assertGreater(codec.buffered, 0)

    def test_nothing(self) -> None:
        """A read of no bytes changes nothing, in a frame, in a body that is skipped, or between frames."""
        for cut in range(len(WHOLE) + 1):
            self.assertEqual(decode(WHOLE[:cut], b"", b"", WHOLE[cut:]), (REQUESTS, None))

    @given(st.lists(st.sampled_from([frame for frame, _ in CONVERSATION]), max_size=30), st.lists(st.integers(0, 700)))
    @settings(deadline=None, derandomize=True)
    def test_any_split(self, frames: list[bytes], cuts: list[int]) -> None:
        """Any frames in any pieces are what they are in one piece."""
        whole = b"".join(frames)
        at = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
        pieces = [whole[begin:stop] for begin, stop in pairwise(at)]
        self.assertEqual(decode(*pieces), (expected(whole)[0], None))

    @given(st.lists(st.binary(max_size=64) | st.binary(max_size=20).map(lambda data: b"\0" * 8 + data), max_size=10))
    @example([b"\xff"])
    @example([b"\0\0\0\0\0\0\0\0\1x"])
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_anything(self, pieces: list[bytes]) -> None:
        """No bytes make it raise; it finds what the document says, and breaks off where that does."""
        self.assertEqual(decode(*pieces, limit=40), expected(b"".join(pieces), limit=40))


messages = st.one_of(
    # Right ones of all types, of few sizes and contents, so that neighbours look alike.
    st.builds(
        lambda number, count, byte: push(number[0], count, bytes([byte]) * (count * number[1])),
        st.sampled_from(NUMBERS),
        st.sampled_from((0, 1, 2, 5)),
        st.sampled_from((0, 1, 97)),
    ),
    st.builds(
        lambda parts: push(STR, len(parts), b"".join(part + b"\0" for part in parts)),
        st.lists(st.sampled_from((b"", b"a", b"abc")), max_size=3),
    ),
    # Wrong ones beside them: any code, type, count and data.
    st.builds(
        push, st.integers(0, 255), st.integers(0, 4), st.sampled_from((b"", b"\0", b"a", b"a\0", b"\0a", bytes(8)))
    ),
    st.builds(lambda size: struct.pack(">BQ", 0, size) + bytes(size), st.integers(0, 4)),
    st.builds(pull, st.sampled_from((b"", b"", b"x", bytes(30)))),
)


class AlikeTests(SynchronousTestCase):
    """Frames that look alike are cut all at once, others one by one; nobody can tell which it was."""

    @given(st.lists(st.tuples(messages, st.sampled_from((1, 2, 3, 4, 5, 63, 64, 65))), max_size=12), st.data())
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_any_mixture(self, runs: list[tuple[bytes, int]], data: st.DataObject) -> None:
        """Runs of any length of any messages, right and wrong, are what the document says, cut anywhere."""
        whole = b"".join(frame * count for frame, count in runs)
        cut = data.draw(st.integers(0, len(whole)))
        self.assertEqual(decode(whole), expected(whole))
        self.assertEqual(decode(whole[:cut], whole[cut:]), expected(whole))

    @given(st.lists(messages, min_size=1, max_size=60))
    @settings(deadline=None, derandomize=True)
    def test_any_messages(self, frames: list[bytes]) -> None:
        """So are messages in any order."""
        whole = b"".join(frames)
        self.assertEqual(decode(whole), expected(whole))
        self.assertEqual(decode(*frames), expected(whole))

    def test_one_that_differs(self) -> None:
        """In a run of any length, one that differs in any byte of its header is told apart wherever it stands."""
        frame = push(0, 300, bytes(300))
        for count in (1, 2, 3, 4, 5, 65, 130):
            for at in {0, 1, 2, 3, count // 2, count - 1}:
                for column in range(14):
                    run = [bytearray(frame) for _ in range(count)]
                    run[min(at, count - 1)][column] ^= 1
                    whole = b"".join(run)
                    self.assertEqual(decode(whole, limit=1 << 20), expected(whole, limit=1 << 20))

    def test_headers_in_the_data(self) -> None:
        """What looks like a header inside a message is data."""
        inner = push(0, 1, b"x") + pull() + b"\xff"
        frame = push(0, len(inner), inner)
        for count in (1, 3, 4, 50):
            self.assertEqual(decode(frame * count), ([good(0, inner)] * count, None))


class RunTests(SynchronousTestCase):
    """A run of like requests is one request."""

    def receive(self, *frames: bytes) -> list[Request]:
        return SmqCodec(LIMIT).receive(b"".join(frames))

    def test_pushes(self) -> None:
        """Messages of one type are one batch, in order, of whatever sizes; the code bits do not matter."""
        records = [b"a" * (number % 7) for number in range(100)]
        frames = [push(0x20 * (number % 2), len(record), record) for number, record in enumerate(records)]
        self.assertEqual(self.receive(*frames), [Push(1, Batch.of(records))])
        self.assertEqual(self.receive(*[push(1, 1, b"ab")] * 100), [Push(2, Batch.of([b"ab"] * 100))])
        # Alike, then not, then alike again.
        frames = [*[push(0, 1, b"a")] * 50, push(0, 2, b"bb"), *[push(0, 1, b"c")] * 50]
        self.assertEqual(self.receive(*frames), [Push(1, Batch.of([b"a"] * 50 + [b"bb"] + [b"c"] * 50))])

    def test_types(self) -> None:
        """Another type begins another request, also one whose bytes look the same."""
        found = self.receive(push(0, 1, b"a"), push(4, 1, b"a"), push(4, 1, b"b"), push(0, 1, b"c"))
        self.assertEqual(found, [Push(1, Batch.of([b"a"])), Push(5, Batch.of([b"a", b"b"])), Push(1, Batch.of([b"c"]))])

    def test_pulls(self) -> None:
        """Pulls are one, for every number of them, also where some have a body."""
        for count in [*range(1, 70), 1000, 4095, 4096, 4097]:
            self.assertEqual(self.receive(pull() * count), [Pull(count)])
        self.assertEqual(self.receive(pull() * 3, pull(b"x") * 2, pull()), [Pull(6)])

    def test_bad(self) -> None:
        """Wrong ones are one, whatever is wrong with them; a right one parts them."""
        wrong = [push(0, 2, b"x"), push(15, 0), struct.pack(">BQ", 0, 0), push(STR, 1, b"x")]
        self.assertEqual(self.receive(*wrong, *wrong), [BadPush(8)])
        self.assertEqual(self.receive(*wrong, push(0, 0), *wrong), [BadPush(4), Push(1, Batch.of([b""])), BadPush(4)])

    def test_mixed(self) -> None:
        """Different requests stay in their order."""
        found = self.receive(pull(), push(0, 1, b"a"), pull(), pull(), push(0, 2, b"x"), push(0, 1, b"b"))
        self.assertEqual(found, [Pull(1), Push(1, Batch.of([b"a"])), Pull(2), BadPush(1), Push(1, Batch.of([b"b"]))])

    def test_size_and_reads(self) -> None:
        """A push tells at least its bytes; a pull waits for this connection's own pushes, a push for nothing."""
        requests = self.receive(push(0, 500, bytes(500)), push(0, 1), pull(), b"\xff")
        self.assertGreaterEqual(requests[0].size, 500)
        self.assertEqual([request.reads for request in requests], [False, False, True, True])


class MessageTests(SynchronousTestCase):
    """A push is checked: known code and type, and data that is what they say."""

    def test_counts(self) -> None:
        """Each type takes exactly `count` elements of its size, none included, and no byte more or less."""
        for kind, size in NUMBERS:
            for count in (0, 1, 2, 3, 100):
                self.assertEqual(one(push(kind, count, bytes(count * size))), good(kind, bytes(count * size)))
                for wrong in {count * size - 1, count * size + 1, count, (count + 1) * size} - {count * size, -1}:
                    self.assertEqual(one(push(kind, count, bytes(wrong))), BAD, (kind, count, wrong))

    def test_large_counts(self) -> None:
        """Counts of 256 and more are counted whole; those that a product would wrap around are wrong."""
        for count in (255, 256, 257, 65_536, 100_000):
            self.assertEqual(decode(push(0, count, bytes(count)), limit=1 << 20), ([good(0, bytes(count))], None))
            if count > 255:
                self.assertEqual(decode(push(0, count & 255, bytes(count)), limit=1 << 20), ([BAD], None))
        for kind, size in NUMBERS:
            for count in (0xFFFFFFFF, 0x80000000, (1 << 32) // size % (1 << 32)):
                if count:
                    self.assertEqual(one(push(kind, count)), BAD)
                    self.assertEqual(one(push(kind, count, bytes(8))), BAD)

    def test_strings(self) -> None:
        """Exactly `count` elements that end with a NUL, the last byte one of these; what they hold is free."""
        right = {
            0: [b""],
            1: [b"\0", b"a\0", b"\xff\xfe\0", "grüße\0".encode(), b"a\nb\0"],
            2: [b"\0\0", b"a\0b\0", b"\0b\0", b"a\0\0"],
            3: [b"\0\0\0", b"one\0two\0three\0"],
        }
        wrong = [b"a", b"\0a", b"a\0b", b"a\0b\0c"]
        for count, texts in right.items():
            for text in texts:
                self.assertEqual(one(push(STR, count, text)), good(STR, text))
                for other in {0, 1, 2, 3, 4, 256 + count, 0xFFFFFFFF} - {count}:
                    self.assertEqual(one(push(STR, other, text)), BAD, (other, text))
        for text in wrong:
            for count in range(5):
                self.assertEqual(one(push(STR, count, text)), BAD, (count, text))

    def test_many_strings(self) -> None:
        """256 and more may be told by the low byte of their number, as the public library does; by no other one."""
        for elements in (255, 256, 257, 300, 511, 512, 1000, 65_536, 65_537):
            text = b"x\0" * elements
            right = {elements, elements % 256}
            for count in {*right, 0, 1, 43, 44, 255, 256, elements - 1, elements + 1, elements % 256 + 256, 1 << 31}:
                found = good(STR, text) if count in right else BAD
                self.assertEqual(decode(push(STR, count, text), limit=1 << 20), ([found], None), (elements, count))
                self.assertEqual(decode(push(STR, count, text) * 3, limit=1 << 20), ([found] * 3, None))
                self.assertEqual(decode(push(STR, count, text[:-1]), limit=1 << 20), ([BAD], None))

    def test_first_byte(self) -> None:
        """Of all values of code and type, those with a code of 0 or 2 and a type up to 10 are right."""
        for value in range(256):
            right = value >> 4 in (0, 2) and value & 15 <= STR
            found = one(push(value, 0))
            self.assertEqual(found, good(value & 15, b"") if right else BAD, value)
            self.assertEqual(decode(push(value, 0) * 50), ([found] * 50, None))

    def test_short(self) -> None:
        """A body of under five bytes is wrong, alone, in a run, and before others."""
        for size in range(5):
            frame = struct.pack(">BQ", 0, size) + bytes(size)
            for count in (1, 2, 3, 4, 5, 50):
                whole = frame * count + push(0, 1, b"x") + pull()
                self.assertEqual(decode(whole), ([BAD] * count + [good(0, b"x"), PULL], None))

    def test_pull_with_a_body(self) -> None:
        """The body passes unseen, cut anywhere, and then it is a pull; it is not kept meanwhile."""
        for size in (1, 5, 9, 14, LIMIT, LIMIT + 5):
            whole = pull(b"\xff" * size) + push(0, 1, b"x") + pull()
            for cut in {*range(30), size, size + 8, size + 9, size + 10}:
                self.assertEqual(decode(whole[:cut], whole[cut:]), ([PULL, good(0, b"x"), PULL], None))
        codec = SmqCodec(1 << 20)
        self.assertEqual(codec.receive(struct.pack(">BQ", 1, 1 << 20) + bytes(1000)), [])
        for _ in range(1000):
            self.assertEqual(codec.receive(bytes(1000)), [])
            self.assertEqual(codec.buffered, 1)


class BrokenTests(SynchronousTestCase):
    """What ends a connection, behind all that was asked before."""

    def test_unknown_action(self) -> None:
        """Each action byte but two, with its first byte already, and nothing behind it counts."""
        for action in range(2, 255):
            for rest in (b"", bytes(7), bytes(8), bytes(100), pull()):
                whole = WHOLE + bytes([action]) + rest
                self.assertEqual(decode(whole), (REQUESTS, "action"))
            for cut in range(len(WHOLE) - 20, len(WHOLE) + 2):
                whole = WHOLE + bytes([action]) + pull()
                self.assertEqual(decode(whole[:cut], whole[cut:]), (REQUESTS, "action"))

    def test_goodbye(self) -> None:
        """The public client's last frame, with its first byte already, breaks nothing; nothing behind it counts."""
        for rest in (b"", bytes(7), bytes(8), bytes(100), pull(), b"\2"):
            whole = WHOLE + b"\xff" + rest
            for cut in range(len(WHOLE) - 20, len(whole) + 1):
                codec = SmqCodec(LIMIT)
                found = singles([*codec.receive(whole[:cut]), *codec.receive(whole[cut:])])
                self.assertEqual((found, codec.error, codec.buffered), ([*REQUESTS, GOODBYE], None, 0))

    def test_too_large(self) -> None:
        """A body over the limit, up to what eight bytes can say, is refused at its header, of push and of pull."""
        for size in (LIMIT + 6, 1 << 31, 1 << 32, (1 << 32) + 5, 1 << 62, 1 << 63, (1 << 64) - 1):
            for action in (0, 1):
                whole = WHOLE + struct.pack(">BQ", action, size)
                for rest in (b"", bytes(5), pull()):
                    self.assertEqual(decode(whole + rest), (REQUESTS, "large"))
                for cut in range(len(WHOLE) - 10, len(whole)):
                    self.assertEqual(decode(whole[:cut], whole[cut:]), (REQUESTS, "large"))

    def test_nothing_is_allocated(self) -> None:
        """Neither a size that is refused nor one that is allowed takes memory before the bytes are there."""
        for size in ((1 << 64) - 1, 1 << 40, 8 << 20):
            header = struct.pack(">BQ", 0, size)
            tracemalloc.start()
            codec = SmqCodec(8 << 20)
            codec.receive(header)
            codec.receive(b"x") if codec.error is None else None
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 100_000)

    def test_at_the_limit(self) -> None:
        """A message as large as allowed is taken, one byte more is not; the metadata does not count."""
        for limit in (1, 10, 1000):
            self.assertEqual(decode(push(0, limit, bytes(limit)), limit=limit), ([good(0, bytes(limit))], None))
            self.assertEqual(decode(push(0, limit + 1, bytes(limit + 1)), limit=limit), ([], "large"))

    def test_nothing_after(self) -> None:
        """Nothing more is parsed after it: who still asks is told the error, and nothing is kept."""
        for end in (b"\xfe", struct.pack(">BQ", 0, 1 << 63)):
            codec = SmqCodec(LIMIT)
            codec.receive(push(0, 0) + end + bytes(1000))
            self.assertEqual(codec.buffered, 0)
            self.assertRaises(WireError, codec.receive, pull())


class LinearTests(SynchronousTestCase):
    """The time follows the bytes, whoever chose them."""

    def best_seconds(self, *pieces: bytes, limit: int = 64 << 20) -> float:
        best = float("inf")
        for _ in range(3):
            codec = SmqCodec(limit)
            begin = time.process_time()
            for piece in pieces:
                codec.receive(piece)
            best = min(best, time.process_time() - begin)
            self.assertEqual(codec.buffered, 0)
        return best

    def in_pieces(self, whole: bytes, size: int) -> list[bytes]:
        return [whole[at : at + size] for at in range(0, len(whole), size)]

    def test_tiny_pieces(self) -> None:
        """A large frame in tiny pieces: ten times the bytes take about ten times the time, not a hundred."""
        for make in (lambda size: push(0, size, bytes(size)), lambda size: pull(bytes(size))):
            few = self.best_seconds(*self.in_pieces(make(30_000), 1))
            many = self.best_seconds(*self.in_pieces(make(300_000), 1))
            self.assertLess(many, 40 * few)

    def test_patterns(self) -> None:
        """Runs of two, three or any number of like frames in one large read: the same, whatever the pattern."""
        one, other = push(0, 0), push(4, 0)
        for run in (1, 2, 3, 4, 5, 63, 64, 65):
            pattern = one * run + other * run
            few = self.best_seconds(pattern * (4000 // run))
            many = self.best_seconds(pattern * (40_000 // run))
            self.assertLess(many, 40 * few, run)
        for pattern in (pull() + one, pull() * 2 + one, pull() * 33 + one, one * 4 + push(15, 0) * 4):
            few = self.best_seconds(pattern * 1000)
            many = self.best_seconds(pattern * 10_000)
            self.assertLess(many, 40 * few)


class ReplyTests(SynchronousTestCase):
    """What goes back, to the byte."""

    def test_constants(self) -> None:
        """Status and eight zero bytes; an empty queue is five bytes of metadata."""
        self.assertEqual(smq.PUSHED, b"\0" + bytes(8))
        self.assertEqual(smq.REFUSED, b"\1" + bytes(8))
        self.assertEqual(smq.EMPTY, b"\0" + b"\0\0\0\0\0\0\0\5" + b"\x20\0\0\0\0")

    def test_every_type(self) -> None:
        """A record comes back as it was pushed: status 0, size, code SUCCESS and type, count, data."""
        for kind, size in NUMBERS:
            for count in (0, 1, 2, 256, 70_000):
                data = bytes(count * size)
                self.assertEqual(smq.replies(kind + 1, [data]), push(kind, count, data))
        for count, data in ((0, b""), (1, b"\0"), (1, b"a\0"), (2, b"a\0b\0"), (300, b"x\0" * 300)):
            self.assertEqual(smq.replies(STR + 1, [data]), push(STR, count, data))

    @given(st.sampled_from(NUMBERS), st.lists(st.sampled_from((0, 1, 1, 1, 2)), max_size=20))
    @settings(deadline=None, derandomize=True)
    def test_many(self, number: tuple[int, int], counts: list[int]) -> None:
        """Many records are their replies end to end, of one size or of several."""
        kind, size = number
        records = [bytes([at]) * (count * size) for at, count in enumerate(counts)]
        whole = b"".join(push(kind, count, record) for count, record in zip(counts, records, strict=True))
        self.assertEqual(smq.replies(kind + 1, records), whole)
        self.assertEqual(smq.replies(kind + 1, [memoryview(record) for record in records]), whole)

    def test_foreign(self) -> None:
        """What another protocol stored is a string where it is UTF-8 without NUL, and gets its NUL; else bytes."""
        texts = ["", "a", "grüße 🌍", "a\nb\r", "\x01\x7f\x85"]
        for text in texts:
            data = text.encode()
            self.assertEqual(smq.replies(0, [data]), push(STR, 1, data + b"\0"))
        for data in (b"\0", b"a\0", b"a\0b", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"ok\xf0\x9f"):
            self.assertEqual(smq.replies(0, [data]), push(0, len(data), data))
        self.assertEqual(
            smq.replies(0, [b"a", b"\xff", memoryview(b"b")]),
            push(STR, 1, b"a\0") + push(0, 1, b"\xff") + push(STR, 1, b"b\0"),
        )

    def test_other_tags(self) -> None:
        """A tag that is none of ours is another protocol's."""
        for tag in (0, 12, 13, 255, 1 << 15):
            self.assertEqual(smq.replies(tag, [b"text"]), push(STR, 1, b"text\0"))

    def test_what_comes_back_can_be_pushed(self) -> None:
        """Replies are good pushes of the same messages: the two formats are one."""
        for frame, request in CONVERSATION:
            if request[0] == "push":
                reply = smq.replies(request[1] + 1, [request[2]])
                self.assertEqual(one(reply), request)
                self.assertEqual(reply[10:], frame[10:])

    def test_whole_replies(self) -> None:
        """Of replies that went out in part it is known how many went out whole, for every byte."""
        parts = [smq.replies(1, [b"a" * size]) for size in (0, 1, 100, 0)] + [smq.EMPTY]
        whole = b"".join(parts)
        ends = [len(b"".join(parts[: number + 1])) for number in range(len(parts))]
        for size in range(len(whole) + 1):
            self.assertEqual(smq.whole_replies(whole, size), sum(end <= size for end in ends))
