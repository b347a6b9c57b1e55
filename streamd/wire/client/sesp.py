r"""SESP from the client's side: commands to lines, and lines to replies.

A run of publishes is one `join`, and the daemon's answer is one `split`: ``+\n+\n+\n`` is three lines of one byte.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat, takewhile
from typing import Final

from streamd.batch import Buffer
from streamd.wire import WireError
from streamd.wire.sesp import Command, Create, Delete, Describe, List, Named, Read, Seal, Seek, Select, Status, Truncate

_ACTIONS: Final[dict[type[Command], bytes]] = {
    Create: b"#",
    Delete: b"!",
    Select: b"@",
    Seal: b"=",
    Describe: b"?",
    Seek: b"$",
    Truncate: b"%",
    List: b"?",
    Status: b"&",
}
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_PLAIN: Final = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}

POSITIVE: Final = b"+"
"""The reply to a command that was carried out."""

_POSITIVE: Final = ord(POSITIVE)


def command_line(command: Command) -> bytes:
    """A command as it is sent; ValueError where a name is empty or would be more than one line."""
    if isinstance(command, Read):
        return b"<\n" * command.count
    if isinstance(command, Named):
        if not command.name or _CONTROL.search(command.name):
            raise ValueError(f"{command.name!r} is no name: it is empty, or holds control characters")
        return _ACTIONS[type(command)] + command.name.encode() + b"\n"
    if isinstance(command, Seek):
        return _ACTIONS[type(command)] + b"%d\n" % command.offset
    return _ACTIONS[type(command)] + b"\n"


def publish_lines(messages: Sequence[Buffer]) -> bytes:
    """The commands that publish these messages; ValueError where one is not one line of UTF-8."""
    lines = b"".join([b">", b"\n>".join(messages), b"\n"]) if messages else b""
    if lines.count(b"\n") != len(messages):
        raise ValueError("a message of SESP holds no newline")
    if not lines.isascii():
        try:
            lines.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"a message of SESP is UTF-8: {error.reason}")
    return lines


class SespReplies:
    """Parses what the daemon sends on one connection."""

    def __init__(self, line_bytes_max: int) -> None:
        self._line_bytes_max = line_bytes_max
        self._rest = bytearray()
        self.error: WireError | None = None

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete line."""
        return len(self._rest)

    def receive(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their ends."""
        if self.error is not None:
            raise self.error
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return []
        whole = data[: end - 1]
        if self._rest:
            whole = b"".join((self._rest, whole))
            self._rest = bytearray()
        lines = whole.split(b"\n")
        if len(whole) > self._line_bytes_max:
            fitting = list(takewhile(lambda line: len(line) <= self._line_bytes_max, lines))
            if len(fitting) < len(lines):
                self._fail()
                return fitting
        self._keep(data[end:])
        return lines

    def _keep(self, data: bytes) -> None:
        self._rest += data
        if len(self._rest) > self._line_bytes_max:
            self._fail()

    def _fail(self) -> None:
        self._rest = bytearray()
        self.error = WireError(f"a reply is over the limit of {self._line_bytes_max} bytes")


def refusal(line: bytes) -> str | None:
    """The name of the error in a reply; None where the reply is positive."""
    if line[:1] in (b"+", b"*"):
        return None
    if line[:1] != b"-":
        raise WireError(f"a reply begins with {line[:1]!r}")
    return line[1:].decode("utf-8", "replace")


def refusals(lines: list[bytes]) -> list[str]:
    """The names of the errors among these replies."""
    if lines.count(POSITIVE) == len(lines):
        return []
    return [name for line in lines if (name := refusal(line)) is not None]


def messages(lines: list[bytes]) -> tuple[list[bytes], list[str]]:
    """The messages in the replies to reads, and the names of the errors; an empty read is one of them."""
    texts = list(map(bytes.removeprefix, lines, repeat(POSITIVE)))
    if sum(map(len, lines)) - sum(map(len, texts)) == len(lines):
        return texts, []
    return [_message(line) for line in lines if refusal(line) is None], refusals(lines)


def _message(line: bytes) -> bytes:
    return line[1:] if line[0] == _POSITIVE else unescaped(line[1:])


def unescaped(text: bytes) -> bytes:
    """The text of a message that was sent with ``*``: escapes are replaced."""
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return bytes((int(match[1], 16),))
    if match[2] not in _PLAIN:
        raise WireError(f"a reply escapes {match[2]!r}")
    return _PLAIN[match[2]]
