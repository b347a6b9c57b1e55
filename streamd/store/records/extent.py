"""An extent: records of one segment that stand together in one entry of a journal file, or in one block of a pack."""

from __future__ import annotations

from typing import Final, NamedTuple

from streamd.store.records.offsets import span

PACKS: Final = 1 << 40
"""Added to the number of a pack where it stands beside numbers of journal files."""

PUBLISHED: Final = 1 << 16
"""In the tag of an extent that stands for a whole published segment; its position is that segment's id."""

BROADCAST: Final = 1 << 17
"""In the tag of an extent that stands for records of the broadcast segment; its position is the number of the first of
them there, and its length the offset of that."""


class Extent(NamedTuple):
    """One row of a segment's index: records that stand together in one entry of a file."""

    number: int
    offset: int
    timestamp: int
    file: int
    position: int
    length: int
    count: int  # type: ignore[assignment]  # hides a method of tuple that nobody calls
    crc: int
    tag: int

    @property
    def size(self) -> int:
        """The bytes of the records, without their lengths."""
        return self.length - 4 * self.count

    @property
    def is_reference(self) -> bool:
        """Whether the records are those of another segment."""
        return self.tag >= PUBLISHED

    @property
    def end_offset(self) -> int:
        """The offset behind its last record."""
        return self.offset + span(self.tag, self.count, self.size)
