"""Records on their way out: as lines for people, as they are, or as JSON."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from streamd import as_json
from streamd.wire.sesp import message_lines

if TYPE_CHECKING:
    from streamd.cli.messages.source import Run

# What moves a terminal's cursor, changes its colours or worse, in UTF-8; a tab may stay, and lines end with \n.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def raw_bytes(run: Run) -> bytes:
    """The records as they are, with nothing between them."""
    return bytes(run.batch.payload)


def text_lines(run: Run) -> bytes:
    """A line each; what a line can't hold is escaped as SESP does it."""
    lines = message_lines([bytes(record) for record in run.batch.records()])
    # Each begins with the byte that tells SESP's clients whether it is escaped: *, or + as in most runs everywhere.
    if not lines.startswith(b"*") and b"\n*" not in lines:
        return lines[1:].replace(b"\n+", b"\n")
    return b"".join(chain.from_iterable((line[1:], b"\n") for line in lines.split(b"\n")[:-1]))


def terminal_lines(run: Run) -> bytes:
    """The same, for a terminal: nothing that somebody has published may command it."""
    return _CONTROL.sub(_escaped, text_lines(run))


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"".join([b"\\x%02x" % each for each in found[0]])


def json_lines(topic: str, run: Run) -> bytes:
    """An object a line."""
    return as_json.json_lines(topic, run.number, run.timestamp, run.tag, run.batch)
