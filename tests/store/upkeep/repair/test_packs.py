"""Damaged packs are repaired: what is left of them is kept."""

from __future__ import annotations

from random import Random

from streamd.batch import Batch
from tests.rigs.store.inline import PACKS, Compactor, call
from tests.rigs.store.model import contents
from tests.rigs.store.repair import KEPT, RepairCase, is_sound
from tests.rigs.store.simulated import SimulatedDisk


class PackTests(RepairCase):
    def test_flips(self) -> None:
        """Any byte of any pack: only records of the damaged block, and those before them, are gone."""
        rng, lost = Random(4), 0
        for path in self.files(PACKS):
            size = len(self.disk.content(path))
            for position in sorted({0, 20, 60, *rng.sample(range(64, size), 20)}):

                def flip(disk: SimulatedDisk, path: str = path, position: int = position) -> None:
                    disk.content(path)[position] ^= 64

                place = f"{path} at {position}"
                steps, store = self.repaired(flip, place)
                gone = self.check_nothing_made_up(store, place)
                lost += gone > 0
                if gone:
                    self.assertTrue(any("truncated" in step.action for step in steps), place)
                if position < 64:
                    self.assertEqual(contents(store), self.whole, "a header is no loss")
                if steps:
                    name = path.rpartition("/")[2]
                    self.assertIn(name, self.copy.list_directory(f"{KEPT}/packs"))
        self.assertGreater(lost, 10)

    def test_missing(self) -> None:
        """A pack that is gone: its records are gone, and what stood before them is written down."""
        for path in self.files(PACKS):
            steps, store = self.repaired(lambda disk, path=path: disk.unlink(path), path)  # type: ignore[misc]
            self.assertGreater(self.check_nothing_made_up(store, path), 0)
            self.assertIn("the file is missing", [step.damage for step in steps])
            found = contents(store)
            had = {(name, record[0]) for name, (_, records, *_) in self.whole.items() for record in records}
            has = {(name, record[0]) for name, (_, records, *_) in found.items() for record in records}
            kept = {(each["topic"], each["offset"]) for each in self.kept_records()}
            self.assertEqual(kept & has, set())
            self.assertLessEqual(kept & set(had), had - has)

    def test_goes_on(self) -> None:
        """A repaired store takes records, is folded and merged, and is sound."""
        path = self.files(PACKS)[0]
        _, store = self.repaired(lambda disk: disk.unlink(path))
        compactor = Compactor(self.copy, store)
        segment = store.find("a")
        number = segment.number
        for _ in range(30):
            call(self.writer, store.append, segment, Batch.of([b"x" * 100, b"y"]))
        compactor.fold()
        compactor.merge([each.number for each in compactor.catalog.packs()])
        self.assertTrue(is_sound(self.copy))
        self.assertEqual(segment.number, number + 60)
