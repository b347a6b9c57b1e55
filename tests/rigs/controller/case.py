"""A real daemon for Pravega's public client, on ports that stay the same when it is killed and started again."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import CHECKOUT, Daemon

client: Any
try:
    client = import_module("pravega_client")
except ImportError:
    client = None

DEADLINE_SECONDS = 60.0

WHY_NOT = "Pravega's public client, the package pravega, has no wheel for this Python"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ClientCase(SynchronousTestCase):
    """A daemon, and a client that has a scope."""

    if client is None:
        skip = WHY_NOT

    options: tuple[str, ...] = ()

    def setUp(self) -> None:
        endpoints = [f"tcp:{free_port()}:interface=127.0.0.1" for _ in range(2)]
        self.daemon = Daemon(
            self.mktemp(),
            *("--controller", endpoints[0], "--pravega", endpoints[1]),
            *("--fujin", "off", "--http", "off", "--smq", "off", "--faststream", "off"),
            *self.options,
        )
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.manager = self.connect()
        self.addCleanup(self.disconnect)
        self.assertTrue(self.manager.create_scope("scope"))

    def connect(self) -> Any:
        """A new client, which knows nothing of others."""
        return client.StreamManager(f"tcp://127.0.0.1:{self.daemon.port('controller')}")

    def disconnect(self) -> None:
        """Drop what belongs to the client while the daemon is there: its threads go on for as long as they are held."""
        for name, value in list(vars(self).items()):
            if type(value) in vars(client).values():
                delattr(self, name)
        gc.collect()

    def crash(self) -> None:
        """Kill the daemon, and start it again."""
        self.daemon.kill()
        self.daemon.start()

    def crash_while(self, what: str, count: int) -> None:
        """Write so much of that in a process of its own, see `tests.rigs.controller.writing`, crashing twice."""
        command = [sys.executable, "-m", "tests.rigs.controller.writing", what, str(self.daemon.port("controller"))]
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        with subprocess.Popen([*command, str(count)], env=environment, stdout=subprocess.PIPE, text=True) as writing:
            self.addCleanup(writing.kill)
            assert writing.stdout is not None
            self.assertEqual(writing.stdout.readline(), "begun\n")
            self.crash()
            self.assertIsNone(writing.poll(), "it was done before the crash")
            self.crash()
            self.assertEqual(writing.wait(DEADLINE_SECONDS), 0)

    def read(self, readers: Iterable[Any], count: int) -> list[bytes]:
        """So many events, which readers take in turns; each lets go of its segments in between."""

        async def read() -> list[bytes]:
            events: list[bytes] = []
            while len(events) < count:
                for reader in readers:
                    try:
                        taken = await asyncio.wait_for(reader.get_segment_slice_async(), 1)
                    except TimeoutError:
                        continue
                    if taken is not None:
                        events += [event.data() for event in taken]
                        reader.release_segment(taken)
            return events

        async def within() -> list[bytes]:
            return await asyncio.wait_for(read(), DEADLINE_SECONDS)

        return asyncio.run(within())

    def sesp(self, *lines: bytes) -> list[bytes]:
        """What SESP answers, line by line."""
        with ExitStack() as stack:
            connection = stack.enter_context(self.daemon.connect("sesp"))
            file = stack.enter_context(connection.makefile("rwb"))
            file.write(b"".join(line + b"\n" for line in lines))
            file.flush()
            return [file.readline().rstrip(b"\n") for _ in lines]
