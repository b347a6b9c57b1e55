"""asyncio: connections on the loop that runs."""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from typing import Any

from streamd.client.address import UnixAddress
from streamd.client.core.connection import ClientConnection, Transport
from streamd.client.core.session import Answer, Steps
from streamd.client.target import Target
from streamd.client.tls import context_for


class LoopDriver:
    """Drives connections on the loop that the caller runs on."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, steps: Steps[None]) -> None:
        """Carry this out in a task of its own."""
        task = asyncio.get_running_loop().create_task(steps)
        # The loop itself does not keep tasks alive.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def dial(self, connection: ClientConnection[Any], target: Target) -> Transport:
        """Connect a transport of asyncio's."""
        loop = asyncio.get_running_loop()
        address = target.address
        context = context_for(target)

        def make() -> _Reports:
            return _Reports(connection)

        async with asyncio.timeout(target.connect_seconds_max):
            if isinstance(address, UnixAddress):
                # There is no host whose name a certificate could have.
                name = None if context is None else ""
                transport, _ = await loop.create_unix_connection(make, address.path, ssl=context, server_hostname=name)
            else:
                transport, _ = await loop.create_connection(make, address.host, address.port, ssl=context)
        return transport

    async def until(self, answer: Answer[Any], seconds: float) -> None:
        """Wait for a future that the answer resolves, or a timer."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        answer.when_done(partial(_resolve, future))
        timer = None if seconds == inf else loop.call_later(seconds, _resolve, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()

    def seconds(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()


def _resolve(future: asyncio.Future[None]) -> None:
    # A future that was cancelled is done already, and so is one whose time is over.
    if not future.done():
        future.set_result(None)


class _Reports(asyncio.Protocol):
    """Reports to a connection."""

    def __init__(self, connection: ClientConnection[Any]) -> None:
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        self._connection.received(data)

    def pause_writing(self) -> None:
        self._connection.paused()

    def resume_writing(self) -> None:
        self._connection.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.lost("the daemon closed it" if exc is None else str(exc))
