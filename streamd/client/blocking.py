"""Clients whose methods return when they are done, one for each protocol: no Twisted, no threads, no event loop."""

from __future__ import annotations

from typing import Unpack
from uuid import UUID

from streamd.client.address import DEFAULT_ADDRESS, DEFAULT_PORT, parse_address
from streamd.client.core.commands import Blocking, BlockingIterator, run
from streamd.client.drivers.sockets import SocketDriver
from streamd.client.faststream import FastStreamCommands
from streamd.client.messages import RECONNECT_SECONDS_MAX, MessagesCommands, RecordBase, SubscriptionFeed
from streamd.client.pravega.commands import EventFeed, PravegaCommands
from streamd.client.pravega.writer import WriterCommands
from streamd.client.sesp import SespCommands, TopicCommands
from streamd.client.smq import SmqCommands
from streamd.client.storage import StorageCommands
from streamd.client.target import Options, Target

__all__ = [
    "Client",
    "FastStreamClient",
    "PravegaClient",
    "Reader",
    "Record",
    "SespClient",
    "SmqClient",
    "StorageClient",
    "Subscription",
    "Topic",
    "Writer",
]


class BlockingClient(Blocking):
    """A blocking client of the daemon at an address: ``host:port``, ``unix:PATH`` or ``tls:host:port:ca=FILE``.

    `streamd.client.Options` are what it takes beside the address.
    """

    def __init__(self, address: str, **options: Unpack[Options]) -> None:
        super().__init__(Target(parse_address(address), **options), SocketDriver)


class Topic(Blocking, TopicCommands):
    """A topic of SESP, on a connection of its own. Made by `SespClient.topic`."""


class SespClient(BlockingClient, SespCommands[Topic]):
    """Makes topics of SESP and describes them; `topic` is where messages are published and read."""

    _topic_type = Topic


class SmqClient(BlockingClient, SmqCommands):
    """Pushes to a queue of Simple Message Queue, that of the endpoint at its address, and pulls from it."""


class FastStreamClient(BlockingClient, FastStreamCommands):
    """Streams of FastStreamDB by number. `close`, and the end of a ``with`` block, wait until all is on disk."""


class Reader(BlockingIterator[bytes], EventFeed):
    """The events of a Pravega segment, one after the other. Made by `PravegaClient.reader`."""


class Writer(Blocking, WriterCommands):
    """Appends events to a Pravega segment, each exactly once. Made by `PravegaClient.writer`.

    `close`, and the end of a ``with`` block, wait until all that was written is on disk.
    """


class PravegaClient(BlockingClient, PravegaCommands[Reader, Writer]):
    """Makes Pravega segments, and hands out their readers and writers."""

    _reader_type = Reader
    _writer_type = Writer


class Record(RecordBase):
    """A message of a topic; with a reader group, to be acknowledged."""

    __slots__ = ()

    def ack(self) -> None:
        """Say that it is done with. Returns when that is on disk."""
        run(self._ack())

    def nack(self, delay: float | None = None, *, error: str = "") -> None:
        """Give it back: it comes again after `delay` seconds, or when the group's rule says so.

        `error` says why, for its dead letter.
        """
        run(self._nack(delay, error))


class Subscription(BlockingIterator[Record], SubscriptionFeed[Record]):
    """The messages of a topic, to iterate over. Made by `Client.subscribe`."""

    def close(self) -> None:
        """End it. What was delivered and not acknowledged goes to other members."""
        run(self._end())


class Client(Blocking, MessagesCommands[Subscription]):
    """Publishes messages and subscribes to topics, reconnecting, for code that blocks. One thread at a time."""

    _subscription_type = Subscription
    _record_type = Record

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        writer_id: UUID | None = None,
        reconnect_seconds_max: float = RECONNECT_SECONDS_MAX,
        **options: Unpack[Options],
    ) -> None:
        target = Target(parse_address(address, DEFAULT_PORT), **options)
        super().__init__(target, SocketDriver, writer_id=writer_id, reconnect_seconds_max=reconnect_seconds_max)


class StorageClient(BlockingClient, StorageCommands):
    """Looks at segments, reads records in columns, and publishes what was written to hidden segments: for tools."""
