"""Files with right checksums that make no sense: they are refused as the store's own errors, never by accident."""

from __future__ import annotations

from array import array
from struct import pack_into

from crc32c import crc32c
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store import ReadFailed, StoreCorrupt
from streamd.store.journal.frame import Entry, FileHeader, Kind
from streamd.store.journal.replay import Replay
from streamd.store.packs import pack
from streamd.store.packs.footer import Mark, Told
from streamd.store.records import blocks
from streamd.store.records.extent import PACKS, Extent
from streamd.store.records.fetch import Want, decode
from streamd.store.segments.registry import Segments
from tests.rigs.store.journal import journal_file, scan
from tests.rigs.store.packed import piece
from tests.rigs.store.simulated import SimulatedDisk

STORE = bytes(16)
HEADER = FileHeader(0xABCD1234, STORE, 1, 1, 0)
ALL = Want(0, None, 1 << 30, 1 << 30)


class JournalTests(SynchronousTestCase):
    def replay(self, *entries: Entry) -> None:
        created = Entry(Kind.CREATE, 1, body=b"a")
        content = journal_file([[created, *entries]], header=HEADER)
        replay = Replay(SimulatedDisk(), "/", STORE, Segments())
        for frame in scan(content, HEADER).frames():
            replay.apply("/file", frame, 1)

    def test_more_lengths_than_bytes(self) -> None:
        """An append that says it holds more records than it has bytes for is corrupt."""
        for count, size in ((1, 0), (1, 3), (3, 11), (1 << 30, 100)):
            error = self.assertRaises(StoreCorrupt, self.replay, Entry(Kind.APPEND, 1, count=count, body=b"x" * size))
            self.assertIn(f"{count} records in {size} bytes", str(error))
        self.replay(Entry(Kind.APPEND, 1, count=3, body=bytes(12)))


class ReadTests(SynchronousTestCase):
    """The checksum of what is read is right, and yet it can't be what was written."""

    def block(self, *pieces: blocks.Piece) -> bytearray:
        """A block as it stands in a pack."""
        disk = SimulatedDisk()
        disk.make_directory("/packs")
        writer = pack.PackWriter(disk, "/packs", 1, STORE)
        place = writer.add(3, 0, 0, pieces)
        writer.finish(Told(Mark(), (1, 0, 0)))
        content = bytes(disk.content(f"/packs/{pack.file_name(1)}"))
        return bytearray(content[place.position : place.position + place.length])

    def refused(self, block: bytes | bytearray) -> str:
        """What is said of a block, and where that is; a good one before it is read all the same."""
        whole = self.block(piece(0, 1, b"good"))
        extents = [
            Extent(number, 0, 0, PACKS + 7, 0, len(each), 1, blocks.block_crc(each), 0)
            for number, each in enumerate((whole, block))
        ]
        (run,) = decode(extents, [bytes(whole), bytes(block)], ALL)
        self.assertEqual(run.batch, Batch.of([b"good"]))
        error = self.assertRaises(ReadFailed, decode, extents[1:], [bytes(block)], ALL._replace(number=1))
        self.assertIn("pack 7 at 0", str(error))
        return str(error)

    def test_shorter_than_its_header(self) -> None:
        """A block needs a header."""
        for length in range(4, blocks.BLOCK_HEADER.size):
            self.assertIn("shorter than its header", self.refused(bytes(length)))

    def test_counts(self) -> None:
        """Runs and lengths that the block has no room for, none at all, or runs of other records than it has."""
        for field, value, reason in (
            (32, 1 << 30, "no room"),
            (32, 4, "not those of its 4 records"),
            (32, 2, "not those of its 2 records"),
            (36, 1 << 30, "no room"),
            (36, 0, "not those of its 3 records"),
            (36, 1, "not those of its 3 records"),
            (40, 3, "not those of its 3 records"),
        ):
            block = self.block(piece(1, 5, b"ab", b"c"), piece(2, 6, b"defghijklmnopqrstuvwxyz"))
            pack_into("<I", block, field, value)
            self.assertIn(reason, self.refused(block), (field, value))

    def test_lengths(self) -> None:
        """Lengths that are not those of the payload, in a pack and in the journal, whole and in part."""
        for lengths in ((2, 2), (4, 0), (1, 1), (0xFFFFFFFF, 1)):
            block = self.block(piece(1, 5, b"ab", b"c"))
            pack_into("<II", block, blocks.BLOCK_HEADER.size + blocks.RUN.size, *lengths)
            self.assertIn("lengths of the records", self.refused(block), lengths)
        body = array("I", (2, 5)).tobytes() + b"abc"
        extent = Extent(0, 0, 0, 1, 64, len(body), 2, crc32c(body), 0)
        for want in (ALL, ALL._replace(number=1)):
            error = self.assertRaises(ReadFailed, decode, [extent], [body], want)
            self.assertIn("journal file 1 at 64", str(error))
