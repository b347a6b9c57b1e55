"""The bytes of a pack: what goes in comes out, and every damaged byte is found."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.store.packs import pack
from streamd.store.packs.footer import Mark, Told
from streamd.store.records.blocks import BLOCK_HEADER, RUN, Piece, block_crc, block_pieces
from streamd.store.records.offsets import TAG_RAW, span
from tests.rigs.store.packed import piece
from tests.rigs.store.simulated import SimulatedDisk

STORE = bytes(range(16))
TOLD = Told(Mark(), (1, 0, 0))
DIRECTORY = "/packs"
RECORDS = st.lists(st.binary(max_size=40), min_size=1, max_size=5)
PIECES = st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 1 << 62), RECORDS), min_size=1, max_size=6)


def flat(pieces: list[Piece]) -> list[tuple[int, int, bytes]]:
    """Each record with its tag and time."""
    return [(each.tag, each.timestamp, bytes(record)) for each in pieces for record in each.batch.records()]


class PackTests(SynchronousTestCase):
    """A pack in the making, and what is found in it."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory(DIRECTORY)
        self.writer = pack.PackWriter(self.disk, DIRECTORY, 7, STORE)

    def content(self) -> bytes:
        """All bytes of the finished pack."""
        self.writer.finish(TOLD)
        return bytes(self.disk.content(f"{DIRECTORY}/{pack.file_name(7)}"))

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(blocks=st.lists(PIECES, min_size=1, max_size=4))
    def test_identity(self, blocks: list[list[tuple[int, int, list[bytes]]]]) -> None:
        """Records come out of their blocks as they went in, with tag and time; the catalog's figures are theirs."""
        self.setUp()
        pieces = [[piece(tag, timestamp, *records) for tag, timestamp, records in block] for block in blocks]
        places = [self.writer.add(3, 10, 20, each) for each in pieces]
        content = self.content()
        self.assertEqual(self.writer.size, len(content))
        self.assertEqual(self.writer.blocks, len(blocks))
        for place, given_pieces in zip(places, pieces, strict=True):
            self.assertEqual(place.position % 8, 0)
            block = content[place.position : place.position + place.length]
            self.assertEqual(block_crc(block), place.crc)
            self.assertEqual(int.from_bytes(block[:4], "little"), place.crc)
            self.assertEqual(flat(list(block_pieces(block))), flat(given_pieces))
            records = flat(given_pieces)
            self.assertEqual(place.records, len(records))
            self.assertEqual((place.timestamp, place.last_timestamp), (records[0][1], records[-1][1]))
            self.assertEqual(place.span, sum(span(tag, 1, len(data)) for tag, _, data in records))

    def test_runs(self) -> None:
        """Pieces that follow each other with the same tag and time are one run of a block; others are their own."""
        given_pieces = [piece(1, 5, b"a"), piece(1, 5, b"b", b"c"), piece(1, 6, b"d"), piece(TAG_RAW, 6, b"e")]
        place = self.writer.add(3, 0, 0, given_pieces)
        block = self.content()[place.position :][: place.length]
        found = list(block_pieces(block))
        self.assertEqual(
            [(each.tag, each.timestamp, each.batch.count) for each in found], [(1, 5, 3), (1, 6, 1), (TAG_RAW, 6, 1)]
        )

    def test_every_bit_of_a_block(self) -> None:
        """A block with any one bit flipped does not match its checksum."""
        place = self.writer.add(3, 10, 20, [piece(1, 5, b"some", b"", b"records"), piece(2, 6, b"more")])
        block = bytearray(self.content()[place.position :][: place.length])
        for bit in range(8 * len(block)):
            block[bit // 8] ^= 1 << bit % 8
            damaged = block_crc(block) != place.crc or int.from_bytes(block[:4], "little") != place.crc
            self.assertTrue(damaged, f"bit {bit}")
            block[bit // 8] ^= 1 << bit % 8

    def test_every_bit_of_the_header(self) -> None:
        """A file header with any one bit flipped, or cut anywhere, is refused."""
        header = bytearray(self.content()[: pack.FILE_HEADER.size])
        self.assertIsNone(pack.check_file_header(header, STORE, 7))
        for bit in range(8 * len(header)):
            header[bit // 8] ^= 1 << bit % 8
            self.assertIsNotNone(pack.check_file_header(header, STORE, 7), f"bit {bit}")
            header[bit // 8] ^= 1 << bit % 8
        for cut in range(len(header)):
            self.assertIsNotNone(pack.check_file_header(header[:cut], STORE, 7))

    def test_whose(self) -> None:
        """A pack of another store, or one under another's name, is refused, and the reason is said."""
        header = self.content()[: pack.FILE_HEADER.size]
        self.assertIn("another store", str(pack.check_file_header(header, bytes(16), 7)))
        self.assertIn("copy of", str(pack.check_file_header(header, STORE, 8)))

    def test_no_name_before_the_end(self) -> None:
        """A pack has its name when all of it is on the medium, not before; one that is abandoned leaves nothing."""
        self.writer.add(3, 0, 0, [piece(0, 1, b"x")])
        self.assertEqual(self.disk.list_directory(DIRECTORY), [pack.file_name(7) + ".tmp"])
        self.writer.finish(TOLD)
        self.assertEqual(self.disk.list_directory(DIRECTORY), [pack.file_name(7)])
        self.assertEqual(self.disk.synced[-2:], [f"{DIRECTORY}/{pack.file_name(7)}.tmp", DIRECTORY])
        other = pack.PackWriter(self.disk, DIRECTORY, 8, STORE)
        other.abandon()
        self.assertEqual(self.disk.list_directory(DIRECTORY), [pack.file_name(7)])

    def test_leftover(self) -> None:
        """What a compactor that died was writing is written over."""
        self.writer.add(3, 0, 0, [piece(0, 1, b"x" * 100)])
        again = pack.PackWriter(self.disk, DIRECTORY, 7, STORE)
        footer = again.finish(TOLD)
        self.assertEqual(footer.blocks_end, pack.FILE_HEADER.size)
        self.assertEqual(len(self.disk.content(f"{DIRECTORY}/{pack.file_name(7)}")), footer.size)

    def test_large(self) -> None:
        """A pack larger than what is written at a time is the same, piece by piece."""
        records = [bytes([each]) * (1 << 20) for each in range(9)]
        places = [self.writer.add(each, 0, 0, [piece(0, 1, record)]) for each, record in enumerate(records, 1)]
        content = self.content()
        for place, record in zip(places, records, strict=True):
            block = content[place.position :][: place.length]
            self.assertEqual(flat(list(block_pieces(block))), [(0, 1, record)])

    def test_lengths_are_four_bytes(self) -> None:
        """The layout of a block: header, runs, lengths, payload."""
        place = self.writer.add(3, 10, 20, [piece(9, 5, b"ab", b"c")])
        block = self.content()[place.position :][: place.length]
        _, length, segment, number, offset, count, runs = BLOCK_HEADER.unpack_from(block)
        self.assertEqual((length, segment, number, offset, count, runs), (len(block), 3, 10, 20, 2, 1))
        self.assertEqual(block[40:56], RUN.pack(2, 9, 0, 5))
        self.assertEqual(block[56:], array("I", [2, 1]).tobytes() + b"abc")
