"""How far a streaming query has come: what Spark keeps in its checkpoint.

A position names the segment's id with the topic: a topic that was deleted and created again is another segment, and is
noticed. As JSON::

    {"version": 1, "topics": {"orders": {"id": 17, "first": 0, "next": 4200, "lost": 0}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

VERSION: Final = 1


class BadCheckpoint(ValueError):
    """A checkpoint that was not written by this source, or by a later version of it."""


class Position(NamedTuple):
    """The place in one topic."""

    id: int
    first: int
    """Where reading of this segment began: a topic that is not in the offset before begins here."""
    next: int
    """Everything below is read."""
    lost: int
    """How many records, since the query began, were gone before they could be read."""


Positions = dict[str, Position]


def encode(positions: Mapping[str, Position]) -> dict[str, Any]:
    """The offset for Spark."""
    return {"version": VERSION, "topics": {name: position._asdict() for name, position in positions.items()}}


def decode(offset: Mapping[str, Any]) -> Positions:
    """Positions out of an offset; BadCheckpoint."""
    if offset.get("version") != VERSION:
        raise BadCheckpoint(
            f"the checkpoint has offsets of version {offset.get('version')!r}, and this streamd reads {VERSION}: "
            "use the streamd that wrote it, or a new checkpoint"
        )
    try:
        return {name: Position(**fields) for name, fields in offset["topics"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise BadCheckpoint(f"the checkpoint holds no offsets of streamd: {error}")
