"""streamd: one daemon, several streaming protocols, one durable log.

async with streamd.connect("127.0.0.1") as client:
    await client.publish("orders", b"one")
    async for record in client.subscribe("orders", group="billing"):
        print(record.offset, record.data)
        await record.ack()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamd.client.asynchronous import Client
    from streamd.client.blocking import Client as BlockingClient

__version__ = "0.1.0"


def connect(address: str = "127.0.0.1:12345", *, reactor: Any = None, **options: Any) -> Client:
    """Return a client of the daemon at an address (``host``, ``host:port``, ``unix:PATH``), for ``async with``.

    It runs under asyncio or, with a `reactor`, on Twisted's. The options are those of
    `streamd.client.asynchronous.Client`.
    """
    # Imported here: the daemon, and tools that only want the version, need none of it.
    from streamd.client.asynchronous import Client

    return Client(address, reactor=reactor, **options)


def connect_blocking(address: str = "127.0.0.1:12345", **options: Any) -> BlockingClient:
    """Return the same client for code that blocks, for ``with``."""
    from streamd.client.blocking import Client

    return Client(address, **options)
