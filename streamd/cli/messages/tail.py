"""``streamctl tail``: the records of a topic, from a place on, and as they come."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from streamd.cli.command import USAGE, CommandError
from streamd.cli.connect import storage
from streamd.cli.messages.records import add_shape_options, shape_of
from streamd.cli.messages.source import add_source_options, reconnecting, source
from streamd.cli.places import PLACE_HELP, place
from streamd.cli.values import whole

if TYPE_CHECKING:
    from streamd.cli.messages.source import Info, Run, Source

_LAST: Final = 10
_LOOK_SECONDS: Final = 0.2


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "tail",
        help="print the messages of a topic",
        description=f"Print the last {_LAST} messages of a topic, or all from a place on. What a line can't hold is "
        "escaped: \\n, \\xff.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as messages come, until Ctrl-C")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--from", dest="first", type=place, metavar="PLACE", help=PLACE_HELP.replace("%", "%%"))
    begin.add_argument("-n", "--last", type=whole, metavar="N", help=f"the last N messages (default: {_LAST})")
    parser.add_argument("-c", "--count", type=whole, metavar="N", help="end after N messages")
    begin.add_argument(
        "--group", metavar="GROUP", help="what this reader group has not acknowledged; nothing is acknowledged"
    )
    add_shape_options(parser)
    add_source_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print records."""
    if options.group is not None and options.path is not None:
        raise CommandError("--group asks a daemon: leave out --path", USAGE)
    shape = shape_of(options)
    left = options.count
    for run in _Tail(options).runs():
        if left is not None:
            run = run._replace(batch=run.batch.part(0, left))
            left -= run.batch.count
        sys.stdout.buffer.write(shape(run))
        if options.follow:
            sys.stdout.buffer.flush()
        if left == 0:
            break
    return 0


class _Tail:
    """The records of a topic from a place on: after a lost connection it goes on where it was."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._id: int | None = None
        self._number = 0

    def runs(self) -> Iterator[Run]:
        """Yield the records, and where that is asked for, those that come."""
        if not self._options.follow:
            with source(self._options) as found:
                yield from filter(None, self._read(found))
            return
        yield from filter(None, reconnecting(self._options, self._read))

    def _read(self, found: Source) -> Iterator[Run | None]:
        """Yield records; None after each look, which says that the connection works."""
        # By its id: another topic that is given the name is not this one.
        info = found.segment(self._options.topic if self._id is None else self._id)
        if self._id is None:
            self._id, self._number = info.id, self._begin(found, info)
        while True:
            if self._number < info.number:
                for run in found.read(info.id, self._number, info.number):
                    self._number = run.number + run.batch.count
                    yield run
            yield None
            if not self._options.follow or info.sealed:
                return
            time.sleep(_LOOK_SECONDS)
            found.refresh()
            info = found.segment(info.id)

    def _begin(self, found: Source, info: Info) -> int:
        options = self._options
        if options.first is not None:
            number: int = options.first.of(found, info)
            return number
        if options.group is not None:
            with storage(options) as client:
                position = client.group(info.id, options.group)
            if position is None:
                raise CommandError(
                    f"{options.topic} has no reader group {options.group!r}: see 'streamctl groups list'"
                )
            return max(position, info.first_number)
        return max(info.first_number, info.number - (_LAST if options.last is None else options.last))
