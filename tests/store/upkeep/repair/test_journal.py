"""The journal of a damaged store is repaired."""

from __future__ import annotations

from base64 import b64decode
from random import Random

from tests.rigs.store.inline import JOURNAL, call
from tests.rigs.store.model import contents
from tests.rigs.store.repair import KEPT, RepairCase
from tests.rigs.store.simulated import SimulatedDisk


class JournalTests(RepairCase):
    def test_flips(self) -> None:
        """Any byte of any journal file: all before the damage is there, and what is readable behind it is kept."""
        rng, lossless, cut = Random(3), 0, 0
        for path in self.files(JOURNAL):
            size = len(self.disk.content(path))
            for position in sorted({*range(0, 64, 5), *rng.sample(range(64, size), min(25, size - 64))}):

                def flip(disk: SimulatedDisk, path: str = path, position: int = position) -> None:
                    disk.content(path)[position] ^= 4

                place = f"{path} at {position}"
                steps, store = self.repaired(flip, place)
                gone = self.check_nothing_made_up(store, place)
                lossless += bool(steps) and not gone
                cut += any("is cut at" in step.action for step in steps)
                if gone:
                    self.assertTrue(any(step.lost for step in steps), place)
        self.assertGreater(lossless, 10)
        self.assertGreater(cut, 20)

    def test_header(self) -> None:
        """A header is made again from the frames: nothing is lost."""
        for path in self.files(JOURNAL)[:-1]:

            def wipe(disk: SimulatedDisk, path: str = path) -> None:
                disk.content(path)[:64] = bytes(64)

            steps, store = self.repaired(wipe, path)
            self.assertEqual([step.lost for step in steps], [""])
            self.assertEqual(contents(store), self.whole)

    def test_missing(self) -> None:
        """A missing file: what comes behind it is kept, and its numbers are never given again."""
        first, *_ = self.files(JOURNAL)
        steps, store = self.repaired(lambda disk: disk.unlink(first))
        self.assertGreater(self.check_nothing_made_up(store), 0)
        self.assertTrue(any("missing" in step.damage for step in steps))
        made = call(self.writer, store.create, "made after the repair")
        self.assertGreater(made.id, max(self.ids.values()))
        kept = {name for name in self.copy.list_directory(f"{KEPT}/journal") if name.endswith(".journal")}
        self.assertEqual({f"{JOURNAL}/{name}" for name in kept}, set(self.files(JOURNAL)) - {first})
        self.assertGreater(len(self.kept_records()), 0)

    def test_kept_records(self) -> None:
        """Records behind the damage are written down as they were."""
        path = self.files(JOURNAL)[0]

        def flip(disk: SimulatedDisk) -> None:
            disk.content(path)[200] ^= 1

        _, store = self.repaired(flip)
        self.assertGreater(self.check_nothing_made_up(store), 0)
        had = {(name, record[0]): record[3] for name, (_, records, *_) in self.whole.items() for record in records}
        kept = self.kept_records()
        self.assertGreater(len(kept), 3)
        for each in kept:
            data = b64decode(each["value_base64"]) if "value_base64" in each else each["value"].encode()
            if (each["topic"], each["offset"]) in had:
                self.assertEqual(data, had[each["topic"], each["offset"]])
