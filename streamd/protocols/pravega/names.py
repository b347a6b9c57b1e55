"""What Pravega's names mean, and under which keys the store keeps what Pravega knows of a segment."""

from __future__ import annotations

import re
from typing import Final

from streamd.store import NoSuchSegment, Segment, Store
from streamd.store.records.offsets import TAG_RAW

_TRANSACTION: Final = "#transaction."
_TRANSIENT: Final = "#transient."

STREAM_SEGMENT: Final = re.compile(r".+/[^/]+/[0-9]+\.#epoch\.[0-9]+")
"""The name of a stream's segment."""

HEAD: Final = b"pravega.head"
"""The attribute with the offset that a segment was truncated at, where that lies inside a record (8 bytes)."""

TABLE: Final = b"pravega.table"
"""The attribute of a segment that is a table."""

TAG_TABLE: Final = 0x0100
"""The tag of a table's records. Others, which somebody wrote by another protocol, are no part of the table."""
assert not TAG_TABLE & TAG_RAW

_ATTRIBUTE: Final = b"pravega:"


def segment_name(scope: str, stream: str, id: int) -> str:
    """The name of a stream's segment; the id holds the epoch in its high half."""
    return f"{scope}/{stream}/{id & 0xFFFFFFFF}.#epoch.{id >> 32}"


def transaction_name(segment: str, id: bytes) -> str:
    """The name of the part of a transaction that goes to a segment."""
    return f"{segment}{_TRANSACTION}{id.hex()}"


def transient_name(segment: str, id: bytes) -> str:
    """The name of a segment for one large event."""
    return f"{segment}{_TRANSIENT}{id.hex()}"


def parent_of(name: str) -> str:
    """The segment that a transaction's or a transient segment belongs to; any other segment is its own.

    Rules are about that one: who may write there may do so in a transaction.
    """
    for mark in (_TRANSACTION, _TRANSIENT):
        parent, found, _ = name.rpartition(mark)
        if found:
            return parent
    return name


def merge_id(name: str) -> bytes | None:
    """The 16 bytes at the end of a hidden segment's name: as a writer id they note that it was merged."""
    try:
        id = bytes.fromhex(name[len(parent_of(name)) :].rpartition(".")[2])
    except ValueError:
        return None
    return id if len(id) == 16 else None


def attribute_key(id: bytes) -> bytes:
    """The key of one of Pravega's own attributes."""
    return _ATTRIBUTE + id


def find(store: Store, name: str) -> Segment:
    """The segment of that name: those of transactions, and transient ones, are hidden."""
    return store.find(name) if parent_of(name) == name else store.find_hidden(name)


def head_of(segment: Segment) -> int:
    """The first offset that can be read."""
    head = (segment.attributes or {}).get(HEAD)
    return segment.first_offset if head is None else max(segment.first_offset, int.from_bytes(head))


def check_no_table(segment: Segment) -> Segment:
    """The segment, where it is none of those that only table requests may change."""
    if is_table(segment):
        raise NoSuchSegment(segment.name)
    return segment


def is_table(segment: Segment) -> bool:
    """Whether a segment is a table; one that is on its way to the disk counts."""
    return segment.claimed_attribute(TABLE) is not None
