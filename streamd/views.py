"""What is seen of a store from outside: segments as they are described, records as they are read."""

from __future__ import annotations

from typing import NamedTuple

from streamd.batch import Batch


class SegmentInfo(NamedTuple):
    """What is known of a segment. Its `id` stays when the name is given to another one."""

    id: int
    name: str
    first_number: int
    """The first retained record."""
    number: int
    """The number that the next record gets."""
    first_offset: int
    offset: int
    created: int
    """When, in microseconds since 1970, as all timestamps."""
    modified: int
    sealed: bool

    @property
    def records(self) -> int:
        """How many records there are."""
        return self.number - self.first_number

    @property
    def bytes(self) -> int:
        """How many bytes they take, counted as offsets are."""
        return self.offset - self.first_offset


class Run(NamedTuple):
    """Records that follow each other and share tag and timestamp."""

    number: int
    offset: int
    timestamp: int
    tag: int
    batch: Batch
