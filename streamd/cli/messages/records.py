"""Output formats of records: lines for people, raw bytes, or JSON."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

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
    """The records as one line each; what a line can't hold is escaped as SESP does it."""
    lines = message_lines([bytes(record) for record in run.batch.records()])
    # Each begins with the byte that tells SESP's clients whether it is escaped: *, or + as in most runs everywhere.
    if not lines.startswith(b"*") and b"\n*" not in lines:
        return lines[1:].replace(b"\n+", b"\n")
    return b"".join(chain.from_iterable((line[1:], b"\n") for line in lines.split(b"\n")[:-1]))


def terminal_lines(run: Run) -> bytes:
    """Like `text_lines`, for a terminal: no published control sequence may reach it."""
    return _CONTROL.sub(_escaped, text_lines(run))


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"".join([b"\\x%02x" % byte for byte in match[0]])


def json_lines(topic: str, run: Run) -> bytes:
    """The records as one JSON object a line."""
    return as_json.json_lines(topic, run.number, run.timestamp, run.tag, run.batch)


# -- as the caller wants them ------------------------------------------------------------------------------------------

FORMAT_HELP: Final = "how each is printed: %%t topic, %%o offset, %%T time (ms), %%S size, %%s message; \\n, \\t"

_TOKEN: Final = re.compile(r"%.?|\\(?:x[0-9a-fA-F]{2}|.)?", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_FIELDS: Final[dict[str, Callable[[str, Run, int, bytes], bytes]]] = {
    "t": lambda topic, run, number, data: topic.encode(),
    "o": lambda topic, run, number, data: b"%d" % number,
    "T": lambda topic, run, number, data: b"%d" % (run.timestamp // 1000),
    "S": lambda topic, run, number, data: b"%d" % len(data),
    "s": lambda topic, run, number, data: data,
    "%": lambda topic, run, number, data: b"%",
}

_Part = bytes | Callable[[str, Any, int, bytes], bytes]


def parse_format(text: str) -> list[_Part]:
    """The parts of a ``--format``: bytes, and what makes some of a message."""
    parts: list[_Part] = []
    at = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[at : token.start()].encode())
        at, word = token.end(), token[0][1:]
        if token[0].startswith("%") and word in _FIELDS:
            parts.append(_FIELDS[word])
        elif token[0].startswith("\\") and (word in _ESCAPES or len(word) == 3):
            parts.append(_ESCAPES[word] if word in _ESCAPES else bytes([int(word[1:], 16)]))
        else:
            raise argparse.ArgumentTypeError(
                f"{token[0]!r} means nothing in a format: {FORMAT_HELP.replace('%%', '%')}"
            )
    parts.append(text[at:].encode())
    return [part for part in parts if part != b""]


def formatted(topic: str, parts: list[_Part], run: Run) -> bytes:
    """The messages of a run as a ``--format`` has them."""
    made: list[bytes] = []
    for number, record in enumerate(run.batch.records(), run.number):
        data = bytes(record)
        made += [part if isinstance(part, bytes) else part(topic, run, number, data) for part in parts]
    return b"".join(made)


def add_shape_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that prints messages."""
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--raw", action="store_true", help="the bytes as they are, with nothing between two messages")
    shape.add_argument("--json", action="store_true", help="print a JSON object for each message, one a line")
    shape.add_argument("--format", type=parse_format, metavar="FORMAT", help=FORMAT_HELP)


def shape_of(options: argparse.Namespace) -> Callable[[Run], bytes]:
    """What the options make of messages."""
    if options.raw:
        return raw_bytes
    if options.json:
        return partial(json_lines, options.topic)
    if options.format is not None:
        return partial(formatted, options.topic, options.format)
    return terminal_lines if sys.stdout.isatty() else text_lines
