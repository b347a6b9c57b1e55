"""A random life of a store with everything in it: hidden segments, publishing, retention, folds and merges.

A fold or a merge changes no contents, so the oracle of `History` needs to know nothing of them: what was acknowledged
is there before, during and after.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred

from streamd.settings import RetentionRule, StoreSettings
from streamd.store import Level, RecordsTruncated, Run, Segment
from streamd.store.records.offsets import TAG_RAW
from streamd.store.retention import Retention
from tests.rigs.store.history import OPERATIONS, WRITERS, History, Operation, Oracle, Violation
from tests.rigs.store.inline import Compactor, result_of
from tests.rigs.store.model import ModelSegment, Part, Record
from tests.rigs.store.simulated import SimulatedDisk

HIDDEN_NAMES = ["a", "x", "y"]

RULES = [
    RetentionRule(records_max=4),
    RetentionRule(bytes_max=150),
    RetentionRule(age_seconds_max=15e-6),
    RetentionRule(pattern="b", idle_seconds_max=12e-6),
    RetentionRule(records_max=6, bytes_max=300, age_seconds_max=40e-6),
]
"""Time goes one microsecond a commit here."""

HIDDEN_SECONDS_MAX = 30e-6


class Life(History):
    """`History` with the second half of the store."""

    failing = 0.0
    """How often a commit of the catalog fails."""
    _is_dead = False
    """Whether the compactor has ended."""

    def __init__(self, disk: SimulatedDisk, rng: Random, settings: StoreSettings, oracle: Oracle) -> None:
        super().__init__(disk, rng, settings, oracle)
        self.compactor = Compactor(disk, self.store)
        self._sweep: Deferred[None] | None = None

    # -- hidden segments -----------------------------------------------------------------------------------------------

    def create_hidden(self) -> None:
        name = self.rng.choice(HIDDEN_NAMES)
        self._ask(lambda: self.model.create(name, hidden=True), self.store.create, name, hidden=True)

    def append_hidden(self) -> None:
        """Fill the hidden ones, which no one else picks often."""
        hidden = [each for each in self._handles if each[1].hidden]
        if hidden:
            segment, model = self.rng.choice(hidden)
            self._append_part(segment, Part(model, self._records(), self._tag()))

    def publish(self) -> None:
        """Some hidden segments into some targets, with levels or without; some of it was done before."""
        hidden = [each for each in self._handles if each[1].hidden]
        visible = [each for each in self._handles if not each[1].hidden]
        if not hidden or not visible:
            return
        sources = self.rng.sample(hidden, self.rng.randint(1, min(len(hidden), 3)))
        if self.rng.random() < 0.03:
            sources.append(sources[0])
        pairs = [(source, self.rng.choice(visible)) for source in sources]
        parts, levels = [], []
        for segment, model in self.rng.sample(visible, self.rng.choice((0, 1, 1, min(len(visible), 2)))):
            writer = self.rng.choice(WRITERS)
            stored = model.levels.get(writer, 0)
            expected = max(stored + self.rng.choice((0, 0, 0, 0, 0, -3, -1, 1)), 0)
            level = expected + self.rng.randint(1, 3)
            parts.append(Part(model, [], 0, writer, expected, level))
            levels.append(Level(segment, writer, expected, level))
        self._ask(
            lambda: self.model.publish([(source[1], target[1]) for source, target in pairs], parts),
            self.store.publish,
            [(source[0], target[0]) for source, target in pairs],
            levels,
        )

    # -- compaction ----------------------------------------------------------------------------------------------------

    def fold(self) -> None:
        """Fold some of the complete journal files. Now and then nobody tells the store."""
        closed = self.store.closed_file
        if closed > 0:
            last = self.rng.choice((closed, closed, self.rng.randint(1, closed)))
            self._compact(self.compactor.fold, last, told=self.rng.random() < 0.8)

    def merge(self) -> None:
        """Merge some packs: those that are chosen, or any."""
        packs = [] if self._is_dead else self.compactor.packs()
        if packs and self.rng.random() < 0.7:
            some = sorted(self.rng.sample(packs, self.rng.randint(1, len(packs))))
            self._compact(self.compactor.merge, some, told=self.rng.random() < 0.8)
        else:
            self._compact(self.compactor.merge)

    def _compact(self, operation: Callable[..., object], *args: object, **keywords: object) -> None:
        """Let the compactor do something. Where its catalog can't be synced it ends, and later another one begins."""
        if self._is_dead:
            self.compactor = Compactor(self._disk, self.store)
            self.compactor.begin()
            self._is_dead = False
            return
        if self.rng.random() < self.failing:
            self._disk.commits_that_fail = [self.rng.choice(("lost", "kept", "full"))]
        try:
            operation(*args, **keywords)
        except OSError:
            self._only_when_full()
        except sqlite3.OperationalError:
            self._is_dead = True
        self._disk.commits_that_fail = []

    def _only_when_full(self) -> None:
        if self._disk.capacity_bytes is None:
            raise

    # -- retention -----------------------------------------------------------------------------------------------------

    def retain(self) -> None:
        """Go over all segments with some rule. What it asks of the store, the model is asked too."""
        if self._sweep is not None and not self._sweep.called:
            self.clock.advance(0)
            return
        retention = Retention(
            _Asked(self),  # type: ignore[arg-type]
            [self.rng.choice(RULES)],
            interval_seconds=1,
            hidden_seconds_max=self.rng.choice((0, HIDDEN_SECONDS_MAX)),
            clock=self.clock,
            now=lambda: self.writer.now / 1e6,
        )
        self._sweep = retention.sweep()
        self._sweep.addErrback(self._failures.append)
        self.clock.advance(0)

    def ask(self, expect: Callable[[], None], operation: Callable[..., Deferred[None]], *args: Any) -> Deferred[None]:
        """Ask both, and pass the store's answer on too."""
        told: Deferred[None] = Deferred()

        def passed_on() -> Deferred[None]:
            return maybeDeferred(operation, *args).addBoth(tell)

        def tell(result: Any) -> Any:
            told.callback(result)
            return result

        self._ask(expect, passed_on)
        return told

    def model_of(self, segment: Segment) -> ModelSegment | None:
        """What the model has for a segment, if it still has it."""
        for handle, model in self._handles:
            if handle is segment and not model.deleted and not model.published:
                return model
        return None

    # -- reading -------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read some of what is committed, by number or by offset, from wherever it is by now."""
        landed = self.oracle.models[-1 - len(self.writer)]
        if not landed.segments:
            return
        model = self.rng.choice(list(landed.segments.values()))
        segment = self.store.find(model.name)
        limits = {"bytes_max": self.rng.choice((1, 40, 500)), "records_max": self.rng.choice((1, 3, 1 << 62))}
        self._disk.is_cold = self.rng.random() < 0.5
        if self.rng.random() < 0.5:
            place = self.rng.randint(max(model.first_number - 1, 0), model.number + 1)
            gone = place < model.first_number
            expected = [each for each in model.records if each.number >= place]
            answer = _read(self.store.read, segment, place, limits)
        else:
            place = self.rng.randint(max(model.first_offset - 3, 0), model.offset + 3)
            gone = place < model.first_offset
            ends = [each.offset + len(each.data) + (0 if each.tag & TAG_RAW else 8) for each in model.records]
            first = next((at for at, end in enumerate(ends) if end > place), len(ends))
            expected = model.records[first:]
            answer = _read(self.store.read_at, segment, place, limits)
        if gone or answer is None:
            if not gone or answer is not None:
                raise Violation(f"{segment} at {place}: {answer}")
            return
        if answer != expected[: len(answer)] or bool(answer) != bool(expected) or len(answer) > limits["records_max"]:
            raise Violation(f"{segment} at {place} with {limits}: {answer}, not {expected}")
        if sum(len(each.data) for each in answer) > limits["bytes_max"] and len(answer) > 1:
            raise Violation(f"{segment} at {place}: more than {limits}")

    def step(self) -> None:
        """Write one commit, and let what waits for it go on."""
        super().step()
        self.clock.advance(0)

    def finish(self) -> None:
        """Let retention come to its end too."""
        while self._sweep is not None and not self._sweep.called:
            self.clock.advance(0)
            if len(self.writer):
                self.step()
        super().finish()


