"""One flipped bit, in any region of any file: it is found at the start or at a read, named, and never served.

What counts as harmless is only what changes nothing that anybody can see.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store import Level, ReadFailed, StoreUnusable
from streamd.store.records.offsets import TAG_RAW
from tests.store.inline import DIRECTORY, SMALL, Compactor, call, open_inline, result_of
from tests.store.model import contents
from tests.store.simulated import SimulatedDisk

SETTINGS = replace(SMALL, journal_file_bytes=2048)


def make() -> SimulatedDisk:
    """A disk with a store that has everything in several files of each kind, closed in order."""
    disk = SimulatedDisk()
    store, writer = open_inline(disk, SETTINGS)
    compactor = Compactor(disk, store)
    a, b, c = (call(writer, store.create, name) for name in ("a", "b", "c"))
    hidden = call(writer, store.create, "h", hidden=True)
    call(writer, store.create, "waiting", hidden=True)
    rng = Random(1)
    for round_ in range(12):
        call(writer, store.append, a, Batch.of([rng.randbytes(90), b"", rng.randbytes(30)]))
        call(writer, store.append, b, Batch.of([rng.randbytes(60)]), tag=TAG_RAW | round_)
        call(writer, store.fan_out, [a, b, hidden], Batch.of([rng.randbytes(70)]))
        if round_ in (3, 7):
            call(writer, store.append, hidden, Batch.of([rng.randbytes(40)]), writer=b"w" * 16, expected=0, level=1)
            compactor.fold()
        if round_ == 5:
            call(writer, store.publish, [(hidden, c)], [Level(c, b"p" * 16, 0, 7)])
            hidden = call(writer, store.create, "h", hidden=True)
            call(writer, store.truncate, a, 2)
            call(writer, store.set_group, a, "g", 4)
            call(writer, store.acknowledge, a, "g", [(6, 9)])
            call(writer, store.set_attribute, b, b"key", b"value")
    result_of(store.close())
    return disk


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

    def flips(self, path: str, positions: list[int]) -> dict[str, int]:
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
        """Packs: every byte of a header and of a block is covered by a checksum; only the zeros between are not."""
        paths = self.paths("packs")
        self.assertGreaterEqual(len(paths), 2)
        for path in paths:
            size = len(self.disk.content(path))
            fates = self.flips(path, sorted({*range(64), *range(64, size, 5)}))
            self.assertEqual(fates["start"], 64)
            self.assertGreater(fates["read"], 10 * fates["harmless"])

    def test_catalog(self) -> None:
        """The catalog: every page of it."""
        path = f"{DIRECTORY}/catalog.sqlite"
        content = self.disk.content(path)
        used = [position for position in range(len(content)) if content[position]]
        empty = [position for position in range(len(content)) if not content[position]]
        fates = self.flips(path, self.rng.sample(used, min(1500, len(used))))
        self.assertGreater(fates["start"] + fates["read"], 100)
        self.flips(path, self.rng.sample(empty, 300))
