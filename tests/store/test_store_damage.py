"""One flipped bit, in any region of any file: it is found at the start or at a read, named, and never served.

What counts as harmless is only what changes nothing that anybody can see.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.store import ReadFailed, StoreUnusable
from streamd.store.packs.footer import read_footer
from tests.rigs.store.damage import SETTINGS, make
from tests.rigs.store.inline import DIRECTORY, open_inline
from tests.rigs.store.model import contents


class DamageTests(SynchronousTestCase):
    """What a store shows after one bit of it was flipped."""

    def setUp(self) -> None:
        self.disk = make()
        # Opening changes files, so what is compared is what a copy holds.
        store, _ = open_inline(self.disk.kill(), SETTINGS)
        self.whole = contents(store)
        self.rng = Random(7)

    def flip(self, path: str, position: int, bit: int) -> str:
        """Damage a copy, open and read it all: ``start``, ``read`` or ``harmless``, or the test fails."""
        disk = self.disk.kill()
        disk.content(path)[position] ^= 1 << bit
        place = f"{path}, bit {bit} of byte {position}"
        try:
            store, _ = open_inline(disk, SETTINGS)
        except StoreUnusable as error:
            # A flip in the store's own uuid makes every file that of another store: the first one is named.
            self.assertTrue(path in str(error) or "another store" in str(error), f"{place}: {error}")
            return "start"
        try:
            found = contents(store)
        except ReadFailed as error:
            number = int(path.rpartition("/")[2].partition(".")[0]) if path[-5:] in (".pack", "urnal") else None
            self.assertIn("catalog" if number is None else f" {number} at", str(error), place)
            return "read"
        self.assertEqual(found, self.whole, place)
        return "harmless"

    def flips(self, path: str, positions: Sequence[int]) -> dict[str, int]:
        """What became of each flip, one bit in each of these bytes."""
        fates = {"start": 0, "read": 0, "harmless": 0}
        for position in positions:
            fates[self.flip(path, position, self.rng.randrange(8))] += 1
        return fates

    def paths(self, folder: str) -> list[str]:
        """The files of a folder of the store."""
        return [f"{DIRECTORY}/{folder}/{name}" for name in self.disk.list_directory(f"{DIRECTORY}/{folder}")]

    def test_identity(self) -> None:
        """Every byte of the identity."""
        path = f"{DIRECTORY}/identity"
        self.flips(path, list(range(len(self.disk.content(path)))))

    def test_journal(self) -> None:
        """Journal files: headers, frames, entries, payloads, and the zeros behind them."""
        found = 0
        paths = self.paths("journal")
        self.assertGreaterEqual(len(paths), 2)
        for path in paths:
            size = len(self.disk.content(path))
            fates = self.flips(path, sorted({*range(64), *range(64, size, 7)}))
            found += fates["start"]
        self.assertGreater(found, 500)

    def test_packs(self) -> None:
        """Packs: a checksum covers every byte of a header, a block and a footer; only zeros between blocks have none.

        The rows of a footer are read only where the catalog is made again.
        """
        paths = self.paths("packs")
        self.assertGreaterEqual(len(paths), 2)
        for path in paths:
            content = bytes(self.disk.content(path))
            footer = read_footer(path, self.disk.open(path, writable=False), int(path[-25:-5]), content[16:32])
            rows_end = footer.sections[-1].position + footer.sections[-1].length
            fates = self.flips(path, sorted({*range(64), *range(rows_end, len(content))}))
            self.assertEqual(fates["start"], 64 + len(content) - rows_end)
            fates = self.flips(path, range(64, footer.blocks_end, 5))
            self.assertGreater(fates["read"], 10 * fates["harmless"])
            for name in [each for each in self.disk.list_directory(DIRECTORY) if each.startswith("catalog")]:
                self.disk.unlink(f"{DIRECTORY}/{name}")
            fates = self.flips(path, range(footer.blocks_end, rows_end, 3))
            self.assertEqual(fates["start"], len(range(footer.blocks_end, rows_end, 3)))

    def test_catalog(self) -> None:
        """The catalog: every page of it."""
        path = f"{DIRECTORY}/catalog.sqlite"
        content = self.disk.content(path)
        used = [position for position in range(len(content)) if content[position]]
        empty = [position for position in range(len(content)) if not content[position]]
        fates = self.flips(path, self.rng.sample(used, min(1500, len(used))))
        self.assertLess(fates["start"], 1, "the catalog is no reason not to start")
        self.flips(path, self.rng.sample(empty, 300))
