"""Which packs are in force: the newest that covers a sequence number, whatever files are there."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.store.errors import StoreCorrupt
from streamd.store.packs import pack
from streamd.store.packs.footer import Adopted, Mark, Told
from streamd.store.packs.inforce import PackSet, overlap, united
from tests.rigs.store.simulated import SimulatedDisk

STORE = bytes(range(16))
DIRECTORY = "/packs"
RANGES = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5)).map(lambda each: (each[0], each[0] + each[1])))


def written(disk: SimulatedDisk, number: int, told: Told) -> None:
    """A pack without blocks."""
    pack.PackWriter(disk, DIRECTORY, number, STORE).finish(told)


class InForceTests(SynchronousTestCase):
    """Which packs count, whatever files are there."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory(DIRECTORY)

    def packs(self) -> PackSet:
        """What the files tell."""
        return PackSet(self.disk, DIRECTORY, STORE).read()

    def test_newest(self) -> None:
        """A pack is spare once a later one covers what it covers, also when those between are gone, and it is back."""
        told = {
            1: Told(Mark(), (10, 1, 1), ((1, 10),)),
            2: Told(Mark(1), (20, 2, 2), ((10, 20),)),
            3: Told(Mark(2), (20, 2, 2), ((1, 20),), (1, 2), is_merged=True),
            4: Told(Mark(3), (30, 3, 3), ((20, 30),)),
            5: Told(Mark(4), (30, 3, 3), ((1, 30),), (3, 4), is_merged=True),
        }
        for number, each in told.items():
            written(self.disk, number, each)
        for gone in ([], [3], [3, 4], [1, 3]):
            for number in gone:
                self.disk.unlink(f"{DIRECTORY}/{pack.file_name(number)}")
            packs = self.packs()
            self.assertEqual((sorted(packs.footers), packs.covered), ([5], (30, 3, 3)))
            self.assertEqual(packs.spare, [number for number in (1, 2, 3, 4) if number not in gone])
            for number in gone:
                written(self.disk, number, told[number])

    def test_missing(self) -> None:
        """One that is missing is noticed, wherever it is, unless others have all of it."""
        for number in range(1, 5):
            written(self.disk, number, Told(Mark(), (10 * number, 1, 1), ((10 * number - 10 or 1, 10 * number),)))
        self.assertEqual(len(self.packs().footers), 4)
        for number in (1, 2, 3):
            path = f"{DIRECTORY}/{pack.file_name(number)}"
            content = bytes(self.disk.content(path))
            self.disk.unlink(path)
            error = self.assertRaises(StoreCorrupt, self.packs)
            self.assertIn(f"none covers sequence {10 * number - 10 or 1}", str(error))
            self.disk.put(path, content)

    def test_adopted(self) -> None:
        """What a checkpoint adopts must be there, and is in force; older checkpoints are not."""
        adopted = (Adopted(1, 100, 1),)
        whole = Told(Mark(), (10, 1, 1), ((1, 10),), (), adopted, is_whole=True, is_merged=True)
        written(self.disk, 2, whole)
        self.assertIn("missing", str(self.assertRaises(StoreCorrupt, self.packs)))
        written(self.disk, 1, Told(Mark(), (10, 1, 1), ((1, 10),)))
        self.assertEqual((list(self.packs().footers), list(self.packs().adopted)), ([2], [1]))
        written(self.disk, 3, whole._replace(adopted=()))
        self.assertEqual((list(self.packs().footers), self.packs().spare), ([3], [1, 2]))

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(RANGES, RANGES)
    def test_ranges(self, some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
        """Ranges are sets of numbers."""

        def numbers(ranges: Any) -> set[int]:
            return {number for first, end in ranges for number in range(first, end)}

        self.assertEqual(numbers(united(some)), numbers(some))
        self.assertEqual(overlap(united(some), united(others)), bool(numbers(some) & numbers(others)))
