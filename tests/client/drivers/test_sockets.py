"""Blocking sockets: daemons that are silent, deaf or gone, and peers that are no daemon."""

from __future__ import annotations

import os
import socket
import threading

from twisted.trial.unittest import SynchronousTestCase

from streamd.client import (
    ClientError,
    ConnectionLost,
    FastStreamClient,
    PravegaClient,
    ProtocolBroken,
    SespClient,
    SmqClient,
    Timeout,
)
from streamd.wire.sesp import message_lines
from tests.rigs.client.peers import address, deaf, listener
from tests.rigs.client.rig import Endless
from tests.rigs.daemon import Daemon


class BadPeerTests(SynchronousTestCase):
    def test_nobody(self) -> None:
        """Where nobody listens there is no connection, and the address is named."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            where = f"127.0.0.1:{server.getsockname()[1]}"
        for client in (SespClient(where), SmqClient(where), SespClient("unix:/nowhere/at/all"), PravegaClient(where)):
            error = self.assertRaises(ConnectionLost, client.connect)
            self.assertIn("no connection to", str(error))
            # And it stays like that.
            self.assertRaises(ConnectionLost, client.connect)

    def test_deaf(self) -> None:
        """Connecting takes no longer than it may."""
        with deaf() as where:
            self.assertRaises(Timeout, SespClient(where, connect_seconds_max=0.05).connect)

    def test_silent(self) -> None:
        """Somebody who never answers is given up."""
        for kind in (SespClient, SmqClient, FastStreamClient, PravegaClient):
            with listener() as where:
                client = kind(where, reply_seconds_max=0.05)
                operation = {
                    SespClient: lambda client: client.topics(),
                    SmqClient: lambda client: client.pull(),
                    FastStreamClient: lambda client: client.flush(),
                    PravegaClient: lambda client: client.ping(),
                }[kind]
                self.assertRaises(Timeout, operation, client)
                self.assertRaises(ConnectionLost, operation, client)

    def test_slow(self) -> None:
        """Somebody who takes nothing makes us wait: of endless records few are taken before that is given up."""
        endless = Endless()
        with listener() as where:
            client = FastStreamClient(where, reply_seconds_max=0.05)
            self.assertRaises(Timeout, client.enqueue, 1, endless)
        self.assertLess(endless.taken_bytes, 100 << 20)

    def test_nonsense(self) -> None:
        """Somebody who speaks something else is not taken for a daemon."""
        with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as where:
            client = SespClient(where)
            self.assertRaises(ProtocolBroken, client.topics)
            self.assertTrue(client.is_closed)

    def test_too_much(self) -> None:
        """A reply over our limit ends it."""
        with listener(message_lines([b"x" * 1001])) as where:
            client = SespClient(where, reply_bytes_max=1000)
            self.assertRaises(ClientError, client.topics)

    def test_gone(self) -> None:
        """A daemon that goes away while it is waited for is lost, not waited for for ever."""
        daemon = Daemon(os.path.abspath(self.mktemp()))
        self.addCleanup(daemon.close)
        daemon.start()
        with PravegaClient(address(daemon, "pravega")) as client:
            client.create("s")
            killer = threading.Thread(target=daemon.kill)
            killer.start()
            self.assertRaises(ConnectionLost, next, client.reader("s"))
            killer.join()
