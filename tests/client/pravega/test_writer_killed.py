"""Exactly once, for real: writers under load, and a daemon that is killed under them again and again."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from streamd.client import ConnectionLost, PravegaClient, asynchronous
from tests.rigs.daemon import Daemon

# Small, so that writers wait for acknowledgements all the time.
UNACKNOWLEDGED_BYTES_MAX = 256 << 10


class Load:
    """Numbered events without an end, until the daemon was killed often enough; and who kills it."""

    def __init__(self, daemon: Daemon, rounds: int, seed: int) -> None:
        self._daemon = daemon
        self._rounds = rounds
        self._random = Random(seed)
        self._changed = threading.Condition()
        self._over = False
        self.errors: list[str] = []
        self.events: list[bytes] = []
        """All that were given out."""
        self._killer = threading.Thread(target=self._kill)

    def __iter__(self) -> Iterator[bytes]:
        self._killer.start()
        sizes = Random(0)
        while not self._over:
            event = b"%d:" % len(self.events) + bytes(sizes.randrange(300))
            with self._changed:
                self.events.append(event)
                self._changed.notify_all()
            yield event

    def _kill(self) -> None:
        try:
            for _ in range(self._rounds):
                self._wait_for(len(self.events) + self._random.choice((1, 300, 3000, 20_000)))
                self._daemon.kill()
                self._daemon.start()
        except Exception as error:
            self.errors.append(repr(error))
        finally:
            self._over = True

    def _wait_for(self, count: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.events) >= count, 60):
                raise AssertionError("the writer is stuck")

    def join(self) -> None:
        """Wait for the last restart."""
        self._killer.join(60)


class KillTests(TestCase):
    """In the end every event is there, once, in order."""

    def setUp(self) -> None:
        # A socket with a name stays where it is when the daemon is started again.
        directory = TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "pravega.sock")
        self.address = f"unix:{path}"
        self.daemon = Daemon(os.path.abspath(self.mktemp()), "--pravega", f"unix:{path}")
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def check(self, load: Load) -> None:
        load.join()
        self.assertEqual(load.errors, [])
        # Once more: what was acknowledged is on disk, and nowhere else.
        self.daemon.kill()
        self.daemon.start()
        with PravegaClient(self.address) as client:
            found = list(client.reader("s", wait=False))
        self.assertEqual(len(found), len(load.events))
        self.assertTrue(found == load.events)

    def test_blocking(self) -> None:
        """With the blocking writer."""
        load = Load(self.daemon, rounds=8, seed=1)
        with PravegaClient(self.address) as client:
            client.create("s")
            with client.writer("s", unacknowledged_bytes_max=UNACKNOWLEDGED_BYTES_MAX) as writer:
                writer.write(load)
            size = sum(8 + len(event) for event in load.events)
            self.assertEqual((writer.written, writer.acknowledged), (size, size))
        self.check(load)

    async def write(self, load: Load, **options: Any) -> None:
        """With an asynchronous one."""
        async with asynchronous.PravegaClient(self.address, **options) as client:
            await client.create("s")
            async with client.writer("s", unacknowledged_bytes_max=UNACKNOWLEDGED_BYTES_MAX) as writer:
                await writer.write(load)

    def test_asyncio(self) -> None:
        """Under asyncio."""
        load = Load(self.daemon, rounds=4, seed=2)
        asyncio.run(self.write(load))
        self.check(load)

    def test_twisted(self) -> Deferred[None]:
        """On Twisted's reactor."""
        load = Load(self.daemon, rounds=4, seed=3)
        return Deferred.fromCoroutine(self.write(load, reactor=installed)).addCallback(lambda _: self.check(load))

    def test_patience(self) -> None:
        """A writer whose patience is over keeps what it has: when the daemon is back, it is stored, once."""
        with PravegaClient(self.address) as client:
            client.create("s")
            writer = client.writer("s", reconnect_seconds_max=0.0)
            writer.write([b"one"])
            writer.flush()
            self.daemon.kill()
            with self.assertRaises(ConnectionLost):
                writer.write([b"two"])
                writer.flush()
            self.daemon.start()
            writer.close()
        with PravegaClient(self.address) as client:
            self.assertEqual(list(client.reader("s", wait=False)), [b"one", b"two"])

    def test_writer_restarts(self) -> None:
        """A program that is run again with the same id and the same events stores each of them once."""
        events = [b"%d" % number for number in range(5000)]
        for end in (1000, 3000, 5000):
            with PravegaClient(self.address) as client:
                if end == 1000:
                    client.create("s")
                    writer = client.writer("s", replay=True)
                    writer_id = writer.id
                else:
                    writer = client.writer("s", writer_id=writer_id, replay=True)
                with writer:
                    writer.write(events[:end])
        with PravegaClient(self.address) as client:
            self.assertEqual(list(client.reader("s", wait=False)), events)
