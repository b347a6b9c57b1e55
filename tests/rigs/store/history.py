"""A random life of a store, with somebody outside who remembers what was acknowledged.

`History` sends random operations to a store and to a `Model`, and writes commits now and then while more is gathered.
Each commit that is submitted gets a copy of the model as it must be when that commit is on disk. So at any moment
there are at most two contents that the disk may hold: those of the last acknowledged commit, and those of the one in
flight. Anything else that a crash leaves is a violation.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store import Append, Segment, Store, StoreError, StoreReadOnly
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.inline import open_inline
from tests.rigs.store.model import Contents, Model, ModelSegment, Part, contents
from tests.rigs.store.simulated import SimulatedDisk

WRITERS = [bytes([each]) * 16 for each in (1, 2)]
NAMES = ["a", "b", "ü", "faststream/0", "faststream/1", "faststream/4294967295"]


Operation = Callable[[Any], None]


class Violation(Exception):
    """The store broke a promise."""


class Oracle:
    """Who stands outside and knows what the disk may hold: one state, or two while a commit is in flight.

    Where acknowledged does not mean `durable`, it may be any state since the last sync, but still nothing in between.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self.models = [Model()]
        self._durable = durable

    def landed(self) -> None:
        """A commit is acknowledged. Where that means that it is synced, what was before it is past."""
        if self._durable:
            del self.models[0]

    def synced(self, flying: int) -> None:
        """Everything but the commit in flight, if there is one, is synced."""
        del self.models[: -1 - flying]

    def judge(self, store: Store) -> Model:
        """The state that a store which was opened after a crash is in; Violation where it may not be in it."""
        found = contents(store)
        for model in self.models:
            if model.contents() == found:
                return model
        raise Violation("\nand ".join(difference(found, model.contents()) for model in self.models))


