"""Clients for every TCP protocol of streamd, on the daemon's own codecs.

The clients of this package block, and import neither Twisted nor the store: for scripts, and for workers of other
systems. Those of `streamd.client.asynchronous` have the same names and methods, to be awaited under asyncio or on
Twisted's reactor.

    with SespClient("127.0.0.1:4840") as client:
        client.create("orders")
        topic = client.topic("orders")
        topic.publish([b"first", b"second"])
        for message in topic.read():
            print(message)

Inside, every command is written once, in the module of its protocol (`sesp`, `smq`, `faststream`, `pravega`, `storage`,
`fujin`). `core` carries commands out without knowing a socket, and `drivers` move the bytes.
"""

from streamd.client.blocking import (
    Client,
    FastStreamClient,
    PravegaClient,
    Reader,
    Record,
    SespClient,
    SmqClient,
    StorageClient,
    Subscription,
    Topic,
    Writer,
)
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken, Refused, Timeout
from streamd.client.pravega import Truncated
from streamd.client.storage import StorageRefused, StorageTruncated
from streamd.client.target import Options
from streamd.client.values import Message, Type

__all__ = [
    "Client",
    "Record",
    "Subscription",
    "SespClient",
    "Topic",
    "SmqClient",
    "Message",
    "Type",
    "FastStreamClient",
    "PravegaClient",
    "Writer",
    "Reader",
    "StorageClient",
    "StorageRefused",
    "StorageTruncated",
    "Options",
    "ClientError",
    "Refused",
    "Truncated",
    "ConnectionLost",
    "Timeout",
    "ProtocolBroken",
]
