"""What a store should hold, said in the plainest way: lists, dicts and sets, no bytes, no files, no time.

`Model` is one state of the whole store. Its methods do what the store's methods promise, and raise the same errors.
`Model.contents` and `contents` (of a real store) give the same plain value, to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from streamd.store import (
    AttributeMismatch,
    LevelGap,
    LevelOverlap,
    NoSuchSegment,
    Segment,
    SegmentExists,
    SegmentSealed,
    Store,
    StoreError,
)
from streamd.store.names import NUMBERED
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.inline import read_all

Contents = dict[str, tuple[Any, ...]]

HIDDEN = "?"
"""Before the names of hidden segments, where they stand beside others."""


class Record(NamedTuple):
    """A record, and where it stands."""

    number: int
    offset: int
    tag: int
    data: bytes


class Part(NamedTuple):
    """One append of an atomic append to several segments."""

    segment: ModelSegment
    records: Sequence[bytes]
    tag: int = 0
    writer: bytes | None = None
    expected: int = 0
    level: int = 0


@dataclass
class Group:
    """A reader group: all below `position`, and these numbers above it."""

    position: int
    above: set[int] = field(default_factory=set)

    def settle(self, first: int) -> None:
        """Move up over what is acknowledged, and at least to `first`."""
        self.position = max(self.position, first)
        while self.position in self.above:
            self.position += 1
        self.above = {number for number in self.above if number > self.position}


@dataclass(eq=False)
class ModelSegment:
    """One segment."""

    name: str
    first_number: int = 0
    first_offset: int = 0
    number: int = 0
    offset: int = 0
    records: list[Record] = field(default_factory=list)
    hidden: bool = False
    published: bool = False
    sealed: bool = False
    deleted: bool = False
    levels: dict[bytes, int] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    attributes: dict[bytes, bytes] = field(default_factory=dict)
    frozen: tuple[Any, ...] | None = None

    def add(self, records: Sequence[bytes], tag: int) -> None:
        """Take records up."""
        for data in records:
            self.records.append(Record(self.number, self.offset, tag, data))
            self.number += 1
            self.offset += len(data) + (0 if tag & TAG_RAW else 8)

    def copy(self) -> ModelSegment:
        """The same, to go on from by itself."""
        groups = {name: Group(group.position, set(group.above)) for name, group in self.groups.items()}
        return replace(
            self,
            records=list(self.records),
            levels=dict(self.levels),
            groups=groups,
            attributes=dict(self.attributes),
            frozen=self.freeze(),
        )

    def freeze(self) -> tuple[Any, ...]:
        """All that can be seen of it, as one value."""
        if self.frozen is None:
            self.frozen = (
                (self.first_number, self.first_offset, self.number, self.offset, self.sealed),
                tuple(self.records),
                dict(self.levels),
                {name: (group.position, frozenset(group.above)) for name, group in self.groups.items()},
                dict(self.attributes),
            )
        return self.frozen


class Model:
    """The state of a store."""

    def __init__(self) -> None:
        self.segments: dict[str, ModelSegment] = {}
        self.hidden: dict[str, ModelSegment] = {}

    def copy(self) -> Model:
        """The same state, to go on from by itself."""
        copy = Model()
        copy.segments = {name: segment.copy() for name, segment in self.segments.items()}
        copy.hidden = {name: segment.copy() for name, segment in self.hidden.items()}
        return copy

    def contents(self) -> Contents:
        """Everything, as one value."""
        found = {name: segment.freeze() for name, segment in self.segments.items()}
        return found | {HIDDEN + name: segment.freeze() for name, segment in self.hidden.items()}

    def create(self, name: str, hidden: bool = False) -> ModelSegment:
        """A new segment. Hidden ones have names of their own."""
        names = self.hidden if hidden else self.segments
        if name in names:
            raise SegmentExists(name)
        segment = names[name] = ModelSegment(name, hidden=hidden)
        return segment

    def delete(self, segment: ModelSegment) -> None:
        """Remove a segment."""
        self._check(segment)
        segment.deleted = True
        del (self.hidden if segment.hidden else self.segments)[segment.name]

    def publish(self, parts: Sequence[tuple[ModelSegment, ModelSegment]], levels: Sequence[Part]) -> None:
        """Put the records of hidden segments behind those of their targets, and raise levels; all of it, or nothing.

        Where the levels are stored it was done before: what is still hidden goes.
        """
        fresh = []
        mismatch: StoreError | None = None
        for level in levels:
            assert level.writer is not None
            stored = self._check(level.segment).levels.get(level.writer)
            try:
                fresh.append(self._is_fresh(stored, level))
            except StoreError as error:
                mismatch = error
        if any(fresh) and not all(fresh):
            mismatch = StoreError("some of the ack levels are stored already, others are not")
        if levels and not any(fresh) and mismatch is None:
            for source, _ in parts:
                if not source.deleted and not source.published:
                    self.delete(source)
            return
        for source, target in parts:
            self._check(source)
            self._check(target)
            if target.hidden or not source.hidden or source.sealed or source.first_number:
                raise StoreError(f"segment {source.name!r} can't be published into {target.name!r}")
            if target.sealed:
                raise SegmentSealed(target.name)
        if len({id(source) for source, _ in parts}) < len(parts):
            raise StoreError("a hidden segment can be published once")
        if mismatch is not None:
            raise mismatch
        for source, target in parts:
            source.published = True
            del self.hidden[source.name]
            for record in source.records:
                target.add([record.data], record.tag)
        for level in levels:
            assert level.writer is not None
            level.segment.levels[level.writer] = level.level

    def seal(self, segment: ModelSegment) -> None:
        """No more records."""
        self._check(segment).sealed = True

    def truncate(self, segment: ModelSegment, number: int) -> None:
        """Drop records below `number`, which the caller has limited to what is committed."""
        self._check(segment)
        if number <= segment.first_number:
            return
        dropped = number - segment.first_number
        kept = segment.records[dropped:]
        segment.first_number = number
        segment.first_offset = kept[0].offset if kept else segment.offset
        segment.records = kept
        for group in segment.groups.values():
            group.settle(number)

    def append(self, part: Part) -> tuple[int, int, bool]:
        """Append, and say where; or that it is stored already."""
        return self.append_all([part])[0]

    def append_all(self, parts: Sequence[Part]) -> list[tuple[int, int, bool]]:
        """Append to several segments, or to none."""
        for part in parts:
            if self._check(part.segment).sealed:
                raise SegmentSealed(part.segment.name)
        levels: dict[tuple[int, bytes], int] = {}
        fresh = []
        for part in parts:
            is_fresh = True
            if part.writer is not None:
                key = (id(part.segment), part.writer)
                stored = levels.get(key, part.segment.levels.get(part.writer))
                is_fresh = self._is_fresh(stored, part)
                if is_fresh:
                    levels[key] = part.level
            fresh.append(is_fresh)
        places = []
        for part, is_fresh in zip(parts, fresh, strict=True):
            places.append((part.segment.number, part.segment.offset, not is_fresh))
            if is_fresh:
                part.segment.add(part.records, part.tag)
                if part.writer is not None:
                    part.segment.levels[part.writer] = part.level
        return places

    def _is_fresh(self, stored: int | None, part: Part) -> bool:
        current = stored or 0
        if stored is not None and current >= part.level:
            return False
        if current == part.expected:
            return True
        if current > part.expected:
            raise LevelOverlap(stored, part.expected, part.level)
        raise LevelGap(stored, part.expected, part.level)

    def fan_out(self, segments: Sequence[ModelSegment], records: Sequence[bytes], tag: int) -> None:
        """The same records to each; a segment that stands twice receives twice."""
        for segment in segments:
            if self._check(segment).sealed:
                raise SegmentSealed(segment.name)
        for segment in segments:
            segment.add(records, tag)

    def broadcast(self, records: Sequence[bytes], without: Sequence[ModelSegment], tag: int) -> bool:
        """The same records to each numbered segment, but for these and sealed ones; whether there is any."""
        numbered = [each for each in self.segments.values() if each.name.startswith(NUMBERED)]
        receiving = [each for each in numbered if not each.sealed and each not in without]
        for segment in receiving:
            self._check(segment).add(records, tag)
        return bool(records and receiving)

    def set_group(self, segment: ModelSegment, name: str, position: int) -> None:
        """Put a group somewhere."""
        self._check(segment).groups[name] = Group(max(position, segment.first_number))

    def acknowledge(self, segment: ModelSegment, name: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Acknowledge records for a group."""
        group = self._check(segment).groups.setdefault(name, Group(segment.first_number))
        for first, end in ranges:
            group.above.update(number for number in range(first, end) if number >= group.position)
        group.settle(segment.first_number)

    def drop_group(self, segment: ModelSegment, name: str) -> None:
        """Forget a group."""
        self._check(segment).groups.pop(name, None)

    def set_attribute(self, segment: ModelSegment, key: bytes, value: bytes | None, expected: Any = ...) -> None:
        """Compare and set."""
        self._check(segment)
        stored = segment.attributes.get(key)
        if expected is not ... and expected != stored:
            raise AttributeMismatch(stored)
        if value is None:
            segment.attributes.pop(key, None)
        else:
            segment.attributes[key] = value

    def _check(self, segment: ModelSegment) -> ModelSegment:
        if segment.deleted or segment.published:
            raise NoSuchSegment(segment.name)
        segment.frozen = None
        return segment


