"""Whatever is damaged of the catalog or of packs: what other files still hold is not lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from streamd.store.disk import Disk
from streamd.store.errors import ReadFailed
from tests.rigs.store.damage import SETTINGS
from tests.rigs.store.history import Oracle
from tests.rigs.store.inline import DIRECTORY, PACKS, SMALL, open_inline
from tests.rigs.store.life import LIFE_OPERATIONS, Life
from tests.rigs.store.making import made_again
from tests.rigs.store.model import contents
from tests.rigs.store.repair import RepairCase
from tests.rigs.store.simulated import SimulatedDisk

RANDOM = int(os.environ.get("STREAMD_DAMAGES", "1000"))
"""How many random damages are tried."""


def _write(data: bytes, path: str) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _flip(path: str, begin: int, end: int, bits: int, disk: SimulatedDisk) -> None:
    content = disk.content(path)
    content[begin:end] = bytes([each ^ bits for each in content[begin:end]])


class CatalogTests(RepairCase):
    """Whatever becomes of the catalog, nothing is lost: on a real disk, with the real SQLite."""

    def check(self, change: Callable[[str], None], place: str) -> None:
        """A start serves all there was, and so does one after a repair."""
        for is_repaired in (False, True):
            home = self.written()
            change(f"{home}/catalog.sqlite")
            if is_repaired:
                steps, store = self.repair(Disk(), home, place)
                self.assertLessEqual({step.lost for step in steps}, {""}, place)
            else:
                store, _ = open_inline(Disk(), SETTINGS, directory=home)
                self.addCleanup(store._on_closed)
            try:
                self.assertEqual(contents(store), self.whole, place)
            except ReadFailed:
                # A row that only a read meets is not served. A repair makes all of them again.
                self.assertFalse(is_repaired, place)

    def test_bytes(self) -> None:
        """Any byte of it, any page, any end, and nothing at all."""
        content = bytes(self.disk.content(f"{DIRECTORY}/catalog.sqlite"))
        used = [position for position in range(len(content)) if content[position]]
        size = len(content)
        for position in Random(5).sample(used, 25):
            flipped = bytes([content[position] ^ 2])
            self.check(partial(_write, content[:position] + flipped + content[position + 1 :]), f"byte {position}")
        for begin in range(0, size, 4096):
            self.check(partial(_write, content[:begin] + bytes(4096) + content[begin + 4096 :]), f"page at {begin}")
        for end in (0, 100, 5000, size - 1):
            self.check(partial(_write, content[:end]), f"cut at {end}")
        self.check(partial(_write, Random(3).randbytes(size)), "garbage")
        self.check(os.unlink, "gone")

    def test_rows(self) -> None:
        """Rows that are changed, or gone, in any table."""
        a = self.ids["a"]
        for statement in (
            f"UPDATE extents SET offset = offset + 1 WHERE segment = {a}",
            "DELETE FROM packs",
            f"UPDATE segments SET number = number + 7 WHERE id = {a}",
            f"DELETE FROM segments WHERE id = {a}",
            "UPDATE levels SET level = level + 1",
            "UPDATE meta SET value = 17 WHERE key = 'covered'",
            "UPDATE meta SET value = 17 WHERE key IN ('covered', 'file')",
            "DROP TABLE extents",
        ):
            steps, store = self.changed(statement)
            self.assertEqual({step.lost for step in steps}, {""}, statement)
            self.assertEqual(contents(store), self.whole, statement)

    def test_both(self) -> None:
        """A footer is damaged, and the catalog with it: the pack goes, and what is lost is said."""
        path = self.files(PACKS)[0]

        def damage(disk: SimulatedDisk) -> None:
            disk.content(path)[-1] ^= 1
            disk.unlink(f"{DIRECTORY}/catalog.sqlite")

        steps, store = self.repaired(damage)
        self.assertTrue(any("the records in it" in step.lost for step in steps))
        self.check_nothing_made_up(store)


class StillThereTests(RepairCase):
    """A pack is damaged or gone, and the files that it was made of are still there: nothing is lost."""

    def setUp(self) -> None:
        pass

    def check(self, change: Callable[[SimulatedDisk], None], place: str) -> None:
        """Nothing is lost by this damage, with or without a catalog."""
        for has_catalog in (True, False):

            def damage(disk: SimulatedDisk, has_catalog: bool = has_catalog) -> None:
                change(disk)
                if not has_catalog:
                    disk.unlink(f"{DIRECTORY}/catalog.sqlite")

            steps, store = self.repaired(damage, place)
            self.assertEqual(contents(store), self.whole, place)
            self.assertLessEqual({step.lost for step in steps}, {""}, place)

    def test_fold(self) -> None:
        """The newest packs, whose journal files are there, whatever life the store had."""
        for seed in range(8):
            self.disk, self.whole = lived(seed, 1 + seed % 3)
            last = self.files(PACKS)[-1]
            self.check(lambda disk, last=last: disk.unlink(last), f"life {seed}, gone")  # type: ignore[misc]
            size = len(self.disk.content(last))
            for position in Random(seed).sample(range(size), 6):

                def flip(disk: SimulatedDisk, last: str = last, position: int = position) -> None:
                    disk.content(last)[position] ^= 4

                self.check(flip, f"life {seed}, byte {position}")

    def test_merge(self) -> None:
        """A merged pack, whose packs are there."""
        for seed in range(100, 104):
            self.disk, self.whole = lived(seed, 3, is_merged=True)
            last = self.files(PACKS)[-1]
            size = len(self.disk.content(last))
            for position in Random(seed).sample(range(size), 8):

                def flip(disk: SimulatedDisk, last: str = last, position: int = position) -> None:
                    disk.content(last)[position] ^= 4

                self.check(flip, f"life {seed}, byte {position}")

    def test_power(self) -> None:
        """The power goes at any call of such a repair: it can be done again, and nothing is lost."""
        self.disk, self.whole = lived(400, 1)
        last = self.files(PACKS)[-1]

        def flip(disk: SimulatedDisk) -> None:
            disk.content(last)[100] ^= 4

        self.assertGreater(self.cut(flip, 1), 20)


class GrowingLife(Life):
    """A life without folds of its own."""

    operations = (
        LIFE_OPERATIONS,
        [0 if each in (Life.fold, Life.merge) else weight for each, weight in zip(*Life.operations, strict=True)],
    )


def lived(seed: int, folds: int, *, is_merged: bool = False) -> tuple[SimulatedDisk, dict[str, Any]]:
    """A store, killed, in which so many folds, or a merge, were done that nobody was told of; and what it holds."""
    disk = SimulatedDisk()
    life = GrowingLife(disk, Random(seed), SMALL, Oracle())
    life.run(60)
    life.compactor.fold()
    for _ in range(folds):
        life.run(60)
        life.compactor.fold(told=is_merged)
    if is_merged:
        life.compactor.merge(life.compactor.packs(), told=False)
    life.finish()
    killed = disk.kill()
    return killed, contents(open_inline(killed.kill(), SMALL)[0])


class RandomTests(RepairCase):
    """Random damages: a repair loses what lies in the damaged bytes, and nothing else, record by record."""

    def test_packs(self) -> None:
        """Whatever is damaged of a pack, only records are lost whose own block it hits."""
        lost = 0
        places = self.places()
        rng = Random(77)
        for _ in range(RANDOM):
            path = rng.choice(self.files(PACKS))
            size = len(self.disk.content(path))
            begin = rng.randrange(size)
            end = min(begin + rng.choice((1, 1, 1, 8, 200)), size)
            bits = rng.randrange(1, 256)

            place = f"{path}, bytes {begin} to {end}"
            steps, store = self.repaired(partial(_flip, path, begin, end, bits), place)
            found = contents(store)
            kept = {(each["topic"], each["offset"]) for each in self.kept_records()} if steps else set()
            for name, (_, records, *_) in self.whole.items():
                has = {record[0]: record for record in found[name][1]}
                for record in records:
                    if has.get(record[0]) == record or (name.removeprefix("?"), record[0]) in kept:
                        continue
                    blocks = places.get((name, record[0]), [])
                    hit = any(each[0] == path and each[1] < end and begin < each[2] for each in blocks)
                    self.assertTrue(hit, f"{place}: record {record[0]} of {name}")
                    lost += 1
        self.assertGreater(lost, RANDOM // 10)

    def places(self) -> dict[tuple[str, int], list[tuple[str, int, int]]]:
        """The bytes in which each record lies: its block."""
        catalog = made_again(self.disk.kill())
        names = {segment.id: ("?" if segment.hidden else "") + segment.name for segment in catalog.segments()}
        found: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
        for row in catalog.all_extents():
            if row.pack:
                block = f"{PACKS}/{row.pack:020}.pack", row.position, row.position + row.length
                for number in range(row.number, row.number + row.records):
                    found.setdefault((names[row.segment], number), []).append(block)
        return found
