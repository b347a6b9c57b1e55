"""Hidden segments for the sink: tasks write them, the driver publishes them. Both outlive a restart of the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar
from uuid import UUID

from streamd.batch import Batch
from streamd.client import StorageClient, StorageRefused
from streamd.client.core.reconnecting import RECONNECT_SECONDS_MAX, Backoff
from streamd.client.errors import ClientError, ConnectionLost
from streamd.wire.tools import PARTS_MAX, LevelChange, Part

T = TypeVar("T")

SINKS: Final = "spark/sinks"
"""The segment that keeps how far each query is. It has no records."""

UNACKNOWLEDGED_BYTES_MAX: Final = 16 << 20
"""So much is kept to be sent again after a lost connection."""

PIPELINED_BYTES_MAX: Final = 8 << 20
"""So much is on its way before it is acknowledged."""

_OPENED_AT_ONCE: Final = 500
"""So many hidden segments are asked for before the first answer is waited for."""


class Retrying:
    """A connection that is made again when it is lost."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._client: StorageClient | None = None

    def run(
        self, operation: Callable[[StorageClient], T], recover: Callable[[StorageClient], object] | None = None
    ) -> T:
        """Carry something out that can be done twice, on a new connection where the old one is lost.

        `recover` is done first on each new one. ConnectionLost comes when there was none for too long.
        """
        backoff = Backoff(RECONNECT_SECONDS_MAX)
        while True:
            try:
                if self._client is None:
                    self._client = StorageClient(self.server, pipelined_bytes_max=PIPELINED_BYTES_MAX).connect()
                    if recover is not None:
                        recover(self._client)
                return operation(self._client)
            except ConnectionLost as error:
                self.hang_up()
                time.sleep(backoff.delay(error, time.monotonic()))

    def hang_up(self) -> None:
        """End the connection; what is awaited on it is not waited for."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(ClientError):
                client.close()


class HiddenWriter:
    """One task's hidden segments, one for each topic. Those that are not finished are deleted in the end."""

    def __init__(self, server: str, name: str, *, create_topics: bool) -> None:
        self._connection = Retrying(server)
        self._name = name
        self._create_topics = create_topics
        self._parts: dict[str, Part] = {}
        self._numbers: dict[int, int] = {}
        self._unacknowledged: list[tuple[int, int, Batch]] = []
        self._unacknowledged_bytes = 0
        self._finished = False

    def open(self, topics: Iterable[str]) -> None:
        """Make hidden segments for topics that have none yet: many at once, since each takes a sync of the disk."""
        new = [topic for topic in dict.fromkeys(topics) if topic not in self._parts]
        if len(self._parts) + len(new) > PARTS_MAX:
            raise ClientError(f"more than {PARTS_MAX} topics in one partition: write fewer topics at a time")
        for first in range(0, len(new), _OPENED_AT_ONCE):
            self._parts.update(self._run(partial(self._open, new[first : first + _OPENED_AT_ONCE])))

    def append(self, topic: str, batch: Batch) -> None:
        """Write records for a topic. They are on disk after `finish`."""
        self.open([topic])
        hidden = self._parts[topic].hidden
        number = self._numbers.get(hidden, 0)
        self._numbers[hidden] = number + batch.count
        self._run(lambda client: client.append(hidden, number, batch))
        # Only now: what is sent again on a new connection is what was sent before it.
        self._unacknowledged.append((hidden, number, batch))
        self._unacknowledged_bytes += batch.size + 4 * batch.count
        if self._unacknowledged_bytes >= UNACKNOWLEDGED_BYTES_MAX:
            self._flush()

    def finish(self) -> tuple[Part, ...]:
        """Wait until all is on disk; returns what is to be published."""
        self._flush()
        self._finished = True
        return tuple(self._parts.values())

    def _open(self, topics: Sequence[str], client: StorageClient) -> dict[str, Part]:
        targets = {info.name: info.id for info in client.named(topics)}
        missing = [topic for topic in topics if topic not in targets]
        if missing and not self._create_topics:
            raise ClientError(f"there is no topic {missing[0]!r}: create it, or set createTopics to true")
        targets.update((info.name, info.id) for info in client.create_all(missing))
        first = len(self._parts)
        hidden = client.create_hidden_all([f"{self._name}/{first + number}" for number in range(len(topics))])
        return {topic: Part(id, targets[topic]) for topic, id in zip(topics, hidden, strict=True)}

    def _run(self, operation: Callable[[StorageClient], T]) -> T:
        return self._connection.run(operation, self._send_again)

    def _send_again(self, client: StorageClient) -> None:
        """What is stored already is known by its number, and not stored twice."""
        for hidden, number, batch in self._unacknowledged:
            client.append(hidden, number, batch)

    def _flush(self) -> None:
        self._run(lambda client: client.flush())
        self._unacknowledged.clear()
        self._unacknowledged_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.hang_up()
        if not self._finished:
            Delivery(self._connection.server, list(self._parts.values())).abandon()


class Delivery:
    """What the tasks of one batch have written, as the driver sees it."""

    def __init__(self, server: str, parts: Sequence[Part]) -> None:
        self._server = server
        self._parts = parts

    def publish_once(self, writer: UUID, level: int) -> bool:
        """Publish all of it, unless this writer's ack level says that this was done. Whether it was done now."""

        def publish(client: StorageClient) -> bool:
            sinks = client.create(SINKS, exists_ok=True).id
            stored = client.level(sinks, writer.bytes) or 0
            return client.publish(self._parts, [LevelChange(sinks, writer.bytes, min(stored, level), level)])

        return self._run(publish)

    def publish(self) -> None:
        """Publish all of it, where no ack level tells whether that was done before."""
        tried = False

        def publish(client: StorageClient) -> None:
            nonlocal tried
            if not (tried and self._are_gone(client)):
                tried = True
                client.publish(self._parts)

        self._run(publish)

    def abandon(self) -> None:
        """Drop what was not published. What can't be dropped now expires by itself."""
        hidden = [part.hidden for part in self._parts]
        with suppress(ClientError), StorageClient(self._server) as client:
            for first in range(0, len(hidden), PARTS_MAX):
                client.delete_hidden(hidden[first : first + PARTS_MAX])

    def _are_gone(self, client: StorageClient) -> bool:
        """Whether the hidden segments are there no more: then the connection was lost after they were published."""
        for part in self._parts:
            try:
                client.segment(part.hidden)
            except StorageRefused as error:
                if error.reason != "NoSuchSegment":
                    raise
            else:
                return False
        return True

    def _run(self, operation: Callable[[StorageClient], T]) -> T:
        if len(self._parts) > PARTS_MAX:
            raise ClientError(
                f"{len(self._parts)} pairs of a partition and a topic at once, {PARTS_MAX} at most: "
                "repartition by topic, or write fewer topics at a time"
            )
        connection = Retrying(self._server)
        try:
            return connection.run(operation)
        except StorageRefused as error:
            if error.reason != "NoSuchSegment":
                raise
            raise ClientError(
                f"a topic was deleted, or what tasks have written for it has expired ({error}): "
                "the batch is to be written again"
            ) from error
        finally:
            connection.hang_up()
