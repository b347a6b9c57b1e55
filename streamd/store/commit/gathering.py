"""Group commit: what arrives while the disk is busy becomes the next commit.

A `Commit` is gathered on the reactor's thread, written by the writer thread and comes back to the reactor's thread to
take effect. There is one writer thread, so commits are in order; it alone touches the end of the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store.journal.frame import ENTRY_BYTES_MAX, RANGE, REMOVALS, EncodedFrame, Entry, Kind, encode_keyed
from streamd.store.journal.writer import JournalWriter, NoRoom
from streamd.store.records.offsets import EVENT_HEADER_BYTES, TAG_RAW
from streamd.store.segments.segment import Segment


class Waiter(Protocol):
    """Who waits for a commit: a Deferred, or something that costs less. Its methods must not raise."""

    def callback(self, result: Any) -> None:
        """It is on disk."""

    def errback(self, error: Any) -> None:
        """It is not, and never will be."""


class Commit:
    """Entries that become one frame, and who waits for them."""

    __slots__ = (
        "_acknowledged",
        "_levels",
        "_open",
        "ample",
        "bytes",
        "entries",
        "file",
        "frame",
        "frees",
        "number",
        "removals",
        "roll",
        "sequence",
        "touched",
        "waiters",
    )

    def __init__(self, number: int, sequence: int) -> None:
        self.number = number
        """Counts commits of this process, from 1."""
        self.sequence = sequence
        """The sequence number of its first entry."""
        self.entries: list[Entry] = []
        self.waiters: list[tuple[Waiter, object]] = []
        self.touched: set[Segment] = set()
        self.bytes = 0
        self.removals = True
        """Whether it only takes away."""
        self.frees = False
        """Whether it gives room back, once it is folded."""
        self.roll = False
        """Whether it is to be the first in a new journal file."""
        self.ample = False
        """Whether there has to be more room for that file than for any other."""
        self.frame: EncodedFrame | None = None
        self.file = 0
        self._open: dict[Segment, Entry] = {}
        self._levels: dict[tuple[Segment, bytes], Entry] = {}
        self._acknowledged: dict[tuple[Segment, bytes], Entry] = {}

    @property
    def next_sequence(self) -> int:
        """The sequence number that the next entry gets."""
        return self.sequence + len(self.entries)

    def add(self, entry: Entry) -> None:
        """Take an entry up."""
        self.entries.append(entry)
        self.bytes += entry.length
        if entry.kind not in REMOVALS:
            self.removals = False
        elif entry.kind in (Kind.DELETE, Kind.TRUNCATE):
            self.frees = True

    def append(self, segment: Segment, batch: Batch, tag: int) -> None:
        """Take records up: behind those that this commit has for the segment already, where that makes one entry."""
        added = 4 * len(batch.lengths) + len(batch.payload)
        entry = self._open.get(segment)
        if entry is None or entry.tag != tag or entry.length + added > ENTRY_BYTES_MAX:
            entry = Entry(Kind.APPEND, segment.id, tag=tag, number=segment.next_number, offset=segment.next_offset)
            self._open[segment] = entry
            self.entries.append(entry)
            self.touched.add(segment)
            self.removals = False
        entry.add(batch)
        self.bytes += added

    def extend(self, segment: Segment, batch: Batch, tag: int) -> bool:
        """Take records up with their place, where this commit has an entry for them already: whether it has.

        Others who write to the same segment at the same time do nothing but this, for each message.
        """
        entry = self._open.get(segment)
        count = len(batch.lengths)
        size = len(batch.payload)
        added = 4 * count + size
        if entry is None or entry.tag != tag or entry.length + added > ENTRY_BYTES_MAX:
            return False
        entry.lengths.append(batch.lengths)
        entry.body.append(batch.payload)
        entry.count += count
        entry.length += added
        self.bytes += added
        segment.next_number += count
        # What `span` says, without the call.
        segment.next_offset += size if tag & TAG_RAW else size + EVENT_HEADER_BYTES * count
        return True

    def level(self, segment: Segment, writer: bytes, level: int) -> None:
        """Raise a writer's ack level with this commit; the last word counts, so one entry for each writer is enough."""
        entry = self._levels.get((segment, writer))
        if entry is None:
            entry = self._levels[segment, writer] = Entry(Kind.LEVEL, segment.id, writer=writer)
            self.add(entry)
        entry.level = level

    def acknowledge(self, segment: Segment, group: bytes, ranges: bytes) -> None:
        """Take what a reader group acknowledges up: where this commit has some already, in the same entry."""
        entry = self._acknowledged.get((segment, group))
        if entry is None or entry.length + len(ranges) > ENTRY_BYTES_MAX:
            entry = self._acknowledged[segment, group] = Entry(Kind.GROUP_ACK, segment.id)
            # It grows: one buffer, not one for each acknowledgement.
            entry.body = [bytearray(encode_keyed(group, b""))]
            entry.length = len(entry.body[0])
            self.add(entry)
        entry.body[0] += ranges  # type: ignore[operator]
        entry.length += len(ranges)
        entry.count += len(ranges) // RANGE.size
        self.bytes += len(ranges)

    def close_group(self, segment: Segment, group: bytes) -> None:
        """What a reader group acknowledges from now on is another entry: it is moved or dropped in between."""
        self._acknowledged.pop((segment, group), None)

    def close_open(self, segment: Segment) -> None:
        """What is appended to the segment from now on is another entry: something stands between."""
        self._open.pop(segment, None)

    def barrier(self, segment: Segment) -> None:
        """What is appended to any segment from now on stands behind this; to this one too, but for its last entry."""
        last = self._open.get(segment)
        self._open.clear()
        if last is not None and self.entries[-1] is last:
            self._open[segment] = last

    def wait(self, result: object) -> Deferred[Any]:
        """A Deferred that fires with `result` (fails, where that is an exception) when this commit is on disk."""
        deferred: Deferred[Any] = Deferred()
        self.waiters.append((deferred, result))
        return deferred

    def fire(self) -> None:
        """This commit is on disk: tell those who wait, in order."""
        for waiter, result in self.waiters:
            if isinstance(result, Exception):
                waiter.errback(result)
            else:
                waiter.callback(result)


