"""Pravega as it is spoken today: what its messages do to the store, and what is answered.

Each append is a compare-and-set on (segment, writer): its bytes and the number of the writer's last event are one
atomic frame. Segments of transactions, and transient ones, are hidden segments, which a merge publishes by reference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred

from streamd.access.permits import ADMIN, READ, VISIBLE, WRITE, NotAllowed
from streamd.connections.base import Reply
from streamd.connections.core import Core
from streamd.interfaces import RequestError
from streamd.protocols.pravega.names import (
    HEAD,
    attribute_key,
    check_no_table,
    find,
    head_of,
    merge_id,
    parent_of,
    transient_name,
)
from streamd.protocols.pravega.reading import TailReading
from streamd.protocols.pravega.table_requests import TableRequests
from streamd.protocols.pravega.writers import Writers
from streamd.store import (
    BadName,
    Level,
    NoSuchSegment,
    RecordsTruncated,
    Segment,
    SegmentExists,
    SegmentSealed,
    Store,
    StoreError,
)
from streamd.store.errors import level_of
from streamd.store.records.offsets import TAG_RAW, span
from streamd.wire.pravega import replies
from streamd.wire.pravega import today as wire
from streamd.wire.pravega.appends import Append
from streamd.wire.pravega.today import NEVER

# Writers that may share one connection.
_WRITERS_MAX: Final = 10_000

_VERSIONS: Final = range(wire.VERSION_LOW, wire.VERSION_HIGH + 1)

# How an attribute changes with a merge.
_NONE, _REPLACE, _IF_GREATER, _ADD, _IF_EQUAL = range(5)


class _SetUp:
    """A writer on this connection: its segment, and the number of its last event."""

    __slots__ = ("name", "number", "segment")

    def __init__(self, segment: Segment, name: str, number: int) -> None:
        self.segment = segment
        self.name = name
        self.number = number


class AttributeConflict(StoreError):
    """An attribute that a merge is to change has another value than expected."""


class Today:
    """Carries out the requests of one connection."""

    def __init__(self, core: Core, peer: TailReading) -> None:
        self._core = core
        self._store: Store = core.store
        self._peer = peer
        self._set_up: dict[bytes, _SetUp] = {}
        self._writers = Writers.of(core)
        self._tables = TableRequests(core, peer)

    def perform(self, request: Any) -> Reply:
        """Do what is asked."""
        action = _ACTIONS.get(type(request))
        return self._tables.perform(request) if action is None else action(self, request)

    def refused(self, request: Any, error: RequestError) -> bytes | None:
        """The reply to what the store refuses; None, and the end of the connection, where there is none."""
        if isinstance(request, Append):
            writer = self._set_up.get(request.writer)
            name = "" if writer is None else writer.name
        else:
            name = request.name
        id = request.id
        if isinstance(error, NotAllowed):
            return replies.not_allowed(id)
        if isinstance(error, NoSuchSegment):
            return replies.no_such_segment(id, name)
        if isinstance(error, SegmentSealed):
            return replies.sealed(id, name, -1)
        if isinstance(error, SegmentExists):
            return replies.exists(id, name)
        if isinstance(error, RecordsTruncated):
            return replies.truncated(id, name, error.first_offset, getattr(request, "offset", -1))
        if isinstance(request, Append):
            # What follows builds on it. The client comes again, and is told how far it is.
            self._peer.give_up(str(error), level_of(error))
            return None
        return replies.error_message(id, name, str(error))

    def lost(self) -> None:
        """The connection is gone."""
        for id, writer in self._set_up.items():
            self._writers.left(writer.segment, id)
        self._set_up.clear()

    def _hello(self, request: wire.Hello) -> Reply:
        if request.low > wire.VERSION_HIGH or request.high < wire.VERSION_LOW:
            self._peer.give_up(f"speaks versions {request.low} to {request.high} of Pravega's protocol")
        return wire.encode(wire.Hello(_VERSIONS[-1], _VERSIONS[0]))

    # -- appending -----------------------------------------------------------------------------------------------------

    def _setup(self, request: wire.SetupAppend) -> Reply:
        if len(self._set_up) >= _WRITERS_MAX and request.writer not in self._set_up:
            self._peer.give_up(f"more than {_WRITERS_MAX} writers on one connection")
            return None
        self._peer.allow(WRITE, parent_of(request.name))
        segment = check_no_table(find(self._store, request.name))
        if segment.sealed:
            raise SegmentSealed(segment.name)
        known = self._set_up.get(request.writer)
        if known is not None:
            self._writers.left(known.segment, request.writer)
        level = segment.claimed_level(request.writer)
        number = NEVER if level is None else level
        self._set_up[request.writer] = _SetUp(segment, request.name, number)
        self._writers.joined(segment, request.writer)
        return wire.encode(replies.AppendSetup(request.id, request.name, request.writer, number))

    def _append(self, request: Append) -> Reply:
        writer = self._set_up.get(request.writer)
        if writer is None:
            self._peer.give_up("an append without a setup")
            return None
        segment, batch = writer.segment, request.batch
        self._peer.allow(WRITE, parent_of(segment.name))
        if segment.deleted or segment.claimed_published:
            raise NoSuchSegment(segment.name)
        stored = segment.claimed_level(request.writer)
        if request.number <= writer.number or (NEVER if stored is None else stored) != writer.number:
            # Another connection has this writer's id, or the client counts wrongly.
            self._peer.give_up(f"event {request.number} of a writer whose last one is {stored}")
            return replies.invalid_event_number(request.writer, request.id, request.number)
        if request.offset is not None and request.offset != segment.next_offset and not segment.claimed_sealed:
            return wire.encode(replies.ConditionalCheckFailed(request.writer, request.number, request.id))
        tag = TAG_RAW if request.is_raw else 0
        self._peer.allow_write(segment, batch, tag)
        previous, writer.number = writer.number, request.number
        end = segment.next_offset + span(tag, batch.count, batch.size)
        appended = replies.DataAppended(request.writer, request.number, previous, request.id, end)
        slot = self._peer.promise(wire.encode(appended), batch)
        compared = {"tag": tag, "writer": request.writer, "expected": previous, "level": request.number}
        try:
            if stored is None:
                first = self._store.append(segment, batch, initial=NEVER, **compared)  # type: ignore[arg-type]
                first.addCallbacks(slot.callback, slot.errback)
            else:
                self._store.append_for(slot, segment, batch, **compared)  # type: ignore[arg-type]
        except RequestError:
            writer.number = previous
            raise
        return slot

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, request: wire.ReadSegment) -> Reply:
        return self._peer.read_tail(
            request, request.name, lambda at_tail, at_end, data: replies.segment_read(request, at_tail, at_end, data)
        )

    def _info(self, request: wire.GetStreamSegmentInfo) -> Reply:
        segment = self._visible(request.name)
        return wire.encode(
            replies.SegmentInfo(
                request.id,
                request.name,
                exists=True,
                is_sealed=segment.sealed,
                is_deleted=False,
                modified=segment.modified // 1000,
                end=segment.offset,
                start=head_of(segment),
            )
        )

    def _locate(self, request: wire.LocateOffset) -> Reply:
        self._peer.allow(READ, parent_of(request.name))
        segment = find(self._store, request.name)
        if not head_of(segment) <= request.offset < segment.offset:
            place = max(head_of(segment), min(request.offset, segment.offset))
            return replies.located(request.id, request.name, place)

        def begins(runs: list[Any]) -> bytes:
            run = runs[0]
            # The record holds the offset: where it does not begin there, the next one is behind it.
            size = 0 if run.offset == request.offset else span(run.tag, 1, run.batch.lengths[0])
            return replies.located(request.id, request.name, run.offset + size)

        return self._peer.read_at(segment, request.offset, bytes_max=1).addCallback(begins)

    def _visible(self, name: str) -> Segment:
        self._peer.allow(VISIBLE, parent_of(name))
        return find(self._store, name)

    # -- segments ------------------------------------------------------------------------------------------------------

    def _create(self, request: wire.CreateSegment) -> Reply:
        if parent_of(request.name) != request.name:
            raise BadName(f"{request.name!r} is the name of a part of a transaction")
        self._peer.allow_create(request.name)
        return self._store.create(request.name), wire.named(replies.SEGMENT_CREATED, request.id, request.name)

    def _create_transient(self, request: wire.CreateTransientSegment) -> Reply:
        self._peer.allow(WRITE, parent_of(request.name))
        check_no_table(self._store.find(request.name))
        # Of our choice, and not made of the writer's: a writer whose last attempt was cut off begins anew.
        name = transient_name(request.name, os.urandom(16))
        return self._store.create(name, hidden=True), wire.named(replies.SEGMENT_CREATED, request.id, name)

    def _seal(self, request: wire.SealSegment) -> Reply:
        return self._store.seal(self._administered(request.name)), self._done(request)

    def _delete(self, request: wire.DeleteSegment) -> Reply:
        return self._store.delete(self._administered(request.name)), self._done(request)

    def _truncate(self, request: wire.TruncateSegment) -> Reply:
        segment = self._administered(request.name)
        return truncate(self._store, segment, request.offset).addCallback(lambda _: self._done(request))

    def _policy(self, request: wire.UpdateSegmentPolicy) -> Reply:
        self._administered(request.name)
        return self._done(request)

    def _administered(self, name: str) -> Segment:
        self._peer.allow(ADMIN if parent_of(name) == name else WRITE, parent_of(name))
        return check_no_table(find(self._store, name))

    def _done(self, request: Any) -> bytes:
        return wire.named(replies.DONE[type(request)], request.id, request.name)

    def _merge(self, request: wire.MergeSegments) -> Reply:
        name, source_name = request.name, request.source
        self._peer.allow(WRITE, parent_of(name))
        target = check_no_table(self._store.find(name))
        note = merge_id(source_name)
        if note is None:
            raise BadName(f"{source_name!r} can't be merged into another segment")
        before = target.claimed_level(note)
        if before is not None:
            # It was merged already: the level is the length that the segment had then, and one more.
            return self._again(request, before - 1)
        source = self._store.find_hidden(source_name)
        self._peer.allow_more(target, source.next_offset)
        changes = [(attribute_key(each.attribute), self._changed(target, each)) for each in request.updates]
        length = target.next_offset + source.next_offset
        with self._store.together():
            merged = self._store.publish([(source, target)], [Level(target, note, 0, length + 1)])
            for key, value in changes:
                # It fails with the publication, which is waited for.
                self._store.set_attribute(target, key, value).addErrback(lambda failure: failure.trap(StoreError))
        return merged, replies.merged(request.id, name, source_name, length)

    def _again(self, request: wire.MergeSegments, length: int) -> Reply:
        """The answer to a merge that was done before, when that is on disk."""
        reply = replies.merged(request.id, request.name, request.source, length)
        return self._store.publish([], [Level(self._store.find(request.name), self._note(request), 0, 1)]), reply

    def _note(self, request: wire.MergeSegments) -> bytes:
        note = merge_id(request.source)
        assert note is not None
        return note

    # -- attributes ----------------------------------------------------------------------------------------------------

    def _get_attribute(self, request: wire.GetAttribute) -> Reply:
        return replies.attribute(request.id, _attribute(self._visible(request.name), request.attribute))

    def _update_attribute(self, request: wire.UpdateAttribute) -> Reply:
        self._peer.allow(WRITE, parent_of(request.name))
        segment = check_no_table(find(self._store, request.name))
        key = attribute_key(request.attribute)
        stored = segment.claimed_attribute(key)
        if (NEVER if stored is None else int.from_bytes(stored, signed=True)) != request.expected:
            return replies.attribute_updated(request.id, False)
        value = None if request.value == NEVER else request.value.to_bytes(8, signed=True)
        return self._store.set_attribute(segment, key, value), replies.attribute_updated(request.id, True)

    def _changed(self, segment: Segment, update: wire.AttributeUpdate) -> bytes:
        """The value of an attribute after an update; AttributeConflict where its condition does not hold."""
        stored = segment.claimed_attribute(attribute_key(update.attribute))
        value = NEVER if stored is None else int.from_bytes(stored, signed=True)
        fails = (
            (update.type == _NONE and stored is not None)
            or (update.type == _IF_GREATER and update.value <= value)
            or (update.type == _IF_EQUAL and update.expected != value)
        )
        if fails or update.type > _IF_EQUAL:
            raise AttributeConflict(f"attribute {update.attribute.hex()} is {value}")
        total = update.value + (0 if stored is None else value) if update.type == _ADD else update.value
        if not NEVER <= total < 1 << 63:
            raise AttributeConflict(f"attribute {update.attribute.hex()} would be {total}")
        return total.to_bytes(8, signed=True)


def _attribute(segment: Segment, id: bytes) -> int:
    """One of Pravega's attributes; that of a writer is the number of its last event."""
    stored = (segment.attributes or {}).get(attribute_key(id))
    return (segment.levels or {}).get(id, NEVER) if stored is None else int.from_bytes(stored, signed=True)


