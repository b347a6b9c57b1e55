"""The codec of Pravega's append blocks: blocks in all three forms, partial messages, and what breaks them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.wire import WireError
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
    SetupAppend,
    Type,
    event_parts,
    message,
)
from tests.rigs.wire.pieces import CutLaws
from tests.rigs.wire.pravega import (
    INNER,
    NAME,
    OTHER,
    WHOLE,
    WRITER,
    begin,
    block,
    end,
    event,
    partial,
    plain,
    read,
    setup,
    text,
)

EVENT_BYTES_MAX = 1 << 20


def set_up(writers: Iterable[bytes] = (WRITER, OTHER)) -> PravegaCodec:
    """A codec that has seen the setup of these writers."""
    codec = PravegaCodec(EVENT_BYTES_MAX)
    for writer in writers:
        codec.receive(setup("s", writer))
    return codec


EXPECTED: list[object] = [
    CreateSegment(NAME),
    SetupAppend(WRITER, NAME),
    (WRITER, 0, b"exact"),
    (WRITER, 13, b""),
    (WRITER, 21, b"padded"),
    (WRITER, 35, b"first"),
    (WRITER, 48, b"goes on behind the end"),
    KeepAlive(b""),
    SetupAppend(OTHER, NAME),
    (OTHER, 0, b"of another writer"),
    ReadSegment(NAME, 7, 1 << 20),
    KeepAlive(b"in pieces"),
]


class CutTests(CutLaws, SynchronousTestCase):
    whole = WHOLE
    expected = EXPECTED

    def codec(self) -> PravegaCodec:
        return PravegaCodec(EVENT_BYTES_MAX)

    def plain(self, requests: Iterable[Any]) -> list[object]:
        return plain(requests)

    def test_blocks_become_one_append(self) -> None:
        """Blocks of one writer that follow on each other are one append; others are not."""
        codec = set_up()
        first, second = event(b"a"), event(b"bc")
        requests = list(
            codec.receive(block(5, first) + block(14, second) + block(99, first) + block(0, first, writer=OTHER))
        )
        self.assertEqual(
            [(each.writer, each.offset, each.end) for each in requests if isinstance(each, AppendBlock)],
            [
                (WRITER, 5, 24),
                (WRITER, 99, 108),
                (OTHER, 0, 9),
            ],
        )

    def test_large_block_in_pieces(self) -> None:
        """A block of many megabytes in small reads is looked at when it can be whole, not at each of them."""
        data = event(bytes(100)) * 60_000
        whole = block(0, data)
        codec = set_up()
        found: list[object] = []
        for at in range(0, len(whole), 1000):
            found += list(codec.receive(whole[at : at + 1000]))
        self.assertEqual(len(found), 1)
        self.assertIsInstance(found[0], AppendBlock)


class EventTests(SynchronousTestCase):
    @given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 60))
    @settings(deadline=None, max_examples=150, derandomize=True)
    def test_identity(self, records: list[bytes], promised: int) -> None:
        """What goes in as events comes out as the same records, whatever the form of the block, alike or not."""
        data = b"".join(map(event, records))
        codec = set_up()
        requests = list(codec.receive(block(3, data, promised)))
        self.assertIsNone(codec.error)
        (request,) = requests
        assert isinstance(request, AppendBlock)
        self.assertEqual([bytes(each) for each in request.batch.records()], records)
        self.assertEqual(request.end, 3 + len(data))
        self.assertEqual(b"".join(event_parts(request.batch)), data)

    def test_parts(self) -> None:
        """Events are told in few parts where they are small, and where they are large without a copy, alike or not."""
        small, large = bytes(100), bytes(5000)
        for records, parts_max in (
            ([small] * 600, 3),
            ([small, small[:50]] * 300, 1),
            ([large] * 5, 10),
            ([large, large[:4500]] * 3, 12),
            ([b""] * 9, 1),
        ):
            batch = Batch.of(records)
            parts = event_parts(Batch(batch.lengths, memoryview(batch.payload)))
            self.assertEqual(b"".join(parts), b"".join(map(event, records)))
            self.assertLessEqual(len(parts), parts_max)
            self.assertEqual(any(isinstance(part, memoryview) for part in parts), len(records[0]) == len(large))

    def test_large_blocks(self) -> None:
        """Blocks with much in them are an append each, and one with a single event is not copied again."""
        data = event(bytes(70_000))
        whole = block(0, data) + block(len(data), data) + block(2 * len(data), event(b"x"))
        requests = set_up().receive(whole)
        batches = [request.batch for request in requests if isinstance(request, AppendBlock)]
        self.assertEqual([batch.size for batch in batches], [70_000, 70_000, 1])
        self.assertIsInstance(batches[0].payload, memoryview)

    def test_above(self) -> None:
        """The part of a block above a level is what begins there; between two beginnings there is none."""
        codec = set_up()
        (request,) = codec.receive(block(10, event(b"ab") + event(b"c") + event(b"")))
        assert isinstance(request, AppendBlock)
        rests = {level: request.above(level) for level in range(8, 40)}
        found = {level: [bytes(each) for each in rest.batch.records()] for level, rest in rests.items() if rest}
        self.assertEqual(found, {10: [b"ab", b"c", b""], 20: [b"c", b""], 29: [b""], 37: []})


class NameTests(SynchronousTestCase):
    def test_beyond_the_basic_plane(self) -> None:
        """UTF-8 and Java's own are both taken, and what came is kept to be answered with."""
        plain_name = "a🙂b".encode()
        java = b"a\xed\xa0\xbd\xed\xb9\x82b"
        for raw in (plain_name, java):
            data = message(Type.CREATE_SEGMENT, len(raw).to_bytes(2, "big") + raw)
            (request,) = PravegaCodec(EVENT_BYTES_MAX).receive(data)
            self.assertEqual(request, CreateSegment(Name("a🙂b", raw)))


