"""Asynchronous clients: which driver they take, and what they import for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from streamd.client.asynchronous import PravegaClient, SespClient
from streamd.client.drivers.loop import LoopDriver
from streamd.client.drivers.reactor import ReactorDriver
from tests.rigs.client.peers import address
from tests.rigs.daemon import CHECKOUT, Daemon

# A client under asyncio, in a process that has nothing else.
USE = """
import asyncio, json, sys
from streamd.client.asynchronous import SespClient

async def main():
    async with SespClient(sys.argv[1]) as client:
        await client.create("t")
        return await client.topics()

found = asyncio.run(main())
print(json.dumps([found, [name for name in sys.modules if name.split(".")[0] in ("twisted", "zope", "OpenSSL")]]))
"""


class DriverTests(SynchronousTestCase):
    def test_driver(self) -> None:
        """A client runs on the reactor that it is given, otherwise under asyncio; what it hands out does as it does."""
        for client, kind in (
            (SespClient("unix:x"), LoopDriver),
            (SespClient("unix:x", reactor=Clock()), ReactorDriver),
        ):
            self.assertIsInstance(client._connection._driver, kind)
            self.assertIs(client.topic("t")._connection._driver, client._connection._driver)
        pravega = PravegaClient("unix:x", reactor=Clock())
        self.assertIs(pravega.writer("s")._connections._driver, pravega._connection._driver)

    def test_no_twisted(self) -> None:
        """Under asyncio no Twisted is imported."""
        daemon = Daemon(os.path.abspath(self.mktemp()))
        self.addCleanup(daemon.close)
        daemon.start()
        ended = subprocess.run(
            [sys.executable, "-c", USE, address(daemon, "sesp")],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(json.loads(ended.stdout), [["t"], []])
