"""The bytes of the journal: what is encoded is read back, and nothing else passes for it."""

from __future__ import annotations

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store.journal.frame import (
    ENTRY_HEADER,
    FILE_HEADER,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    MAGIC,
    VERSION,
    Entry,
    FileHeader,
    Kind,
    decode_file_header,
    decode_keyed,
    encode_frame,
    encode_keyed,
    frame_length,
)
from streamd.store.journal.writer import file_name, new_mark
from tests.rigs.store.journal import HEADER, journal_file, scan

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
SETTINGS = settings(derandomize=True, deadline=None, max_examples=200)

BATCHES = st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=5), min_size=1, max_size=4)
APPENDS = st.tuples(st.sampled_from([Kind.APPEND, Kind.PAYLOAD]), U64, st.integers(0, 0xFFFF), U64, BATCHES)
OTHERS = st.tuples(
    st.sampled_from([kind for kind in Kind if kind not in (Kind.APPEND, Kind.PAYLOAD)]),
    U64,
    st.binary(min_size=16, max_size=16),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.binary(max_size=60),
)


def entry_of(kind: Kind, segment: int, one: object, two: int, body: object) -> Entry:
    """An entry of what the strategies give."""
    if isinstance(one, bytes):
        assert isinstance(body, bytes)
        return Entry(kind, segment, writer=one, level=two, body=body)
    assert isinstance(one, int) and isinstance(body, list)
    entry = Entry(kind, segment, tag=one, number=two)
    for records in body:
        entry.add(Batch.of(records))
    return entry


ENTRIES = st.lists(st.one_of(APPENDS, OTHERS).map(lambda fields: entry_of(*fields)), max_size=6)


def body_of(entry: Entry) -> bytes:
    """The bytes that an entry's body must have."""
    return b"".join([*entry.lengths, *entry.body])


class FrameTests(SynchronousTestCase):
    """Frames and their entries."""

    @given(st.lists(ENTRIES, max_size=4))
    @SETTINGS
    def test_identity(self, frames: list[list[Entry]]) -> None:
        """Every frame is read back: its headers, where its bodies stand, and the bodies that are no payload."""
        content = journal_file(frames)
        scanner = scan(content + bytes(100))
        found = list(scanner.frames())
        self.assertEqual((scanner.damage, scanner.position), (None, len(content)))
        self.assertEqual(len(found), len(frames))
        sequence = HEADER.sequence
        for at, (frame, entries) in enumerate(zip(found, frames, strict=True)):
            self.assertEqual((frame.sequence, frame.timestamp), (sequence, at))
            self.assertEqual(frame.length, frame_length(entries))
            self.assertEqual(frame.position % 8, 0)
            sequence += len(entries)
            for header, (position, body), entry in zip(frame.headers, frame.bodies, entries, strict=True):
                expected = body_of(entry)
                fields = (entry.kind, entry.segment, entry.tag, entry.number, entry.writer, entry.level, entry.count)
                self.assertEqual(
                    (header.kind, header.segment, header.tag, header.number, header.writer, header.level, header.count),
                    fields,
                )
                self.assertEqual(content[position : position + header.length], expected)
                self.assertEqual(body, b"" if entry.lengths else expected)

    @given(ENTRIES.filter(bool), st.data())
    @SETTINGS
    def test_damage(self, entries: list[Entry], data: st.DataObject) -> None:
        """A frame with any bit turned, or cut anywhere, is no frame; but for the zeros that fill it up."""
        content = bytearray(journal_file([entries]))
        used = (
            FILE_HEADER.size
            + FRAME_HEADER.size
            + ENTRY_HEADER.size * len(entries)
            + sum(map(len, map(body_of, entries)))
        )
        position = data.draw(st.integers(FILE_HEADER.size, used - 1))
        damaged = bytearray(content)
        damaged[position] ^= 1 << data.draw(st.integers(0, 7))
        scanner = scan(bytes(damaged))
        self.assertEqual(list(scanner.frames()), [])
        self.assertTrue(scanner.damage)
        scanner = scan(bytes(content[:position]))
        self.assertEqual(list(scanner.frames()), [])
        self.assertEqual(
            scanner.damage is None, position == FILE_HEADER.size or not any(content[FILE_HEADER.size : position])
        )

    def test_elsewhere(self) -> None:
        """A frame is one only where it was written, in the file that it was written to, in its turn."""
        entries = [Entry(Kind.SEAL, 5)]
        frame = b"".join(
            encode_frame(entries, mark=HEADER.mark, position=64, sequence=100, synced=100, timestamp=0).buffers
        )
        self.assertEqual(len(list(scan(HEADER.encode() + frame).frames())), 1)
        for content, header, damage in (
            (HEADER.encode() + frame, HEADER._replace(mark=1), "no frame begins here"),
            (HEADER.encode() + frame, HEADER._replace(sequence=99), "sequence 100 where 99 is due"),
            (HEADER.encode() + frame + frame, HEADER, "checksum of the frame header"),
            (HEADER.encode() + bytes(8) + frame, HEADER, "no frame begins here"),
        ):
            scanner = scan(content, header)
            self.assertLessEqual(len(list(scanner.frames())), 1)
            self.assertIn(damage, scanner.damage or "")

    def test_lengths_that_lie(self) -> None:
        """Lengths are checked before anything is read: whatever they say, nothing beyond the file is asked for."""
        body = pack("<IIQQQQQII", HEADER.mark, 0, 64, 0, 100, 100, 0, 0, 0)
        for length in (0, 55, 1 << 20, FRAME_BYTES_MAX, (1 << 64) - 1):
            for count in (0, 1, 1000, (1 << 32) - 1):
                head = bytearray(body)
                head[16:24] = pack("<Q", length)
                head[48:52] = pack("<I", count)
                scanner = scan(HEADER.encode() + bytes(head) + bytes(64))
                self.assertEqual(list(scanner.frames()), [])
                self.assertIn("length", scanner.damage or "")

    def test_table_pins_the_format(self) -> None:
        """One frame, byte by byte: who changes the format changes this, and the version."""
        entry = Entry(Kind.APPEND, 3, tag=9, number=1, offset=2)
        entry.add(Batch.of([b"ab", b"c"]))
        frame = encode_frame([entry], mark=0x11223344, position=64, sequence=7, synced=6, timestamp=5)
        self.assertEqual(
            b"".join(frame.buffers).hex(),
            "44332211" "ed4ac578" "4000000000000000" "8800000000000000" "0700000000000000"
            "0600000000000000" "0500000000000000" "01000000" "00000000"
            "05" "00" "0900" "8e9ff2bf" "0300000000000000" "0100000000000000" "0200000000000000"
            "00000000000000000000000000000000" "0000000000000000" "0b000000" "02000000"
            "0200000001000000" "616263" "0000000000",
        )  # fmt: skip