class BrokenTests(SynchronousTestCase):
    def broken(self, data: bytes, before: int = 0) -> WireError:
        """What is wrong, after so many good requests; nothing more is parsed, and nothing is kept."""
        codec = set_up()
        self.assertEqual(len(list(codec.receive(data))), before)
        self.assertIsNotNone(codec.error)
        assert codec.error is not None
        self.assertRaises(WireError, codec.receive, b"")
        self.assertEqual(codec.buffered, 0)
        return codec.error

    def test_each(self) -> None:
        """Everything that the document forbids closes the connection."""
        good = event(b"x")
        for data in (
            event(b"outside of a block"),
            message(Type.APPEND_SETUP, b""),
            HEADER.pack(77, 0),
            HEADER.pack(Type.KEEP_ALIVE, MESSAGE_BYTES_MAX + 1),
            HEADER.pack(Type.KEEP_ALIVE, -1),
            HEADER.pack(Type.KEEP_ALIVE, 2**31 - 1),
            message(Type.SETUP_APPEND, b"short"),
            message(Type.SETUP_APPEND, WRITER + b"\0\5abc"),
            message(Type.CREATE_SEGMENT, b"\0\1abc"),
            message(Type.CREATE_SEGMENT, b"\0\1\xff"),
            message(Type.READ_SEGMENT, text("a")),
            read("a", -1, 5),
            read("a", 5, -1),
            message(Type.BEGIN_BLOCK, b"x"),
            begin(0, BLOCK_BYTES_MAX + 1),
            begin(-1, 9) + good + end(8, 9),
            begin(0, 9) + good + end(9, 9, OTHER),
            begin(0, 9) + good + end(10, 9),
            begin(0, 9) + good + end(9, 8),
            begin(0, 9) + good + message(Type.KEEP_ALIVE, bytes(28)),
            begin(0, 9) + good + end(BLOCK_BYTES_MAX + 1, BLOCK_BYTES_MAX + 1),
            block(0, b"no event"),
            block(0, good[:-1]),
            block(0, good + b"\0\0"),
            block(0, event(b"") + HEADER.pack(0, -1)),
            block(0, event(bytes(EVENT_BYTES_MAX + 1)) + good),
            block(0, event(bytes(EVENT_BYTES_MAX + 1)) * 2),
            partial(1, b"x"),
            partial(2, b"x"),
            partial(3, b"x"),
            message(Type.PARTIAL, b""),
            partial(0, b"x") + partial(0, b"x"),
            partial(0, b"x") + message(Type.KEEP_ALIVE, b""),
            partial(0, INNER) + partial(2, b"more"),
            partial(0, INNER[:4]) + partial(2, b""),
            partial(0, partial(0, b"")) + partial(2, b""),
            partial(0, bytes(MESSAGE_BYTES_MAX - 1)) + partial(1, b"xx"),
        ):
            self.broken(data)

    def test_without_setup(self) -> None:
        """A block of a writer that was never set up is refused where it begins, before any of it has come."""
        for writer in (b"never set up    ", bytes(16)):
            self.broken(begin(0, BLOCK_BYTES_MAX, writer))
            self.broken(message(Type.KEEP_ALIVE, b"") + begin(0, 0, writer), before=1)

    def test_before(self) -> None:
        """What came before it is carried out."""
        self.broken(setup("a") + message(Type.KEEP_ALIVE, b"") + event(b""), before=2)

    @given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=3))
    @settings(deadline=None, max_examples=300, derandomize=True)
    def test_anything(self, data: bytes, cuts: list[int]) -> None:
        """Whatever comes, nothing but a WireError, and the same wherever it is cut."""
        outcomes = []
        for pieces in (
            [data],
            [data[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True)],
        ):
            codec = PravegaCodec(EVENT_BYTES_MAX)
            found: list[object] = []
            for piece in pieces:
                if codec.error is None:
                    found += plain(codec.receive(piece))
            outcomes.append((found, str(codec.error)))
        self.assertEqual(outcomes[0], outcomes[1])
