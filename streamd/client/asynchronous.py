"""Clients whose methods are awaited, one for each protocol, with the names and methods of `streamd.client`.

Under asyncio they use the loop that runs. On Twisted's reactor they are given it:

    async with SespClient("127.0.0.1:4840", reactor=reactor) as client:
        await client.create("orders")
        topic = client.topic("orders")
        await topic.publish([b"first", b"second"])
        async for message in topic.read():
            print(message)
"""

from __future__ import annotations

from typing import Any, Unpack
from uuid import UUID

from streamd.client.address import DEFAULT_ADDRESS, DEFAULT_PORT, parse_address
from streamd.client.core.commands import Asynchronous, AsynchronousIterator
from streamd.client.core.connection import Driver
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


class AsynchronousClient(Asynchronous):
    """A client of the daemon at an address: ``host:port``, ``unix:PATH`` or ``tls:host:port:ca=FILE``.

    With a `reactor` it runs on that, and is awaited by what runs there; otherwise under asyncio.
    `streamd.client.Options` are what it takes beside that.
    """

    def __init__(self, address: str, *, reactor: Any = None, **options: Unpack[Options]) -> None:
        driver = _driver(reactor)
        super().__init__(Target(parse_address(address), **options), lambda: driver)


def _driver(reactor: Any) -> Driver:
    # Imported here: a program that uses the one need not have the other.
    if reactor is None:
        from streamd.client.drivers.loop import LoopDriver

        return LoopDriver()
    from streamd.client.drivers.reactor import ReactorDriver

    return ReactorDriver(reactor)


class Topic(Asynchronous, TopicCommands):
    """A topic of SESP, on a connection of its own. Made by `SespClient.topic`."""


class SespClient(AsynchronousClient, SespCommands[Topic]):
    """Makes topics of SESP and describes them; `topic` is where messages are published and read."""

    _topic_type = Topic


class SmqClient(AsynchronousClient, SmqCommands):
    """Pushes to a queue of Simple Message Queue, that of the endpoint at its address, and pulls from it."""


class FastStreamClient(AsynchronousClient, FastStreamCommands):
    """Streams of FastStreamDB by number. `close`, and the end of an ``async with`` block, wait until all is on disk."""


class Reader(AsynchronousIterator[bytes], EventFeed):
    """The events of a Pravega segment, one after the other. Made by `PravegaClient.reader`."""


class Writer(Asynchronous, WriterCommands):
    """Appends events to a Pravega segment, each exactly once. Made by `PravegaClient.writer`.

    `close`, and the end of an ``async with`` block, wait until all that was written is on disk.
    """


class PravegaClient(AsynchronousClient, PravegaCommands[Reader, Writer]):
    """Makes Pravega segments, and hands out their readers and writers."""

    _reader_type = Reader
    _writer_type = Writer


class Record(RecordBase):
    """A message of a topic; with a reader group, to be acknowledged."""

    __slots__ = ()

    async def ack(self) -> None:
        """Say that it is done with. Returns when that is on disk."""
        await self._ack()

    async def nack(self, delay: float | None = None, *, error: str = "") -> None:
        """Give it back: it comes again after `delay` seconds, or when the group's rule says so.

        `error` says why, for its dead letter.
        """
        await self._nack(delay, error)


class Subscription(AsynchronousIterator[Record], SubscriptionFeed[Record]):
    """The messages of a topic, for ``async for``. Made by `Client.subscribe`."""

    async def close(self) -> None:
        """End it. What was delivered and not acknowledged goes to other members."""
        await self._end()


class Client(Asynchronous, MessagesCommands[Subscription]):
    """Publishes messages and subscribes to topics, reconnecting. Made by `streamd.connect`."""

    _subscription_type = Subscription
    _record_type = Record

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        reactor: Any = None,
        writer_id: UUID | None = None,
        reconnect_seconds_max: float = RECONNECT_SECONDS_MAX,
        **options: Unpack[Options],
    ) -> None:
        driver = _driver(reactor)
        target = Target(parse_address(address, DEFAULT_PORT), **options)
        super().__init__(target, lambda: driver, writer_id=writer_id, reconnect_seconds_max=reconnect_seconds_max)


class StorageClient(AsynchronousClient, StorageCommands):
    """Looks at segments, reads records in columns, and publishes what was written to hidden segments: for tools."""
