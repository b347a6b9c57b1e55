"""A segment in memory: where its records are, and what is claimed of it by commits that are not on disk yet.

Two views live side by side. The committed one (`number`, `offset`, `sealed`, …) is what readers see; only a commit that
is on disk changes it, and replaying the journal gives the same again. The claimed one (`next_number`, `next_offset`
and `Claims`) is what the next writer builds on; when a commit fails it falls back to the committed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamd.store.records.extent import Extent
from streamd.store.segments.index import Index
from streamd.store.segments.ranges import Acknowledged
from streamd.views import SegmentInfo

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred


FORGOTTEN: Final = -(1 << 63)
"""In the place of a writer's ack level: the writer is forgotten. No append raises a level to this."""


class Claims:
    """What pending commits change in a segment beside its length. None of it is shown to readers."""

    __slots__ = ("attributes", "deleted", "first_number", "first_offset", "levels", "published", "sealed")

    def __init__(self) -> None:
        self.deleted = False
        self.published = False
        self.sealed = False
        self.first_number = 0
        self.first_offset = 0
        self.levels: dict[bytes, int] = {}
        self.attributes: dict[bytes, bytes | None] = {}


class Segment:
    """One segment. Hold this object (or its `id`), never its name: the name may belong to another one tomorrow."""

    __slots__ = (
        "attributes",
        "claims",
        "committed",
        "created",
        "deleted",
        "first_number",
        "first_offset",
        "groups",
        "hidden",
        "id",
        "index",
        "levels",
        "modified",
        "name",
        "next_number",
        "next_offset",
        "number",
        "offset",
        "published",
        "sealed",
        "touched",
        "waiters",
    )

    def __init__(self, id: int, name: str) -> None:
        self.id = id
        self.name = name
        self.created = 0
        self.modified = 0
        self.committed = False
        self.hidden = False
        """Nobody lists it; it is to be published, or abandoned."""
        self.published = False
        """It was hidden and is part of another one now."""
        self.deleted = False
        self.sealed = False
        self.first_number = 0
        self.first_offset = 0
        self.number = 0
        self.offset = 0
        self.next_number = 0
        self.next_offset = 0
        self.index: Index | None = None
        self.levels: dict[bytes, int] | None = None
        self.groups: dict[str, Acknowledged] | None = None
        self.attributes: dict[bytes, bytes] | None = None
        self.claims: Claims | None = None
        self.touched = 0
        self.waiters: dict[Deferred[None], int] | None = None

    def __repr__(self) -> str:
        return f"<Segment {self.id} {self.name!r}, records {self.first_number} to {self.number}>"

    # -- the claimed view ----------------------------------------------------------------------------------------------

    def claim(self) -> Claims:
        """The changes that pending commits make, to be added to."""
        if self.claims is None:
            self.claims = Claims()
        return self.claims

    def claim_more(self, records: int, taken: int) -> None:
        """So many records, which take so many offsets, are on their way to the disk."""
        self.next_number += records
        self.next_offset += taken

    def unclaim(self) -> None:
        """Fall back to what is committed: everything pending has failed."""
        self.claims = None
        self.next_number = self.number
        self.next_offset = self.offset

    def never_created(self) -> None:
        """The commit that was to create it has failed."""
        self.deleted = True

    @property
    def claimed_deleted(self) -> bool:
        """Deleted, once everything pending is on disk."""
        return self.deleted or (self.claims is not None and self.claims.deleted)

    @property
    def claimed_published(self) -> bool:
        """Part of another segment, once everything pending is on disk."""
        return self.published or (self.claims is not None and self.claims.published)

    @property
    def claimed_sealed(self) -> bool:
        """Sealed, once everything pending is on disk."""
        return self.sealed or (self.claims is not None and self.claims.sealed)

    @property
    def claimed_first_number(self) -> int:
        """The first retained record, once everything pending is on disk."""
        return max(self.first_number, self.claims.first_number if self.claims else 0)

    def claimed_level(self, writer: bytes) -> int | None:
        """A writer's ack level, once everything pending is on disk; None where it never wrote."""
        if self.claims is not None and writer in self.claims.levels:
            level = self.claims.levels[writer]
            return None if level == FORGOTTEN else level
        return self.levels.get(writer) if self.levels else None

    def claimed_attribute(self, key: bytes) -> bytes | None:
        """An attribute's value, once everything pending is on disk."""
        if self.claims is not None and key in self.claims.attributes:
            return self.claims.attributes[key]
        return self.attributes.get(key) if self.attributes else None

    # -- the committed view: called when a commit is on disk, and by replay --------------------------------------------

    @property
    def own_number(self) -> int:
        """Behind the last record that the index, or the catalog, tells of."""
        return self.number

    @property
    def own_offset(self) -> int:
        """And the offset of that place."""
        return self.offset

    def tail(self, number: int | None, offset: int | None) -> Extent | None:
        """The extent behind all that the index and the catalog tell of, where this place is in it."""
        return None

    def appended(self, extent: Extent) -> None:
        """These records are on disk."""
        self._add(extent)
        self.number = extent.number + extent.count
        self.offset = extent.end_offset
        self.modified = extent.timestamp

    def took(self, source: Segment, extent: Extent, end_offset: int) -> None:
        """The records of a hidden segment are part of this one now, by reference."""
        self._add(extent)
        self.number += source.number
        self.offset = end_offset
        self.modified = extent.timestamp

    def _add(self, extent: Extent) -> None:
        if self.index is None:
            self.index = Index()
        self.index.add(extent)

    def truncated(self, first_number: int, first_offset: int) -> None:
        """Everything below is gone. Groups that stood below now stand there."""
        if first_number <= self.first_number:
            return
        self.first_number = first_number
        self.first_offset = first_offset
        if self.index is not None:
            if first_number >= self.number:
                self.index = None
            else:
                # The place may lie before the rows: then it is in a pack.
                self.index.drop_rows(max(self.index.row_of_number(first_number), 0))
        for group in (self.groups or {}).values():
            group.skip_to(first_number)

    def packed(self, file: int) -> None:
        """What stands in journal files up to this one is in a pack now: the catalog knows where."""
        if self.index is not None:
            self.index.drop_rows(self.index.rows_up_to_file(file))
            if not len(self.index):
                self.index = None

    def set_level(self, writer: bytes, level: int) -> None:
        """Remember how far this writer's data is stored, or forget the writer."""
        if self.levels is None:
            self.levels = {}
        if level == FORGOTTEN:
            self.levels.pop(writer, None)
        else:
            self.levels[writer] = level

    def set_attribute(self, key: bytes, value: bytes | None) -> None:
        """Set or remove a small named value."""
        if self.attributes is None:
            self.attributes = {}
        if value is None:
            self.attributes.pop(key, None)
        else:
            self.attributes[key] = value

    def group(self, name: str) -> Acknowledged:
        """A reader group's acknowledged records; a new group begins at the first retained record."""
        if self.groups is None:
            self.groups = {}
        if name not in self.groups:
            self.groups[name] = Acknowledged(self.first_number)
        return self.groups[name]

    def set_group(self, name: str, position: int) -> None:
        """Put a reader group at a position, with nothing acknowledged above it."""
        if self.groups is None:
            self.groups = {}
        self.groups[name] = Acknowledged(max(position, self.first_number))


def info(segment: Segment) -> SegmentInfo:
    """A segment as it is described to others: what is committed."""
    return SegmentInfo(
        segment.id,
        segment.name,
        segment.first_number,
        segment.number,
        segment.first_offset,
        segment.offset,
        segment.created,
        segment.modified,
        segment.sealed,
    )
