"""What an append asks for and answers, and the ack levels that keep a writer's records from being stored twice."""

from __future__ import annotations

from typing import NamedTuple

from streamd.batch import Batch
from streamd.store.errors import LevelGap, LevelOverlap, StoreError
from streamd.store.journal.frame import NO_WRITER
from streamd.store.segments.segment import Segment


class Appended(NamedTuple):
    """Where records went. `duplicate`: the writer had stored them before; nothing was stored now."""

    number: int
    offset: int
    duplicate: bool = False


class Level(NamedTuple):
    """An ack level to be raised: the fields are those of `Store.append`."""

    segment: Segment
    writer: bytes
    expected: int
    level: int
    initial: int = 0


class Append(NamedTuple):
    """One part of an atomic append to several segments; the fields are those of `Store.append`."""

    segment: Segment
    batch: Batch
    tag: int = 0
    writer: bytes | None = None
    expected: int = 0
    level: int = 0
    initial: int = 0


def check_writer(writer: bytes) -> None:
    """Raise StoreError where this can't be the id of a writer."""
    if len(writer) != len(NO_WRITER):
        raise StoreError(f"a writer's id has {len(NO_WRITER)} bytes, not {len(writer)}")


def compare(stored: int | None, expected: int, level: int, initial: int) -> bool:
    """Compare-and-set on an ack level: whether the append is new. False: it is stored already."""
    current = initial if stored is None else stored
    if stored is not None and current >= level:
        return False
    if current == expected:
        return True
    if current > expected:
        raise LevelOverlap(stored, expected, level)
    raise LevelGap(stored, expected, level)
