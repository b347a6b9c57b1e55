"""Offsets: where records begin in a segment, as Pravega counts it.

A record takes its bytes and those of an event's header before it; one that came raw takes its bytes alone.
"""

from __future__ import annotations

from typing import Final

TAG_RAW: Final = 0x8000
"""Set in the tag of records that take just their bytes of the segment's offsets, without the 8 of an event header."""

EVENT_HEADER_BYTES: Final = 8


def span(tag: int, count: int, size: int) -> int:
    """How many offsets `count` records with `size` bytes together take."""
    return size if tag & TAG_RAW else size + EVENT_HEADER_BYTES * count
