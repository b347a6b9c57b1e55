"""Asynchronous clients under asyncio."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from twisted.trial.unittest import TestCase

from tests.rigs.client.suite import Operation, Suite


class AsyncioTests(Suite, TestCase):
    cancelled = asyncio.CancelledError

    def carry_out(self, operation: Operation) -> None:
        asyncio.run(operation)

    def begin(self, operation: Operation) -> Any:
        return asyncio.ensure_future(operation)

    async def turn(self) -> None:
        await asyncio.sleep(0)

    def together(self, *operations: Operation) -> Any:
        return asyncio.gather(*operations)

    def tls(self, certificate: str) -> Any:
        return ssl.create_default_context(cafile=certificate)
