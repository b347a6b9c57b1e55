"""The catalog: what is put there is found there, all of a transaction or nothing, and no row is lost or changed."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from streamd.store import StoreUnusable, UnknownVersion
from streamd.store.disk import Disk
from streamd.store.packs.catalog import VERSION, Catalog, Moved, Row
from streamd.store.packs.database import CatalogDamaged
from streamd.store.packs.footer import Mark
from streamd.store.segments.segment import Segment
from tests.rigs.store.simulated import SimulatedDisk

STORE = bytes(range(16))


def row(segment: int, number: int, records: int = 10, pack: int = 1, position: int = 64, length: int = 100) -> Row:
    """An extent whose records take ten offsets each, and one microsecond."""
    return Row(segment, number, number * 10, records, number, number + records - 1, pack, position, length, 77)


def some_segment(id: int, name: str) -> Segment:
    """A segment with something in every field."""
    segment = Segment(id, name)
    segment.created, segment.modified, segment.sealed, segment.hidden = 5, 6, True, False
    segment.first_number, segment.first_offset, segment.number, segment.offset = 7, 70, 90, 900
    segment.set_level(b"w" * 16, -3)
    segment.set_attribute(b"key", b"")
    segment.set_group("g", 10)
    segment.group("g").add([(12, 15), (20, 21)])
    return segment


def plain(segment: Segment | None) -> object:
    """All that the catalog keeps of a segment."""
    assert segment is not None
    groups = {name: (group.position, group.ranges) for name, group in (segment.groups or {}).items()}
    return (
        (segment.id, segment.name, segment.created, segment.modified, segment.sealed, segment.hidden),
        (segment.first_number, segment.first_offset, segment.number, segment.offset),
        (segment.levels or {}, segment.attributes or {}, groups),
    )


class CatalogTests(SynchronousTestCase):
    """A catalog on a simulated disk."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("/data")
        self.catalog = self.open()

    def open(self, *, store: bytes = STORE, writable: bool = True) -> Catalog:
        """Open it."""
        return Catalog(self.disk, "/data", store, writable=writable)

    def test_new(self) -> None:
        """A new one covers nothing, and only who may write makes it."""
        self.assertEqual(self.catalog.covered, (1, 0, 0))
        self.assertEqual((list(self.catalog.segments()), self.catalog.packs(), self.catalog.next_pack), ([], [], 1))
        self.disk = SimulatedDisk()
        self.disk.make_directory("/data")
        self.assertRaises(StoreUnusable, self.open, writable=False)

    def test_whose(self) -> None:
        """That of another store, or of another version, is refused, and named."""
        error = self.assertRaises(StoreUnusable, self.open, store=bytes(16))
        self.assertIn("/data/catalog.sqlite", str(error))
        with self.catalog:
            self.catalog._set("format", VERSION + 1)
        error = self.assertRaises(UnknownVersion, self.open)
        self.assertIn(f"format {VERSION + 1}", str(error))

    def test_segments(self) -> None:
        """A segment comes back with all that belongs to it; put again, it is as it is now; dropped, nothing is left."""
        segment = some_segment(3, "ü")
        with self.catalog:
            self.catalog.put_segment(segment)
            self.catalog.put_segment(Segment(9, "empty"))
        for catalog in (self.catalog, self.open()):
            self.assertEqual(plain(catalog.segment(3)), plain(segment))
            self.assertEqual([each.name for each in catalog.segments()], ["ü", "empty"])
        segment.set_level(b"v" * 16, 1)
        segment.set_attribute(b"key", None)
        del (segment.groups or {})["g"]
        with self.catalog:
            self.catalog.put_segment(segment)
        self.assertEqual(plain(next(self.catalog.segments())), plain(segment))
        with self.catalog:
            self.catalog.drop_segment(3)
        self.assertIsNone(self.catalog.segment(3))
        self.assertEqual([each.name for each in self.catalog.segments()], ["empty"])

    def test_all_or_nothing(self) -> None:
        """A transaction that ends with an error leaves nothing."""

        def fail() -> None:
            with self.catalog:
                self.catalog.put_segment(some_segment(3, "a"))
                self.catalog.add_pack(1, 100, 1)
                self.catalog.set_covered(50, 5, 500)
                raise KeyError

        self.assertRaises(KeyError, fail)
        self.assertEqual((self.catalog.covered, self.catalog.packs()), ((1, 0, 0), []))
        self.assertEqual(list(self.catalog.segments()), [])
        with self.catalog:
            self.catalog.set_covered(50, 5, 500)
        self.assertEqual(self.catalog.covered, (50, 5, 500))

    def test_extents(self) -> None:
        """By number and by offset: the extent that holds the place comes first, those behind it follow."""
        rows = [row(3, number) for number in range(0, 100, 10)]
        with self.catalog:
            self.catalog.add_extents([*rows, row(2, 0), row(4, 0)])
        for number in range(100):
            expected = rows[number // 10 :][:3]
            self.assertEqual(self.catalog.extents_from_number(3, number, 3), expected)
            self.assertEqual(self.catalog.extents_from_offset(3, number * 10 + 9, 3), expected)
            self.assertEqual(self.catalog.number_at(3, number), number // 10 * 10)
        self.assertIsNone(self.catalog.number_at(3, 100))
        self.assertEqual(self.catalog.extents_from_number(5, 0, 3), [])

    def test_a_hole(self) -> None:
        """Behind a hole nothing follows: it is for the reader to find that something is missing."""
        with self.catalog:
            self.catalog.add_extents([row(3, 0), row(3, 20)])
        self.assertEqual(self.catalog.extents_from_number(3, 0, 9), [row(3, 0)])

    def test_moved(self) -> None:
        """Extents of a published segment are its target's, further on, and not before the time of that."""
        moved = Moved(source=5, target=3, number=100, offset=1000, timestamp=15)
        with self.catalog:
            self.catalog.add_extents([row(3, 90), row(5, 0), row(5, 10)])
            self.catalog.move_extents(moved)
        self.assertEqual(self.catalog.extents_from_number(5, 0, 9), [])
        found = self.catalog.extents_from_number(3, 100, 9)
        self.assertEqual([(each.number, each.offset) for each in found], [(100, 1000), (110, 1100)])
        self.assertEqual([(each.timestamp, each.last_timestamp) for each in found], [(15, 15), (15, 19)])

    def test_live(self) -> None:
        """What is truncated or dropped counts no longer; a block that several share counts once."""
        segment = Segment(3, "a")
        segment.first_number, segment.number = 15, 30
        with self.catalog:
            self.catalog.add_extents([row(3, 0), row(3, 10, position=168), row(3, 20, position=272)])
            self.catalog.add_extents([row(4, 0, position=272)])
            self.catalog.add_pack(1, 400, 3)
        (pack,) = self.catalog.packs()
        self.assertEqual((pack.bytes, pack.live, pack.blocks), (400, 400, 3))
        with self.catalog:
            self.catalog.put_segment(segment)
            self.catalog.count_live()
        self.assertEqual(self.catalog.packs()[0].live, 200)
        with self.catalog:
            self.catalog.drop_segment(4)
            self.catalog.count_live()
        self.assertEqual(self.catalog.packs()[0].live, 200)
        with self.catalog:
            self.catalog.drop_segment(3)
            self.catalog.count_live()
        self.assertEqual(self.catalog.packs()[0].live, 0)

    def test_numbers_of_packs(self) -> None:
        """The number of a pack is never given again, also when the pack is gone."""
        for expected in (1, 2):
            self.assertEqual(self.catalog.next_pack, expected)
            with self.catalog:
                self.catalog.add_pack(expected, 100, 1)
                self.catalog.set_mark(Mark(expected, 5))
                self.catalog.drop_packs([expected])
        self.assertEqual((self.open().next_pack, self.catalog.packs()), (3, []))

    def test_a_missing_row(self) -> None:
        """A row that is gone, in any table, is noticed where all of them are read."""
        for table in ("segments", "levels", "groups", "attributes", "packs"):
            self.setUp()
            with self.catalog:
                self.catalog.put_segment(some_segment(3, "a"))
                self.catalog.add_pack(1, 100, 1)
            self.assertEqual(len(list(self.catalog.segments())), 1)
            self.catalog._db.execute(f"DELETE FROM {table}")
            error = self.assertRaises(CatalogDamaged, list, self.catalog.segments())
            self.assertIn("/data/catalog.sqlite", str(error))

    def test_a_changed_row(self) -> None:
        """A row that is not what was written is never given to anybody."""
        changes = {"segments": "number = 91", "levels": "level = -2", "groups": "position = 9", "packs": "bytes = 101"}
        for table, change in changes.items():
            self.setUp()
            with self.catalog:
                self.catalog.put_segment(some_segment(3, "a"))
                self.catalog.add_pack(1, 100, 1)
            self.catalog._db.execute(f"UPDATE {table} SET {change}")
            self.assertRaises(CatalogDamaged, lambda: (list(self.catalog.segments()), self.catalog.packs()))
        with self.catalog:
            self.catalog.add_extents([row(3, 0)])
        self.catalog._db.execute("UPDATE extents SET offset = 1")
        self.assertRaises(CatalogDamaged, self.catalog.extents_from_number, 3, 0, 1)
        self.assertRaises(CatalogDamaged, lambda: list(self.catalog.extents_of_packs([1])))

    def test_a_real_one(self) -> None:
        """On a real disk: commits are synced, readers read beside the writer, and a clean end leaves one file."""
        directory = self.mktemp()
        disk = Disk()
        disk.make_directory(directory)
        catalog = Catalog(disk, directory, STORE, writable=True)
        self.assertEqual(catalog._db.execute("PRAGMA journal_mode").fetchone(), ("wal",))
        self.assertEqual(catalog._db.execute("PRAGMA synchronous").fetchone(), (1,))
        reader = Catalog(disk, directory, STORE, writable=False)
        with catalog:
            catalog.set_covered(2, 1, 1)
            self.assertEqual(reader.covered, (1, 0, 0))
        self.assertEqual(reader.covered, (2, 1, 1))
        reader.close()
        catalog.close()
        self.assertEqual(disk.list_directory(directory), ["catalog.sqlite"])
