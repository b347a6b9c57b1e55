"""The store: segments, appended to and read by everybody, each change acknowledged when it is on disk.

Every method runs on the reactor's thread. A change is claimed at once, in memory, and returns a Deferred that fires
when its commit is on disk; only then do readers see it. A request that can't be met raises a `StoreError`, or fails its
Deferred with one where the reason is itself not on disk yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import pack
from types import EllipsisType
from typing import Any, Final, NamedTuple

from twisted.internet.defer import Deferred, succeed

from streamd.batch import Batch
from streamd.settings import StoreSettings
from streamd.store.commit import Commit, IWriter, Waiter
from streamd.store.compaction import Compaction
from streamd.store.errors import (
    AttributeMismatch,
    LevelGap,
    LevelOverlap,
    NoSuchSegment,
    RequestTooLarge,
    SegmentExists,
    SegmentSealed,
    StoreError,
    StoreReadOnly,
)
from streamd.store.frame import ENTRY_BYTES_MAX, Entry, Kind, encode_keyed, span
from streamd.store.names import KEY_BYTES_MAX, VALUE_BYTES_MAX, check_name
from streamd.store.pipeline import Pipeline
from streamd.store.read import Run, Want
from streamd.store.reader import Reader, Threads
from streamd.store.segment import PACKS, Segment
from streamd.store.segments import Segments

REQUEST_BYTES_MAX: Final = 256 << 20
"""No single append may be larger, whatever the limits of the protocols say."""

# Segments that are told of a fold in one turn of the reactor.
_SEGMENTS_AT_ONCE: Final = 1000

# Up to here an append needs no check of its size.
_SMALL_BYTES: Final = 64 << 20

_FANOUT_IDS_MAX: Final = ENTRY_BYTES_MAX // 8


class Appended(NamedTuple):
    """Where records went. `duplicate`: the writer had stored them before; nothing was stored now."""

    number: int
    offset: int
    duplicate: bool = False


class Level(NamedTuple):
    """An ack level to be raised: the fields are those of `Store.append`."""

    segment: Segment
    writer: bytes
    expected: int
    level: int
    initial: int = 0


class Append(NamedTuple):
    """One part of an atomic append to several segments; the fields are those of `Store.append`."""

    segment: Segment
    batch: Batch
    tag: int = 0
    writer: bytes | None = None
    expected: int = 0
    level: int = 0
    initial: int = 0


class Store:
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
    ) -> None:
        self._segments = segments
        self._reader = reader
        self._settings = settings
        self._threads = threads
        self._on_closed = on_closed
        self._closing: Deferred[None] | None = None
        self.compaction: Compaction | None = None
        """The compactor's process; None where somebody else takes care of that, or nobody."""
        self._pipeline = Pipeline(segments, writer, sequence, file, threads.seconds)

    # -- what there is -------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Segment:
        """The committed segment of that name."""
        segment = self._segments.by_name.get(name)
        if segment is None:
            raise NoSuchSegment(name)
        return segment

    def names(self) -> list[str]:
        """The names of all segments, in the order of their creation."""
        return list(self._segments.by_name)

    def __len__(self) -> int:
        return len(self._segments.by_name)

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for their commit."""
        return self._pipeline.pending_bytes

    @property
    def commits(self) -> int:
        """Commits since the start."""
        return self._pipeline.commits

    @property
    def read_only(self) -> bool:
        """Whether appends are refused just now."""
        return self._pipeline.closing or self._pipeline.full

    @property
    def sync(self) -> str:
        """When a write is acknowledged: ``always`` after its fdatasync, or the mode that was set."""
        return self._settings.sync

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
        segment = Segment(commit.next_sequence, name)
        segment.hidden = hidden
        self._segments.claimed[segment.id] = segment
        self._pipeline.names[claimed] = segment
        return self._pipeline.change(segment, Entry(Kind.CREATE, segment.id, count=int(hidden), body=data), segment)

    def find_hidden(self, name: str) -> Segment:
        """The committed hidden segment of that name."""
        segment = self._segments.hidden.get(name)
        if segment is None:
            raise NoSuchSegment(name)
        return segment

    def publish(self, parts: Sequence[tuple[Segment, Segment]], levels: Sequence[Level] = ()) -> Deferred[None]:
        """Make each (hidden segment, target) pair one: all of them, and the writers' ack levels, or nothing.

        The bytes are not written again, and it costs the same however many there are. Where every level is stored
        already this was done before: it is acknowledged again, and the hidden segments are deleted.
        """
        self._check_writable()
        fresh = []
        for each in levels:
            try:
                fresh.append(_compare(each.segment.claimed_level(each.writer), each.expected, each.level, each.initial))
            except StoreError as error:
                return self._pipeline.refuse(error, settled=False)
        if any(fresh) and not all(fresh):
            raise StoreError("some of the ack levels are stored already, others are not")
        if levels and not any(fresh):
            for source, _ in parts:
                if not source.claimed_deleted:
                    self.delete(source).addErrback(lambda failure: failure.trap(StoreError))
            return self._pipeline.acknowledge(None, settled=False)
        for source, target in parts:
            for segment in (source, target):
                if (refused := self._check(segment)) is not None:
                    return refused
            if target.hidden or not source.hidden or source.claimed_sealed:
                raise StoreError(f"segment {source.name!r} can't be published into {target.name!r}")
            if target.claimed_sealed:
                return self._pipeline.refuse(SegmentSealed(target.name), settled=target.sealed)
        if len({source for source, _ in parts}) < len(parts):
            raise StoreError("a hidden segment can be published once")
        commit = self._pipeline.gathering
        for source, target in parts:
            commit.close_open(target)
            commit.touched |= {source, target}
            source.touched = target.touched = commit.number
            source.claim().sealed = True
            entry = Entry(
                Kind.PUBLISH,
                target.id,
                number=target.next_number,
                offset=target.next_offset,
                body=pack("<Q", source.id),
            )
            commit.add(entry)
            target.next_number += source.next_number
            target.next_offset += source.next_offset
        for each in levels:
            self._raise_level(commit, each.segment, each.writer, each.level)
        return self._pipeline.wait(None)

    def delete(self, segment: Segment) -> Deferred[None]:
        """Remove a segment with its ack levels, groups and attributes."""
        if (refused := self._check(segment)) is not None:
            return refused
        segment.claim().deleted = True
        claimed = (segment.hidden, segment.name)
        if self._pipeline.claimed(claimed) is segment:
            self._pipeline.names[claimed] = None
        return self._pipeline.change(segment, Entry(Kind.DELETE, segment.id))

    def seal(self, segment: Segment) -> Deferred[None]:
        """Take no more records. Sealing a sealed segment changes nothing."""
        self._check_writable()
        if (refused := self._check(segment)) is not None:
            return refused
        if segment.claimed_sealed:
            return self._pipeline.acknowledge(None, settled=segment.sealed)
        segment.claim().sealed = True
        return self._pipeline.change(segment, Entry(Kind.SEAL, segment.id))

    def truncate(self, segment: Segment, number: int) -> Deferred[None]:
        """Drop the committed records below `number`; all of them where it lies behind the last."""
        if (refused := self._check(segment)) is not None:
            return refused
        if number <= segment.claimed_first_number:
            return self._pipeline.acknowledge(None, settled=number <= segment.first_number)
        if number >= segment.number:
            return self._truncate(segment, segment.number, segment.offset)
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

    # -- appending -----------------------------------------------------------------------------------------------------

    def append(
        self,
        segment: Segment,
        batch: Batch,
        *,
        tag: int = 0,
        writer: bytes | None = None,
        expected: int = 0,
        level: int = 0,
        initial: int = 0,
    ) -> Deferred[Appended]:
        """Append records. With a `writer`, only where its ack level is `expected`, and raise that to `level`.

        A writer that is new here has the level `initial`. At or above `level` the records are stored already: they are
        acknowledged again. LevelOverlap says how much of them is stored, LevelGap that something is missing.
        """
        self._check_writable()
        if (refused := self._check(segment)) is not None:
            return refused
        if segment.sealed or segment.claimed_sealed:
            return self._pipeline.refuse(SegmentSealed(segment.name), settled=segment.sealed)
        if len(batch.payload) + 4 * len(batch.lengths) > REQUEST_BYTES_MAX:
            raise RequestTooLarge(f"{len(batch.payload)} bytes in one append, {REQUEST_BYTES_MAX} at most")
        if writer is not None:
            try:
                fresh = self._check_level(segment, writer, expected, level, initial)
            except StoreError as error:
                return self._pipeline.refuse(
                    error, settled=segment.claims is None or writer not in segment.claims.levels
                )
            if not fresh:
                again = Appended(segment.next_number, segment.next_offset, duplicate=True)
                return self._pipeline.acknowledge(
                    again, settled=segment.claims is None or writer not in segment.claims.levels
                )
        if writer is None and not batch.lengths:
            return succeed(Appended(segment.next_number, segment.next_offset))
        commit = self._pipeline.gathering
        place = self._place(commit, segment, batch, tag)
        if writer is not None:
            self._raise_level(commit, segment, writer, level)
        return self._pipeline.wait(place)

    def append_for(self, waiter: Waiter, segment: Segment, batch: Batch) -> None:
        """Append records; `waiter` is told when they are on disk. The plain `append` for those who do it most.

        Nothing is told where this raises.
        """
        self._check_writable()
        if (
            segment.claims is None
            and not segment.deleted
            and not segment.sealed
            and 0 < len(batch.payload) < _SMALL_BYTES
        ):
            self._pipeline.notify(waiter, self._place(self._pipeline.gathering, segment, batch, 0))
        else:
            self.append(segment, batch).addCallbacks(waiter.callback, waiter.errback)

    def append_all(self, appends: Sequence[Append]) -> Deferred[list[Appended]]:
        """Append to several segments in one atomic frame: after a crash all of it is there, or none."""
        self._check_writable()
        size = 0
        for each in appends:
            if (refused := self._check(each.segment)) is not None:
                return refused
            if each.segment.claimed_sealed:
                return self._pipeline.refuse(SegmentSealed(each.segment.name), settled=each.segment.sealed)
            size += each.batch.size + 4 * each.batch.count
        if size > REQUEST_BYTES_MAX:
            raise RequestTooLarge(f"{size} bytes in one append, {REQUEST_BYTES_MAX} at most")
        # A writer may stand here twice: the second part builds on the level that the first one leaves.
        levels: dict[tuple[Segment, bytes], int] = {}
        fresh: list[bool] = []
        for each in appends:
            if each.writer is None:
                fresh.append(True)
                continue
            key = (each.segment, each.writer)
            stored = levels.get(key, each.segment.claimed_level(each.writer))
            try:
                fresh.append(_compare(stored, each.expected, each.level, each.initial))
            except StoreError as error:
                return self._pipeline.refuse(error, settled=False)
            levels[key] = max(each.level, each.initial if stored is None else stored)
        commit = self._pipeline.gathering
        places = []
        for each, is_fresh in zip(appends, fresh, strict=True):
            if is_fresh:
                places.append(self._place(commit, each.segment, each.batch, each.tag))
                if each.writer is not None:
                    self._raise_level(commit, each.segment, each.writer, each.level)
            else:
                places.append(Appended(each.segment.next_number, each.segment.next_offset, duplicate=True))
        if not any(fresh) or not commit.entries:
            # Nothing was put into the commit, so it may never fly.
            return self._pipeline.acknowledge(places, settled=False)
        return self._pipeline.wait(places)

    def fan_out(self, segments: Sequence[Segment], batch: Batch, *, tag: int = 0) -> Deferred[None]:
        """Append the same records to many segments. Their bytes are written once, and it is atomic.

        A segment that stands twice receives twice.
        """
        self._check_writable()
        for segment in segments:
            if (refused := self._check(segment)) is not None:
                return refused
            if segment.claimed_sealed:
                return self._pipeline.refuse(SegmentSealed(segment.name), settled=segment.sealed)
        if batch.size + 4 * batch.count > REQUEST_BYTES_MAX:
            raise RequestTooLarge(f"{batch.size} bytes in one append, {REQUEST_BYTES_MAX} at most")
        commit = self._pipeline.gathering
        if not segments or not batch.count:
            return self._pipeline.acknowledge(None, settled=True)
        for segment in segments:
            commit.close_open(segment)
            commit.touched.add(segment)
            segment.touched = commit.number
        for part in _pieces(batch):
            payload = Entry(Kind.PAYLOAD, tag=tag)
            payload.add(part)
            commit.add(payload)
            taken = span(tag, part.count, part.size)
            for segment in segments:
                segment.next_number += part.count
                segment.next_offset += taken
            for first in range(0, len(segments), _FANOUT_IDS_MAX):
                ids = [segment.id for segment in segments[first : first + _FANOUT_IDS_MAX]]
                commit.add(Entry(Kind.FANOUT, count=len(ids), body=pack(f"<{len(ids)}Q", *ids)))
        return self._pipeline.wait(None)

    def _place(self, commit: Commit, segment: Segment, batch: Batch, tag: int) -> Appended:
        place = Appended(segment.next_number, segment.next_offset)
        segment.touched = commit.number
        size = len(batch.payload)
        if size + 4 * len(batch.lengths) <= ENTRY_BYTES_MAX:
            if batch.lengths:
                commit.append(segment, batch, tag)
                segment.next_number += len(batch.lengths)
                segment.next_offset += span(tag, len(batch.lengths), size)
        else:
            for piece in _pieces(batch):
                commit.append(segment, piece, tag)
                segment.next_number += piece.count
                segment.next_offset += span(tag, piece.count, piece.size)
        return place

    def _check_level(self, segment: Segment, writer: bytes, expected: int, level: int, initial: int) -> bool:
        return _compare(segment.claimed_level(writer), expected, level, initial)

    def _raise_level(self, commit: Commit, segment: Segment, writer: bytes, level: int) -> None:
        segment.touched = commit.number
        commit.touched.add(segment)
        segment.claim().levels[writer] = level
        commit.level(segment, writer, level)

    # -- groups and attributes -----------------------------------------------------------------------------------------

    def set_group(self, segment: Segment, group: str, position: int) -> Deferred[None]:
        """Put a reader group at a position: everything below is acknowledged, nothing above."""
        name = check_name(group)
        if (refused := self._check(segment)) is not None:
            return refused
        if not 0 <= position < 1 << 63:
            raise StoreError(f"{position} is no position")
        return self._pipeline.change(segment, Entry(Kind.GROUP_SET, segment.id, number=position, body=name))

    def acknowledge(self, segment: Segment, group: str, ranges: Sequence[tuple[int, int]]) -> Deferred[None]:
        """Acknowledge records, as (first, end) ranges, for a reader group; a new one begins at the first record."""
        name = check_name(group)
        if (refused := self._check(segment)) is not None:
            return refused
        if len(ranges) * 16 > ENTRY_BYTES_MAX:
            raise RequestTooLarge(f"{len(ranges)} ranges at once")
        if any(not 0 <= first < end <= segment.number for first, end in ranges):
            raise StoreError(f"a range reaches beyond the records of {segment.name!r}")
        body = encode_keyed(name, b"".join([pack("<QQ", first, end) for first, end in ranges]))
        return self._pipeline.change(segment, Entry(Kind.GROUP_ACK, segment.id, count=len(ranges), body=body))

    def drop_group(self, segment: Segment, group: str) -> Deferred[None]:
        """Forget a reader group."""
        name = check_name(group)
        if (refused := self._check(segment)) is not None:
            return refused
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

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, segment: Segment, number: int, *, bytes_max: int, records_max: int = 1 << 62) -> Deferred[list[Run]]:
        """Committed records from `number` on: at least one where there is one, then up to the limits.

        Nothing at the tail. RecordsTruncated where they are gone.
        """
        return self._reader.read(segment, Want(number, None, bytes_max, records_max))

    def read_at(
        self, segment: Segment, offset: int, *, bytes_max: int, records_max: int = 1 << 62
    ) -> Deferred[list[Run]]:
        """The same from an offset on: the first run begins with the record that holds it."""
        return self._reader.read(segment, Want(None, offset, bytes_max, records_max))

    def wait(self, segment: Segment, number: int) -> Deferred[None]:
        """Fires when record `number` is there to be read, or when it never will be: sealed, or deleted.

        Cancel it to stop waiting.
        """
        if segment.number > number or segment.sealed or segment.deleted:
            return succeed(None)

        def cancel(waiting: Deferred[Any]) -> None:
            if segment.waiters is not None:
                segment.waiters.pop(waiting, None)

        deferred: Deferred[None] = Deferred(cancel)
        if segment.waiters is None:
            segment.waiters = {}
        segment.waiters[deferred] = number
        return deferred

    # -- compaction ----------------------------------------------------------------------------------------------------

    @property
    def closed_file(self) -> int:
        """The last journal file that is complete: what can be folded."""
        return self._pipeline.file - 1

    @property
    def unfolded_entries(self) -> int:
        """Entries of the journal that are in memory because no pack has them yet."""
        return sum(self._segments.entries_in.values())

    def on_closed_file(self, call: Callable[[], None]) -> None:
        """Call this each time a journal file is complete."""
        self._pipeline.on_closed_file = call

    def folded(self, file: int) -> Deferred[None]:
        """The compactor has put all journal files up to this one into packs: read from there, and remove them.

        Segments are told in small groups, a turn of the reactor for each: until all of them know, the files stay.
        """
        by_file, entries_in = self._segments.by_file, self._segments.entries_in
        concerned: set[Segment] = set()
        sources: list[Segment] = []
        for number in [each for each in by_file if each <= file]:
            concerned |= by_file.pop(number)
        published = self._segments.published_in
        for number in [each for each in published if each <= file]:
            sources += published.pop(number)
        done: Deferred[None] = Deferred()

        def some() -> None:
            for _ in range(min(_SEGMENTS_AT_ONCE, len(concerned))):
                concerned.pop().packed(file)
            if concerned:
                self._threads.later(some)
                return
            for source in sources:
                # Its records are the target's own now.
                self._segments.by_id.pop(source.id, None)
            gone = [number for number in entries_in if number <= file]
            for number in gone:
                del entries_in[number]
            self._pipeline.fold_ended()
            self._reader.remove(gone).chainDeferred(done)

        some()
        return done

    def merged(self, packs: Sequence[int]) -> Deferred[None]:
        """The compactor has put what these packs held elsewhere."""
        return self._reader.remove([PACKS + number for number in packs])

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> Deferred[None]:
        """Write what is pending, sync, and give the data directory back."""
        if self._closing is None:
            closed = self._pipeline.close()
            if self.compaction is not None:
                stopped = self.compaction.stop()
                closed.addCallback(lambda _: stopped)
            self._closing = closed.addCallback(self._closed)
        return self._closing

    def _closed(self, _: object) -> None:
        self._reader.close()
        self._on_closed()

    def _check_writable(self) -> None:
        if self._pipeline.closing:
            raise StoreReadOnly("the store is closing")
        if self._pipeline.full:
            raise StoreReadOnly("the disk is full")

    def _check(self, segment: Segment) -> Deferred[Any] | None:
        """Refuse where the segment is gone, or will be once what is pending is on disk."""
        if self._pipeline.closing:
            raise StoreReadOnly("the store is closing")
        if segment.deleted or segment.claimed_deleted:
            return self._pipeline.refuse(NoSuchSegment(segment.name), settled=segment.deleted)
        return None


def _pieces(batch: Batch) -> Iterator[Batch]:
    """The batch as batches that fit into an entry each, or are one record."""
    if batch.size + 4 * batch.count <= ENTRY_BYTES_MAX:
        yield batch
        return
    # Half of the limit is for the lengths of very small records.
    for part in batch.split(ENTRY_BYTES_MAX // 2):
        for first in range(0, part.count, ENTRY_BYTES_MAX // 8):
            yield part.part(first, first + ENTRY_BYTES_MAX // 8)


def _compare(stored: int | None, expected: int, level: int, initial: int) -> bool:
    """Compare-and-set on an ack level: whether the append is new. False: it is stored already."""
    current = initial if stored is None else stored
    if stored is not None and current >= level:
        return False
    if current == expected:
        return True
    if current > expected:
        raise LevelOverlap(stored, expected, level)
    raise LevelGap(stored, expected, level)
