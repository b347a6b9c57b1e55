"""The store without a thread and without a reactor: a test says when the disk is done with a commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from streamd.settings import StoreSettings
from streamd.store import Run, Segment, Store, Threads, assemble
from streamd.store.commit.gathering import Commit, Done, write
from streamd.store.directory import read_identity
from streamd.store.disk import IDisk
from streamd.store.journal.writer import JournalWriter
from streamd.store.packs.fold import Folded, Folder
from streamd.store.packs.opening import open_packs

T = TypeVar("T")

DIRECTORY = "/data"
JOURNAL = "/data/journal"
PACKS = "/data/packs"

SMALL = StoreSettings(journal_file_bytes=4096, reserve_bytes=512, open_files_max=4, torn_bytes_max=1 << 20)
"""Settings that make the journal roll every few commits."""


class InlineWriter:
    """Writes a commit when `step` is called, and not before."""

    def __init__(self, journal: JournalWriter, settings: StoreSettings, now: int) -> None:
        self.journal = journal
        self.now = now
        """What time it is for timestamps, in microseconds; each commit takes one."""
        self.passed = 0
        """How much time has passed, in microseconds, whatever `now` is set to."""
        journal.monotonic = lambda: self.passed
        journal.given_at = 0
        self.on_submit: Callable[[], None] | None = None
        self.was_full = False
        """Whether there was no room for the last commit."""
        self._always = settings.sync == "always"
        self._queue: deque[tuple[Commit, Done]] = deque()
        self._soon: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        """Commits that were submitted and not written yet, or did not take effect as a whole."""
        return len(self._queue) + len(self._soon)

    def submit(self, commit: Commit, done: Done) -> None:
        """Keep a commit for `step`."""
        self._queue.append((commit, done))
        if self.on_submit is not None:
            self.on_submit()

    def would_roll(self, commit: Commit) -> bool:
        """Whether a commit would go to a new file."""
        return self.journal.would_roll(commit.entries, removals=commit.removals, roll=commit.roll)

    def write_here(self, commit: Commit, done: Done) -> float:
        """Write a commit at once, in no time."""
        assert not self._queue
        self.submit(commit, done)
        self.step()
        return 0.0

    def step(self) -> None:
        """Write the oldest commit, and tell the store; or let it go on with one that is written."""
        if self._soon:
            self._soon.popleft()()
            return
        commit, done = self._queue[0]
        self.now += 1
        self.passed += 1
        error = write(self.journal, commit, sync=self._always, now=self.now)
        self._queue.popleft()
        self.was_full = error is not None
        done(commit, error)

    def run(self) -> None:
        """Write commits until there are none."""
        while len(self):
            self.step()

    def soon(self, call: Callable[[], None]) -> None:
        """Keep this for `step`."""
        self._soon.append(call)

    def close(self, done: Callable[[], None]) -> None:
        """Close the journal at once: the store asks for it when nothing is pending."""
        assert not len(self)
        self.journal.close(now=self.now)
        done()


def open_inline(
    disk: IDisk,
    settings: StoreSettings = SMALL,
    *,
    clock: Clock | None = None,
    now: int = 1_000_000,
    directory: str = DIRECTORY,
    run: Callable[..., Deferred[Any]] = maybeDeferred,
) -> tuple[Store, InlineWriter]:
    """Open the store in a directory of `disk`; its commits are written by the writer's `step`.

    `run` is how it leaves the reactor's thread: not at all, or as a test likes.
    """
    writers: list[InlineWriter] = []

    def make_writer(journal: JournalWriter) -> InlineWriter:
        writers.append(InlineWriter(journal, settings, now))
        return writers[0]

    store = assemble(disk, directory, settings, make_writer, Threads(run, (clock or Clock()).seconds))
    return store, writers[0]


class Compactor:
    """Folds and merges on the same disk, when a test says so. The real one is a process, and does the same."""

    def __init__(self, disk: IDisk, store: Store, directory: str = DIRECTORY) -> None:
        self._store = store
        identity = read_identity(disk, directory)
        opened = open_packs(disk, directory, identity, is_alone=False)
        self.catalog = opened.catalog
        self.folder = Folder(disk, f"{directory}/journal", f"{directory}/packs", identity, opened)
        if opened.is_old:
            self.folder.adopt()

    def begin(self) -> None:
        """What the process does first: files that a compactor before it has left are removed."""
        result_of(self._store.merged(self.folder.leftovers()))

    def fold(self, last: int | None = None, *, told: bool = True) -> Folded:
        """Fold the journal files up to `last`, or all that are complete; `told`: and let the store know."""
        folded = self.folder.fold(self._store.closed_file if last is None else last)
        if told:
            result_of(self._store.folded(folded.file))
        return folded

    def merge(self, packs: Sequence[int] | None = None, *, told: bool = True) -> int | None:
        """Merge these packs, or those that are best merged now, if there are any; returns the new one."""
        chosen = self.folder.choose() if packs is None else packs
        if not chosen:
            return None
        merged = self.folder.merge(chosen)
        if told:
            result_of(self._store.merged(chosen))
        return merged

    def store_merged(self, packs: Sequence[int]) -> None:
        """Let the store know that these packs are spare."""
        result_of(self._store.merged(packs))

    def packs(self) -> list[int]:
        """The packs that the catalog knows."""
        return [each.number for each in self.catalog.packs()]


def result_of(deferred: Deferred[T]) -> T:
    """What a Deferred fired with. Its failure is raised."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    assert results, "it has not fired"
    if isinstance(results[0], Failure):
        results[0].raiseException()
    value: T = results[0]
    return value


def read_all(store: Store, segment: Segment) -> list[Run]:
    """Everything that can be read of a segment; one read may give less than there is."""
    found: list[Run] = []
    number = segment.first_number
    while runs := result_of(store.read(segment, number, bytes_max=1 << 40)):
        assert runs[0].number == number, "a read begins where it was asked to"
        found += runs
        number = runs[-1].number + runs[-1].batch.count
    return found


def call(writer: InlineWriter, operation: Callable[..., Deferred[T]], /, *args: Any, **keywords: Any) -> T:
    """Ask the store for something, write commits, and give the answer."""
    deferred = operation(*args, **keywords)
    writer.run()
    return result_of(deferred)