def segments(store: Store) -> dict[str, Segment]:
    """All segments of a store, the hidden ones under names that no other has."""
    found = {name: store.find(name) for name in store.names()}
    return found | {HIDDEN + segment.name: segment for segment in store.hidden_segments()}


def contents(store: Store) -> Contents:
    """Everything that a store holds, as `Model.contents` says it."""
    found: Contents = {}
    for name, segment in segments(store).items():
        records: list[Record] = []
        timestamp = segment.created
        for run in read_all(store, segment):
            assert timestamp <= run.timestamp <= segment.modified, f"time goes back in {name}"
            timestamp = run.timestamp
            number, offset = run.number, run.offset
            assert number == segment.first_number + len(records), f"{name} has a gap"
            for data in run.batch.records():
                records.append(Record(number, offset, run.tag, bytes(data)))
                number += 1
                offset += len(data) + (0 if run.tag & TAG_RAW else 8)
        groups = segment.groups or {}
        found[name] = (
            (segment.first_number, segment.first_offset, segment.number, segment.offset, segment.sealed),
            tuple(records),
            dict(segment.levels or {}),
            {each: (group.position, _numbers(group.ranges)) for each, group in groups.items()},
            dict(segment.attributes or {}),
        )
    return found


def _numbers(ranges: Sequence[tuple[int, int]]) -> frozenset[int]:
    return frozenset(number for first, end in ranges for number in range(first, end))
