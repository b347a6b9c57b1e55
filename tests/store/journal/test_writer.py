"""The writer thread: commits in order, syncs as set, and the end of it all when a sync fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from queue import Queue
from threading import Event
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store import Store, Threads, assemble
from streamd.store.commit.gathering import WriterThread
from streamd.store.errors import BadEntry, StoreReadOnly
from streamd.store.journal.frame import (
    FRAME_BYTES_MAX,
    Entry,
    Kind,
)
from streamd.store.journal.writer import JournalWriter, NoRoom, SyncFailed
from tests.rigs.store.case import ROOMY, StoreCase
from tests.rigs.store.inline import DIRECTORY, SMALL, open_inline
from tests.rigs.store.simulated import SimulatedDisk

# Nothing waits that long, unless it would wait for ever.
SECONDS_MAX = 30


class WriterThreadTests(SynchronousTestCase):
    """A store with the real writer thread on a simulated disk. This thread is the reactor's."""

    def setUp(self) -> None:
        self.disk = SimulatedDisk()
        self.calls: list[str] = []
        self.disk.observer = lambda call, after: self.calls.append(call) if after else None
        self.turns: Queue[tuple[Callable[..., object], tuple[Any, ...]]] = Queue()
        self.fatal: list[str] = []
        self.ended = Event()
        self.died: list[threading.ExceptHookArgs] = []
        self.patch(threading, "excepthook", self.died.append)
        self.threads: list[threading.Thread] = []

    def open(self, settings: StoreSettings) -> Store:
        def fatal(reason: str) -> None:
            self.fatal.append(reason)
            self.ended.set()

        def make_writer(journal: JournalWriter) -> WriterThread:
            writer = WriterThread(journal, settings, lambda call, *args: self.turns.put((call, args)), fatal)
            self.threads.append(writer._thread)
            return writer

        def run(call: Callable[..., Any], *args: Any) -> Deferred[Any]:
            return maybeDeferred(call, *args)

        store = assemble(self.disk, DIRECTORY, settings, make_writer, Threads(run, Clock().seconds))
        self.calls.clear()
        return store

    def turn(self) -> None:
        """What the thread asks the reactor for, once."""
        call, args = self.turns.get(timeout=SECONDS_MAX)
        call(*args)

    def close(self, store: Store) -> None:
        closed = store.close()
        while not closed.called:
            self.turn()
        self.threads[-1].join(SECONDS_MAX)
        self.assertFalse(self.threads[-1].is_alive())

    def test_commits(self) -> None:
        """Each commit is one write and one sync; who appended is told afterwards, and closing ends the thread."""
        store = self.open(ROOMY)
        made = store.create("a")
        self.turn()
        self.assertEqual(self.calls, ["write", "sync"])
        segment = self.successResultOf(made)
        for number in range(10):
            answer = store.append(segment, Batch.of([b"%d" % number]))
            self.turn()
            self.assertEqual(self.successResultOf(answer).number, number)
        self.assertEqual(self.calls, ["write", "sync"] * 11)
        self.close(store)
        self.assertEqual(self.fatal, [])
        again, _ = open_inline(self.disk, ROOMY)
        self.assertEqual(again.find("a").number, 10)

    def test_failed_sync(self) -> None:
        """A failed sync ends it: said once, with the reason, nobody acknowledged, nothing tried again."""
        store = self.open(ROOMY)
        made = store.create("a")
        self.turn()
        segment = self.successResultOf(made)
        self.disk.syncs_that_fail = 1
        answers: list[Deferred[Any]] = [store.append(segment, Batch.of([b"x"])) for _ in range(3)]
        self.assertTrue(self.ended.wait(SECONDS_MAX))
        self.threads[0].join(SECONDS_MAX)
        self.assertFalse(self.threads[0].is_alive())
        calls = len(self.calls)
        answers += [store.append(segment, Batch.of([b"y"])), store.close()]
        self.assertTrue(self.turns.empty())
        for answer in answers:
            self.assertNoResult(answer)
        self.assertEqual(len(self.fatal), 1)
        self.assertIn("Input/output error", self.fatal[0])
        self.assertEqual(self.calls[2:], ["write"])
        self.assertEqual(len(self.calls), calls)
        self.assertEqual([each.exc_type.__name__ for each in self.died], ["SyncFailed"])

    def test_failed_sync_at_a_roll(self) -> None:
        """A sync that fails while the next file is made, of the directory too, ends it as well; in every mode."""
        for sync in ("always", "interval", "never"):
            for trouble in ("syncs_that_fail", "directory_syncs_that_fail"):
                self.disk = SimulatedDisk()
                self.fatal.clear()
                self.ended.clear()
                store = self.open(replace(SMALL, sync=sync, sync_interval_ms=10**9))
                made = store.create("a")
                self.turn()
                segment = self.successResultOf(made)
                setattr(self.disk, trouble, 1)
                answer = store.append(segment, Batch.of([bytes(5000)]))
                self.assertTrue(self.ended.wait(SECONDS_MAX))
                self.assertNoResult(answer)
                self.assertEqual(len(self.fatal), 1)

    def test_no_room(self) -> None:
        """A full disk ends nothing."""
        store = self.open(SMALL)
        made = store.create("a")
        self.turn()
        segment = self.successResultOf(made)
        self.disk.capacity_bytes = self.disk.used_bytes()
        answer = store.append(segment, Batch.of([bytes(5000)]))
        self.turn()
        self.failureResultOf(answer, StoreReadOnly)
        self.close(store)
        self.assertEqual(self.fatal, [])

    def test_no_effect(self) -> None:
        """A commit that is on disk but can't take effect in memory ends it: nothing wrong is served."""
        store = self.open(ROOMY)
        made = store.create("a")
        self.turn()
        segment = self.successResultOf(made)
        segment.number = 7
        store.append(segment, Batch.of([b"x"]))
        self.assertRaises(BadEntry, self.turn)
        self.assertEqual(len(self.fatal), 1)
        self.assertIn("could not take effect", self.fatal[0])
        segment.number = 0
        self.assertTrue(self.threads[0].is_alive())

    def test_interval(self) -> None:
        """With an interval, who appended is told before the sync, which comes by itself, though nothing else does."""
        synced = Event()

        def observe(call: str, after: bool) -> None:
            if call == "sync" and after:
                synced.set()

        store = self.open(replace(ROOMY, sync="interval", sync_interval_ms=1))
        self.disk.observer = observe
        for number in range(3):
            synced.clear()
            answer = store.create(f"s{number}")
            self.turn()
            self.successResultOf(answer)
            self.assertTrue(synced.wait(SECONDS_MAX))
        self.close(store)
        # And with a long one, it does not come before the end.
        store = self.open(replace(ROOMY, sync="interval", sync_interval_ms=10**6))
        self.disk.observer = lambda call, after: self.calls.append(call) if after else None
        for number in range(3, 6):
            answer = store.create(f"s{number}")
            self.turn()
            self.successResultOf(answer)
        self.assertEqual(self.calls, ["write"] * 3)
        self.close(store)
        self.assertIn("sync", self.calls)

    def test_never(self) -> None:
        """Without syncs, a file is still synced before the next one exists, and when the store closes."""
        store = self.open(replace(SMALL, sync="never"))
        made = store.create("a")
        self.turn()
        segment = self.successResultOf(made)
        while "rename" not in self.calls:
            store.append(segment, Batch.of([bytes(500)]))
            self.turn()
        writes = self.calls.count("write")
        roll = self.calls[self.calls.index("sync") :]
        self.assertEqual(self.calls[: self.calls.index("sync")], ["write"] * (writes - 2))
        self.assertEqual(
            roll, ["sync", "create", "allocate", "write", "sync", "rename", "sync_directory", "truncate", "write"]
        )
        self.calls.clear()
        self.close(store)
        self.assertEqual(self.calls[:3], ["sync", "write", "sync"])


