"""Calls about scopes and streams. Streams have the number of segments that they were made with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from twisted.internet.defer import Deferred, gatherResults
from twisted.python.failure import Failure

from streamd.access.permits import ADMIN, READ, VISIBLE, NotAllowed
from streamd.connections.order import Ordered
from streamd.controller.state import Scope, State, Stream
from streamd.protocols.pravega.names import head_of, segment_name
from streamd.protocols.pravega.today import truncate
from streamd.store import NoSuchSegment, Segment, SegmentExists, Store, StoreError
from streamd.wire.controller import messages as wire

# Scopes or streams in one answer.
_PAGE: Final = 1000

# A scope and a stream together: with what follows in the name of a transaction's segment they are a segment's name.
_NAME_BYTES_MAX: Final = 190

# Pravega's own names begin with an underscore.
_NAME: Final = re.compile(r"_?[\w.\-]+")

# The answers to most calls; each call has its own words for them.
SUCCESS: Final = wire.Status(0)
FAILURE: Final = wire.Status(1)


class Streams:
    """Carries out calls about scopes and streams, as far as the peer may."""

    def __init__(self, store: Store, state: State, segments_max: int) -> None:
        self._store = store
        self._state = state
        self._segments_max = segments_max

    # -- scopes --------------------------------------------------------------------------------------------------------

    def create_scope(self, peer: Ordered, call: wire.ScopeInfo) -> Any:
        """Answers 2 where it exists, 3 where it can't be called that."""
        if not _NAME.fullmatch(call.scope):
            return wire.Status(3)
        peer.allow_create(f"{call.scope}/")
        if call.scope in self._state.scopes:
            return wire.Status(2)
        return _then(self._state.put_scope(call.scope, Scope(self._state.next_order())), SUCCESS)

    def delete_scope(self, peer: Ordered, call: wire.ScopeInfo) -> Any:
        """Answers 2 where it does not exist, 3 where it has streams."""
        peer.allow(ADMIN, f"{call.scope}/")
        if call.scope not in self._state.scopes:
            return wire.Status(2)
        if self._state.streams[call.scope]:
            return wire.Status(3)
        return _then(self._state.put_scope(call.scope, None), SUCCESS)

    def scope_exists(self, peer: Ordered, call: wire.ScopeInfo) -> Any:
        """Answers 1 or 0."""
        return wire.Status(int(call.scope in self._state.scopes and self._sees_scope(peer, call.scope)))

    def list_scopes(self, peer: Ordered, call: wire.ScopesRequest) -> Any:
        """Those that the peer may know of, in the order of their creation."""
        seen = (name for name, _ in _after(self._state.scopes, call.token) if self._sees_scope(peer, name))
        names = tuple(islice(seen, _PAGE))
        return wire.Scopes(names, _next(call.token, [self._state.scopes[name] for name in names]))

    def _sees_scope(self, peer: Ordered, scope: str) -> bool:
        permits = peer.permits
        return (
            permits.is_open
            or bool(permits.rights(f"{scope}/") & VISIBLE)
            or any(self._sees(peer, scope, stream) for stream in self._state.streams[scope])
        )

    # -- streams -------------------------------------------------------------------------------------------------------

    def create_stream(self, peer: Ordered, call: wire.StreamConfig) -> Any:
        """Answers 2 where it exists, 3 where its scope does not, 4 where it can't be called that."""
        scope, name = call.stream.scope, call.stream.stream
        if scope not in self._state.scopes:
            return wire.Status(3)
        count = max(1, call.scaling.segments if call.scaling is not None else 1)
        if not _NAME.fullmatch(name) or len(f"{scope}/{name}".encode()) > _NAME_BYTES_MAX:
            return wire.Status(4)
        if self._state.find(scope, name) is not None:
            return wire.Status(2)
        if count > self._segments_max:
            raise StoreError(f"a stream has at most {self._segments_max} segments, not {count}")
        segments = [segment_name(scope, name, id) for id in range(count)]
        for segment in segments:
            peer.allow_create(segment)
        stream = Stream(self._state.next_order(), count, 0, replace(call, stream=wire.StreamInfo(scope, name)))
        with self._store.together():
            done = self._state.put_stream(scope, name, stream)
            made = [self._made(segment) for segment in segments]
        return _then(_all([done, *made]), SUCCESS)

    def _made(self, name: str) -> Deferred[Any]:
        """A segment for a stream. One that is there already, since somebody wrote to that topic, is taken."""
        try:
            return self._store.create(name).addErrback(_trap, SegmentExists)
        except SegmentExists:
            return gatherResults([])

    def update_stream(self, peer: Ordered, call: wire.StreamConfig) -> Any:
        """Answers 2 where there is no such stream. The number of its segments stays what it is."""
        scope, name = call.stream.scope, call.stream.stream
        stream = self._administered(peer, call.stream)
        if stream is None:
            return wire.Status(2)
        config = replace(call, stream=wire.StreamInfo(scope, name))
        return _then(self._state.put_stream(scope, name, replace(stream, config=config)), SUCCESS)

    def configuration(self, peer: Ordered, call: wire.StreamInfo) -> Any:
        """How a stream is configured."""
        return self._known(peer, call).config

    def seal_stream(self, peer: Ordered, call: wire.StreamInfo) -> Any:
        """Answers 2 where there is no such stream."""
        stream = self._administered(peer, call)
        if stream is None:
            return wire.Status(2)
        with self._store.together():
            done = self._state.put_stream(call.scope, call.stream, replace(stream, is_sealed=1))
            sealed = [self._store.seal(segment) for segment in self._segments(call)]
        return _then(_all([done, *sealed]), SUCCESS)

    def delete_stream(self, peer: Ordered, call: wire.StreamInfo) -> Any:
        """Answers 2 where there is no such stream, 3 where it is not sealed."""
        stream = self._administered(peer, call)
        if stream is None:
            return wire.Status(2)
        if not stream.is_sealed:
            return wire.Status(3)
        with self._store.together():
            deleted = [self._store.delete(segment) for segment in self._segments(call)]
            done = self._state.put_stream(call.scope, call.stream, None)
        return _then(_all([done, *deleted]), SUCCESS)

    def truncate_stream(self, peer: Ordered, call: wire.StreamCut) -> Any:
        """Answers 2 where there is no such stream."""
        stream = self._administered(peer, call.stream)
        if stream is None:
            return wire.Status(2)
        if any(not 0 <= place.segment < stream.segments for place in call.cut):
            return FAILURE
        named = call.stream
        segments = [(self._segment(named, place.segment), place.offset) for place in call.cut]
        if any(not 0 <= offset <= segment.offset for segment, offset in segments):
            return FAILURE
        return _then(_all([truncate(self._store, segment, offset) for segment, offset in segments]), SUCCESS)

    def stream_exists(self, peer: Ordered, call: wire.StreamInfo) -> Any:
        """Answers 1 or 0."""
        there = self._state.find(call.scope, call.stream) is not None
        return wire.Status(int(there and self._sees(peer, call.scope, call.stream)))

    def list_streams(self, peer: Ordered, call: wire.StreamsRequest) -> Any:
        """Those that the peer may know of, in the order of their creation."""
        return self._list(peer, call.scope.scope, call.token, None)

    def list_tagged(self, peer: Ordered, call: wire.TaggedStreamsRequest) -> Any:
        """Those that have a tag."""
        return self._list(peer, call.scope.scope, call.token, call.tag)

    def _list(self, peer: Ordered, scope: str, token: wire.Token, tag: str | None) -> wire.Streams:
        if scope not in self._state.scopes:
            return wire.Streams(status=2)
        streams = self._state.streams[scope]
        seen = (
            name
            for name, stream in _after(streams, token)
            if (tag is None or tag in stream.config.tags.tag) and self._sees(peer, scope, name)
        )
        names = tuple(islice(seen, _PAGE))
        infos = tuple(wire.StreamInfo(scope, name) for name in names)
        return wire.Streams(infos, _next(token, [streams[name] for name in names]))

    # -- segments ------------------------------------------------------------------------------------------------------

    def current_segments(self, peer: Ordered, call: wire.StreamInfo) -> Any:
        """The segments that are written to: none where the stream is sealed."""
        stream = self._known(peer, call)
        return wire.SegmentRanges(() if stream.is_sealed else ranges(call, stream))

    def epoch_segments(self, peer: Ordered, call: wire.EpochSegments) -> Any:
        """The segments of the only epoch."""
        stream = self._known(peer, call.stream)
        return wire.SegmentRanges(ranges(call.stream, stream) if call.epoch == 0 else ())

    def segments_at(self, peer: Ordered, call: wire.GetSegments) -> Any:
        """Where each segment was at a time."""
        stream = self._known(peer, call.stream)
        peer.allow(READ, segment_name(call.stream.scope, call.stream.stream, 0))
        return Deferred.fromCoroutine(self._at(call, stream))

    async def _at(self, call: wire.GetSegments, stream: Stream) -> wire.SegmentsAtTime:
        named = wire.StreamInfo(call.stream.scope, call.stream.stream)
        places = []
        for id in range(stream.segments):
            segment = self._segment(named, id)
            offset = await self._offset_at(segment, call.timestamp * 1000)
            places.append(wire.SegmentLocation(wire.SegmentId(named, id), offset))
        return wire.SegmentsAtTime(tuple(places))

    async def _offset_at(self, segment: Segment, timestamp: int) -> int:
        """Where the first record of this time or later begins, in microseconds; or a little before it."""
        if timestamp <= segment.created:
            return head_of(segment)
        if timestamp > segment.modified:
            return segment.offset
        number = max(await self._store.number_at(segment, timestamp), segment.first_number)
        if number >= segment.number:
            return segment.offset
        (run, *_) = await self._store.read(segment, number, bytes_max=1, records_max=1)
        return max(run.offset, head_of(segment))

    def successors(self, peer: Ordered, call: wire.SegmentId) -> Any:
        """What follows a sealed segment: nothing."""
        self._known(peer, call.stream)
        return wire.Successors()

    def segments_between(self, peer: Ordered, call: wire.StreamCutRange) -> Any:
        """The segments that lie between two stream cuts: all."""
        stream = self._known(peer, call.stream)
        named = wire.StreamInfo(call.stream.scope, call.stream.stream)
        return wire.SegmentIds(tuple(wire.SegmentId(named, id) for id in range(stream.segments)))

    def is_valid(self, peer: Ordered, call: wire.SegmentId) -> Any:
        """Whether a segment is one of an unsealed stream."""
        stream = self._known(peer, call.stream)
        return wire.Status(int(0 <= call.id < stream.segments and not stream.is_sealed))

    def is_cut_valid(self, peer: Ordered, call: wire.StreamCut) -> Any:
        """Whether all places of a cut are in segments of the stream."""
        stream = self._known(peer, call.stream)
        return wire.Status(int(all(0 <= place.segment < stream.segments for place in call.cut)))

    # -- rights --------------------------------------------------------------------------------------------------------

    def _sees(self, peer: Ordered, scope: str, stream: str) -> bool:
        permits = peer.permits
        return permits.is_open or bool(permits.rights(segment_name(scope, stream, 0)) & VISIBLE)

    def _known(self, peer: Ordered, named: wire.StreamInfo) -> Stream:
        """A stream that the peer may know of. One that it may not is not there."""
        stream = self._state.find(named.scope, named.stream)
        if stream is None or not self._sees(peer, named.scope, named.stream):
            raise NoSuchSegment(f"{named.scope}/{named.stream}")
        return stream

    def _administered(self, peer: Ordered, named: wire.StreamInfo) -> Stream | None:
        """A stream that the peer may change; None where there is none of that name that it may know of."""
        stream = self._state.find(named.scope, named.stream)
        if stream is None or not self._sees(peer, named.scope, named.stream):
            return None
        for id in range(stream.segments):
            name = segment_name(named.scope, named.stream, id)
            if not peer.permits.is_open and not peer.permits.rights(name) & ADMIN:
                raise NotAllowed(name)
        return stream

    def _segment(self, named: wire.StreamInfo, id: int) -> Segment:
        return self._store.find(segment_name(named.scope, named.stream, id))

    def _segments(self, named: wire.StreamInfo) -> list[Segment]:
        """The segments of a stream that are there: somebody may have deleted such a topic."""
        stream = self._state.find(named.scope, named.stream)
        found = []
        for id in range(0 if stream is None else stream.segments):
            segment = self._store.find_claimed(segment_name(named.scope, named.stream, id))
            if segment is not None:
                found.append(segment)
        return found