def _read(operation: Any, segment: Segment, place: int, limits: dict[str, int]) -> list[Record] | None:
    try:
        runs: list[Run] = result_of(operation(segment, place, **limits))
    except RecordsTruncated:
        return None
    found: list[Record] = []
    for run in runs:
        offset = run.offset
        for at, data in enumerate(run.batch.records()):
            found.append(Record(run.number + at, offset, run.tag, bytes(data)))
            offset += len(data) + (0 if run.tag & TAG_RAW else 8)
    return found


class _Asked:
    """A store for `Retention` that asks the model whatever it is asked."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._life.store, name)

    def truncate(self, segment: Segment, number: int) -> Deferred[None]:
        model = self._life.model_of(segment)
        if model is None:
            return self._life.store.truncate(segment, number)
        limit = min(number, segment.number)
        return self._life.ask(
            lambda: self._life.model.truncate(model, limit), self._life.store.truncate, segment, number
        )

    def trim_broadcasts(self, needed: int) -> Deferred[None]:
        return self._life.ask(lambda: None, self._life.store.trim_broadcasts, needed)

    def delete(self, segment: Segment) -> Deferred[None]:
        model = self._life.model_of(segment)
        if model is None:
            return self._life.store.delete(segment)
        return self._life.ask(lambda: self._life.model.delete(model), self._life.store.delete, segment)


LIFE_OPERATIONS: list[Operation] = [
    *OPERATIONS,
    Life.create_hidden,
    Life.append_hidden,
    Life.publish,
    Life.fold,
    Life.merge,
    Life.retain,
    Life.look,
]
Life.operations = (LIFE_OPERATIONS, [4, 0.5, 0.3, 1.5, 9, 3, 3, 4, 3, 1.5, 2, 4, 2.5, 3, 1.5, 0.7, 4])
