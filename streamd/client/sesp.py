"""SESP: topics of messages, each a line of text.

A connection of SESP selects one topic, so each topic object has a connection of its own beside the client's.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

from streamd.client.core.commands import ConnectedCommands, Feed, command, stream
from streamd.client.core.connection import MakeDriver
from streamd.client.core.session import Answer, OrderedSession, broken, chunks
from streamd.client.errors import Refused
from streamd.client.target import Target
from streamd.wire import WireError
from streamd.wire.client.sesp import SespReplies, command_line, messages, publish_lines, refusal, refusals
from streamd.wire.sesp import Command, Create, Delete, Describe, List, Read, Seal, Seek, Select, Status, Truncate

# How many messages are asked for at once: more when they are small, fewer when they are large.
_AHEAD_FIRST: Final = 64
_AHEAD_MAX: Final = 8192
_AHEAD_BYTES: Final = 512 << 10

_TOO_LONG: Final = b"-TooLong"


class SespSession(OrderedSession[bytes]):
    """A connection of SESP, with a topic selected or without."""

    def __init__(self, target: Target, topic: str | None = None) -> None:
        super().__init__(SespReplies(target.reply_bytes_max), target)
        self._topic = topic

    async def opening(self) -> None:
        if self._topic is not None:
            await self.command(Select(self._topic))

    def _received(self, replies: list[bytes]) -> None:
        if not replies or replies[-1] != _TOO_LONG:
            super()._received(replies)
            return
        super()._received(replies[:-1])
        # The daemon says no more: this is the answer to everything that is awaited.
        raise Refused("TooLong", "TooLong: a line was over the daemon's limit, and it closed the connection")

    def command(self, command: Command) -> Answer[bytes]:
        """Send a command. The answer is what stands behind the ``+`` of the reply."""
        return self.ask(command_line(command), 1, _positive)

    async def json(self, command: Command) -> Any:
        """Send a command whose reply holds JSON, and return what that says."""
        text = await self.command(command)
        try:
            return json.loads(text)
        except ValueError:
            raise broken(WireError(f"expected JSON, not {text[:80]!r}"))


def _positive(lines: list[bytes]) -> bytes:
    if (reason := refusal(lines[0])) is not None:
        raise Refused(reason)
    return lines[0][1:]


class TopicCommands(ConnectedCommands[SespSession], Feed[bytes]):
    """Publishes to one topic and reads from it."""

    def __init__(self, target: Target, make_driver: MakeDriver, name: str) -> None:
        self._name = name
        super().__init__(target, make_driver)
        self._unread: deque[bytes] = deque()
        self._asked_offset = 0
        self._ahead = _AHEAD_FIRST

    def _make_session(self) -> SespSession:
        return SespSession(self._target, self._name)

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self._name

    @property
    def offset(self) -> int:
        """The offset of the message that `read` gives next."""
        return self._asked_offset - len(self._unread)

    @command
    async def publish(self, messages: Iterable[bytes]) -> None:
        """Publish messages, in order; done when all of them are on disk.

        Messages are sent without waiting for each other. Where the daemon refuses some of them, Refused has the first
        reason and how many they were. A message is a line of UTF-8. Any other is a ValueError and is not sent; many of
        those before it are published then.
        """
        requests = ((publish_lines(chunk), len(chunk)) for chunk in chunks(messages))
        refused = [reason for reasons in await self._session.ask_many(requests, refusals) for reason in reasons]
        if refused:
            raise Refused(refused[0], f"{refused[0]}: {len(refused)} messages were not published", len(refused))

    @stream
    def read(self) -> Feed[bytes]:
        """Read the messages from `offset` on, up to the last one there is now. The next `read` goes on behind that."""
        return self

    @command
    async def seek(self, offset: int) -> None:
        """Read on from this offset. Messages are counted from 0, where a new topic object begins."""
        await self._session.command(Seek(offset))
        self._unread.clear()
        self._asked_offset = offset

    @command
    async def truncate(self, offset: int) -> None:
        """Drop the messages before this offset. The rest keep their offsets."""
        await self._session.command(Truncate(offset))

    async def _fill(self) -> bool:
        if self._unread:
            return True
        count = self._ahead
        received, refused = await self._session.ask(command_line(Read(count)), count, messages)
        self._asked_offset += len(received)
        self._unread.extend(received)
        size = sum(map(len, received))
        if len(received) == count and size < _AHEAD_BYTES:
            self._ahead = min(2 * count, _AHEAD_MAX)
        elif size > 2 * _AHEAD_BYTES:
            self._ahead = max(count // 2, 1)
        if not received and refused[0] != "None":
            raise Refused(refused[0])
        return bool(received)


Topic = TypeVar("Topic", bound=TopicCommands)


class SespCommands(ConnectedCommands[SespSession], Generic[Topic]):
    """Makes, removes and describes topics, and hands out topic objects."""

    _session_type = SespSession
    _topic_type: type[Topic]

    def __init__(self, target: Target, make_driver: MakeDriver) -> None:
        super().__init__(target, make_driver)
        self._topics: list[Topic] = []

    def topic(self, name: str) -> Topic:
        """Return a topic object, to publish and to read. It connects when it is first used; `close` closes it too."""
        topic = self._topic_type(self._target, self._make_driver, name)
        self._topics = [earlier for earlier in self._topics if not earlier.is_closed]
        self._topics.append(topic)
        return topic

    @command
    async def create(self, name: str) -> None:
        """Make a topic; Refused with ``AlreadyExists`` where there is one."""
        await self._session.command(Create(name))

    @command
    async def delete(self, name: str) -> None:
        """Remove a topic with everything in it."""
        await self._session.command(Delete(name))

    @command
    async def seal(self, name: str) -> None:
        """Seal a topic: it takes no more messages."""
        await self._session.command(Seal(name))

    @command
    async def topics(self) -> list[str]:
        """Return the names of all topics."""
        names: list[str] = await self._session.json(List())
        return names

    @command
    async def info(self, name: str) -> dict[str, Any]:
        """Describe a topic: messages, offsets, bytes, whether it is sealed, groups, retention."""
        description: dict[str, Any] = await self._session.json(Describe(name))
        return description

    @command
    async def state(self) -> dict[str, Any]:
        """Return the state of the daemon: version, uptime, connections, store, sync."""
        state: dict[str, Any] = await self._session.json(Status())
        return state

    async def _close(self) -> None:
        for topic in self._topics:
            await topic._close()
        await super()._close()

    async def _abort(self) -> None:
        for topic in self._topics:
            await topic._abort()
        await super()._abort()
