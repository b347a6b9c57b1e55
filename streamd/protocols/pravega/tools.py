"""The messages for tools, on Pravega's port: what they do to the store, and what is answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.python.failure import Failure

from streamd.access.permits import ADMIN, READ, VISIBLE, WRITE, NotAllowed, right_words
from streamd.connections.core import Core
from streamd.connections.order import Ordered
from streamd.connections.slots import Reply
from streamd.groups import Groups
from streamd.interfaces import RequestError
from streamd.patterns import matcher
from streamd.protocols.pravega.places import Places
from streamd.protocols.pravega.work import WORK, GroupBusy, Work
from streamd.store import (
    BadName,
    Level,
    LevelMismatch,
    NoSuchSegment,
    ReadFailed,
    RecordsTruncated,
    RequestTooLarge,
    Run,
    Segment,
    SegmentExists,
    SegmentSealed,
    StoreError,
    StoreReadOnly,
)
from streamd.store.records.offsets import EVENT_HEADER_BYTES
from streamd.store.segments.segment import info
from streamd.wire import TooLarge
from streamd.wire import tools as storage
from streamd.wire.fields import Message, to_bytes
from streamd.wire.pravega.documented import in_parts
from streamd.wire.tools import RECORDS_MAX, SPLIT_MAX, Code, Existing
from streamd.wire.work import ListGroups

READ_BYTES_MAX: Final = 2 << 20
"""One read is answered with at most so much, unless the first record alone is larger."""

# Segments that are looked at for one answer, and that are in it, about.
_LISTED_MAX: Final = 10_000
_PAGE_SEGMENTS: Final = 1000

# Segments that are looked at in one step: others have their turns between.
_SEGMENTS_AT_ONCE: Final = 50

# No name is longer.
_PATTERN_CHARACTERS_MAX: Final = 255

_APPENDER: Final = b"hidden segments\0"
"""The writer of a hidden segment. Its ack level counts the records, so that an append that comes again is known."""
assert len(_APPENDER) == 16

_Stepwise = Generator[None, None, Reply]
"""An action that gives its reply after some steps."""

T = TypeVar("T")

_CODES: Final[tuple[tuple[type[RequestError], Code], ...]] = (
    (NoSuchSegment, Code.NO_SUCH_SEGMENT),
    (SegmentExists, Code.SEGMENT_EXISTS),
    (SegmentSealed, Code.SEGMENT_SEALED),
    (RecordsTruncated, Code.RECORDS_TRUNCATED),
    (BadName, Code.BAD_NAME),
    (LevelMismatch, Code.LEVEL_MISMATCH),
    (StoreReadOnly, Code.READ_ONLY),
    (ReadFailed, Code.READ_FAILED),
    (RequestTooLarge, Code.TOO_LARGE),
    (NotAllowed, Code.NOT_ALLOWED),
    (GroupBusy, Code.GROUP_BUSY),
)


class Unseen(NoSuchSegment):
    """It is there, and this peer may not know of it: so it is told, and counted as what it is."""

    reason = NotAllowed.reason


class RecordTooLarge(RequestTooLarge):
    """A record that is larger than a message may be."""

    reason = TooLarge.reason


class Storage:
    """Carries out the messages for tools, as far as the peer may.

    A hidden segment goes by its name like any other: who may write to a topic of that name may do all with it.
    """

    def __init__(self, core: Core, peer: Ordered) -> None:
        self._core = core
        self._store = core.store
        self._peer = peer
        self.work = Work(core, peer, self._visible)
        self._places = Places(core, peer)

    def perform(self, request: Any, bytes_max: int) -> Reply:
        """Do what is asked; an answer has about `bytes_max` bytes at most."""
        if isinstance(request, storage.ReadRecords):
            return self._read(request, bytes_max)
        if isinstance(request, ListGroups):
            return self._peer.in_steps(request, self.work.list_groups(request))
        if (action_of_work := WORK.get(type(request))) is not None:
            return action_of_work(self.work, request)
        action = _STEPWISE.get(type(request))
        if action is not None:
            return self._peer.in_steps(request, action(self, request))
        return _ACTIONS[type(request)](self, request)

    def refused(self, request: Message, error: RequestError) -> bytes:
        """The reply to what the store refuses."""
        code = next((code for kind, code in _CODES if isinstance(error, kind)), Code.BAD_REQUEST)
        number = offset = 0
        if isinstance(error, RecordsTruncated):
            number, offset = error.first_number, error.first_offset
        elif isinstance(error, LevelMismatch):
            number = error.stored or 0
        # A name may be all there is to say, and a name can be long.
        text = str(error)
        if isinstance(error, NotAllowed) and error.right:
            words = " or ".join(right_words(error.right))
            text = f"you are taken for {self._peer.who()}, and no rule allows that to {words} {text}"
        return to_bytes(storage.Refusal(request.id, code, number, offset, text[:1000]))

    def _visible(self, id: int, right: int) -> Segment:
        segment = self._store.find_id(id)
        if segment.hidden:
            raise NoSuchSegment(f"segment {id}")
        return self._allowed(segment, right)

    def _hidden(self, id: int) -> Segment:
        segment = self._allowed(self._store.find_id(id), WRITE)
        if not segment.hidden:
            raise StoreError(f"segment {id} is not hidden")
        return segment

    def _allowed(self, segment: Segment, right: int) -> Segment:
        """The segment, where the peer may. Ids are easily guessed, so who may nothing is not even told its name."""
        try:
            self._peer.allow(right, segment.name)
        except NotAllowed as error:
            if self._knows(segment):
                raise
            raise Unseen(f"segment {segment.id}") from error
        return segment

    def _knows(self, segment: Segment) -> bool:
        permits = self._peer.permits
        return permits.is_open or bool(permits.rights(segment.name) & VISIBLE)

    # -- what there is -------------------------------------------------------------------------------------------------

    def _list(self, request: storage.ListSegments) -> _Stepwise:
        if len(request.pattern) > _PATTERN_CHARACTERS_MAX:
            raise StoreError(f"a pattern has at most {_PATTERN_CHARACTERS_MAX} characters")
        fits, sight = matcher(request.pattern), self._peer.permits.sight()
        rows: list[bytes] = []
        after = request.after
        for _ in range(_LISTED_MAX // _SEGMENTS_AT_ONCE):
            # Hidden ones, and that of what is broadcast, are looked at too and never listed.
            looked_at, after = self._store.following(after, _SEGMENTS_AT_ONCE)
            rows += [
                storage.encoded_row(info(segment))
                for segment in looked_at
                if not segment.hidden and fits(segment.name) and (sight is None or sight(segment.name))
            ]
            if not after or len(rows) >= _PAGE_SEGMENTS:
                break
            yield
        return to_bytes(storage.EncodedSegments(request.id, rows, after))

    def _named(self, request: storage.NameSegments) -> _Stepwise:
        rows: list[bytes] = []
        for some in _pieces(request.names):
            for name in some:
                with suppress(NoSuchSegment):
                    segment = self._store.find(name)
                    if self._knows(segment):
                        rows.append(storage.encoded_row(info(segment)))
            yield
        return to_bytes(storage.EncodedSegments(request.id, rows, 0))

    def _describe(self, request: storage.DescribeSegment) -> bytes:
        segment = self._store.find_id(request.segment)
        return _described(request, [self._allowed(segment, WRITE if segment.hidden else VISIBLE)])

    # -- records -------------------------------------------------------------------------------------------------------

    def _read(self, request: storage.ReadRecords, bytes_max: int) -> Deferred[bytes]:
        segment = self._visible(request.segment, READ)
        found = self._peer.read(
            segment,
            request.number,
            bytes_max=max(1, min(request.bytes_max, READ_BYTES_MAX, bytes_max)),
            records_max=max(1, min(request.records_max, RECORDS_MAX)),
        )
        return found.addCallback(self._told, segment, request)

    def _told(self, found: list[Run], segment: Segment, request: storage.ReadRecords) -> bytes:
        self._peer.traffic.read(sum([run.batch.count for run in found]), sum([run.batch.size for run in found]))
        read = storage.RecordsRead(request.id, segment.first_number, segment.number, tuple(found))
        return in_parts(to_bytes(read))

    def _find(self, request: storage.FindRecord) -> Deferred[bytes]:
        segment = self._visible(request.segment, READ)
        return Deferred.fromCoroutine(self._places.find(segment, request.by, request.place)).addCallback(
            lambda place: to_bytes(storage.RecordFound(request.id, *place))
        )

    def _split(self, request: storage.SplitRecords) -> Deferred[bytes]:
        segment = self._visible(request.segment, READ)
        if request.parts > SPLIT_MAX:
            raise RequestTooLarge(f"{request.parts} parts, {SPLIT_MAX} at most")
        return Deferred.fromCoroutine(
            self._places.split(segment, request.first, request.end, request.parts)
        ).addCallback(lambda points: to_bytes(storage.SplitPoints(request.id, points)))

    # -- changes -------------------------------------------------------------------------------------------------------

    def _make(self, request: storage.MakeSegment) -> Deferred[bytes]:
        def made(segment: Segment) -> bytes:
            return _described(request, [segment])

        def exists(failure: Failure) -> bytes:
            failure.trap(SegmentExists)
            find = self._store.find_hidden if request.hidden else self._store.find
            return made(find(request.name))

        self._allow_make(request)
        if request.existing not in (Existing.REFUSED, Existing.TAKEN, Existing.REPLACED):
            raise StoreError(f"{request.existing} is nothing that can become of a segment")
        if request.existing == Existing.REPLACED:
            if not request.hidden:
                raise StoreError("only a hidden segment can be replaced")
            with suppress(NoSuchSegment):
                # Where this fails, what follows it fails too, and says so.
                old = self._store.find_hidden(request.name)
                self._store.delete(old).addErrback(lambda failure: failure.trap(StoreError))
        done = maybeDeferred(self._store.create, request.name, hidden=request.hidden).addCallback(made)
        return done.addErrback(exists) if request.existing == Existing.TAKEN else done

    def _allow_make(self, request: storage.MakeSegment) -> None:
        if request.hidden:
            self._peer.allow(WRITE, request.name)
        elif request.existing == Existing.TAKEN and self._store.find_claimed(request.name) is not None:
            self._peer.allow(VISIBLE, request.name)
        else:
            self._peer.allow_create(request.name)

    def _append(self, request: storage.AppendRecords) -> Reply:
        segment = self._hidden(request.segment)
        batch = request.batch
        largest = max(batch.lengths, default=0)
        if largest > self._core.limits.message_bytes_max:
            limit = self._core.limits.message_bytes_max
            raise RecordTooLarge(f"a record of {largest} bytes is over the limit of {limit}")
        level = request.number + batch.count
        if level >= 1 << 63:
            raise StoreError(f"no segment has {request.number} records")
        if level > (segment.claimed_level(_APPENDER) or 0):
            # Else it is stored already, and takes no more room.
            self._peer.allow_write(segment, batch)
        done = self._store.append(segment, batch, writer=_APPENDER, expected=request.number, level=level)
        return done, to_bytes(storage.RecordsAppended(request.id, level))

    def _publish(self, request: storage.PublishSegments) -> _Stepwise:
        parts: list[tuple[Segment, Segment]] = []
        missing: NoSuchSegment | None = None
        for some in _pieces(request.parts):
            for part in some:
                try:
                    parts.append((self._hidden(part.hidden), self._visible(part.target, WRITE)))
                except NoSuchSegment as error:
                    missing = missing or error
            yield
        levels = [Level(self._visible(each.segment, WRITE), *each[1:]) for each in request.levels]
        stored = [each.segment.claimed_level(each.writer) for each in levels]
        again = bool(levels) and all(
            have is not None and have >= each.level for have, each in zip(stored, levels, strict=True)
        )
        if missing is not None and not again:
            # Else: what was published is no hidden segment any more, and who did it may not know that it is done.
            raise missing
        if not again:
            self._allow_together(parts)
        records = sum([hidden.next_number for hidden, _ in parts])
        size = sum([hidden.next_offset for hidden, _ in parts]) - EVENT_HEADER_BYTES * records
        published = self._store.publish(parts, levels)
        if not again:
            published.addCallback(lambda _: self._peer.traffic.published(records, size))
        return published, to_bytes(storage.SegmentsPublished(request.id, again))

    def _allow_together(self, parts: Sequence[tuple[Segment, Segment]]) -> None:
        """Raise NotAllowed where the parts of a publication would take a target over the limit of the peer's rule."""
        if self._peer.permits.is_open:
            return
        added: Counter[Segment] = Counter()
        for hidden, target in parts:
            added[target] += hidden.next_offset
        for target, size in added.items():
            self._peer.allow_more(target, size)

    def _delete(self, request: storage.DeleteHidden) -> _Stepwise:
        found: dict[Segment, None] = {}
        for ids in _pieces(request.segments):
            for id in ids:
                try:
                    found[self._hidden(id)] = None
                except Unseen as error:
                    self._peer.note(error)
                except NoSuchSegment:
                    pass
            yield
        steps: list[Deferred[Any]] = []
        count = 0
        for some in _pieces(list(found)):
            deleted: list[Deferred[Any]] = []
            for segment in some:
                # One that somebody has just deleted or published counts for them, and is waited for.
                count += not segment.claimed_deleted and not segment.claimed_published
                with suppress(NoSuchSegment):
                    deleted.append(self._store.delete(segment).addErrback(_is_gone))
            steps.append(gatherResults(deleted, consumeErrors=True).addErrback(_first_failure))
            yield
        reply = to_bytes(storage.HiddenDeleted(request.id, count))
        return gatherResults(steps, consumeErrors=True).addErrback(_first_failure), reply

    def _set_group(self, request: storage.SetGroup) -> Reply:
        segment = self._visible(request.segment, READ | ADMIN)
        if not self._peer.permits.may_move(segment.name, request.group):
            raise NotAllowed(segment.name, ADMIN)
        done = Groups.of(self._core).move(segment, request.group, request.position)
        # Told from here: when it is on disk, so may be a later position that came in the same commit.
        position = max(request.position, segment.claimed_first_number)
        return done, to_bytes(storage.GroupPosition(request.id, True, position))

    def _get_group(self, request: storage.GetGroup) -> bytes:
        segment = self._visible(request.segment, READ)
        group = (segment.groups or {}).get(request.group)
        position = 0 if group is None else group.position
        return to_bytes(storage.GroupPosition(request.id, group is not None, position))

    def _get_level(self, request: storage.GetLevel) -> bytes:
        level = (self._visible(request.segment, VISIBLE).levels or {}).get(request.writer)
        return to_bytes(storage.LevelFound(request.id, level is not None, level or 0))


