"""A blocking SESP connection for tests: a command, its reply, and all messages of a topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tests.rigs.daemon import Daemon

_AT_ONCE = 500


class Sesp:
    """One connection."""

    def __init__(self, daemon: Daemon) -> None:
        self._connection = daemon.connect()
        self._stream: Any = self._connection.makefile("rwb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._connection.close()

    def reply(self, command: str) -> bytes:
        """The reply to a command, whatever it is, without its newline."""
        self._stream.write(command.encode() + b"\n")
        self._stream.flush()
        line: bytes = self._stream.readline()
        return line[:-1]

    def ask(self, command: str) -> bytes:
        """What a positive reply says."""
        reply = self.reply(command)
        assert reply[:1] == b"+", f"{command[:80]} was answered {reply[:200]!r}"
        return reply[1:]

    def publish(self, messages: Sequence[str]) -> None:
        """Publish to the selected topic, many messages at a time."""
        for first in range(0, len(messages), _AT_ONCE):
            lines = [f">{message}\n".encode() for message in messages[first : first + _AT_ONCE]]
            self._stream.write(b"".join(lines))
            self._stream.flush()
            replies = {self._stream.readline() for _ in lines}
            assert replies == {b"+\n"}, replies

    def places(self, topic: str) -> tuple[int, int, int]:
        """The first offset of a topic, its next one, and the bytes between them."""
        told = json.loads(self.ask(f"?{topic}"))
        return told["first_offset"], told["next_offset"], told["bytes"]

    def read_while_it_goes(self, topic: str) -> dict[int, bytes]:
        """All messages of a topic by their offset, up to where it ended when asked; truncated ones are left out."""
        self.reply(f"@{topic}")
        first, end, _ = self.places(topic)
        found: dict[int, bytes] = {}
        while first < end:
            self.ask(f"${first}")
            count = min(_AT_ONCE, end - first)
            self._stream.write(b"<\n" * count)
            self._stream.flush()
            replies = [self._stream.readline() for _ in range(count)]
            if any(reply == b"-OffsetTruncated\n" for reply in replies):
                # What is behind it is read again from the new beginning.
                first = max(self.places(topic)[0], first + 1)
                continue
            for offset, reply in enumerate(replies, first):
                assert reply[:1] == b"+", f"{topic} at {offset}: {reply[:200]!r}"
                found[offset] = reply[1:-1]
            first += count
        return found