class JournalWriterTests(StoreCase):
    """The end of the journal, where it is not as usual."""

    settings = StoreSettings(journal_file_bytes=4096, reserve_bytes=512)

    def journal(self) -> JournalWriter:
        return self.writer.journal

    def test_larger_than_a_file(self) -> None:
        """A frame larger than a file gets one of its own, with room for all of it; the next one begins another."""
        (segment,) = self.create("a")
        grown = []
        for size in (10_000, 10, 20_000):
            self.append(segment, bytes(size))
            (path,) = self.files()[-1:]
            grown.append(self.disk.open(path, writable=False).size() - self.journal().position)
        self.assertTrue(all(left >= 0 for left in grown), grown)
        self.reopen()
        self.assertEqual([len(record) for record in self.records("a")], [10_000, 10, 20_000])

    def test_larger_than_a_frame(self) -> None:
        """A commit over the limit of a frame, which recovery would take for damage, is not written."""
        (segment,) = self.create("a")
        entry = Entry(Kind.APPEND, segment.id)
        entry.length = FRAME_BYTES_MAX
        calls = self.disk.calls
        self.assertRaises(NoRoom, self.journal().write, [entry], now=0)
        self.assertEqual(self.disk.calls, calls)

    def test_directory_that_can_not_be_synced(self) -> None:
        """Once the next file has its name, nothing goes into the old one: a directory that is not synced is the end."""
        (segment,) = self.create("a")
        self.disk.directory_syncs_that_fail = 1
        self.store.append(segment, Batch.of([bytes(5000)]))
        self.assertRaises(SyncFailed, self.writer.step)
        self.kill()
        self.assertEqual(self.store.names(), ["a"])

    def test_refused_for_want_of_room(self) -> None:
        """Where no next file can be made, the last one is as before, and nothing of the new one is left."""
        (segment,) = self.create("a")
        self.disk.capacity_bytes = self.disk.used_bytes() + 100
        names = self.disk.list_directory("/data/journal")
        self.refuses(StoreReadOnly, self.store.append, segment, Batch.of([bytes(5000)]))
        self.assertEqual(self.disk.list_directory("/data/journal"), names)
