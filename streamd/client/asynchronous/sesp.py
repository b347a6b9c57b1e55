"""SESP, asynchronous."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Unpack

from streamd.client.asynchronous.client import Client, Connected, asynchronous
from streamd.client.sesp import SespSession, TopicSession
from streamd.client.target import Options


class Topic(Connected[TopicSession]):
    """One topic, on a connection of its own. Made by `SespClient.topic`."""

    publish = asynchronous(TopicSession.publish)
    seek = asynchronous(TopicSession.seek)
    truncate = asynchronous(TopicSession.truncate)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._session.name

    @property
    def offset(self) -> int:
        """The offset of the message that `read` gives next."""
        return self._session.offset

    async def read(self) -> AsyncIterator[bytes]:
        """The messages from `offset` on, up to the last one there is now. Read again, and it goes on behind that."""
        unread = self._session.unread
        while await self._run(self._session.fill()):
            while unread:
                yield unread.popleft()


class SespClient(Client[SespSession]):
    """Makes topics and describes them; `topic` is where messages are published and read."""

    _session_type = SespSession

    def __init__(self, address: str, *, reactor: Any = None, **options: Unpack[Options]) -> None:
        super().__init__(address, reactor=reactor, **options)
        self._topics: list[Topic] = []

    create = asynchronous(SespSession.create)
    delete = asynchronous(SespSession.delete)
    seal = asynchronous(SespSession.seal)
    topics = asynchronous(SespSession.topics)
    info = asynchronous(SespSession.info)
    state = asynchronous(SespSession.state)

    def topic(self, name: str) -> Topic:
        """A topic to publish to and read from: it connects when it is first used, and is closed with this client."""
        topic = Topic(TopicSession(self._target.reply_bytes_max, name), self._target, self._framework)
        self._topics = [each for each in self._topics if not each.is_closed]
        self._topics.append(topic)
        return topic

    async def close(self) -> None:
        """Close the topics and hang up."""
        for topic in self._topics:
            await topic.close()
        await super().close()

    async def _abort(self) -> None:
        for topic in self._topics:
            await topic._abort()
        await super()._abort()
