r"""SESP: one line, one command. Bytes to requests, and records to reply lines.

A run of like commands in what arrived becomes one request with one batch: ``>a\n>b\n`` is one `Publish` of two
records. The work is done by `split`, `join` and `count`, not by a loop over lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, repeat
from typing import Final

from streamd.batch import Batch, Buffer
from streamd.wire import WireError
from streamd.wire.sesp_commands import OFFSET_END as OFFSET_END
from streamd.wire.sesp_commands import AskSequence as AskSequence
from streamd.wire.sesp_commands import Command as Command
from streamd.wire.sesp_commands import Create as Create
from streamd.wire.sesp_commands import Delete as Delete
from streamd.wire.sesp_commands import Describe as Describe
from streamd.wire.sesp_commands import List as List
from streamd.wire.sesp_commands import Named as Named
from streamd.wire.sesp_commands import Publish as Publish
from streamd.wire.sesp_commands import PublishLater as PublishLater
from streamd.wire.sesp_commands import PublishOnce as PublishOnce
from streamd.wire.sesp_commands import Read as Read
from streamd.wire.sesp_commands import Refused as Refused
from streamd.wire.sesp_commands import Seal as Seal
from streamd.wire.sesp_commands import Seek as Seek
from streamd.wire.sesp_commands import Select as Select
from streamd.wire.sesp_commands import Status as Status
from streamd.wire.sesp_commands import Truncate as Truncate

_NAMED: Final[dict[int, type[Named]]] = {
    ord("#"): Create,
    ord("!"): Delete,
    ord("@"): Select,
    ord("="): Seal,
    ord("?"): Describe,
}
_NUMBERED: Final[dict[int, type[Seek]]] = {ord("$"): Seek, ord("%"): Truncate}
_PUBLISH: Final = ord(">")
_READ: Final = ord("<")
_STATUS: Final = ord("&")
_MINUS: Final = ord("-")
_ONCE: Final = ord("^")
_LATER: Final = ord("~")
_ONCE_FORM: Final = re.compile(rb"([!-~]{1,64})(?: ([0-9]{1,18}) (.*))?", re.DOTALL)
_LATER_FORM: Final = re.compile(rb"(\+?)([0-9]{1,15}) (.*)", re.DOTALL)
_LONG_LINE_BYTES: Final = 500
_NUMBER: Final = re.compile(rb"-?[0-9]+")


class LineTooLong(WireError):
    """A line that is longer than lines may be."""

    reason = "line_bytes"


class SespCodec:
    """One connection's input."""

    def __init__(self, line_bytes_max: int) -> None:
        self._line_bytes_max = line_bytes_max
        self._rest = bytearray()
        self._telnet: bool | None = None
        self.error: WireError | None = None

    @property
    def buffered(self) -> int:
        """Bytes of a line that has begun and not ended."""
        return len(self._rest)

    def single(self, data: bytes) -> bytes | None:
        """The message, where `data` is the line of one and nothing else; only while nothing is buffered."""
        if (
            data.startswith(b">")
            and data.find(b"\n") + 1 == len(data) <= self._line_bytes_max + 1
            and self._telnet is False
            and data.isascii()
        ):
            return data[1:-1]
        return None

    def receive(self, data: bytes) -> Iterable[Command]:
        """The commands that `data` completes."""
        if self.error is not None:
            raise self.error
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return ()
        rest = data[end:]
        whole = data[:end] if rest else data
        if self._rest:
            whole = b"".join((self._rest, whole))
            self._rest = bytearray()
        if self._telnet is None:
            # The first line tells.
            self._telnet = whole[: whole.index(b"\n")].endswith(b"\r")
        whole, fits = self._cut_too_long(whole)
        commands = self._commands(self._plain(whole)) if whole else ()
        if fits:
            self._keep(rest)
        return commands

    def _keep(self, data: bytes) -> None:
        # In one buffer that grows: a list of a line's pieces can take many times its bytes.
        self._rest += data
        # One more for a carriage return that does not count.
        if len(self._rest) > self._line_bytes_max + 1:
            self._fail()

    def _fail(self) -> None:
        self._rest = bytearray()
        self.error = LineTooLong(f"a line is over the limit of {self._line_bytes_max} bytes")

    def _cut_too_long(self, whole: bytes) -> tuple[bytes, bool]:
        """What stands before the first line that is too long, and whether that is everything."""
        limit = self._line_bytes_max + 1
        if len(whole) <= limit:
            return whole, True
        begin = 0
        while (end := whole.find(b"\n", begin)) >= 0:
            length = end - begin - (self._telnet is True and whole[end - 1 : end] == b"\r")
            if length >= limit:
                self._fail()
                return whole[:begin], False
            # Jump: every line that ends within the limit from here is short enough.
            begin = max(whole.rfind(b"\n", begin, begin + limit) + 1, end + 1)
        return whole, True

    def _plain(self, whole: bytes) -> bytes:
        """Lines that end with a newline alone."""
        return whole.replace(b"\r\n", b"\n") if self._telnet else whole

    def _commands(self, whole: bytes) -> Iterable[Command]:
        first = whole[0]
        if first == _PUBLISH:
            batch = _messages(whole)
            if batch is not None and (whole.isascii() or _is_text(whole)):
                return [Publish(batch)]
        elif first == _READ and whole == b"<\n" * (len(whole) // 2):
            return [Read(len(whole) // 2)]
        return _mixed(whole[:-1].split(b"\n"))


def _messages(whole: bytes) -> Batch | None:
    """The messages of lines that all begin with ``>``; None where one does not.

    `split` looks at each byte, `find` costs a hundred nanoseconds a line: which is faster depends on their length.
    """
    end = whole.find(b"\n")
    if end + 1 == len(whole):
        return Batch.single(whole[1:end])
    if end < _LONG_LINE_BYTES:
        lines = whole.split(b"\n")
        lines.pop()
        messages = list(map(bytes.removeprefix, lines, repeat(b">")))
    else:
        messages = []
        begin = 0
        while begin < len(whole):
            if whole[begin] != _PUBLISH:
                return None
            end = whole.find(b"\n", begin)
            messages.append(whole[begin + 1 : end])
            begin = end + 1
    batch = Batch.of(messages)
    # Two bytes of each line, and no more, are not part of its message.
    return batch if len(whole) - len(batch.payload) == 2 * len(messages) else None


def _mixed(lines: list[bytes]) -> Iterator[Command]:
    for first, run in groupby(lines, key=lambda line: line[:1]):
        if first == b">":
            yield from _publish([line[1:] for line in run])
        elif first == b"<":
            for plain, same in groupby(run, key=len):
                count = len(list(same))
                if plain == 1:
                    yield Read(count)
                else:
                    yield from (Refused("InvalidData") for _ in range(count))
        else:
            yield from map(_single, run)


def _publish(messages: list[bytes]) -> Iterator[Command]:
    """One batch, unless some message is no UTF-8."""
    for valid, run in groupby(messages, key=_is_text):
        if valid:
            yield Publish(Batch.of(list(run)))
        else:
            yield from (Refused("InvalidData") for _ in run)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _single(line: bytes) -> Command:
    if not line:
        return Refused("InvalidCommand")
    action, rest = line[0], line[1:]
    if (numbered := _NUMBERED.get(action)) is not None:
        if _NUMBER.fullmatch(rest) is None:
            return Refused("InvalidData")
        # Twenty digits are too many already. `int` takes the square of the length, and a line may be long.
        offset = int(rest.lstrip(b"-0")[:20] or b"0")
        if rest[0] == _MINUS:
            offset = -offset
        return numbered(offset) if offset < OFFSET_END else Refused("InvalidData")
    if action in (_ONCE, _LATER):
        return _special(action, rest)
    if action == _STATUS:
        return Status() if not rest else Refused("InvalidData")
    if line == b"?":
        return List()
    if (named := _NAMED.get(action)) is None:
        return Refused("InvalidCommand")
    try:
        return named(rest.decode())
    except UnicodeDecodeError:
        return Refused("InvalidData")


def _special(action: int, rest: bytes) -> Command:
    """A publication of which more is said than the message."""
    found = (_ONCE_FORM if action == _ONCE else _LATER_FORM).fullmatch(rest)
    if found is None or not _is_text(rest):
        return Refused("InvalidData")
    if action == _ONCE and found[2] is None:
        return AskSequence(found[1].decode())
    if action == _ONCE:
        return PublishOnce(found[1].decode(), int(found[2]), Batch.of([found[3]]))
    return PublishLater(int(found[2]), Batch.of([found[3]]), is_relative=bool(found[1]))


_ESCAPED: Final = {ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r"}
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\\\\\udc80-\udcff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in _ESCAPED:
        return _ESCAPED[code]
    if code >= 0xDC00:
        return f"\\x{code - 0xDC00:02x}"
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode())


def message_lines(records: Sequence[Buffer]) -> bytes:
    """The replies that carry these records: ``+message``, or ``*`` and an escaped one where a line can't hold it."""
    lines = b"".join([b"+", b"\n+".join(records), b"\n"])
    if lines.count(b"\n") == len(records) and (lines.isascii() or _is_text(lines)):
        return lines
    return b"".join(map(_message_line, records))


def _message_line(record: Buffer) -> bytes:
    data = bytes(record)
    if b"\n" not in data and (data.isascii() or _is_text(data)):
        return b"+" + data + b"\n"
    text = data.decode("utf-8", "surrogateescape")
    return b"*" + _CONTROL.sub(_escape, text).encode() + b"\n"


OK: Final = b"+\n"


def error_line(name: str) -> bytes:
    """The reply that refuses a command."""
    return f"-{name}\n".encode()
