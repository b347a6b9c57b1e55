"""``streamctl publish``: messages, lines or whole files to a topic; each is stored once, also over restarts."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, takewhile
from stat import S_ISREG
from typing import Any, BinaryIO, Final, Self

from streamd.batch import Batch
from streamd.cli.command import INTERRUPTED, USAGE, CommandError, print_json, size
from streamd.cli.connect import about, add_server_options, messages, storage, what_next
from streamd.cli.places import place
from streamd.cli.show import counted, progress, say
from streamd.client.blocking import Client
from streamd.client.core.session import chunks
from streamd.client.errors import Refused

_WRITE_BYTES: Final = 1 << 20
_ROOM_SECONDS: Final = 1.0
_READ_BYTES: Final = 256 << 10
_MESSAGE_BYTES_MAX: Final = 8 << 20


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "publish",
        help="publish messages to a topic",
        description="Publish messages to a topic: the words given, or each line of files or of the standard input. It "
        "ends when all is on disk.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "messages",
        nargs="*",
        metavar="MESSAGE",
        help="- stands for each line of the standard input, as does none at all",
    )
    parser.add_argument(
        "-i", "--file", action="append", default=[], dest="files", metavar="FILE", help="publish each line of this file"
    )
    parser.add_argument("--whole", action="store_true", help="what is given are files, each of them one message")
    parser.add_argument("--create", action="store_true", help="make the topic where it is not there")
    parser.add_argument(
        "--message-bytes-max",
        type=size,
        default=_MESSAGE_BYTES_MAX,
        metavar="BYTES",
        help="the largest message: what limits.message_bytes_max of the daemon is (default: 8m)",
    )
    later = parser.add_mutually_exclusive_group()
    later.add_argument("--delay", type=_delay, metavar="SECONDS", help="they become visible so many seconds from now")
    later.add_argument("--at", type=_moment, metavar="TIME", help="they become visible then: 2026-11-16T18:00, UTC")
    parser.add_argument("--wait", action="store_true", help="where the daemon's disk is full, wait until there is room")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    parser.add_argument("--json", action="store_true", help="print what was published as JSON")
    add_server_options(parser)
    parser.set_defaults(run=run, more="messages")


def run(options: argparse.Namespace) -> int:
    """Publish, and tell how much."""
    began = time.monotonic()
    records = sent = 0
    with ExitStack() as stack:
        if options.whole:
            # Who says so means files.
            options.files, options.messages = [*options.messages, *options.files], []
        words = options.messages or ([] if options.files else ["-"])
        files = [opened(stack, name) for name in [*(["-"] if "-" in words else []), *options.files]]
        for word in words:
            if word != "-" and os.path.isfile(word):
                say(f"{word!r} is published as a message; --file publishes the lines of a file")
        words = [os.fsencode(word) for word in words if word != "-"]
        for each in words:
            _check(len(each), options)
        shown = not options.no_progress and bool(files) and sys.stdin.buffer not in files
        advance = stack.enter_context(progress("publish", _total(files), wanted=shown))
        ready_topic(options, options.topic)
        stop = stack.enter_context(_Stop())
        with open_writer(options, options.topic) as writer:
            for some in chain([words] if words else [], _records(files, options, stop)):
                writer.write(some)
                records += len(some)
                sent += sum(map(len, some))
                advance(sum(map(len, some)) + len(some))
    seconds = time.monotonic() - began
    if options.json:
        print_json({"topic": options.topic, "records": records, "bytes": sent, "seconds": round(seconds, 6)})
    else:
        print(f"{options.topic}: {counted(records, 'message')} published")
    return INTERRUPTED if stop.asked else 0


def ready_topic(options: argparse.Namespace, topic: str) -> None:
    """See that a topic takes messages, before anything is read: what is wrong is told at once, and of what."""
    while True:
        with storage(options) as tools, about(topic):
            segment = tools.create(topic, exists_ok=True) if options.create else tools.segment(topic)
            try:
                tools.store(segment.id, Batch.of([]))
                return
            except Refused as error:
                if error.reason != "ReadOnly" or not getattr(options, "wait", False):
                    raise
        say(f"{topic}: the daemon takes no writes now, its disk is full; waiting for room")
        time.sleep(_ROOM_SECONDS)


class Publisher:
    """Publishes messages, each once, and knows how many of them are stored."""

    def __init__(self, options: argparse.Namespace, topic: str, client: Client, at: float | None) -> None:
        self._options = options
        self._topic = topic
        self._client = client
        self._at = at
        self.stored = 0

    def write(self, messages: list[bytes]) -> None:
        """Publish these: they are on disk when this returns."""
        for some in chunks(messages, _WRITE_BYTES):
            while True:
                try:
                    self._client.publish(self._topic, some, at=self._at)
                    break
                except Refused as error:
                    if error.reason != "ReadOnly" or not getattr(self._options, "wait", False):
                        raise CommandError(
                            f"{self._topic}: {what_next(error)}. {counted(self.stored, 'message')} stored"
                        )
                ready_topic(self._options, self._topic)
            self.stored += len(some)


@contextmanager
def open_writer(options: argparse.Namespace, topic: str) -> Iterator[Publisher]:
    """What publishes to a topic, over lost connections and restarts of the daemon."""
    at = getattr(options, "at", None)
    delay = getattr(options, "delay", None)
    if delay is not None:
        at = time.time() + delay
    with messages(options) as client:
        yield Publisher(options, topic, client, at)


def _delay(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def _moment(text: str) -> float:
    found = place(text)
    if found.timestamp is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 2026-11-16T18:00")
    return found.timestamp / 1e6


def opened(stack: ExitStack, name: str) -> BinaryIO:
    """Open a file for as long as `stack` lasts; ``-`` is the standard input."""
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
            f"a message is over {options.message_bytes_max} bytes: split it, or raise limits.message_bytes_max of the "
            "daemon and --message-bytes-max. Those before it are published"
        )
