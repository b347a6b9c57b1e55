"""SESP, blocking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from streamd.client.blocking.client import Client, Connected, blocking
from streamd.client.sesp import SespSession, TopicSession
from streamd.client.target import Options


class Topic(Connected[TopicSession]):
    """One topic, on a connection of its own. Made by `SespClient.topic`."""

    publish = blocking(TopicSession.publish)
    seek = blocking(TopicSession.seek)
    truncate = blocking(TopicSession.truncate)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._session.name

    @property
    def offset(self) -> int:
        """The offset of the message that `read` gives next."""
        return self._session.offset

    def read(self) -> Iterator[bytes]:
        """The messages from `offset` on, up to the last one there is now. Read again, and it goes on behind that."""
        unread = self._session.unread
        while self._run(self._session.fill()):
            while unread:
                yield unread.popleft()


class SespClient(Client[SespSession]):
    """Makes topics and describes them; `topic` is where messages are published and read."""

    _session_type = SespSession

    def __init__(self, address: str, **options: Unpack[Options]) -> None:
        super().__init__(address, **options)
        self._topics: list[Topic] = []

    create = blocking(SespSession.create)
    delete = blocking(SespSession.delete)
    seal = blocking(SespSession.seal)
    topics = blocking(SespSession.topics)
    info = blocking(SespSession.info)
    state = blocking(SespSession.state)

    def topic(self, name: str) -> Topic:
        """A topic to publish to and read from: it connects when it is first used, and is closed with this client."""
        topic = Topic(TopicSession(self._target.reply_bytes_max, name), self._target)
        self._topics = [each for each in self._topics if not each.is_closed]
        self._topics.append(topic)
        return topic

    def close(self) -> None:
        """Close the topics and hang up."""
        for topic in self._topics:
            topic.close()
        super().close()

    def _abort(self) -> None:
        for topic in self._topics:
            topic._abort()
        super()._abort()
