"""The way of commits: one is gathered while another is written, and what is on disk takes effect in order.

Requests claim their place in the commit that is being gathered. When the writer has nothing to do, that commit is given
to it at once, so under load everything that arrived during one sync shares the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from streamd.metrics import CommitCounts
from streamd.store.commit.full import Full
from streamd.store.commit.gathering import Commit, IWriter, Waiter
from streamd.store.commit.inplace import BYTES_MAX, InPlace
from streamd.store.commit.pace import Pace
from streamd.store.commit.tail import wake
from streamd.store.commit.turn import Turn
from streamd.store.errors import StoreError, StoreReadOnly
from streamd.store.journal.frame import Entry, Kind
from streamd.store.journal.writer import FILE_ENTRIES_MAX, NoRoom
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import Segment

UNFOLDED_ENTRIES_MAX: Final = 200_000
"""Entries of the journal that may be in memory before writers wait for the compactor: what a start has to replay."""

UNFOLDED_BYTES_MAX: Final = 4 << 30
"""Bytes that the journal may hold before writers wait for the compactor."""

# A journal file with something that gives room back is closed at the latest after this, and sooner where nothing else
# happens: the room comes back when it is folded.
_FREEING_SECONDS_MAX: Final = 60.0


# Rows that a fan-out adds to indexes, or segments that are published, in one turn of the reactor.
_ROWS_AT_ONCE: Final = 512
_SPREAD: Final = frozenset({int(Kind.FANOUT), int(Kind.PUBLISH)})

T = TypeVar("T")

Name = tuple[bool, str]
"""Whether a segment is hidden, and what it is called: hidden ones have names of their own."""

_NOBODY: Final = object()


class Pipeline:
    """Everything that is on its way to the disk."""

    _log = Logger()

    def __init__(
        self,
        segments: Segments,
        writer: IWriter,
        sequence: int,
        file: int,
        seconds: Callable[[], float],
        pace: Pace,
        in_place: InPlace | None = None,
    ) -> None:
        self._segments = segments
        self._writer = writer
        self._seconds = seconds
        self.pace = pace
        self._in_place = in_place
        self._flown_at = 0.0
        self._flying: Commit | None = None
        self._full: Full | None = None
        self._waiting_for_fold = False
        self._freeing_since: float | None = None
        self._commits_seen = 0
        self._closed: Deferred[None] | None = None
        self._ended = False
        self.hindered = False
        """Whether something may stand in the way of a write: the disk was full, or the store is closing."""
        self.turn = Turn(self._fly_gathered)
        self.gathering = Commit(1, sequence)
        self.file = file
        """The journal file that is written to."""
        self.on_closed_file: Callable[[], None] = lambda: None
        self.names: dict[Name, Segment | None] = {}
        """Names that pending commits give to a segment, or, None, take away."""
        self.commits = 0
        self.counted = CommitCounts()

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for their commit."""
        return self.gathering.bytes + (self._flying.bytes if self._flying else 0)

    @property
    def closing(self) -> bool:
        """Whether nothing more is taken."""
        return self._closed is not None

    @property
    def full(self) -> bool:
        """Whether the disk had no room for the last append, and none was stored since."""
        return self._full is not None

    def check_room(self, size: int) -> None:
        """Raise StoreReadOnly where so many bytes are not even tried, since the disk was found full just now."""
        if self._full is not None:
            self._full.check(self._seconds(), size)

    @property
    def waits_for_fold(self) -> bool:
        """Whether writers wait for the compactor."""
        return self._waiting_for_fold

    def claimed(self, name: Name) -> Segment | None:
        """Who has this name, once everything pending is on disk."""
        if name in self.names:
            return self.names[name]
        hidden, text = name
        return (self._segments.hidden if hidden else self._segments.by_name).get(text)

    # -- in ------------------------------------------------------------------------------------------------------------

    def change(self, segment: Segment, entry: Entry, result: object = None) -> Deferred[Any]:
        """Commit one entry; fires with `result`."""
        commit = self.gathering
        commit.add(entry)
        commit.touched.add(segment)
        segment.touched = commit.number
        return self.wait(result)

    def wait(self, result: object) -> Deferred[Any]:
        """Fires with `result` when what was put into the gathered commit is on disk."""
        deferred: Deferred[Any] = Deferred()
        self.notify(deferred, result)
        return deferred

    def notify(self, waiter: Waiter, result: object) -> None:
        """The same for somebody who is there already."""
        self.gathering.waiters.append((waiter, result))
        if self._flying is None and not self.turn.lasts:
            self._fly_on()

    def refuse(self, error: StoreError, *, settled: bool) -> Deferred[Any]:
        """Refuse now, or where the reason is pending itself, when that is on disk (and if it fails, with that)."""
        commit = self._latest()
        if settled or commit is None:
            raise error
        return commit.wait(error)

    def acknowledge(self, result: Any, *, settled: bool) -> Deferred[Any]:
        """The same for a request that has nothing left to do."""
        commit = self._latest()
        if settled or commit is None:
            return succeed(result)
        return commit.wait(result)

    def _latest(self) -> Commit | None:
        return self.gathering if self.gathering.entries else self._flying

    def _fly_gathered(self) -> None:
        """Go on with what was gathered, if there is anything and the writer is free."""
        if self._flying is not None or not self.gathering.waiters:
            return
        if not self.turn.due or not self._fits_in_place(self.gathering):
            # Else who is due has its answer first, and then the end of the turn comes by here again.
            self._fly_on()

    def _fly_on(self) -> None:
        """Give what was gathered to the writer, unless the compactor is too far behind.

        Then everything waits, connections are no longer read when they hold too much, and so writers feel it before
        the memory, the disk and the time of a restart do.
        """
        unfolded = self._segments.entries_in
        entries = sum(unfolded.values())
        # One file is open, and can't be folded: to wait for that would be to wait for ever.
        few = entries < UNFOLDED_ENTRIES_MAX and sum(self._segments.bytes_in.values()) < UNFOLDED_BYTES_MAX
        if few or len(unfolded) < 2:
            self._fly()
        elif not self._waiting_for_fold:
            self._waiting_for_fold = True
            self.counted.waits += 1
            self._log.warn(
                "writers wait for the compactor: {files} journal files with {entries} entries are not folded",
                files=len(unfolded),
                entries=entries,
            )

    def tidy(self) -> None:
        """Close the journal file where it keeps room from coming back. To be called now and then."""
        idle, self._commits_seen = self.commits == self._commits_seen, self.commits
        if self._freeing_since is None or self._flying is not None or self.gathering.entries or self.closing:
            return
        if idle or self._seconds() - self._freeing_since > _FREEING_SECONDS_MAX:
            self.gathering.roll = True
            self._fly()

    def seek_room(self) -> None:
        """While the disk is full, see whether there is room. To be called each second: perhaps nobody else tries.

        First the journal file is closed, so that the compactor can give back what was deleted by now.
        """
        if self._full is None or self._flying is not None or self.gathering.entries or self.closing:
            return
        self.gathering.removals = self._freeing_since is not None
        self.gathering.roll = True
        self._fly()

    def fold_ended(self) -> None:
        """The compactor has caught up a little."""
        self._waiting_for_fold = False
        self._fly_gathered()

    def _fly(self) -> None:
        """Give what was gathered to the writer, and gather anew."""
        commit = self._flying = self.gathering
        if self._full is not None and not commit.removals:
            # A small append may fit where the next one does not: only a new file shows that there is room, and more
            # than a little of it.
            commit.roll = commit.ample = True
        self.gathering = Commit(commit.number + 1, commit.next_sequence)
        self._flown_at = self._seconds()
        if self._fits_in_place(commit):
            assert self._in_place is not None
            # One in a turn: what its answers lead to is for the writer thread, or others might wait for long.
            self.turn.is_whole = False
            self._in_place.took(self._writer.write_here(commit, self._landed))
            return
        if self._in_place is not None:
            self._in_place.handed_over()
        self._writer.submit(commit, self._landed)

    def _fits_in_place(self, commit: Commit) -> bool:
        """Whether the reactor's thread is to write this by itself: it is small, and all there is to do."""
        return (
            self._in_place is not None
            and self._in_place.is_on
            and self.turn.lasts
            and self.turn.is_whole
            and commit.bytes <= BYTES_MAX
            and not self._writer.would_roll(commit)
        )

    # -- out -----------------------------------------------------------------------------------------------------------

    def _landed(self, commit: Commit, error: NoRoom | None) -> None:
        """The writer is done with a commit: let it take effect, and start the next then."""
        if error is not None:
            self._in_turn(self._fail, error)
            return
        if self._full is not None and not commit.removals:
            self._has_room(self._full)
        seconds = self._seconds() - self._flown_at
        self.pace.took(commit.bytes, seconds)
        self.counted.landed(commit.bytes, len(commit.entries), seconds)
        self._go_on(commit, self._effects(commit))

    def _in_turn(self, tell: Callable[[T], None], argument: T) -> None:
        """All who wait are told in one turn, and then answer, each once."""
        if self.turn.lasts:
            tell(argument)
            return
        self.turn.begin()
        try:
            tell(argument)
        finally:
            self.turn.end()

    def _effects(self, commit: Commit) -> Iterator[None]:
        """Let the entries of a commit take effect, one after the other, with breaks where one request made many."""
        assert commit.frame is not None
        _, _, headers, bodies, timestamp = commit.frame
        apply = self._segments.apply
        rows = 0
        for at, (entry, header, position) in enumerate(zip(commit.entries, headers, bodies, strict=True)):
            body = b"" if entry.lengths else b"".join(entry.body)
            apply(header, commit.sequence + at, timestamp, commit.file, position, body)
            if header.kind in _SPREAD:
                # Not where segments are left out of a broadcast: until they are, it looks as if they had it.
                rows += header.count or 1
                if rows >= _ROWS_AT_ONCE:
                    rows = 0
                    yield

    def _go_on(self, commit: Commit, effects: Iterator[None]) -> None:
        for _ in effects:
            # Others have their turns. Who waits for this commit, or one behind it, is told when all of it is done.
            self._writer.soon(lambda: self._go_on(commit, effects))
            return
        self._in_turn(self._took_effect, commit)

    def _took_effect(self, commit: Commit) -> None:
        """All of a commit is so: start the next one, and tell who waits."""
        self._settle(commit)
        self.commits += 1
        self._flying = None
        if not self._fits_in_place(self.gathering):
            # Before anybody is told: the disk works while the reactor answers.
            self._fly_gathered()
        commit.fire()
        if commit.roll:
            self._freeing_since = None
        if commit.file > self.file:
            self._freeing_since = None
            self.file = commit.file
            self.on_closed_file()
        if self._segments.entries_in.get(self.file, 0) >= FILE_ENTRIES_MAX:
            # The writer counts entries; one that goes to many segments is a row in memory for each of them.
            self.gathering.roll = True
        if commit.frees and self._freeing_since is None:
            self._freeing_since = self._seconds()
        wake(self._segments)
        if self._closed is not None and self._flying is None:
            self._close_writer()

    def _settle(self, commit: Commit) -> None:
        """Forget the claims that are committed now, unless a later commit builds on them."""
        for segment in commit.touched:
            if segment.touched == commit.number:
                segment.claims = None
                if not self.names:
                    continue
                name = (segment.hidden, segment.name)
                claimed = self.names.get(name, _NOBODY)
                if claimed is segment or (claimed is None and (segment.deleted or segment.published)):
                    del self.names[name]

    def _fail(self, error: NoRoom) -> None:
        """There was no room: everything pending fails, and the places go back to the committed ones."""
        flying, gathering = self._flying, self.gathering
        assert flying is not None
        now = self._seconds()
        if self._full is None:
            self._full = Full(now, error)
            self.hindered = True
            # What was deleted may be in the file that is written to, and a fold of it gives room back.
            self._freeing_since = self._freeing_since or now
        self._full.tried(now)
        if not flying.entries and gathering.entries:
            # It was a look for room, on which nothing depends: what came meanwhile has its own chance.
            self._fly()
            return
        waiters = flying.waiters + gathering.waiters
        self._full.refused(len(waiters), flying.bytes + gathering.bytes)
        self.counted.failed += bool(waiters)
        self._flying = None
        self.gathering = Commit(gathering.number + 1, flying.sequence)
        self.names.clear()
        self._segments.claimed.clear()
        for segment in flying.touched | gathering.touched:
            if not segment.committed:
                segment.never_created()
            segment.unclaim()
        for waiter, _ in waiters:
            waiter.errback(StoreReadOnly(f"the disk is full: {error}"))
        if self._closed is not None and self._flying is None:
            self._close_writer()

    def _has_room(self, full: Full) -> None:
        """An append is stored, or could be."""
        self._full = None
        self.hindered = self.closing
        full.ended(self._seconds())

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> Deferred[None]:
        """Take nothing more; fires when what is pending is on disk and the journal is closed."""
        if self._closed is None:
            self._closed = Deferred()
            self.hindered = True
            if self._flying is None and self.gathering.entries:
                # It waited for the compactor. The next start has a little more to replay.
                self._fly()
            elif self._flying is None:
                self._close_writer()
        return self._closed

    def _close_writer(self) -> None:
        assert self._closed is not None
        if self._ended:
            # Somebody who was told of the last commit has closed the store, and it comes by here again.
            return
        self._ended = True
        self._writer.close(lambda: self._closed.callback(None) if self._closed else None)