def ranges(named: wire.StreamInfo, stream: Stream) -> tuple[wire.SegmentRange, ...]:
    """The segments of a stream, each with an equal part of the keys."""
    info, count = wire.StreamInfo(named.scope, named.stream), stream.segments
    return tuple(
        wire.SegmentRange(wire.SegmentId(info, id), id / count, 1.0 if id == count - 1 else (id + 1) / count)
        for id in range(count)
    )


def _after(found: Mapping[str, Any], token: wire.Token) -> Iterator[tuple[str, Any]]:
    """What was made behind the place that a token stands for."""
    order = int(token.token) if token.token.isascii() and token.token.isdigit() else 0
    return ((name, each) for name, each in found.items() if each.order > order)


def _next(token: wire.Token, page: list[Any]) -> wire.Token:
    return wire.Token(str(page[-1].order)) if page else token


def _then(done: Deferred[Any], answer: wire.Status) -> Deferred[wire.Status]:
    return done.addCallback(lambda _: answer)


def _all(several: list[Deferred[Any]]) -> Deferred[Any]:
    def first(failure: Failure) -> Failure:
        return failure.value.subFailure  # type: ignore[no-any-return, union-attr]

    return gatherResults(several, consumeErrors=True).addErrback(first)


def _trap(failure: Failure, kind: type[Exception]) -> None:
    failure.trap(kind)
