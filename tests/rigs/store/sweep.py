"""The power is cut at every call to the disk of a history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.settings import StoreSettings
from streamd.store import Store, StoreError, StoreUnusable
from tests.rigs.store.history import History, Oracle, Violation, difference
from tests.rigs.store.inline import SMALL, Compactor, call, open_inline
from tests.rigs.store.model import contents
from tests.rigs.store.simulated import PowerCut, SimulatedDisk

TINY = StoreSettings(journal_file_bytes=1024, reserve_bytes=128, open_files_max=4, torn_bytes_max=256)
"""A journal file holds two or three commits."""
SETTINGS = [SMALL, TINY]


class Sweep:
    """Crashes a history at each of its calls to the disk, before and after the call's effect."""

    def __init__(
        self,
        seed: int,
        *,
        outcomes: int = 0,
        recoveries: float = 0,
        kills: float = 0,
        lies: Iterable[str] = (),
        sync: str = "always",
        history: type[History] = History,
    ) -> None:
        self.points = 0
        """Crashes of the history."""
        self.catalog_points = 0
        """Those of them where the catalog was about to change, or just had."""
        self.recovery_points = 0
        """Crashes of recoveries from a crash."""
        self.kills = 0
        """Ends of the process, with a power cut later."""
        self.disk = SimulatedDisk()
        self.disk.lies = frozenset(lies)
        self.disk.observer = self._crash
        self._seed = seed
        self.rng = Random(seed)
        self.settings = replace(SETTINGS[seed % len(SETTINGS)], sync=sync)
        self._outcomes = outcomes
        self._recoveries = recoveries
        self._kills = kills
        self.oracle = Oracle(durable=sync == "always")
        self._history = history

    def run(self, operations: int) -> None:
        """Live through a history, opening and closing included."""
        history = self._history(self.disk, self.rng, self.settings, self.oracle)
        history.run(operations)
        history.finish()

    def _crash(self, call: str, after: bool) -> None:
        # By itself, so that the history is the same one however it is crashed.
        rng = Random(f"{self._seed} {self.disk.calls} {after}")
        try:
            for _ in range(self._outcomes):
                self.points += 1
                self.catalog_points += call == "commit"
                self._check(self.disk.crash(rng), rng)
            if rng.random() < self._kills:
                self.kills += 1
                self._check(self.disk.kill(), rng)
            if rng.random() < self._recoveries:
                self._crash_recovery(self.disk.crash(rng) if rng.random() < 0.8 else self.disk.kill(), rng)
        except (Violation, StoreError, StoreUnusable, AssertionError) as error:
            when = "after" if after else "before"
            raise Violation(
                f"history {self._seed}, {when} call {self.disk.calls} ({call}): {type(error).__name__}: {error}"
            ) from error

    def _check(self, disk: SimulatedDisk, rng: Random) -> None:
        """A store is what it may be after a crash; and once somebody has seen that, another crash changes nothing."""
        # What follows is synced, also where the history before it was not.
        settings = replace(self.settings, sync="always")
        store, writer = open_inline(disk, settings)
        served = self.oracle.judge(store).contents()
        if rng.random() < 0.3:
            if rng.random() < 0.5:
                call(writer, store.create, "new")
                served = contents(store)
            elif self._history is not History:
                self._compact(disk, store, rng)
            again, _ = open_inline(disk.crash(rng), settings)
            if contents(again) != served:
                raise Violation(f"what was served is gone: {difference(contents(again), served)}")

    def _compact(self, disk: SimulatedDisk, store: Store, rng: Random) -> None:
        """Compaction goes on from whatever the crash left."""
        compactor = Compactor(disk, store)
        compactor.fold(told=rng.random() < 0.7)
        if rng.random() < 0.5:
            compactor.merge(compactor.packs())
        self.oracle.judge(store)

    def _crash_recovery(self, disk: SimulatedDisk, rng: Random) -> None:
        """The power goes again at each call of the recovery."""

        def crash(call: str, after: bool) -> None:
            self.recovery_points += 1
            self._check(disk.crash(rng), rng)

        disk.observer = crash
        open_inline(disk, self.settings)


class SweepCase(SynchronousTestCase):
    """Crashes histories of one kind."""

    history: type[History] = History

    def sweep(self, seeds: Iterable[int], operations: int, **how: Any) -> list[Sweep]:
        """Live through one history for each seed, with crashes."""
        sweeps = []
        for seed in seeds:
            sweeps.append(Sweep(seed, history=self.history, **how))
            sweeps[-1].run(operations)
        return sweeps

    def live(self, seeds: Iterable[int]) -> int:
        """Many short lives of the same stores, most of them cut off; returns how many were."""
        cuts = 0
        for seed in seeds:
            rng = Random(seed)
            disk = SimulatedDisk()
            oracle = Oracle()
            settings = SETTINGS[seed % len(SETTINGS)]
            for _ in range(25):
                disk.cut_power_at(rng.randint(1, 40), after=rng.random() < 0.5)
                try:
                    history = self.history(disk, rng, settings, oracle)
                    history.run(20)
                    history.finish()
                except PowerCut:
                    cuts += 1
                    disk = disk.crash(rng) if rng.random() < 0.8 else disk.kill()
        return cuts

    def assertFinds(self, *lies: str) -> None:
        """Some history comes to a bad end on a disk that lies."""
        try:
            for seed in range(40):
                Sweep(seed, outcomes=2, lies=lies, history=self.history).run(60)
        except Violation:
            return
        self.fail(f"a disk that lies about {lies} was not noticed")
