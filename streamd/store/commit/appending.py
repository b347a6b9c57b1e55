"""The half of the store that takes records: append, fan out, publish. Each claims its places at once, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from struct import pack
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed

from streamd.batch import Batch
from streamd.store.commit.fanout import ROWS_MAX, parts_of, pieces_of
from streamd.store.commit.gathering import Commit, Waiter
from streamd.store.commit.levels import Append, Appended, Level, check_writer, compare
from streamd.store.commit.pipeline import Pipeline
from streamd.store.errors import (
    NoSuchSegment,
    RequestTooLarge,
    SegmentSealed,
    StoreError,
    StoreReadOnly,
)
from streamd.store.journal.frame import ENTRY_BYTES_MAX, Entry, Kind
from streamd.store.names import NUMBERED
from streamd.store.records.offsets import span
from streamd.store.segments.broadcasts import BROADCASTS, Numbered
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import FORGOTTEN, Segment

REQUEST_BYTES_MAX: Final = 256 << 20
"""No single append may be larger, whatever the limits of the protocols say."""

# Up to here an append needs no check of its size.
_SMALL_BYTES: Final = 64 << 20

# Segments that one entry names. It takes effect in one turn of the reactor.
_IDS_MAX: Final = 256


class Appending:
    """What `Store` inherits."""

    _pipeline: Pipeline
    _segments: Segments

    def delete(self, segment: Segment) -> Deferred[None]:
        """Remove a segment with its ack levels, groups and attributes."""
        if (refused := self._check(segment)) is not None:
            return refused
        self._delete(segment)
        return self._pipeline.wait(None)

    def _delete(self, segment: Segment) -> None:
        segment.claim().deleted = True
        self._free_name(segment)
        commit = self._pipeline.gathering
        commit.add(Entry(Kind.DELETE, segment.id))
        commit.touched.add(segment)
        segment.touched = commit.number

    def _free_name(self, segment: Segment) -> None:
        claimed = (segment.hidden, segment.name)
        if self._pipeline.claimed(claimed) is segment:
            self._pipeline.names[claimed] = None

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
        self._check_writable(len(batch.payload))
        if (refused := self._check(segment)) is not None:
            return refused
        if segment.sealed or segment.claimed_sealed:
            return self._pipeline.refuse(SegmentSealed(segment.name), settled=segment.sealed)
        if len(batch.payload) + 4 * len(batch.lengths) > REQUEST_BYTES_MAX:
            raise RequestTooLarge(f"{len(batch.payload)} bytes in one append, {REQUEST_BYTES_MAX} at most")
        if writer is not None:
            check_writer(writer)
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

    def append_for(
        self,
        waiter: Waiter,
        segment: Segment,
        batch: Batch,
        *,
        tag: int = 0,
        writer: bytes | None = None,
        expected: int = 0,
        level: int = 0,
    ) -> None:
        """Append records as `append` does, for those who do it most: `waiter` is told that they are on disk, not where.

        Nothing is told where this raises.
        """
        pipeline = self._pipeline
        claims = segment.claims
        if (
            segment.deleted
            or segment.sealed
            or (claims is not None and (claims.deleted or claims.sealed or claims.published))
            or not 0 < len(batch.payload) < _SMALL_BYTES
            or pipeline.hindered
            or (writer is not None and (level <= expected or segment.claimed_level(writer) != expected))
        ):
            appended = self.append(segment, batch, tag=tag, writer=writer, expected=expected, level=level)
            appended.addCallbacks(lambda _: waiter.callback(None), waiter.errback)
            return
        commit = pipeline.gathering
        if not commit.extend(segment, batch, tag):
            self._place(commit, segment, batch, tag)
        if writer is not None:
            self._raise_level(commit, segment, writer, level)
        pipeline.notify(waiter, None)

    def append_all(self, appends: Sequence[Append]) -> Deferred[list[Appended]]:
        """Append to several segments in one atomic frame: after a crash all of it is there, or none."""
        self._check_writable(sum(len(each.batch.payload) for each in appends))
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
            check_writer(each.writer)
            key = (each.segment, each.writer)
            stored = levels.get(key, each.segment.claimed_level(each.writer))
            try:
                fresh.append(compare(stored, each.expected, each.level, each.initial))
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

    def fan_out(
        self, segments: Iterable[Segment] | Mapping[Segment, int], batch: Batch, *, tag: int = 0
    ) -> Deferred[None]:
        """Append the same records to many segments. Their bytes are written once, and it is atomic.

        A segment that stands twice, or whose value in a mapping is 2, receives twice. RequestTooLarge where there are
        too many, see `streamd.store.fanout`.
        """
        self._check_writable(len(batch.payload))
        times = Counter(segments)
        for segment in times:
            if segment.claims is None and not (segment.deleted or segment.published or segment.sealed):
                # Mostly so, and there may be thousands.
                continue
            if (refused := self._check(segment)) is not None:
                return refused
            if segment.claimed_sealed:
                return self._pipeline.refuse(SegmentSealed(segment.name), settled=segment.sealed)
        if batch.size + 4 * batch.count > REQUEST_BYTES_MAX:
            raise RequestTooLarge(f"{batch.size} bytes in one append, {REQUEST_BYTES_MAX} at most")
        if not times or not batch.count:
            return self._pipeline.acknowledge(None, settled=True)
        parts = parts_of(batch, times)
        commit = self._pipeline.gathering
        taken = span(tag, batch.count, batch.size)
        for segment, often in times.items():
            commit.close_open(segment)
            segment.touched = commit.number
            segment.claim_more(often * batch.count, often * taken)
        commit.touched.update(times)
        for part in parts:
            payload = Entry(Kind.PAYLOAD, tag=tag)
            payload.add(part.batch)
            commit.add(payload)
            for ids in _ids(part.receivers):
                commit.add(Entry(Kind.FANOUT, count=len(ids), body=pack(f"<{len(ids)}Q", *ids)))
        return self._pipeline.wait(None)

    def broadcast(self, batch: Batch, *, without: Iterable[Segment] = (), tag: int = 0) -> Deferred[bool]:
        """Append the same records to all numbered segments that there are now, but for these and sealed ones.

        Their bytes are written once, it is atomic, and costs the same however many segments there are. Fires with
        whether any segment received them: where none does, nothing is stored.
        """
        self._check_writable(len(batch.payload))
        if batch.size + 4 * batch.count > REQUEST_BYTES_MAX:
            raise RequestTooLarge(f"{batch.size} bytes in one append, {REQUEST_BYTES_MAX} at most")
        left_out = [
            (each, each.next_number, each.next_offset)
            for each in dict.fromkeys(without)
            if isinstance(each, Numbered) and not each.claimed_sealed and not each.claimed_deleted
        ]
        if len(left_out) > ROWS_MAX:
            raise RequestTooLarge(f"{len(left_out)} segments to leave out at once, {ROWS_MAX} at most")
        if not batch.count or not self._has_receiver({segment for segment, _, _ in left_out}):
            return self._pipeline.acknowledge(False, settled=True)
        commit = self._pipeline.gathering
        broadcast = self._segments.broadcast
        if not broadcast.id:
            broadcast.id = commit.next_sequence
            commit.add(Entry(Kind.CREATE, broadcast.id, count=BROADCASTS, body=NUMBERED.encode()))
        before = (broadcast.next_number, broadcast.next_offset)
        commit.barrier(broadcast)
        self._place(commit, broadcast, batch, tag)
        for segment, number, offset in left_out:
            segment.next_number, segment.next_offset = number, offset
            commit.touched.add(segment)
            segment.touched = commit.number
        records, taken = broadcast.next_number - before[0], broadcast.next_offset - before[1]
        for ids in _ids([segment for segment, _, _ in left_out]):
            body = pack(f"<{len(ids)}Q", *ids)
            commit.add(Entry(Kind.LEFT_OUT, number=records, offset=taken, count=len(ids), body=body))
        return self._pipeline.wait(True)

    def _has_receiver(self, without: set[Numbered]) -> bool:
        """Whether any segment but these receives a broadcast; one whose creation is pending does."""
        pending = (each for each in self._pipeline.names.values() if isinstance(each, Numbered))
        return any(
            not segment.claimed_sealed and not segment.claimed_deleted and segment not in without
            for segment in chain(self._segments.receiving, pending)
        )

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
            for piece in pieces_of(batch):
                commit.append(segment, piece, tag)
                segment.next_number += piece.count
                segment.next_offset += span(tag, piece.count, piece.size)
        return place

    def _check_level(self, segment: Segment, writer: bytes, expected: int, level: int, initial: int) -> bool:
        return compare(segment.claimed_level(writer), expected, level, initial)

    def _raise_level(self, commit: Commit, segment: Segment, writer: bytes, level: int) -> None:
        segment.touched = commit.number
        commit.touched.add(segment)
        segment.claim().levels[writer] = level
        commit.level(segment, writer, level)

    def forget_level(self, segment: Segment, writer: bytes) -> Deferred[None]:
        """Drop the ack level of a writer, which is new to the segment from then on."""
        check_writer(writer)
        self._check_writable()
        if (refused := self._check(segment)) is not None:
            return refused
        self._raise_level(self._pipeline.gathering, segment, writer, FORGOTTEN)
        return self._pipeline.wait(None)

    def publish(self, parts: Sequence[tuple[Segment, Segment]], levels: Sequence[Level] = ()) -> Deferred[None]:
        """Make each (hidden segment, target) pair one: all of them, and the writers' ack levels, or nothing.

        The bytes are not written again, and it costs the same however many there are. Where every level is stored
        already this was done before: it is acknowledged again, and the hidden segments are deleted.
        """
        self._check_writable()
        fresh = []
        mismatch: StoreError | None = None
        for each in levels:
            check_writer(each.writer)
            if (refused := self._check(each.segment)) is not None:
                return refused
            try:
                fresh.append(compare(each.segment.claimed_level(each.writer), each.expected, each.level, each.initial))
            except StoreError as error:
                mismatch = error
        if any(fresh) and not all(fresh):
            mismatch = StoreError("some of the ack levels are stored already, others are not")
        if levels and not any(fresh) and mismatch is None:
            known = dict.fromkeys(source for source, _ in parts)
            left = [source for source in known if not source.claimed_deleted and not source.claimed_published]
            for source in left:
                self._delete(source)
            return self._pipeline.wait(None) if left else self._pipeline.acknowledge(None, settled=False)
        for source, target in parts:
            for segment in (source, target):
                if (refused := self._check(segment)) is not None:
                    return refused
            if target.hidden or not source.hidden or source.claimed_sealed or source.claimed_first_number:
                raise StoreError(f"segment {source.name!r} can't be published into {target.name!r}")
            if target.claimed_sealed:
                return self._pipeline.refuse(SegmentSealed(target.name), settled=target.sealed)
        if len({source for source, _ in parts}) < len(parts):
            raise StoreError("a hidden segment can be published once")
        if mismatch is not None:
            return self._pipeline.refuse(mismatch, settled=False)
        commit = self._pipeline.gathering
        for source, target in parts:
            commit.close_open(target)
            commit.touched |= {source, target}
            source.touched = target.touched = commit.number
            source.claim().published = True
            self._free_name(source)
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

    def _check_writable(self, size: int = 0) -> None:
        """Raise StoreReadOnly where nothing is appended now; `size` is what that costs the caller."""
        if self._pipeline.closing:
            raise StoreReadOnly("the store is closing")
        self._pipeline.check_room(size)

    def _check(self, segment: Segment) -> Deferred[Any] | None:
        """Refuse where the segment is gone, or will be once what is pending is on disk."""
        if self._pipeline.closing:
            raise StoreReadOnly("the store is closing")
        if segment.claimed_deleted or segment.claimed_published:
            # Who deleted a published segment would take its records from the target.
            settled = segment.deleted or segment.published
            return self._pipeline.refuse(NoSuchSegment(segment.name), settled=settled)
        return None


def _ids(segments: Sequence[Segment]) -> Iterator[list[int]]:
    """The ids of segments, as many at a time as an entry names."""
    for first in range(0, len(segments), _IDS_MAX):
        yield [segment.id for segment in segments[first : first + _IDS_MAX]]
