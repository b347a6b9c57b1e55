"""Connections through TLS, whose transport has buffers of its own: what is in those was not handed over."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol, serverFromString, wrapClientTLS
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import Certificate, optionsForClientTLS, trustRootFromCertificates
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from streamd.connections.base import StreamProtocol
from tests.protocols.laws.description import Description
from tests.protocols.laws.faststream import TAKE, FastStream
from tests.protocols.laws.held import contents
from tests.protocols.laws.smq import Smq
from tests.rigs.protocols.rig import Rig
from tests.rigs.protocols.sockets import write_certificate
from tests.rigs.wire.faststream import one
from tests.rigs.wire.smq import pull

reactor: Any = installed
RECORDS = [b"%04d" % number for number in range(3)]


class Client(Protocol):
    """Keeps what it is told, and knows when it is the end."""

    transport: Any

    def __init__(self) -> None:
        self.told = b""
        self.ended: Deferred[None] = Deferred()
        self._wanted = 0
        self._waiting: Deferred[None] | None = None

    def wait(self, size: int) -> Deferred[None]:
        """Fires when so much was told."""
        self._wanted, self._waiting = size, Deferred()
        self.dataReceived(b"")
        return self._waiting

    def dataReceived(self, data: bytes) -> None:
        self.told += data
        if self._waiting is not None and len(self.told) >= self._wanted and not self._waiting.called:
            self._waiting.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.ended.callback(None)


class HandedOverTests(TestCase):
    """What is removed with its answer is removed when the operating system has the answer, and not earlier."""

    async def start(self, spoken: type[Description]) -> tuple[Rig, Client, StreamProtocol]:
        """A store with a few records, and a TLS connection to it that was used once."""
        rig = Rig(os.path.abspath(self.mktemp()), make_factory=spoken.factory)
        self.addCleanup(rig.close)
        peer, writer = rig.connect(), spoken()
        for exchange in (writer.prepare(), *map(writer.write, RECORDS)):
            peer.ask(exchange.asked)
        peer.drop()
        path = os.path.abspath(self.mktemp())
        write_certificate(path)
        endpoint = serverFromString(reactor, f"ssl:0:interface=127.0.0.1:privateKey={path}:certKey={path}")
        port = await endpoint.listen(rig.factory)
        self.addCleanup(port.stopListening)
        with open(path, "rb") as file:
            roots = trustRootFromCertificates([Certificate.loadPEM(file.read())])
        place = TCP4ClientEndpoint(reactor, "127.0.0.1", port.getHost().port)
        client: Any = await connectProtocol(wrapClientTLS(optionsForClientTLS("localhost", roots), place), Client())
        client.transport.write(writer.ask().asked)
        await client.wait(len(writer.ask().told))
        (protocol,) = rig.factory.connections
        return rig, client, protocol

    async def lost(self, spoken: type[Description], request: bytes) -> None:
        """Ask, and lose the connection in the same turn: nothing has left yet, so nothing is removed."""
        rig, client, protocol = await self.start(spoken)
        before = contents(rig.store)
        protocol.dataReceived(request)
        protocol.abort()
        await client.ended
        rig.run()
        self.assertEqual(contents(rig.store), before)
        self.assertEqual((rig.load.connections, rig.load.held_bytes), (0, 0))

    async def taken(self, spoken: type[Description], request: bytes) -> None:
        """Ask and get it: it is removed, although the connection stays."""
        rig, client, protocol = await self.start(spoken)
        said = len(client.told)
        protocol.dataReceived(request)
        await client.wait(said + 1)
        rig.run()
        self.assertEqual(contents(rig.store)[spoken.segment][-1], [])
        protocol.dataReceived(spoken().ask().asked)
        client.transport.loseConnection()
        await client.ended

    def test_lost(self) -> Deferred[None]:
        """An SMQ pull: the messages are the next to be pulled."""
        return Deferred.fromCoroutine(self.lost(Smq, pull() * len(RECORDS)))

    def test_taken(self) -> Deferred[None]:
        """Those that were handed over are gone."""
        return Deferred.fromCoroutine(self.taken(Smq, pull() * len(RECORDS)))

    def test_lost_take(self) -> Deferred[None]:
        """A FastStreamDB take: the stream keeps it all."""
        return Deferred.fromCoroutine(self.lost(FastStream, one(TAKE, 7)))

    def test_taken_take(self) -> Deferred[None]:
        """What was handed over is gone."""
        return Deferred.fromCoroutine(self.taken(FastStream, one(TAKE, 7)))

    def test_idle(self) -> Deferred[None]:
        """At the end a connection is closed although the peer does not say goodbye."""

        async def drain() -> None:
            rig, client, _ = await self.start(Smq)
            # It neither reads nor answers from now on, as a peer that waits for something else.
            client.transport.pauseProducing()
            await rig.factory.drain()
            self.assertEqual(rig.load.connections, 0)
            client.transport.abortConnection()
            await client.ended

        return Deferred.fromCoroutine(drain())
