"""Commits that the reactor's thread writes by itself: which ones, and that nothing about them is different."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from threading import get_ident
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store import Segment, Store, StoreReadOnly, Threads, assemble
from streamd.store.commit.gathering import WriterThread
from streamd.store.commit.inplace import BYTES_MAX, InPlace
from streamd.store.journal.writer import JournalWriter, SyncFailed
from tests.rigs.store.case import ROOMY
from tests.rigs.store.inline import DIRECTORY, SMALL, open_inline, read_all
from tests.rigs.store.simulated import SimulatedDisk

# Nothing waits that long, unless it would wait for ever.
SECONDS_MAX = 30

QUICK = 1000.0
SLOW = -1.0
"""What a commit may take: as long as it likes, or less than any does."""


class InPlaceTests(SynchronousTestCase):
    """When it is tried."""

    def away(self, in_place: InPlace) -> int:
        """For how many commits it stays away."""
        count = 0
        while not in_place.is_on:
            in_place.handed_over()
            count += 1
        return count

    def test_slow(self) -> None:
        """After each slow commit others are handed over, twice as many each time, up to some thousands."""
        in_place = InPlace(0.001)
        self.assertEqual(self.away(in_place), 0)
        counts = []
        for _ in range(12):
            in_place.took(0.0011)
            counts.append(self.away(in_place))
        self.assertEqual(counts, [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 8192, 8192])

    def test_quick(self) -> None:
        """A quick one keeps it on. When as many were quick as would be handed over, all is forgiven."""
        in_place = InPlace(0.001)
        for _ in range(3):
            in_place.took(1.0)
            self.away(in_place)
        for _ in range(127):
            in_place.took(0.001)
            self.assertTrue(in_place.is_on)
        in_place.took(1.0)
        self.assertEqual(self.away(in_place), 128)
        for _ in range(256):
            in_place.took(0.0)
        in_place.took(1.0)
        self.assertEqual(self.away(in_place), 16)

    def test_handed_over_while_on(self) -> None:
        """What is handed over for other reasons changes nothing."""
        in_place = InPlace(0.001)
        for _ in range(100):
            in_place.handed_over()
        in_place.took(1.0)
        self.assertEqual(self.away(in_place), 16)


class WrittenInPlaceTests(SynchronousTestCase):
    """A store with the real writer thread on a simulated disk. This thread is the reactor's."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.here = get_ident()
        self.syncs: list[bool] = []
        """For each sync of the disk: whether this thread waited for it."""
        self.disk.observer = lambda call, after: (
            self.syncs.append(get_ident() == self.here) if after and call == "sync" else None
        )
        self.turns: Queue[tuple[Callable[..., object], tuple[Any, ...]]] = Queue()
        self.fatal: list[str] = []
        self.patch(threading, "excepthook", lambda args: None)

    def open(self, seconds_max: float, settings: StoreSettings = ROOMY) -> tuple[Store, Segment]:
        def make_writer(journal: JournalWriter) -> WriterThread:
            return WriterThread(journal, settings, lambda call, *args: self.turns.put((call, args)), self.fatal.append)

        def run(call: Callable[..., Any], *args: Any) -> Deferred[Any]:
            return maybeDeferred(call, *args)

        threads = Threads(run, Clock().seconds)
        store = assemble(self.disk, DIRECTORY, settings, make_writer, threads, in_place=InPlace(seconds_max))
        made = store.create("a")
        self.landed()
        self.syncs.clear()
        return store, self.successResultOf(made)

    def landed(self) -> None:
        """What the thread asks the reactor for, once."""
        call, args = self.turns.get(timeout=SECONDS_MAX)
        call(*args)

    def close(self, store: Store) -> None:
        closed = store.close()
        while not closed.called:
            self.landed()
        self.assertEqual(self.fatal, [])

    def test_in_a_turn(self) -> None:
        """What is written in a turn is on disk, and told, when it ends; outside of one the thread has it."""
        store, segment = self.open(QUICK)
        for number in range(3):
            store.turn.begin()
            answers = [store.append(segment, Batch.of([b"x"])) for _ in range(10)]
            for answer in answers:
                self.assertNoResult(answer)
            store.turn.end()
            self.assertEqual(
                [self.successResultOf(each).number for each in answers], list(range(number * 11, number * 11 + 10))
            )
            outside = store.append(segment, Batch.of([b"y"]))
            self.assertNoResult(outside)
            self.landed()
            self.successResultOf(outside)
        self.assertEqual(self.syncs, [True, False] * 3)
        self.close(store)
        again, _ = open_inline(self.disk, ROOMY)
        self.assertEqual(sum(run.batch.count for run in read_all(again, again.find("a"))), 33)

    def test_slow_disk(self) -> None:
        """After one that took too long the thread has the next sixteen, then one is tried again."""
        store, segment = self.open(SLOW)
        for _ in range(18):
            store.turn.begin()
            answer = store.append(segment, Batch.of([b"x"]))
            store.turn.end()
            if not answer.called:
                self.landed()
            self.successResultOf(answer)
        self.assertEqual(self.syncs, [True] + [False] * 16 + [True])
        self.close(store)

    def test_handed_over(self) -> None:
        """What is large, does not have all that was there, comes while somebody waits, or needs a new file, is not."""

        class Waiting:
            def take_turn(self) -> None:
                pass

        def not_whole(store: Store) -> None:
            store.turn.is_whole = False

        cases: list[tuple[int, Callable[[Store], None], bool]] = [
            (100, lambda store: None, True),
            (BYTES_MAX // 2, lambda store: None, True),
            (BYTES_MAX, lambda store: None, False),
            (100, not_whole, False),
            # It has its answer first, and then it is the turn of the disk.
            (100, lambda store: store.turn.due.append(Waiting()), True),
        ]
        store, segment = self.open(QUICK)
        for size, prepare, here in cases:
            self.syncs.clear()
            store.turn.begin()
            answer = store.append(segment, Batch.of([bytes(size)]))
            prepare(store)
            store.turn.end()
            self.assertEqual(answer.called, here, (size, prepare))
            if not here:
                self.landed()
            self.successResultOf(answer)
            self.assertEqual(self.syncs, [here])
        self.close(store)

    def test_new_file(self) -> None:
        """A commit that needs a new journal file is for the thread: that takes several syncs."""
        store, segment = self.open(QUICK, SMALL)
        files = set()
        for _ in range(40):
            before, self.syncs = store.closed_file, []
            store.turn.begin()
            answer = store.append(segment, Batch.of([bytes(200)]))
            store.turn.end()
            if not answer.called:
                self.landed()
            self.successResultOf(answer)
            self.assertEqual(set(self.syncs), {store.closed_file == before})
            files.add(store.closed_file)
        self.assertGreater(len(files), 2)
        self.close(store)

    def test_one_a_turn(self) -> None:
        """What an answer leads to in the same turn is handed over: nobody else waits for more than one."""
        store, segment = self.open(QUICK)
        answers: list[Deferred[Any]] = []

        class Again:
            def callback(self, result: object) -> None:
                store.turn.due.append(self)

            def errback(self, error: object) -> None:
                raise AssertionError(error)

            def take_turn(self) -> None:
                answers.append(store.append(segment, Batch.of([b"again"])))

        store.turn.begin()
        store.append_for(Again(), segment, Batch.of([b"x"]))
        store.turn.end()
        self.assertNoResult(answers[0])
        self.landed()
        self.successResultOf(answers[0])
        self.assertEqual(self.syncs, [True, False])
        self.close(store)

    def test_led_to(self) -> None:
        """What somebody writes as soon as it is told of a commit in place is written too, though nobody is due."""
        store, segment = self.open(QUICK)
        store.turn.begin()
        answer = store.append(segment, Batch.of([b"x"]))
        answer.addCallback(lambda _: store.append(segment, Batch.of([b"y"])))
        store.turn.end()
        self.assertNoResult(answer)
        self.landed()
        self.assertEqual(self.successResultOf(answer).number, 1)
        self.close(store)

    def test_in_order(self) -> None:
        """While the thread has a commit, nothing is written in place: it would overtake it."""
        store, segment = self.open(QUICK)
        first = store.append(segment, Batch.of([b"1"]))
        store.turn.begin()
        second = store.append(segment, Batch.of([b"2"]))
        store.turn.end()
        self.assertNoResult(second)
        self.landed()
        self.assertEqual(self.successResultOf(first).number, 0)
        self.assertEqual(self.successResultOf(second).number, 1)
        self.close(store)

    def test_failed_sync(self) -> None:
        """A failed sync ends it here too: said once, nobody acknowledged, nothing written after it."""
        store, segment = self.open(QUICK)
        self.disk.syncs_that_fail = 1
        store.turn.begin()
        answers: list[Deferred[Any]] = [store.append(segment, Batch.of([b"x"])) for _ in range(3)]
        self.assertRaises(SyncFailed, store.turn.end)
        store.turn.begin()
        answers.append(store.append(segment, Batch.of([b"y"])))
        store.turn.end()
        for answer in answers:
            self.assertNoResult(answer)
        self.assertEqual((len(self.fatal), self.syncs), (1, []))
        self.assertIn("Input/output error", self.fatal[0])

    def test_no_room(self) -> None:
        """A full disk ends nothing, and refuses what is written in place as it does everything."""
        store, segment = self.open(QUICK)

        def fail(*args: Any, **keywords: Any) -> Any:
            raise OSError(28, "No space left on device")

        self.disk.capacity_bytes = 0
        file = store._pipeline._writer._journal._file  # type: ignore[attr-defined]
        write, file.write = file.write, fail
        store.turn.begin()
        answers = [store.append(segment, Batch.of([b"x"])) for _ in range(3)]
        store.turn.end()
        for answer in answers:
            self.failureResultOf(answer, StoreReadOnly)
        file.write = write
        self.assertEqual(segment.next_number, 0)
        self.close(store)
