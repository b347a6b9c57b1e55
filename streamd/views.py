"""What readers and tools see of a store: segments as they are described, records as they are read."""

from __future__ import annotations

from typing import NamedTuple

from streamd.batch import Batch


class SegmentInfo(NamedTuple):
    """The description of a segment. Its `id` stays the same when the name is given to another segment."""

    id: int
    name: str
    first_number: int
    """The number of the first retained record."""
    number: int
    """The number that the next record gets."""
    first_offset: int
    offset: int
    created: int
    """The time of creation in microseconds since 1970, like all timestamps."""
    modified: int
    sealed: bool

    @property
    def records(self) -> int:
        """How many records are retained."""
        return self.number - self.first_number

    @property
    def bytes(self) -> int:
        """How many bytes the retained records take, counted as offsets are."""
        return self.offset - self.first_offset


class Run(NamedTuple):
    """Consecutive records that share tag and timestamp."""

    number: int
    offset: int
    timestamp: int
    tag: int
    batch: Batch