class History:
    """One store, one model, and the operations that both receive."""

    operations: tuple[list[Operation], list[float]]
    """What it does, and how often."""

    def __init__(self, disk: SimulatedDisk, rng: Random, settings: StoreSettings, oracle: Oracle) -> None:
        self.rng = rng
        self.oracle = oracle
        self.clock = Clock()
        self.store, self.writer = open_inline(disk, settings, clock=self.clock)
        self.model = oracle.judge(self.store).copy()
        # It is served from now on, so it can't be another one any more.
        oracle.models = [self.model.copy()]
        self.writer.on_submit = lambda: oracle.models.append(self.model.copy())
        self._handles = self._all()
        self._disk = disk
        self._syncs = settings.sync == "interval"
        self._asked = self._answered = self._last = 0
        self._failures: list[Failure] = []

    def _all(self) -> list[tuple[Segment, ModelSegment]]:
        hidden = [(self.store.find_hidden(name), segment) for name, segment in self.model.hidden.items()]
        return [(self.store.find(name), segment) for name, segment in self.model.segments.items()] + hidden

    # -- operations --------------------------------------------------------------------------------------------------

    def run(self, operations: int) -> None:
        """Ask for some random things, and write some commits."""
        for _ in range(operations):
            self.rng.choices(*self.operations)[0](self)
            while len(self.writer) and self.rng.random() < 0.4:
                self.step()
            if self._syncs and self.rng.random() < 0.1:
                self.writer.journal.sync()
                self.oracle.synced(len(self.writer))

    def finish(self) -> None:
        """Write all commits, and close the store in order."""
        while len(self.writer):
            self.step()
        self.oracle.judge(self.store)
        if self._asked != self._answered:
            raise Violation(f"{self._asked - self._answered} requests have no answer")
        self.store.close()

    def step(self) -> None:
        """Write one commit. On a full disk everything pending fails with it, and it is as if nobody had asked."""
        self.writer.step()
        if self.writer.was_full:
            del self.oracle.models[1:]
            self.model = self.oracle.models[0].copy()
            self._handles = self._all()
            self.clock.advance(2)
        else:
            self.oracle.landed()
        self._raise()

    def _ask(self, expect: Callable[[], Any], operation: Callable[..., Deferred[Any]], *args: Any, **more: Any) -> None:
        """Let the model and the store do the same, and compare the answers when the store has one."""
        try:
            expected: Any = expect()
        except StoreError as error:
            expected = error
        serial = self._asked = self._asked + 1
        answer = maybeDeferred(operation, *args, **more)
        waited = not answer.called

        def answered(result: Any) -> None:
            self._answered += 1
            got: Any = result.value if isinstance(result, Failure) else result
            if waited:
                if serial <= self._last:
                    raise Violation(f"request {serial} is answered after request {self._last}")
                self._last = serial
            if isinstance(got, StoreReadOnly) and self._disk.capacity_bytes is not None:
                same = True
            elif isinstance(expected, StoreError) or isinstance(got, Exception):
                same = type(expected) is type(got) and str(expected) == str(got)
            elif isinstance(expected, ModelSegment):
                same = got.name == expected.name
                self._handles.append((got, expected))
            else:
                same = got == expected
            if not same:
                raise Violation(f"{operation.__name__} gives {got!r}, not {expected!r}")

        answer.addBoth(answered)
        answer.addErrback(self._failures.append)
        self._raise()

    def _raise(self) -> None:
        """A violation that a callback finds is one of the whole history."""
        if self._failures:
            self._failures[0].raiseException()

    def _pick(self) -> tuple[Segment, ModelSegment] | None:
        if not self._handles:
            return None
        # Deleted ones are asked for now and then, to be refused.
        if len(self._handles) > 6:
            self._handles = [each for each in self._handles if not each[1].deleted and not each[1].published]
        return self.rng.choice(self._handles) if self._handles else None

    def _records(self) -> list[bytes]:
        size = self.rng.choice((0, 3, 20, 20, 20, 300))
        return [self.rng.randbytes(self.rng.randint(0, size)) for _ in range(self.rng.randint(1, 3))]

    def _tag(self) -> int:
        return self.rng.choice((0, 0, 0, 7, TAG_RAW))

    def create(self) -> None:
        name = self.rng.choice(NAMES)
        self._ask(lambda: self.model.create(name), self.store.create, name)

    def delete(self) -> None:
        if picked := self._pick():
            self._ask(lambda: self.model.delete(picked[1]), self.store.delete, picked[0])

    def seal(self) -> None:
        if picked := self._pick():
            self._ask(lambda: self.model.seal(picked[1]), self.store.seal, picked[0])

    def truncate(self) -> None:
        if picked := self._pick():
            segment, model = picked
            number = self.rng.randint(0, segment.number + 1)
            # Only what is committed is dropped, so here the model is told how much that is.
            limit = min(number, segment.number)
            self._ask(lambda: self.model.truncate(model, limit), self.store.truncate, segment, number)

    def _part(self, segment: ModelSegment) -> Part:
        records, tag = self._records(), self._tag()
        if self.rng.random() < 0.4:
            return Part(segment, records, tag)
        writer = self.rng.choice(WRITERS)
        stored = segment.levels.get(writer, 0)
        expected = max(stored + self.rng.choice((0, 0, 0, 0, 0, -3, -1, 1)), 0)
        return Part(segment, records, tag, writer, expected, expected + len(records))

    def append(self) -> None:
        if picked := self._pick():
            self._append_part(picked[0], self._part(picked[1]))

    def _append_part(self, segment: Segment, part: Part) -> None:
        if part.writer is None and part.tag == 0 and self.rng.random() < 0.5:
            self._ask(lambda: self._told_nothing(part), self._append_for, segment, Batch.of(part.records))
            return
        levels = {"writer": part.writer, "expected": part.expected, "level": part.level}
        self._ask(
            lambda: self.model.append(part),
            self.store.append,
            segment,
            Batch.of(part.records),
            tag=part.tag,
            **levels,
        )

    def _told_nothing(self, part: Part) -> None:
        """What a waiter learns of an append: that it is done, or why not."""
        self.model.append(part)

    def _append_for(self, segment: Segment, batch: Batch) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.store.append_for(answer, segment, batch)
        return answer

    def append_all(self) -> None:
        picked = [each for each in (self._pick(), self._pick(), self._pick()) if each]
        if picked:
            parts = [self._part(model) for _, model in picked]
            appends = [
                Append(segment, Batch.of(part.records), part.tag, part.writer, part.expected, part.level)
                for (segment, _), part in zip(picked, parts, strict=True)
            ]
            self._ask(lambda: self.model.append_all(parts), self.store.append_all, appends)

    def fan_out(self) -> None:
        picked = [each for each in (self._pick(), self._pick(), self._pick()) if each]
        if picked:
            records, tag = self._records(), self._tag()
            models = [model for _, model in picked]
            segments = [segment for segment, _ in picked]
            self._ask(
                lambda: self.model.fan_out(models, records, tag),
                self.store.fan_out,
                segments,
                Batch.of(records),
                tag=tag,
            )

    def broadcast(self) -> None:
        records, tag = self._records(), self._tag()
        # Some are left out; one of them twice, one that is gone, one that receives nothing anyway.
        picked = [each for each in (self._pick(), self._pick()) if each] if self.rng.random() < 0.4 else []
        self._ask(
            lambda: self.model.broadcast(records, [model for _, model in picked], tag),
            self.store.broadcast,
            Batch.of(records),
            without=[segment for segment, _ in picked],
            tag=tag,
        )

    def group(self) -> None:
        if picked := self._pick():
            segment, model = picked
            name = self.rng.choice(("g", "h"))
            what = self.rng.randrange(5)
            if what == 0:
                position = self.rng.randint(0, segment.number)
                self._ask(
                    lambda: self.model.set_group(model, name, position), self.store.set_group, segment, name, position
                )
            elif what == 1:
                self._ask(lambda: self.model.drop_group(model, name), self.store.drop_group, segment, name)
            elif segment.number:
                first = self.rng.randrange(segment.number)
                ranges = [(first, self.rng.randint(first + 1, segment.number))]
                self._ask(
                    lambda: self.model.acknowledge(model, name, ranges), self.store.acknowledge, segment, name, ranges
                )

    def attribute(self) -> None:
        if picked := self._pick():
            segment, model = picked
            key = self.rng.choice((b"k", b"l"))
            value = self.rng.choice((None, b"", b"1", b"2"))
            expected = self.rng.choice((..., model.attributes.get(key), b"1"))
            self._ask(
                lambda: self.model.set_attribute(model, key, value, expected),
                self.store.set_attribute,
                segment,
                key,
                value,
                expected=expected,
            )


OPERATIONS: list[Operation] = [
    History.create,
    History.delete,
    History.seal,
    History.truncate,
    History.append,
    History.append_all,
    History.fan_out,
    History.broadcast,
    History.group,
    History.attribute,
]
History.operations = (OPERATIONS, [4, 0.7, 0.4, 1.5, 9, 3, 3, 4, 4, 2])


def difference(found: Contents, expected: Contents) -> str:
    """Where what was found differs from what should be there."""
    if found.keys() != expected.keys():
        return f"segments are {list(found)}, not {list(expected)}"
    lines = []
    for name, parts in found.items():
        for part, wanted in zip(parts, expected[name], strict=True):
            if part != wanted:
                lines.append(f"in {name!r} found {part!r}, not {wanted!r}")
    return "; ".join(lines)
