"""Damaged stores, and what is left of them after a repair."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.store import Store
from streamd.store.disk import Disk, IDisk
from streamd.store.upkeep.problems import Severity
from streamd.store.upkeep.repair.kept import Step
from streamd.store.upkeep.repair.run import Repair
from streamd.store.upkeep.verify.check import verify
from tests.rigs.store.damage import SETTINGS, make
from tests.rigs.store.inline import DIRECTORY, open_inline
from tests.rigs.store.model import contents
from tests.rigs.store.simulated import PowerCut, SimulatedDisk

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
