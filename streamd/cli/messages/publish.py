"""``streamctl publish``: lines, or whole files, to a topic; each is stored once, also when the daemon is restarted."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import takewhile
from stat import S_ISREG
from typing import Any, BinaryIO, Final, Self

from streamd.cli.command import INTERRUPTED, USAGE, CommandError, print_json, size
from streamd.cli.connect import about, add_server_options, pravega
from streamd.cli.show import counted, progress, say
from streamd.client.blocking import PravegaClient
from streamd.client.errors import ClientError, Refused

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
    parser.add_argument("--whole", action="store_true", help="each file is one record, whatever is in it")
    parser.add_argument("--create", action="store_true", help="make the topic where it is not there")
    parser.add_argument(
        "--message-bytes-max",
        type=size,
        default=_MESSAGE_BYTES_MAX,
        metavar="BYTES",
        help="the largest record: what limits.message_bytes_max of the daemon is (default: 8m)",
    )
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    parser.add_argument("--json", action="store_true", help="print what was published as JSON")
    add_server_options(parser)
    parser.set_defaults(run=run, more="files")


def run(options: argparse.Namespace) -> int:
    """Publish, and tell how much."""
    began = time.monotonic()
    records = sent = 0
    with about(options.topic), ExitStack() as stack:
        files = [_opened(stack, name) for name in options.files or ["-"]]
        shown = not options.no_progress and sys.stdin.buffer not in files
        advance = stack.enter_context(progress("publish", _total(files), wanted=shown))
        client = stack.enter_context(pravega(options))
        if options.create:
            _create(client, options.topic)
        writer = stack.enter_context(client.writer(options.topic))
        stop = stack.enter_context(_Stop())
        try:
            for some in _records(files, options, stop):
                writer.write(some)
                records += len(some)
                sent += sum(map(len, some))
                advance(sum(map(len, some)) + len(some))
        finally:
            if not isinstance(sys.exception(), (ClientError, KeyboardInterrupt)):
                # Also where the next record can't be published: those before it are.
                writer.flush()
    seconds = time.monotonic() - began
    if options.json:
        print_json({"topic": options.topic, "records": records, "bytes": sent, "seconds": round(seconds, 6)})
    else:
        print(f"{options.topic}: {counted(records, 'record')} published")
    return INTERRUPTED if stop.asked else 0


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


class _Stop:
    """Ctrl-C ends the input. What was read before it gets to disk and is told, unless somebody is in a hurry."""

    def __init__(self) -> None:
        self.asked = False
        self._reading = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        if self._reading:
            raise InterruptedError
        say("stopped; what is on its way gets to disk first, or Ctrl-C again")

    def read(self, file: BinaryIO, most: int, *, whole: bool) -> bytes:
        """What comes next, or all of it; nothing at the end, or when it was asked for."""
        if self.asked:
            return b""
        try:
            self._reading = True
            return file.read(most) if whole else os.read(file.fileno(), most)
        except InterruptedError:
            return b""
        finally:
            self._reading = False


def _records(files: list[BinaryIO], options: argparse.Namespace, stop: _Stop) -> Iterator[list[bytes]]:
    for file in files:
        if stop.asked:
            return
        if options.whole:
            whole = stop.read(file, options.message_bytes_max + 1, whole=True)
            _check(len(whole), options)
            if not stop.asked:
                yield [whole]
        else:
            yield from _lines(file, options, stop)


def _lines(file: BinaryIO, options: argparse.Namespace, stop: _Stop) -> Iterator[list[bytes]]:
    """Lines as they come: who pipes a slow program in sees each line published at once."""
    rest = b""
    while data := stop.read(file, _READ_BYTES, whole=False):
        *lines, rest = (rest + data).split(b"\n")
        if (longest := max(map(len, lines), default=0)) > options.message_bytes_max:
            yield list(takewhile(lambda line: len(line) <= options.message_bytes_max, lines))
            _check(longest, options)
        if lines:
            yield lines
        _check(len(rest), options)
    if rest and not stop.asked:
        yield [rest]


def _check(length: int, options: argparse.Namespace) -> None:
    if length > options.message_bytes_max:
        raise CommandError(
            f"a record is over {options.message_bytes_max} bytes: split it, or raise limits.message_bytes_max of the "
            "daemon and --message-bytes-max. Those before it are published"
        )
