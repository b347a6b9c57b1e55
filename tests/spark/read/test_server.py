"""A daemon as storage: it is waited for where it is away, from the first connection on."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from twisted.trial.unittest import SynchronousTestCase

from streamd.client.errors import ConnectionLost
from streamd.spark.read import server
from streamd.spark.read.server import ServerStorage
from tests.rigs.daemon import Daemon
from tests.rigs.drivers.cluster import free_port


class ServerTests(SynchronousTestCase):
    def test_away(self) -> None:
        """A daemon that starts while somebody connects, or later, is found; one that never does is an error."""
        port = free_port()
        self.patch(server, "_AWAY_SECONDS_MAX", 0.0)
        self.assertRaises(ConnectionLost, ServerStorage, f"127.0.0.1:{port}")
        self.patch(server, "_AWAY_SECONDS_MAX", 60.0)
        daemon = Daemon(os.path.abspath(self.mktemp()), "--pravega", f"tcp:{port}:interface=127.0.0.1")
        self.addCleanup(daemon.close)
        with ThreadPoolExecutor(1) as pool:
            connecting = pool.submit(ServerStorage, f"127.0.0.1:{port}")
            daemon.start()
            storage = connecting.result(60)
        self.addCleanup(storage.close)
        self.assertEqual(storage.segments(), [])
        daemon.kill()
        daemon.start()
        self.assertEqual(storage.named(["a"]), [])