class SyncedTests(SynchronousTestCase):
    """What frames say of others."""

    def content(self, synced: list[int]) -> tuple[bytearray, list[int]]:
        """A file with one frame for each, and where these begin."""
        content, positions = bytearray(HEADER.encode()), []
        for at, each in enumerate(synced):
            positions.append(len(content))
            frame = encode_frame(
                [Entry(Kind.SEAL, 5)],
                mark=HEADER.mark,
                position=len(content),
                sequence=100 + at,
                synced=each,
                timestamp=0,
            )
            content += b"".join(frame.buffers)
        return content, positions

    def test_behind(self) -> None:
        """The highest synced sequence is found wherever it stands, before and behind damage, in files of any size."""
        for filler in (0, (4 << 20) - 300, 4 << 20, (8 << 20) - 130):
            content, positions = self.content([100, 101, 102, 101])
            position = (len(content) + filler + 7) & ~7
            last = encode_frame([], mark=HEADER.mark, position=position, sequence=104, synced=103, timestamp=0)
            content += bytes(position - len(content)) + b"".join(last.buffers)
            for damaged in positions:
                copy = bytearray(content)
                copy[damaged + 8] ^= 1
                scanner = scan(bytes(copy))
                self.assertEqual(len(list(scanner.frames())), positions.index(damaged))
                self.assertEqual(scanner.synced_behind(), 103)

    def test_no_frame(self) -> None:
        """A mark without a frame behind it says nothing, at the end of the file neither."""
        content, positions = self.content([100, 102])
        content[positions[1] + 30] ^= 1
        for tail in (b"", HEADER.mark.to_bytes(4, "little"), HEADER.mark.to_bytes(4, "little") * 30):
            scanner = scan(bytes(content) + tail)
            list(scanner.frames())
            self.assertEqual(scanner.synced_behind(), 100)


class FileHeaderTests(SynchronousTestCase):
    """The first 64 bytes."""

    @given(U32, st.binary(min_size=16, max_size=16), U64, U64, U64)
    @SETTINGS
    def test_identity(self, mark: int, store: bytes, number: int, sequence: int, timestamp: int) -> None:
        """What is encoded is decoded."""
        header = FileHeader(mark, store, number, sequence, timestamp)
        self.assertEqual(len(header.encode()), 64)
        self.assertEqual(decode_file_header(header.encode() + b"more"), header)

    def test_damage(self) -> None:
        """Any other bytes are no header; a version that is not ours is told."""
        good = HEADER.encode()
        for position in range(64):
            bad = bytearray(good)
            bad[position] ^= 4
            found = decode_file_header(bytes(bad))
            self.assertEqual(found, VERSION ^ 4 if position == 8 else found if 8 < position < 12 else None)
            self.assertNotIsInstance(found, FileHeader)
        for cut in range(64):
            self.assertIsNone(decode_file_header(good[:cut]))
        self.assertTrue(good.startswith(MAGIC))

    def test_name(self) -> None:
        """Names sort as numbers do."""
        numbers = [1, 9, 10, 99, 100, 1 << 63]
        self.assertEqual(sorted(map(file_name, numbers)), list(map(file_name, numbers)))

    def test_mark(self) -> None:
        """A mark is never zero, which ends the frames of a file, and hardly ever the same."""
        marks = {new_mark() for _ in range(1000)}
        self.assertNotIn(0, marks)
        self.assertGreater(len(marks), 990)


class KeyedTests(SynchronousTestCase):
    """A short name, then something."""

    @given(st.binary(max_size=255), st.binary(max_size=300))
    @SETTINGS
    def test_identity(self, key: bytes, rest: bytes) -> None:
        """What is encoded is decoded."""
        self.assertEqual(decode_keyed(encode_keyed(key, rest)), (key, rest))
