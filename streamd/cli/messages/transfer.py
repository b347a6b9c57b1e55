"""``streamctl import`` and ``copy``: messages from a file, from a topic or from another daemon into a topic.

Both write as ``publish`` does: each message is stored once, also where the daemon is restarted meanwhile.
"""

from __future__ import annotations

import argparse
import json
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from streamd.cli.command import USAGE, CommandError, print_json
from streamd.cli.connect import add_server_options
from streamd.cli.messages.publish import open_writer, opened, ready_topic
from streamd.cli.messages.source import add_source_options, source
from streamd.cli.places import END, FIRST, PLACE_HELP, place
from streamd.cli.show import counted

if TYPE_CHECKING:
    from streamd.cli.messages.source import Info, Source

_MESSAGES_AT_ONCE: Final = 1000
_LOOK_SECONDS: Final = 0.2


def add(commands: Any) -> None:
    """Put the commands on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "import",
        help="publish what export wrote",
        description="Publish the values of JSON lines that 'streamctl export' wrote. It ends when all is on disk.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("files", nargs="*", metavar="FILE", help="- is the standard input, as is no file at all")
    parser.add_argument("--create", action="store_true", help="make the topic where it is not there")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    add_server_options(parser)
    parser.set_defaults(run=import_files, more="files")
    copying: argparse.ArgumentParser = commands.add_parser(
        "copy",
        help="copy a topic to another topic, or to another daemon",
        description="Copy the messages of a topic, up to those that are there now, to another topic or another daemon.",
    )
    copying.add_argument("topic", metavar="TOPIC")
    copying.add_argument("target", metavar="TARGET")
    copying.add_argument("--to-server", metavar="ADDRESS", help="the other daemon, where it is another one")
    copying.add_argument("--from", dest="first", type=place, default=FIRST, metavar="PLACE", help=PLACE_HELP)
    copying.add_argument(
        "--to", dest="end", type=place, default=END, metavar="PLACE", help="the first that is left out"
    )
    copying.add_argument("-f", "--follow", action="store_true", help="go on as messages come, until Ctrl-C")
    copying.add_argument("--create", action="store_true", help="make the target where it is not there")
    copying.add_argument("--json", action="store_true", help="print what was done as JSON")
    add_source_options(copying)
    copying.set_defaults(run=copy)


def import_files(options: argparse.Namespace) -> int:
    """Publish what was exported."""
    with ExitStack() as stack:
        files = [(name, opened(stack, name)) for name in options.files or ["-"]]
        count = _write(options, options.topic, (some for name, file in files for some in _values(name, file)))
    return _tell(options, options.topic, count)


def _values(name: str, file: BinaryIO) -> Iterator[list[bytes]]:
    values: list[bytes] = []
    for number, line in enumerate(file, 1):
        try:
            message = json.loads(line)
            text = message.get("value")
            values.append(text.encode() if text is not None else b64decode(message["value_base64"], validate=True))
        except (ValueError, KeyError, AttributeError, TypeError, Base64Error):
            yield values
            raise CommandError(
                f"{name}, line {number}: no object of 'streamctl export' with a value. Those before it are published"
            )
        if len(values) >= _MESSAGES_AT_ONCE:
            yield values
            values = []
    yield values


def copy(options: argparse.Namespace) -> int:
    """Copy a topic."""
    if options.topic == options.target and options.to_server is None:
        raise CommandError("a topic can't be copied to itself: give another TARGET, or --to-server", USAGE)
    with source(options) as found:
        info = found.segment(options.topic)
        target = argparse.Namespace(**vars(options))
        if options.to_server is not None:
            target.server = options.to_server
        count = _write(target, options.target, _messages(found, info, options))
    return _tell(options, options.target, count)


def _messages(found: Source, info: Info, options: argparse.Namespace) -> Iterator[list[bytes]]:
    first = options.first.of(found, info)
    end = min(options.end.of(found, info), info.number)
    while True:
        if first < end:
            for run in found.read(info.id, first, end):
                yield [bytes(record) for record in run.batch.records()]
            first = end
        if not options.follow or info.sealed:
            return
        time.sleep(_LOOK_SECONDS)
        found.refresh()
        info = found.segment(info.id)
        end = info.number


def _write(options: argparse.Namespace, topic: str, messages: Iterator[list[bytes]]) -> int:
    """Publish all of these. Where one can't be had those before it are published all the same."""
    count = 0
    ready_topic(options, topic)
    with open_writer(options, topic) as writer:
        try:
            for some in messages:
                if some:
                    writer.write(some)
                    count += len(some)
        except KeyboardInterrupt:
            pass  # how who follows ends it
    return count


def _tell(options: argparse.Namespace, topic: str, count: int) -> int:
    if options.json:
        print_json({"topic": topic, "records": count})
    else:
        print(f"{topic}: {counted(count, 'message')} published")
    return 0
