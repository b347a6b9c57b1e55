"""``streamctl tail``: the records of a topic, from a place on, and as they come."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamd.cli.messages.records import json_lines, raw_bytes, terminal_lines, text_lines
from streamd.cli.messages.source import add_source_options, source
from streamd.cli.places import PLACE_HELP, place
from streamd.cli.values import whole

if TYPE_CHECKING:
    from streamd.cli.messages.source import Run, Source

_LAST: Final = 10
_LOOK_SECONDS: Final = 0.2


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "tail",
        help="print the records of a topic",
        description=f"Print the last {_LAST} records of a topic, or all from a place on. What a line can't hold is "
        "escaped: \\n, \\xff.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as records come, until Ctrl-C")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--from", dest="first", type=place, metavar="PLACE", help=PLACE_HELP.replace("%", "%%"))
    begin.add_argument("-n", "--last", type=whole, metavar="N", help=f"the last N records (default: {_LAST})")
    parser.add_argument("-c", "--count", type=whole, metavar="N", help="end after N records")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--raw", action="store_true", help="the bytes as they are, with nothing between two records")
    shape.add_argument("--json", action="store_true", help="print a JSON object for each record, one a line")
    add_source_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print records."""
    shape: Callable[[Run], bytes] = terminal_lines if sys.stdout.isatty() else text_lines
    if options.raw:
        shape = raw_bytes
    elif options.json:
        shape = partial(json_lines, options.topic)
    left = options.count
    with source(options) as found:
        for each in _runs(found, options):
            if left is not None:
                each = each._replace(batch=each.batch.part(0, left))
                left -= each.batch.count
            sys.stdout.buffer.write(shape(each))
            if options.follow:
                sys.stdout.buffer.flush()
            if left == 0:
                break
    return 0


def _runs(found: Source, options: argparse.Namespace) -> Iterator[Run]:
    info = found.segment(options.topic)
    if options.first is not None:
        number = options.first.of(found, info)
    else:
        number = max(info.first_number, info.number - (_LAST if options.last is None else options.last))
    while True:
        if number < info.number:
            yield from found.read(info.id, number, info.number)
            number = info.number
        if not options.follow or info.sealed:
            return
        time.sleep(_LOOK_SECONDS)
        found.refresh()
        # By its id: another topic that is given the name is not this one.
        info = found.segment(info.id)
