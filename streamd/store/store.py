"""The store: segments, appended to and read by everybody, each change acknowledged when it is on disk.

Every method runs on the reactor's thread. A change is claimed at once, in memory, and returns a Deferred that fires
when its commit is on disk; only then do readers see it. A request that can't be met raises a `StoreError`, or fails its
Deferred with one where the reason is itself not on disk yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import EllipsisType

from twisted.internet.defer import Deferred

from streamd.batch import Batch
from streamd.metrics import CommitCounts
from streamd.settings import StoreSettings
from streamd.store.commit.appending import Appending
from streamd.store.commit.gathering import IWriter
from streamd.store.commit.inplace import InPlace
from streamd.store.commit.pace import Pace
from streamd.store.commit.pipeline import Pipeline
from streamd.store.commit.turn import Turn
from streamd.store.errors import (
    AttributeMismatch,
    NoSuchSegment,
    RequestTooLarge,
    SegmentExists,
    SegmentSealed,
    StoreError,
)
from streamd.store.folding import Folding
from streamd.store.journal.frame import ENTRY_BYTES_MAX, RANGE, Entry, Kind, encode_keyed
from streamd.store.names import KEY_BYTES_MAX, VALUE_BYTES_MAX, check_name
from streamd.store.packs.compaction import Compaction
from streamd.store.reading.plan import Run
from streamd.store.reading.reader import Reader, Threads
from streamd.store.reading.reading import Reading
from streamd.store.retention import Retention
from streamd.store.segments.broadcasts import Numbered, new_segment
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import Segment
from streamd.store.usage import Usage


class Store(Appending, Reading, Folding):
    """An open store. Made by `streamd.store.open_store`."""

    def __init__(
        self,
        segments: Segments,
        reader: Reader,
        writer: IWriter,
        sequence: int,
        file: int,
        settings: StoreSettings,
        threads: Threads,
        on_closed: Callable[[], None],
        in_place: InPlace | None = None,
    ) -> None:
        self._segments = segments
        self._reader = reader
        self._settings = settings
        self._threads = threads
        self._on_closed = on_closed
        self._closing: Deferred[None] | None = None
        self.compaction: Compaction | None = None
        """The compactor's process; None where somebody else takes care of that, or nobody."""
        self.retention: Retention | None = None
        """What keeps segments within their limits; None where there are none."""
        self.pace = Pace(settings.commit_ms / 1000)
        """How much one writer may have on its way to the disk so that others do not wait long."""
        self._pipeline = Pipeline(segments, writer, sequence, file, threads.seconds, self.pace, in_place)

    # -- what there is -------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Segment:
        """The committed segment of that name."""
        segment = self._segments.by_name.get(name)
        if segment is None:
            raise NoSuchSegment(name)
        return segment

    def find_claimed(self, name: str, *, hidden: bool = False) -> Segment | None:
        """The segment of that name as the next writer finds it: one that is on its way to the disk counts."""
        return self._pipeline.claimed((hidden, name))

    def numbered(self) -> list[Numbered]:
        """All segments whose name is a number behind a prefix: those that receive broadcasts."""
        return list(self._segments.numbered.values())

    @property
    def broadcasts(self) -> Segment:
        """The segment of what was broadcast to all numbered ones."""
        return self._segments.broadcast

    def trim_broadcasts(self, needed: int) -> Deferred[None]:
        """Drop the broadcast records below `needed` that no extent in the catalog stands for either."""

        def trim(packed: int | None) -> Deferred[None]:
            return self.truncate(self.broadcasts, needed if packed is None else min(needed, packed))

        # Asked after memory was looked through: what a fold took from there meanwhile is in the catalog by now.
        return self._reader.needed_broadcast().addCallback(trim)

    def find_id(self, id: int) -> Segment:
        """The committed segment of that id: also a hidden one, for as long as it is neither published nor deleted."""
        segment = self._segments.by_id.get(id)
        if segment is None or segment.published or segment is self.broadcasts:
            raise NoSuchSegment(f"segment {id}")
        return segment

    def following(self, id: int, count: int) -> tuple[list[Segment], int]:
        """The next segments by id behind this one, hidden ones too, up to so many; and the id behind which to go on.

        That is 0 where there are no more.
        """
        ids, by_id = self._segments.ids, self._segments.by_id
        first = bisect_right(ids, id)
        looked_at = ids[first : first + count]
        after = looked_at[-1] if first + count < len(ids) else 0
        return [by_id[each] for each in looked_at if each in by_id], after

    def names(self) -> list[str]:
        """The names of all segments, in the order of their creation."""
        return list(self._segments.by_name)

    def grouped(self) -> list[Segment]:
        """All segments that have reader groups."""
        return list(self._segments.grouped)

    def __len__(self) -> int:
        return len(self._segments.by_name)

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for their commit."""
        return self._pipeline.pending_bytes

    @property
    def turn(self) -> Turn:
        """What lets many be served at once, and what they write be one commit."""
        return self._pipeline.turn

    @property
    def commits(self) -> int:
        """Commits since the start."""
        return self._pipeline.commits

    @property
    def counted(self) -> CommitCounts:
        """What became of commits since the start."""
        return self._pipeline.counted

    @property
    def read_only(self) -> bool:
        """Whether appends are refused: the store closes, or the disk is full and nothing could be stored since."""
        return self._pipeline.closing or self._pipeline.full

    @property
    def closing(self) -> bool:
        """Whether the store takes nothing more."""
        return self._pipeline.closing

    @property
    def waits_for_fold(self) -> bool:
        """Whether writers wait for the compactor."""
        return self._pipeline.waits_for_fold

    def usage(self) -> Deferred[Usage]:
        """How much room the store takes on its disk, and how much there is."""
        return self._reader.usage()

    @property
    def sync(self) -> str:
        """When a write is acknowledged: ``always`` after its fdatasync, or the mode that was set."""
        return self._settings.sync

    @property
    def timestamp(self) -> int:
        """The last one given, in microseconds since 1970: it can be ahead of the clock, and never goes back."""
        return self._segments.timestamp

    # -- making and ending segments ------------------------------------------------------------------------------------

    def create(self, name: str, *, hidden: bool = False) -> Deferred[Segment]:
        """A new, empty segment. A hidden one nobody lists: it is appended to, and then published or deleted.

        Hidden segments have names of their own; two of them can't have the same one.
        """
        data = check_name(name)
        self._check_writable()
        claimed = (hidden, name)
        if self._pipeline.claimed(claimed) is not None:
            return self._pipeline.refuse(SegmentExists(name), settled=claimed not in self._pipeline.names)
        commit = self._pipeline.gathering
        segment = new_segment(commit.next_sequence, name, self._segments.broadcast, hidden=hidden)
        self._segments.claimed[segment.id] = segment
        self._pipeline.names[claimed] = segment
        return self._pipeline.change(segment, Entry(Kind.CREATE, segment.id, count=int(hidden), body=data), segment)

    def hidden_segments(self) -> list[Segment]:
        """All hidden segments that are neither published nor deleted."""
        return list(self._segments.hidden.values())

    def find_hidden(self, name: str) -> Segment:
        """The committed hidden segment of that name."""
        segment = self._segments.hidden.get(name)
        if segment is None:
            raise NoSuchSegment(name)
        return segment

    def seal(self, segment: Segment) -> Deferred[None]:
        """Take no more records. Sealing a sealed segment changes nothing."""
        self._check_writable()
        if (refused := self._check(segment)) is not None:
            return refused
        if segment.claimed_sealed:
            return self._pipeline.acknowledge(None, settled=segment.sealed)
        segment.claim().sealed = True
        return self._pipeline.change(segment, Entry(Kind.SEAL, segment.id))

    def truncate(self, segment: Segment, number: int, offset: int | None = None) -> Deferred[None]:
        """Drop the committed records below `number`; all of them where it lies behind the last.

        It takes its place in the order of changes at once where the record's `offset` is given, or all are dropped.
        """
        if (refused := self._check(segment)) is not None:
            return refused
        if number <= segment.claimed_first_number:
            return self._pipeline.acknowledge(None, settled=number <= segment.first_number)
        if number >= segment.number:
            return self._truncate(segment, segment.number, segment.offset)
        if offset is not None:
            return self._truncate(segment, number, offset)
        # Where a record begins is known to the file alone.
        found: Deferred[list[Run]] = self.read(segment, number, bytes_max=1, records_max=1)
        return found.addCallback(lambda runs: self._truncate_at(segment, runs[0]))

    def _truncate_at(self, segment: Segment, run: Run) -> Deferred[None]:
        if (refused := self._check(segment)) is not None:
            return refused
        return self._truncate(segment, run.number, run.offset)

    def _truncate(self, segment: Segment, number: int, offset: int) -> Deferred[None]:
        claims = segment.claim()
        if number > claims.first_number:
            claims.first_number, claims.first_offset = number, offset
        return self._pipeline.change(segment, Entry(Kind.TRUNCATE, segment.id, number=number, offset=offset))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Put all changes that are asked for inside into one commit: after a crash all of them are there, or none.

        What is asked for later, in a callback, is not part of it.
        """
        turn = self._pipeline.turn
        if turn.lasts:
            # Nothing is given to the writer before it ends.
            yield
            return
        turn.begin()
        try:
            yield
        finally:
            turn.end()

    # -- groups and attributes -----------------------------------------------------------------------------------------

    def set_group(self, segment: Segment, group: str, position: int) -> Deferred[None]:
        """Put a reader group at a position: everything below is acknowledged, nothing above."""
        name = check_name(group)
        if (refused := self._check(segment)) is not None:
            return refused
        if not 0 <= position < 1 << 63:
            raise StoreError(f"{position} is no position")
        self._pipeline.gathering.close_group(segment, name)
        return self._pipeline.change(segment, Entry(Kind.GROUP_SET, segment.id, number=position, body=name))

    def acknowledge(self, segment: Segment, group: str, ranges: Sequence[tuple[int, int]]) -> Deferred[None]:
        """Acknowledge records, as (first, end) ranges, for a reader group; a new one begins at the first record."""
        name = check_name(group)
        if (refused := self._check(segment)) is not None:
            return refused
        self._check_ranges(segment, ranges)
        commit = self._pipeline.gathering
        commit.acknowledge(segment, name, b"".join([RANGE.pack(first, end) for first, end in ranges]))
        commit.touched.add(segment)
        segment.touched = commit.number
        return self._pipeline.wait(None)

    def _check_ranges(self, segment: Segment, ranges: Sequence[tuple[int, int]]) -> None:
        if len(ranges) * RANGE.size > ENTRY_BYTES_MAX:
            raise RequestTooLarge(f"{len(ranges)} ranges at once")
        if any(not 0 <= first < end <= segment.number for first, end in ranges):
            raise StoreError(f"a range reaches beyond the records of {segment.name!r}")

    def hand_over(
        self, segment: Segment, group: str, ranges: Sequence[tuple[int, int]], target: Segment, batch: Batch
    ) -> Deferred[None]:
        """Acknowledge records for a reader group and append others to another segment, in one atomic frame."""
        name = check_name(group)
        self._check_writable(len(batch.payload))
        for each in (segment, target):
            if (refused := self._check(each)) is not None:
                return refused
        if target.claimed_sealed:
            return self._pipeline.refuse(SegmentSealed(target.name), settled=target.sealed)
        self._check_ranges(segment, ranges)
        commit = self._pipeline.gathering
        self._place(commit, target, batch, 0)
        commit.acknowledge(segment, name, b"".join([RANGE.pack(first, end) for first, end in ranges]))
        commit.touched.add(segment)
        segment.touched = commit.number
        return self._pipeline.wait(None)

    def drop_group(self, segment: Segment, group: str) -> Deferred[None]:
        """Forget a reader group."""
        name = check_name(group)
        if (refused := self._check(segment)) is not None:
            return refused
        self._pipeline.gathering.close_group(segment, name)
        return self._pipeline.change(segment, Entry(Kind.GROUP_DROP, segment.id, body=name))

    def set_attribute(
        self, segment: Segment, key: bytes, value: bytes | None, *, expected: bytes | EllipsisType | None = ...
    ) -> Deferred[None]:
        """Set (None: remove) a small value of a segment, only where it is `expected` (None: absent; ``...``: any)."""
        self._check_writable()
        if (refused := self._check(segment)) is not None:
            return refused
        if not 1 <= len(key) <= KEY_BYTES_MAX or len(value or b"") > VALUE_BYTES_MAX:
            raise RequestTooLarge(f"a key has 1 to {KEY_BYTES_MAX} bytes, a value up to {VALUE_BYTES_MAX}")
        stored = segment.claimed_attribute(key)
        if expected is not ... and expected != stored:
            settled = segment.claims is None or key not in segment.claims.attributes
            return self._pipeline.refuse(AttributeMismatch(stored), settled=settled)
        segment.claim().attributes[key] = value
        entry = Entry(Kind.ATTRIBUTE, segment.id, count=0 if value is None else 1, body=encode_keyed(key, value or b""))
        return self._pipeline.change(segment, entry)

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> Deferred[None]:
        """Write what is pending, sync, and give the data directory back."""
        if self._closing is None:
            if self.retention is not None:
                self.retention.stop()
            closed = self._pipeline.close()
            if self.compaction is not None:
                stopped = self.compaction.stop()
                closed.addCallback(lambda _: stopped)
            self._closing = closed.addCallback(self._closed)
        return self._closing

    def _closed(self, _: object) -> None:
        self._reader.close()
        self._on_closed()
