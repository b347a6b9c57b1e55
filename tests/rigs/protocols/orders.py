"""A small protocol for the laws of the base: a test says when a request is done, and with what."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import EventLoggingObserver
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.interfaces import RequestError
from streamd.settings import Limits
from streamd.store import StoreError
from streamd.wire import WireError
from tests.rigs.protocols.rig import Peer, Rig


class Order:
    """A request of a small protocol: a line, whose first letter says what it does."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.size = len(line)
        self.reads = line.startswith("r")


class OrderCodec:
    """Lines; one that begins with ``x`` breaks the protocol, one with ``c`` is a bug of the codec."""

    def __init__(self) -> None:
        self._rest = b""
        self.error: WireError | None = None

    @property
    def buffered(self) -> int:
        return len(self._rest)

    def receive(self, data: bytes) -> list[Order]:
        assert self.error is None, "parsed after an error"
        *lines, self._rest = (self._rest + data).split(b"\n")
        orders = []
        for line in lines:
            if line.startswith(b"c"):
                raise ZeroDivisionError
            if line.startswith(b"x"):
                self.error = WireError("a line that begins with x")
                self._rest = b""
                break
            orders.append(Order(line.decode()))
        return orders


class OrderProtocol(StreamProtocol):
    """``w…`` and ``r…`` are answered when a test says so, the others at once."""

    name = "orders"

    def __init__(self, core: Core) -> None:
        super().__init__(core, OrderCodec())
        self.begun: list[str] = []
        self.waiting: dict[str, Deferred[bytes]] = {}

    def perform(self, request: Order) -> Reply:
        line = request.line
        self.begun.append(line)
        if line[0] in "wr":
            self.waiting[line] = Deferred()
            return self.waiting[line]
        if line[0] == "s":
            raise StoreError(line)
        if line[0] == "b":
            raise ZeroDivisionError
        if line[0] == "n":
            return None
        return line.encode() + b"\n"

    def refused(self, request: Order, error: RequestError) -> bytes:
        return b"-" + request.line.encode() + b"\n"

    def broken(self, error: WireError) -> bytes:
        return b"broken\n"

    def answer(self, line: str) -> None:
        self.waiting.pop(line).callback(line.encode() + b"\n")

    def fail(self, line: str, error: Exception) -> None:
        self.waiting.pop(line).errback(error)


class OrderFactory(StreamFactory):
    """Makes connections of the small protocol."""

    name = OrderProtocol.name

    def build(self) -> OrderProtocol:
        return OrderProtocol(self.core)


class BaseCase(SynchronousTestCase):
    """Connections to a store of the test's own, of SESP or of the small protocol."""

    def setUp(self) -> None:
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)

    def make(self, **limits: Any) -> Rig:
        """A store with SESP connections."""
        rig = Rig(os.path.abspath(self.mktemp()), limits=Limits(**limits))
        self.addCleanup(rig.close)
        return rig

    def orders(self, **limits: Any) -> Rig:
        """The same with connections of the small protocol."""
        rig = Rig(os.path.abspath(self.mktemp()), limits=Limits(**limits), make_factory=OrderFactory)
        self.addCleanup(rig.close)
        return rig

    def said(self, text: str) -> int:
        """How often something was logged."""
        return sum(text in str(event.get("log_format")) for event in self.events)

    def assert_empty(self, rig: Rig) -> None:
        """Nothing is counted for connections that are gone."""
        for peer in list(rig.peers):
            peer.drop()
        self.assertEqual((rig.load.connections, rig.load.held_bytes), (0, 0))
        self.assertEqual(rig.clock.getDelayedCalls(), [])


def order_protocol(peer: Peer) -> OrderProtocol:
    assert isinstance(peer.protocol, OrderProtocol)
    return peer.protocol
