"""A damaged store is repaired: what is left is what was there, nothing is made up, and all that goes is kept."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from base64 import b64decode
from collections.abc import Callable
from contextlib import closing
from functools import partial
from operator import itemgetter
from random import Random
from typing import Any
from uuid import UUID

from crc32c import crc32c
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.store import Store, StoreUnusable
from streamd.store.disk import Disk, IDisk
from streamd.store.errors import StoreLocked, UnknownVersion
from streamd.store.journal.frame import VERSION
from streamd.store.upkeep.problems import Severity
from streamd.store.upkeep.repair.kept import Step
from streamd.store.upkeep.repair.run import Repair
from streamd.store.upkeep.verify.check import verify
from tests.store.inline import DIRECTORY, JOURNAL, PACKS, Compactor, call, open_inline, result_of
from tests.store.model import contents
from tests.store.simulated import PowerCut, SimulatedDisk
from tests.store.test_damage import SETTINGS, make

NAME = "now"
KEPT = f"{DIRECTORY}/repair/{NAME}"


def is_sound(disk: SimulatedDisk) -> bool:
    """Whether nothing is damaged."""
    return not any(each.severity is Severity.ERROR for each in verify(disk, DIRECTORY))


def snapshot(disk: IDisk, directory: str) -> dict[str, bytes]:
    """Every file that holds something."""
    names = [
        f"{folder}/{name}" for folder in ("journal", "packs") for name in disk.list_directory(f"{directory}/{folder}")
    ]
    names += [name for name in disk.list_directory(directory) if name in ("identity", "committed", "catalog.sqlite")]
    return {name: bytes(disk.open(f"{directory}/{name}", writable=False).read(0, 1 << 30)) for name in names}


class RepairCase(SynchronousTestCase):
    """A store with everything, and what was in it."""

    def setUp(self) -> None:
        self.disk = make()
        store, _ = open_inline(self.disk.kill(), SETTINGS)
        self.whole = contents(store)
        self.ids = {segment.name: segment.id for segment in store._segments.by_id.values()}

    def files(self, folder: str) -> list[str]:
        """The files of a folder of the store."""
        return [f"{folder}/{name}" for name in self.disk.list_directory(folder)]

    def repaired(self, change: Callable[[SimulatedDisk], None], place: str = "") -> tuple[list[Step], Store]:
        """Damage a copy, and repair it; it is sound then, and opens."""
        self.copy = disk = self.disk.kill()
        change(disk)
        return self.repair(disk, DIRECTORY, place)

    def repair(self, disk: IDisk, directory: str, place: str = "") -> tuple[list[Step], Store]:
        """Repair a store: nothing is changed by looking, and in the end it is sound, and opens."""
        before = snapshot(disk, directory)
        with Repair(disk, directory) as repair:
            steps = repair.examine()
            self.assertEqual(snapshot(disk, directory), before, f"{place}: looking has changed something")
            if steps:
                self.assertEqual(repair.apply(NAME), f"{directory}/repair/{NAME}")
        problems = [str(each) for each in verify(disk, directory) if each.severity is Severity.ERROR]
        self.assertEqual(problems, [], f"{place}: {[str(step) for step in steps]}")
        store, self.writer = open_inline(disk, SETTINGS, directory=directory)
        self.addCleanup(store._on_closed)
        return steps, store

    def written(self) -> str:
        """The store, in a directory."""
        home: str = os.path.abspath(self.mktemp())
        for name, data in snapshot(self.disk, DIRECTORY).items():
            os.makedirs(os.path.dirname(f"{home}/{name}"), exist_ok=True)
            with open(f"{home}/{name}", "wb") as file:
                file.write(data)
        return home

    def changed(self, statement: str) -> tuple[list[Step], Store]:
        """Change the catalog behind its back, and repair it."""
        home = self.written()
        with closing(sqlite3.connect(f"{home}/catalog.sqlite")) as database:
            database.execute(statement)
            database.commit()
        return self.repair(Disk(), home, statement)

    def cut(self, change: Callable[[SimulatedDisk], None], step: int) -> int:
        """Cut the power at every so many calls of a repair, which is then done again; how many calls that are."""
        disk = self.disk.kill()
        change(disk)
        with Repair(disk, DIRECTORY) as repair:
            repair.examine()
            begin = disk.calls
            repair.apply(NAME)
            calls = disk.calls - begin
        store, _ = open_inline(disk, SETTINGS)
        wanted = {name: records for name, (_, records, *_) in contents(store).items()}
        rng = Random(6)
        for call_ in range(0, calls, step):
            disk = self.disk.kill()
            change(disk)
            with Repair(disk, DIRECTORY) as repair:
                repair.examine()
                disk.cut_power_at(disk.calls + 1 + call_, after=bool(rng.getrandbits(1)))
                self.assertRaises(PowerCut, repair.apply, NAME)
            disk = disk.crash(rng)
            with Repair(disk, DIRECTORY) as repair:
                if repair.examine():
                    repair.apply("again")
            self.assertTrue(is_sound(disk), f"call {call_}")
            store, _ = open_inline(disk, SETTINGS)
            found = {name: records for name, (_, records, *_) in contents(store).items()}
            self.assertEqual(found, wanted, f"call {call_}")
        return calls

    def kept_records(self) -> list[dict[str, Any]]:
        """The records that were written down."""
        if "records.jsonl" not in self.copy.list_directory(KEPT):
            return []
        return [json.loads(line) for line in bytes(self.copy.content(f"{KEPT}/records.jsonl")).splitlines()]

    def check_nothing_made_up(self, store: Store, place: str = "") -> int:
        """What a segment still has are records that it had under the same numbers; how many are gone."""
        found, gone = contents(store), 0
        for name, (_, records, *_) in self.whole.items():
            had = {record[0]: record for record in records}
            has = found.get(name)
            for record in has[1] if has is not None else ():
                self.assertEqual(record, had.get(record[0]), f"{place}: {name}")
            gone += len(had) - (0 if has is None else len(has[1]))
        self.assertEqual([name for name in found if name not in self.whole], [], place)
        return gone


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


class CatalogTests(RepairCase):
    """On a real disk, where a database is a file that another one can take the place of."""

    def test_flips(self) -> None:
        """Any byte of the catalog: repaired, or refused with advice, and never changed in silence."""
        content = self.disk.content(f"{DIRECTORY}/catalog.sqlite")
        used = [position for position in range(len(content)) if content[position]]
        repaired = refused = 0
        for position in Random(5).sample(used, 80):
            home = self.written()
            with open(f"{home}/catalog.sqlite", "r+b") as file:
                file.seek(position)
                file.write(bytes([content[position] ^ 2]))
            try:
                steps, store = self.repair(Disk(), home, f"byte {position}")
            except StoreUnusable as error:
                self.assertIn("backup", str(error))
                refused += 1
                continue
            if steps:
                repaired += 1
            elif contents(store) != self.whole:
                self.fail(f"byte {position}: changed, and nothing was said")
        self.assertGreater(repaired, 10)
        self.assertLess(refused, 60)

    def test_extents(self) -> None:
        """Extents are made again from their blocks, where these were written for one segment."""
        a = self.ids["a"]
        row = f"segment = {a} AND pack > 0"
        for statement in (f"UPDATE extents SET offset = offset + 1 WHERE {row}", f"DELETE FROM extents WHERE {row}"):
            steps, store = self.changed(statement)
            self.assertTrue(any("made again from their blocks" in step.action for step in steps))
            self.check_nothing_made_up(store, statement)

    def test_packs(self) -> None:
        """Rows of packs are made again from the files."""
        for statement in ("UPDATE packs SET live = 1", "DELETE FROM packs"):
            steps, store = self.changed(statement)
            self.assertTrue(any("made again from the file" in step.action for step in steps))
            self.assertEqual(contents(store), self.whole)

    def test_segments(self) -> None:
        """A segment whose row is damaged keeps its records; one without a row gets a name of its number."""
        a = self.ids["a"]
        steps, store = self.changed(f"UPDATE segments SET number = number + 7 WHERE id = {a}")
        self.assertTrue(any("see if that is right" in step.action for step in steps))
        self.assertEqual(contents(store)["a"][1], self.whole["a"][1])
        steps, store = self.changed(f"DELETE FROM segments WHERE id = {a}")
        self.assertTrue(any("its name" in step.lost for step in steps))
        self.assertGreater(len(contents(store)[f"recovered-{a}"][1]), 0)

    def test_parts(self) -> None:
        """A damaged ack level, group or attribute goes, and what that means is said."""
        statement = "UPDATE levels SET level = level + 1"
        steps, store = self.changed(statement)
        self.assertTrue(any("stored twice" in step.lost for step in steps))
        self.assertEqual(self.check_nothing_made_up(store), 0)

    def test_meta(self) -> None:
        """How far the catalog goes is told by the journal too: by its first file that has something new."""
        steps, store = self.changed("UPDATE meta SET value = 17 WHERE key = 'covered'")
        self.assertTrue(any("the table meta" in step.damage for step in steps))
        self.assertEqual(contents(store), self.whole)
        steps, store = self.changed("UPDATE meta SET value = 17 WHERE key IN ('covered', 'file')")
        self.assertEqual(contents(store), self.whole)

    def damaged(self, change: Callable[[bytes], bytes], place: str) -> tuple[list[Step], Store]:
        """Change the bytes of the catalog, and repair it."""
        home = self.written()
        with open(f"{home}/catalog.sqlite", "r+b") as file:
            data = change(file.read())
            file.seek(0)
            file.truncate()
            file.write(data)
        return self.repair(Disk(), home, place)

    def test_pages(self) -> None:
        """Any page of the catalog is gone, or its head is: names and records are saved from the others."""
        pages = len(self.disk.content(f"{DIRECTORY}/catalog.sqlite")) // 4096
        self.assertGreater(pages, 8)
        for page in range(pages):
            for length in (12, 4096):
                begin = page * 4096
                place = f"{length} bytes of page {page + 1}"
                steps, store = self.damaged(partial(_zeroed, begin, length), place)
                self.assertTrue(steps, place)
                found = contents(store)
                if length == 12:
                    # Only its head: all rows are in their places, but for those behind the file header of SQLite.
                    self.assertEqual(found, self.whole, place)
                self.check_saved(found, place)

    def test_cut(self) -> None:
        """The catalog ends anywhere: what stands before that is saved, and the packs tell of the rest."""
        size = len(self.disk.content(f"{DIRECTORY}/catalog.sqlite"))
        for end in (*range(0, size, 4096), 100, 5000, size - 1):
            _, store = self.damaged(itemgetter(slice(end)), f"cut at {end}")
            self.check_saved(contents(store), f"cut at {end}")

    def test_garbage(self) -> None:
        """Nothing is left of the catalog: records are saved under made-up names, and what is lost is said."""
        rng = Random(3)
        for change in (lambda data: rng.randbytes(len(data)), lambda data: b"", lambda data: b"no database" * 1000):
            steps, store = self.damaged(change, "garbage")
            found = contents(store)
            self.check_saved(found, "garbage")
            self.assertIn(f"recovered-{self.ids['b']}", found)
            self.assertTrue(any("reader groups, ack levels and attributes" in step.lost for step in steps))
            self.assertTrue(any(step.lost == "its name" for step in steps))

    def test_newest_in_wal(self) -> None:
        """The file is empty or gone, and all is in its WAL: nobody who looks takes that away, and it is saved."""
        for gone in (False, True):
            home = self.written()
            with closing(sqlite3.connect(f"{home}/catalog.sqlite")) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("VACUUM")
                # While it is open, as after a kill: the last one who closes it empties the WAL.
                shutil.copytree(home, f"{home}.killed")
            home += ".killed"
            os.truncate(f"{home}/catalog.sqlite", 0)
            if gone:
                os.unlink(f"{home}/catalog.sqlite")
            error = self.assertRaises(StoreUnusable, open_inline, Disk(), SETTINGS, directory=home)
            self.assertIn("streamctl repair", str(error))
            _, store = self.repair(Disk(), home, "in the WAL")
            self.assertEqual(contents(store), self.whole)

    def test_earlier(self) -> None:
        """The catalog is of an earlier time, its WAL being gone: packs that it does not know stay, and are saved."""
        disk = SimulatedDisk()
        store, writer = open_inline(disk, SETTINGS)
        compactor = Compactor(disk, store)
        earlier = b""
        names = ("first", "second")
        for name in names:
            id = call(writer, store.create, name)
            for number in range(40):
                call(writer, store.append, id, Batch.of([b"%s %d " % (name.encode(), number) * 8]))
            compactor.fold()
            earlier = earlier or bytes(disk.content(f"{DIRECTORY}/catalog.sqlite"))
        whole = contents(store)
        result_of(store.close())
        self.disk = disk
        home = self.written()
        with open(f"{home}/catalog.sqlite", "wb") as file:
            file.write(earlier)
        before = snapshot(Disk(), home)
        error = self.assertRaises(StoreUnusable, open_inline, Disk(), SETTINGS, directory=home)
        self.assertIn("the catalog is of an earlier time", str(error))
        # What was only looked at has lost nothing.
        self.assertLessEqual({name for name in before if "pack" in name}, set(snapshot(Disk(), home)))
        _, store = self.repair(Disk(), home, "earlier")
        found = contents(store)
        self.assertEqual(found["first"][1], whole["first"][1])
        (made_up,) = found.keys() - set(names)
        self.assertEqual([record[0] for record in found[made_up][1]], [record[0] for record in whole["second"][1]])

    def check_saved(self, found: dict[str, Any], place: str) -> None:
        """Every record that a pack holds for one segment alone is there, under its name or a made-up one."""
        for name in ("a", "b"):
            id = self.ids[name]
            segment = found.get(name) or found.get(f"recovered-{id}")
            assert segment is not None, (place, name, list(found))
            had = {record[0]: record for record in self.whole[name][1]}
            for record in segment[1]:
                # What was truncated may be back.
                self.assertIn(had.get(record[0], record), [record], place)
            self.assertEqual(segment[1][-1][0], self.whole[name][1][-1][0], place)

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
        identity[:] = identity.replace(b'"format": 2', b'"format": 3')
        for path in self.files(JOURNAL):
            content = self.disk.content(path)
            content[8:12] = (3).to_bytes(4, "little")
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


def _zeroed(begin: int, length: int, data: bytes) -> bytes:
    return data[:begin] + bytes(length) + data[begin + length :]


class BroadcastTests(RepairCase):
    """What is broadcast is stored once: where that is lost, each who had it is truncated."""

    def test_missing(self) -> None:
        """Each pack of the golden store, which holds everything, gone."""
        golden = os.path.join(os.path.dirname(__file__), "golden", f"v{VERSION}", "store")
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