def _described(request: Message, segments: Sequence[Segment], after: int = 0) -> bytes:
    return to_bytes(storage.Segments(request.id, tuple(map(info, segments)), after))


def _is_gone(failure: Failure) -> None:
    """It is as it should be, by somebody else's doing."""
    failure.trap(NoSuchSegment)


def _first_failure(failure: Failure) -> Failure:
    return failure.value.subFailure  # type: ignore[no-any-return, union-attr]


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many of them as may be looked at in one step."""
    for first in range(0, len(items), _SEGMENTS_AT_ONCE):
        yield items[first : first + _SEGMENTS_AT_ONCE]


_STEPWISE: Final[dict[type, Callable[[Storage, Any], _Stepwise]]] = {
    storage.ListSegments: Storage._list,
    storage.NameSegments: Storage._named,
    storage.PublishSegments: Storage._publish,
    storage.DeleteHidden: Storage._delete,
}
"""What names, or looks at, many segments."""

_ACTIONS: Final[dict[type, Callable[[Storage, Any], Reply]]] = {
    storage.DescribeSegment: Storage._describe,
    storage.FindRecord: Storage._find,
    storage.SplitRecords: Storage._split,
    storage.MakeSegment: Storage._make,
    storage.AppendRecords: Storage._append,
    storage.GetGroup: Storage._get_group,
    storage.SetGroup: Storage._set_group,
    storage.GetLevel: Storage._get_level,
}
