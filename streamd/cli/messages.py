"""Messages on their way out: as lines for people, as they are, or as JSON."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from streamd import as_json
from streamd.wire.sesp import message_lines

if TYPE_CHECKING:
    from streamd.cli.source import Run


def raw_bytes(run: Run) -> bytes:
    """The messages as they are, with nothing between them."""
    return bytes(run.batch.payload)


def text_lines(run: Run) -> bytes:
    """A line each; what a line can't hold is escaped as SESP does it."""
    lines = message_lines([bytes(record) for record in run.batch.records()]).split(b"\n")
    # Each begins with the byte that tells SESP's clients whether it is escaped.
    return b"".join(chain.from_iterable((line[1:], b"\n") for line in lines[:-1]))


def json_lines(topic: str, run: Run) -> bytes:
    """An object a line."""
    return as_json.json_lines(topic, run.number, run.timestamp, run.tag, run.batch)
