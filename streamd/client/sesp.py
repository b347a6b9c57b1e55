"""SESP for clients: the administrator's session, and one for each topic, since a connection selects one topic."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from streamd.client.errors import Refused
from streamd.client.session import OrderedSession, Steps, broken, chunks
from streamd.wire import WireError
from streamd.wire.sesp import Command, Create, Delete, Describe, List, Read, Seal, Seek, Select, Status, Truncate
from streamd.wire.sesp_client import SespReplies, command_line, messages, publish_lines, refusal, refusals

# How many messages are asked for at once: more when they are small, fewer when they are large.
_AHEAD_FIRST: Final = 64
_AHEAD_MAX: Final = 8192
_AHEAD_BYTES: Final = 512 << 10

_TOO_LONG: Final = b"-TooLong"


class SespSession(OrderedSession[bytes]):
    """Makes, removes and describes topics."""

    def __init__(self, reply_bytes_max: int) -> None:
        super().__init__(SespReplies(reply_bytes_max))

    def _received(self, replies: list[bytes]) -> None:
        if replies and replies[-1] == _TOO_LONG:
            super()._received(replies[:-1])
            # The daemon says no more: this is the answer to everything that is awaited.
            self.lost(Refused("TooLong", "TooLong: a line was over the daemon's limit, and it closed the connection"))
        else:
            super()._received(replies)

    def _command(self, command: Command) -> Steps[bytes]:
        """What stands behind the ``+`` of the reply."""

        def meaning(lines: list[bytes]) -> bytes:
            if (reason := refusal(lines[0])) is not None:
                raise Refused(reason)
            return lines[0][1:]

        return (yield from self._ask(command_line(command), 1, meaning))

    def _json(self, command: Command) -> Steps[Any]:
        text = yield from self._command(command)
        try:
            return json.loads(text)
        except ValueError:
            raise broken(WireError(f"expected JSON, not {text[:80]!r}"))

    def create(self, name: str) -> Steps[None]:
        """Make a topic; Refused with ``AlreadyExists`` where there is one."""
        yield from self._command(Create(name))

    def delete(self, name: str) -> Steps[None]:
        """Remove a topic with everything in it."""
        yield from self._command(Delete(name))

    def seal(self, name: str) -> Steps[None]:
        """Let a topic take no more messages."""
        yield from self._command(Seal(name))

    def topics(self) -> Steps[list[str]]:
        """The names of all topics."""
        names: list[str] = yield from self._json(List())
        return names

    def info(self, name: str) -> Steps[dict[str, Any]]:
        """What there is to know of a topic: messages, offsets, bytes, whether it is sealed, groups, retention."""
        found: dict[str, Any] = yield from self._json(Describe(name))
        return found

    def state(self) -> Steps[dict[str, Any]]:
        """The state of the daemon: version, uptime, connections, store, sync."""
        found: dict[str, Any] = yield from self._json(Status())
        return found


class TopicSession(SespSession):
    """Publishes to one topic and reads from it."""

    def __init__(self, reply_bytes_max: int, name: str) -> None:
        super().__init__(reply_bytes_max)
        self.name = name
        self.unread: deque[bytes] = deque()
        """Messages that have come, and that nobody has taken yet."""
        self._offset = 0
        self._ahead = _AHEAD_FIRST

    def opening(self) -> Steps[None]:
        yield from self._command(Select(self.name))

    @property
    def offset(self) -> int:
        """The offset of the message that is read next."""
        return self._offset - len(self.unread)

    def publish(self, messages: Iterable[bytes]) -> Steps[None]:
        """Publish messages, in order; done when all of them are on disk.

        They are sent without waiting for each other. Where the daemon refuses some, Refused tells the first reason and
        how many they were. A message is a line of UTF-8: ValueError for any other, which is not sent; many of those
        before it are published then.
        """
        requests = ((publish_lines(chunk), len(chunk)) for chunk in chunks(messages))
        refused = [each for found in (yield from self._ask_many(requests, refusals)) for each in found]
        if refused:
            raise Refused(refused[0], f"{refused[0]}: {len(refused)} messages were not published", len(refused))

    def fill(self) -> Steps[bool]:
        """See that there are unread messages; False where the topic has no more of them now."""
        if self.unread:
            return True
        count = self._ahead
        found, refused = yield from self._ask(command_line(Read(count)), count, messages)
        self._offset += len(found)
        self.unread.extend(found)
        size = sum(map(len, found))
        if len(found) == count and size < _AHEAD_BYTES:
            self._ahead = min(2 * count, _AHEAD_MAX)
        elif size > 2 * _AHEAD_BYTES:
            self._ahead = max(count // 2, 1)
        if not found and refused[0] != "None":
            raise Refused(refused[0])
        return bool(found)

    def seek(self, offset: int) -> Steps[None]:
        """Read on from this offset: messages are counted from 0, where a new topic object begins."""
        yield from self._command(Seek(offset))
        self.unread.clear()
        self._offset = offset

    def truncate(self, offset: int) -> Steps[None]:
        """Drop the messages before this offset. What is left keeps its offsets."""
        yield from self._command(Truncate(offset))