Done = Callable[[Commit, NoRoom | None], None]


class IWriter(Protocol):
    """What writes commits. `done` is called on the reactor's thread, in the order of `submit`."""

    def submit(self, commit: Commit, done: Done) -> None:
        """Write a commit, sync it as the settings say, and call `done`."""

    def would_roll(self, commit: Commit) -> bool:
        """Whether this commit would be the first in a new journal file. Only where nothing is submitted."""

    def write_here(self, commit: Commit, done: Done) -> float:
        """Write and sync a commit on the calling thread, and call `done`: how many seconds the former took.

        Only where nothing is submitted.
        """

    def close(self, done: Callable[[], None]) -> None:
        """Write and sync what was submitted, close the journal, and call `done`."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call this in the next turn of the reactor: the rest of a `done` that would take too long."""


def write(journal: JournalWriter, commit: Commit, *, sync: bool, now: int) -> NoRoom | None:
    """Write one commit; NoRoom is returned, and every other error ends the process."""
    try:
        commit.frame, commit.file = journal.write(
            commit.entries, now=now, removals=commit.removals, roll=commit.roll, ample=commit.ample
        )
    except NoRoom as error:
        return error
    if sync:
        journal.sync()
    journal.publish()
    return None


class WriterThread:
    """The one thread that writes. `fatal` is called from it where the disk can't be trusted any more."""

    def __init__(
        self,
        journal: JournalWriter,
        settings: StoreSettings,
        call_from_thread: Callable[..., object],
        fatal: Callable[[str], None],
    ) -> None:
        self._journal = journal
        self._always = settings.sync == "always"
        self._interval = settings.sync_interval_ms / 1000 if settings.sync == "interval" else None
        self._call_from_thread = call_from_thread
        self._fatal = fatal
        self._queue: SimpleQueue[tuple[Commit, Done] | Callable[[], None]] = SimpleQueue()
        self._sync_due: float | None = None
        self._thread = Thread(target=self._run, name="streamd writer", daemon=True)
        self._thread.start()

    def submit(self, commit: Commit, done: Done) -> None:
        """Write a commit."""
        self._queue.put((commit, done))

    def would_roll(self, commit: Commit) -> bool:
        """Whether a new file has to be made for a commit."""
        return self._journal.would_roll(commit.entries, removals=commit.removals, roll=commit.roll)

    def write_here(self, commit: Commit, done: Done) -> float:
        """Write a commit while the thread has nothing to do."""
        begun = time.perf_counter()
        try:
            error = write(self._journal, commit, sync=True, now=time.time_ns() // 1000)
        except BaseException as failure:
            self._end_all(failure)
            raise
        seconds = time.perf_counter() - begun
        self._deliver(done, commit, error)
        return seconds

    def close(self, done: Callable[[], None]) -> None:
        """Finish, and end the thread."""
        self._queue.put(done)

    def soon(self, call: Callable[[], None]) -> None:
        """Go on in the next turn of the reactor."""
        self._call_from_thread(self._deliver, call)

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:
            self._end_all(error)
            raise

    def _end_all(self, error: BaseException) -> None:
        # A failed write or sync leaves the file in a state that nobody knows, and a second sync may lie about it.
        # Whatever else goes wrong here would leave every writer waiting for ever.
        self._fatal(f"the journal can't be written, so the daemon ends: {type(error).__name__}: {error}")

    def _step(self) -> bool:
        try:
            timeout = None if self._sync_due is None else max(self._sync_due - time.monotonic(), 0)
            job = self._queue.get(timeout=timeout)
        except Empty:
            self._sync_due = None
            self._journal.sync()
            return True
        if isinstance(job, tuple):
            commit, done = job
            error = write(self._journal, commit, sync=self._always, now=time.time_ns() // 1000)
            if self._interval is not None:
                self._sync_if_due()
            self._call_from_thread(self._deliver, done, commit, error)
            return True
        self._journal.close(now=time.time_ns() // 1000)
        self._call_from_thread(job)
        return False

    def _deliver(self, call: Callable[..., None], *args: object) -> None:
        try:
            call(*args)
        except Exception as failure:
            # What is on disk could not take effect in memory: what we would serve from here on is wrong.
            self._fatal(f"a commit could not take effect, so the daemon ends: {failure!r}")
            raise

    def _sync_if_due(self) -> None:
        now = time.monotonic()
        assert self._interval is not None
        if self._sync_due is None:
            self._sync_due = now + self._interval
        elif now >= self._sync_due:
            self._sync_due = None
            self._journal.sync()
