"""What goes to all numbered segments is stored once: in the broadcast segment, which each of them follows.

A record that is broadcast is appended to one hidden segment, and that is all: the numbered segments have it from that
moment on, since their length is counted as their own records and those of the broadcast segment from where they joined
it. Only when such a segment receives a record of its own, is sealed, or is left out of a broadcast does it take note in
its index of what it had followed until then, as one extent by reference, however many records that is. So a broadcast
costs the same for ten segments and for a million, in memory, in the journal, in packs and in the catalog.

    number = own_number + (number of the broadcast segment - seen_number)

``own_number`` lies behind the last record that the index or the catalog tells of, ``seen_number`` is how far in the
broadcast segment those reach. Offsets are counted in the same way. The claimed view has only the difference of the
two: it changes with what is claimed of the segment itself, and not when something is broadcast.
"""

from __future__ import annotations

from typing import Final

from streamd.store.names import NUMBERED
from streamd.store.records.extent import BROADCAST, Extent
from streamd.store.segments.segment import Segment

PLAIN: Final = 0
HIDDEN: Final = 1
BROADCASTS: Final = 2
"""What the journal and the catalog say of a segment: everybody sees it, it is hidden, or it is the one for all."""


class Broadcast(Segment):
    """The segment of what goes to all. It is there from the start, and gets its id when it is first needed."""

    __slots__ = ()

    def __init__(self, id: int = 0) -> None:
        super().__init__(id, NUMBERED)
        self.hidden = True

    def never_created(self) -> None:
        """The next broadcast tries again."""
        self.id = 0


class Numbered(Segment):
    """A segment that receives what is broadcast."""

    __slots__ = (
        "_ahead_number",
        "_ahead_offset",
        "_claimed_source",
        "_modified",
        "_source",
        "own_number",
        "own_offset",
        "seen_number",
        "seen_offset",
    )

    own_number: int
    own_offset: int

    def __init__(self, id: int, name: str, source: Segment) -> None:
        self._source = self._claimed_source = source
        super().__init__(id, name)

    @property
    def number(self) -> int:
        """The number that the next record gets, as committed."""
        return self.own_number + self._source.number - self.seen_number

    @number.setter
    def number(self, value: int) -> None:
        self.own_number = value
        self.seen_number = self._source.number

    @property
    def offset(self) -> int:
        """The offset of the next record, as committed."""
        return self.own_offset + self._source.offset - self.seen_offset

    @offset.setter
    def offset(self, value: int) -> None:
        self.own_offset = value
        self.seen_offset = self._source.offset

    @property
    def next_number(self) -> int:
        """The number that the next record gets, once everything pending is on disk."""
        return self._ahead_number + self._claimed_source.next_number

    @next_number.setter
    def next_number(self, value: int) -> None:
        self._ahead_number = value - self._claimed_source.next_number

    @property
    def next_offset(self) -> int:
        """The offset of the next record, once everything pending is on disk."""
        return self._ahead_offset + self._claimed_source.next_offset

    @next_offset.setter
    def next_offset(self, value: int) -> None:
        self._ahead_offset = value - self._claimed_source.next_offset

    @property
    def modified(self) -> int:
        """When it was last changed: a broadcast is a change too."""
        if self.seen_number == self._source.number:
            return self._modified
        return max(self._modified, self._source.modified)

    @modified.setter
    def modified(self, value: int) -> None:
        self._modified = value

    # -- the claimed view ----------------------------------------------------------------------------------------------

    def claim_more(self, records: int, taken: int) -> None:
        # What is broadcast is counted by the segment of that, and does not change the difference.
        self._ahead_number += records
        self._ahead_offset += taken

    def unclaim(self) -> None:
        self.claims = None
        self._claimed_source = self._source
        self._ahead_number = self.own_number - self.seen_number
        self._ahead_offset = self.own_offset - self.seen_offset

    # -- the committed view --------------------------------------------------------------------------------------------

    def join(self, source: Segment) -> None:
        """Receive what is broadcast from now on."""
        self._source = source
        self.number = self.offset = 0

    def follow(self, source: Segment) -> None:
        """Receive what is broadcast; how much of that is known already, the catalog has told."""
        self._source = source
        self.unclaim()

    def tail(self, number: int | None, offset: int | None) -> Extent | None:
        followed = self._source.number - self.seen_number
        if not followed or (number < self.own_number if number is not None else (offset or 0) < self.own_offset):
            return None
        return self._followed(0, followed)

    def _followed(self, file: int, count: int) -> Extent:
        return Extent(
            self.own_number,
            self.own_offset,
            self._source.modified,
            file,
            self.seen_number,
            self.seen_offset,
            count,
            0,
            BROADCAST,
        )

    def catch_up(self, file: int, *, but_records: int = 0, but_span: int = 0) -> None:
        """Take note in the index of what was followed until now, but for the last so many records."""
        count = self._source.number - but_records - self.seen_number
        if count:
            modified = self.modified
            self._add(self._followed(file, count))
            end_offset = self._source.offset - but_span
            self.own_number += count
            self.own_offset += end_offset - self.seen_offset
            self.seen_number += count
            self.seen_offset = end_offset
            self._modified = modified

    def leave_out(self, file: int, records: int, span: int) -> None:
        """The last broadcast, of so many records, is not for this one."""
        self.catch_up(file, but_records=records, but_span=span)
        self.seen_number += records
        self.seen_offset += span

    def freeze(self, file: int) -> None:
        """Receive nothing more."""
        self.catch_up(file)
        self._source = NOBODY
        self.seen_number = self.seen_offset = 0
        # No records are pending for it: what comes behind a seal is refused.
        self._claimed_source = NOBODY
        self._ahead_number, self._ahead_offset = self.own_number, self.own_offset

    def appended(self, extent: Extent) -> None:
        self.catch_up(extent.file)
        super().appended(extent)

    def took(self, source: Segment, extent: Extent, end_offset: int) -> None:
        self.catch_up(extent.file)
        super().took(source, extent, end_offset)

    def truncated(self, first_number: int, first_offset: int) -> None:
        if first_number > self.own_number:
            # All that the index tells of is gone, and the first of what is only followed.
            self.index = None
            self.seen_number += first_number - self.own_number
            self.seen_offset += first_offset - self.own_offset
            self.own_number, self.own_offset = first_number, first_offset
        super().truncated(first_number, first_offset)

    @property
    def needed_number(self) -> int | None:
        """The first broadcast record that this one needs, as far as memory tells; None where it needs none."""
        first = None if self.index is None else self.index.first_broadcast()
        return self.seen_number if first is None and self._source is not NOBODY else first


NOBODY: Final = Broadcast()
"""Whom a sealed segment follows."""


def new_segment(id: int, name: str, source: Segment, *, hidden: bool = False) -> Segment:
    """A segment of the kind that its name asks for."""
    if name.startswith(NUMBERED) and not hidden:
        return Numbered(id, name, source)
    segment = Segment(id, name)
    segment.hidden = hidden
    return segment
