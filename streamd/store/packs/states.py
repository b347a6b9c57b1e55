"""The state of a segment as rows: those of the catalog, and those of a pack's footer, are the same."""

from __future__ import annotations

from collections.abc import Iterable
from struct import iter_unpack, pack
from typing import Any

from streamd.store.segments.broadcasts import BROADCASTS, HIDDEN, NOBODY, PLAIN, Broadcast, Numbered, new_segment
from streamd.store.segments.segment import Segment

Row = tuple[Any, ...]


def state_rows(table: str, segment: Segment) -> list[Row]:
    """The rows that a table has of a segment as it is now, without checksums."""
    if table == "segments":
        kind = BROADCASTS if isinstance(segment, Broadcast) else HIDDEN if segment.hidden else PLAIN
        first, own = (segment.first_number, segment.first_offset), (segment.own_number, segment.own_offset)
        times = segment.created, segment.modified
        return [(segment.id, segment.name, *times, int(segment.sealed), *first, *own, kind)]
    if table == "reached":
        if isinstance(segment, Numbered) and segment.seen_number:
            return [(segment.id, segment.seen_number, segment.seen_offset)]
        return []
    if table == "levels":
        return [(segment.id, writer, level) for writer, level in (segment.levels or {}).items()]
    if table == "attributes":
        return [(segment.id, key, value) for key, value in (segment.attributes or {}).items()]
    assert table == "groups"
    return [
        (segment.id, name, group.position, b"".join([pack("<QQ", *each) for each in group.ranges]))
        for name, group in (segment.groups or {}).items()
    ]


def as_segment(row: Row) -> Segment:
    """The segment that a row of `segments` tells of."""
    id, name, created, modified, sealed, first_number, first_offset, number, offset, hidden = row
    segment = Broadcast(id) if hidden == BROADCASTS else new_segment(id, name, NOBODY, hidden=bool(hidden))
    segment.created, segment.modified = created, modified
    segment.sealed = bool(sealed)
    segment.first_number, segment.first_offset = first_number, first_offset
    segment.number, segment.offset = number, offset
    segment.committed = True
    segment.unclaim()
    return segment


def equip(
    segment: Segment,
    levels: Iterable[Row],
    groups: Iterable[Row],
    attributes: Iterable[Row],
    reached: Iterable[Row] = (),
) -> None:
    """Give a segment what the other tables have of it; their rows come without its id."""
    for writer, level in levels:
        segment.set_level(writer, level)
    for key, value in attributes:
        segment.set_attribute(key, value)
    for name, position, ranges in groups:
        segment.set_group(name, position)
        segment.group(name).add(iter_unpack("<QQ", ranges))
    for number, offset in reached:
        if isinstance(segment, Numbered):
            segment.seen_number, segment.seen_offset = number, offset


def grouped(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Rows by the segment that they begin with, which they lose."""
    found: dict[int, list[Row]] = {}
    for segment, *rest in rows:
        found.setdefault(segment, []).append(tuple(rest))
    return found
