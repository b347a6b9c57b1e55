"""A damaged store is repaired: what is left is what was there, nothing is made up, and all that goes is kept."""

from __future__ import annotations

import json
import os
import shutil
from uuid import UUID

from crc32c import crc32c

from streamd.store.disk import Disk
from streamd.store.errors import StoreLocked, StoreUnusable, UnknownVersion
from streamd.store.journal.frame import VERSION
from streamd.store.upkeep.repair.run import Repair
from tests.rigs.daemon import CHECKOUT
from tests.rigs.store.damage import SETTINGS
from tests.rigs.store.inline import DIRECTORY, JOURNAL, PACKS, open_inline, result_of
from tests.rigs.store.model import contents
from tests.rigs.store.repair import KEPT, NAME, RepairCase
from tests.rigs.store.simulated import SimulatedDisk


class SoundTests(RepairCase):
    def test_nothing_to_do(self) -> None:
        """Nothing is done to a sound store."""
        steps, store = self.repaired(lambda disk: None)
        self.assertEqual(steps, [])
        self.assertEqual(contents(store), self.whole)

    def test_locked(self) -> None:
        """A store that somebody has open is left alone."""
        store, _ = open_inline(self.disk, SETTINGS)
        error = self.assertRaises(StoreLocked, Repair(self.disk, DIRECTORY).__enter__)
        self.assertIn("Stop it first", str(error))
        result_of(store.close())


class BroadcastTests(RepairCase):
    """What is broadcast is stored once: where that is lost, each who had it is truncated."""

    def test_missing(self) -> None:
        """Each pack of the golden store, which holds everything, gone."""
        golden = CHECKOUT / "tests" / "store" / "golden" / f"v{VERSION}" / "store"
        for name in sorted(os.listdir(os.path.join(golden, "packs"))):
            home = os.path.abspath(self.mktemp())
            shutil.copytree(golden, home)
            store, _ = open_inline(Disk(), SETTINGS, directory=home)
            self.whole = contents(store)
            result_of(store.close())
            os.unlink(os.path.join(home, "packs", name))
            steps, store = self.repair(Disk(), home, name)
            self.assertTrue(any("is truncated" in step.action for step in steps))
            found = contents(store)
            for segment, (_, records, *_) in found.items():
                had = {record[0]: record for record in self.whole[segment][1]}
                for record in records:
                    self.assertEqual(record, had[record[0]], f"{name}: {segment}")


class PowerTests(RepairCase):
    """The power goes while a store is repaired: it can be repaired again, and nothing more is lost."""

    def test_journal(self) -> None:
        """A journal that is damaged in the middle."""
        path = self.files(JOURNAL)[1]

        def flip(disk: SimulatedDisk) -> None:
            disk.content(path)[300] ^= 1

        self.assertGreater(self.cut(flip, 1), 20)

    def test_pack(self) -> None:
        """A pack that is damaged."""
        path = self.files(PACKS)[0]

        def flip(disk: SimulatedDisk) -> None:
            disk.content(path)[400] ^= 1

        self.assertGreater(self.cut(flip, 1), 20)


class IdentityTests(RepairCase):
    """Which store it is."""

    def test_identity_flips(self) -> None:
        """Any bit of the identity: it is made again, or says the same as before; nothing is lost."""
        path = f"{DIRECTORY}/identity"
        whole = bytes(self.disk.content(path))
        made = 0
        for position in range(len(whole)):
            for bit in range(8):
                self.copy = disk = self.disk.kill()
                disk.content(path)[position] ^= 1 << bit
                place = f"bit {bit} of byte {position}: {bytes(disk.content(path))!r}"
                with Repair(disk, DIRECTORY) as repair:
                    steps = repair.examine()
                    self.assertLessEqual({(step.path, step.lost) for step in steps}, {(path, "")}, place)
                    if steps:
                        repair.apply(NAME)
                        made += 1
                        self.assertEqual(bytes(disk.content(path)), whole, place)
                        self.assertIn("identity", disk.list_directory(KEPT))
                store, _ = open_inline(disk, SETTINGS)
                self.assertEqual(contents(store), self.whole, place)
        self.assertGreater(made, 400)

    def test_identity_of_another(self) -> None:
        """An identity stays where another file bears it out, and is not made again where the others do not agree."""
        strange = self.disk.content(self.files(JOURNAL)[0])
        strange[16:32] = b"another store..!"
        strange[60:64] = crc32c(bytes(strange[:60])).to_bytes(4, "little")
        with Repair(self.disk, DIRECTORY) as repair:
            error = self.assertRaises(StoreUnusable, repair.examine)
        self.assertIn("belongs to another store", str(error))
        identity = self.disk.content(f"{DIRECTORY}/identity")
        identity[:] = json.dumps({"format": VERSION, "store": str(UUID(int=5))}).encode()
        with Repair(self.disk, DIRECTORY) as repair:
            error = self.assertRaises(StoreUnusable, repair.examine)
        self.assertIn("do not agree", str(error))

    def test_identity_of_tomorrow(self) -> None:
        """A format that is not known is refused where the other files have one that is not known either."""
        identity = self.disk.content(f"{DIRECTORY}/identity")
        identity[:] = identity.replace(b'"format": 3', b'"format": 4')
        for path in self.files(JOURNAL):
            content = self.disk.content(path)
            content[8:12] = (4).to_bytes(4, "little")
            content[60:64] = crc32c(bytes(content[:60])).to_bytes(4, "little")
        with Repair(self.disk, DIRECTORY) as repair:
            self.assertRaises(UnknownVersion, repair.examine)

    def test_identity(self) -> None:
        """Which store it is, every other file tells."""
        for change in (
            lambda disk: disk.unlink(f"{DIRECTORY}/identity"),
            lambda disk: disk.content(f"{DIRECTORY}/identity").__setitem__(slice(0, 5), b"?????"),
        ):
            self.copy = disk = self.disk.kill()
            change(disk)
            with Repair(disk, DIRECTORY) as repair:
                self.assertEqual([step.lost for step in repair.examine()], [""])
                repair.apply(NAME)
            store, _ = open_inline(disk, SETTINGS)
            self.assertEqual(contents(store), self.whole)