def truncate(store: Store, segment: Segment, offset: int) -> Deferred[None]:
    """Drop the bytes below an offset. Records go whole: where it lies inside one, the offset itself is kept beside."""
    return Deferred.fromCoroutine(_truncate(store, segment, offset))


async def _truncate(store: Store, segment: Segment, offset: int) -> None:
    if offset > segment.offset:
        raise StoreError(f"{segment.name!r} ends at {segment.offset}, before {offset}")
    if offset <= head_of(segment):
        return
    if offset == segment.offset:
        await store.truncate(segment, segment.number)
        return
    (run, *_) = await store.read_at(segment, offset, bytes_max=1)
    with store.together():
        done = store.truncate(segment, run.number, run.offset)
        if run.offset < offset:
            done = store.set_attribute(segment, HEAD, offset.to_bytes(8))
    await done


_ACTIONS: Final[dict[type, Callable[[Today, Any], Reply]]] = {
    wire.Hello: Today._hello,
    wire.SetupAppend: Today._setup,
    Append: Today._append,
    wire.ReadSegment: Today._read,
    wire.GetStreamSegmentInfo: Today._info,
    wire.LocateOffset: Today._locate,
    wire.CreateSegment: Today._create,
    wire.CreateTransientSegment: Today._create_transient,
    wire.SealSegment: Today._seal,
    wire.DeleteSegment: Today._delete,
    wire.TruncateSegment: Today._truncate,
    wire.UpdateSegmentPolicy: Today._policy,
    wire.MergeSegments: Today._merge,
    wire.GetAttribute: Today._get_attribute,
    wire.UpdateAttribute: Today._update_attribute,
}
