"""Connections under asyncio."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import Any

from txaio import aio

from streamd.client.address import UnixAddress
from streamd.client.asynchronous.connection import Framework, Receiver, Transport
from streamd.client.errors import ConnectionLost, Timeout
from streamd.client.target import Target
from streamd.client.tls import context_for


class AsyncioFramework(Framework):
    """The loop that runs when it is first needed."""

    @cached_property
    def txaio(self) -> Any:
        return aio.with_config(loop=asyncio.get_running_loop())  # type: ignore[no-untyped-call]

    async def connect(self, receiver: Receiver, target: Target) -> Transport:
        loop = asyncio.get_running_loop()
        address = target.address
        context = context_for(target)

        def make() -> _Reports:
            return _Reports(receiver)

        try:
            async with asyncio.timeout(target.connect_seconds_max):
                if isinstance(address, UnixAddress):
                    # There is no host whose name a certificate could have.
                    name = None if context is None else ""
                    transport, _ = await loop.create_unix_connection(
                        make, address.path, ssl=context, server_hostname=name
                    )
                else:
                    transport, _ = await loop.create_connection(make, address.host, address.port, ssl=context)
        except TimeoutError:
            raise Timeout(f"no connection to {address} within {target.connect_seconds_max:g} s")
        except OSError as error:
            raise ConnectionLost(f"no connection to {address}: {error}")
        return transport


class _Reports(asyncio.Protocol):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def data_received(self, data: bytes) -> None:
        self._receiver.received(data)

    def pause_writing(self) -> None:
        self._receiver.paused()

    def resume_writing(self) -> None:
        self._receiver.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.lost("the daemon closed it" if exc is None else str(exc))
