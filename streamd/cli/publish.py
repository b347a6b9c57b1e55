"""``streamctl publish``: lines, or whole files, to a topic; each is stored once, also when the daemon is restarted."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from stat import S_ISREG
from typing import Any, BinaryIO, Final

from streamd.cli.command import USAGE, CommandError, print_json, size
from streamd.cli.connect import add_server_options, pravega
from streamd.cli.show import progress
from streamd.client.blocking import PravegaClient
from streamd.client.errors import Refused

_READ_BYTES: Final = 256 << 10
_MESSAGE_BYTES_MAX: Final = 8 << 20


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "publish",
        help="publish lines or files to a topic",
        description="Publish each line of files, or of the standard input, to a topic. It ends when all is on disk.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("files", nargs="*", metavar="FILE", help="- is the standard input, as is no file at all")
    parser.add_argument("--whole", action="store_true", help="each file is one message, whatever is in it")
    parser.add_argument("--create", action="store_true", help="make the topic where it is not there")
    parser.add_argument(
        "--message-bytes-max",
        type=size,
        default=_MESSAGE_BYTES_MAX,
        metavar="BYTES",
        help="the largest message: what limits.message_bytes_max of the daemon is (default: 8m)",
    )
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    parser.add_argument("--json", action="store_true", help="print what was published as JSON")
    add_server_options(parser)
    parser.set_defaults(run=run, more="files")


def run(options: argparse.Namespace) -> int:
    """Publish, and tell how much."""
    began = time.monotonic()
    messages = sent = 0
    with ExitStack() as stack:
        files = [_opened(stack, name) for name in options.files or ["-"]]
        shown = not options.no_progress and sys.stdin.buffer not in files
        advance = stack.enter_context(progress(options.topic, _total(files), wanted=shown))
        client = stack.enter_context(pravega(options))
        if options.create:
            _create(client, options.topic)
        writer = stack.enter_context(client.writer(options.topic))
        for some in _messages(files, options):
            writer.write(some)
            messages += len(some)
            sent += sum(map(len, some))
            advance(sum(map(len, some)) + len(some))
    seconds = time.monotonic() - began
    if options.json:
        print_json({"topic": options.topic, "messages": messages, "bytes": sent, "seconds": round(seconds, 6)})
    else:
        print(f"{options.topic}: {messages:,} messages published")
    return 0


def _create(client: PravegaClient, topic: str) -> None:
    try:
        client.create(topic)
    except Refused as error:
        if error.reason != "SegmentAlreadyExists":
            raise


def _opened(stack: ExitStack, name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return stack.enter_context(open(name, "rb"))
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}", USAGE)


def _total(files: list[BinaryIO]) -> int | None:
    """The bytes of all files; None where one of them has no end that is known."""
    found = [os.fstat(file.fileno()) for file in files]
    return sum(each.st_size for each in found) if all(S_ISREG(each.st_mode) for each in found) else None


def _messages(files: list[BinaryIO], options: argparse.Namespace) -> Iterator[list[bytes]]:
    for file in files:
        if options.whole:
            whole = file.read(options.message_bytes_max + 1)
            _check(len(whole), options)
            yield [whole]
        else:
            yield from _lines(file, options)


def _lines(file: BinaryIO, options: argparse.Namespace) -> Iterator[list[bytes]]:
    """Lines as they come: who pipes a slow program in sees each line published at once."""
    rest = b""
    while data := os.read(file.fileno(), _READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        _check(max(map(len, [*lines, rest])), options)
        if lines:
            yield lines
    if rest:
        yield [rest]


def _check(length: int, options: argparse.Namespace) -> None:
    if length > options.message_bytes_max:
        raise CommandError(
            f"a message is over {options.message_bytes_max} bytes: split it, or raise limits.message_bytes_max of the "
            "daemon and --message-bytes-max. Those before it are published"
        )
