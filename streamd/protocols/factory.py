"""What makes the connections of a stream protocol, counts them, and ends them together."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from streamd.access.peer import address_text
from streamd.interfaces import Core
from streamd.metrics import Traffic
from streamd.protocols.base import StreamProtocol


class StreamFactory(Factory, metaclass=ABCMeta):
    """Makes the connections of one endpoint, and ends them together."""

    noisy = False

    def __init__(self, core: Core) -> None:
        self.core = core
        self.connections: set[StreamProtocol] = set()
        self._drained: list[Deferred[None]] = []
        self.traffic = Traffic()
        """What is counted of the protocol, on all its endpoints together: known with the first connection."""

    @abstractmethod
    def build(self) -> StreamProtocol:
        """A new connection."""

    def buildProtocol(self, addr: IAddress | None) -> Any:
        address = getattr(addr, "host", None)
        reason = self.core.load.admit(address)
        if reason is not None:
            self.refused(reason)
            StreamProtocol.log.warn(
                "{peer} is refused: there are as many connections as limits.{limit} allows",
                peer=address_text(addr),
                limit=f"{reason}_max",
            )
            return None
        protocol = self.build()
        protocol.factory = self
        protocol.address = address
        self.traffic = self.core.load.traffic_of(protocol.name)
        return protocol

    def refused(self, reason: str) -> None:
        """Somebody was closed as soon as it came."""
        if not self.traffic.connected:
            # Nobody has come yet who would know which protocol this is.
            self.traffic = self.core.load.traffic_of(self.build().name)
        self.traffic.connections_refused[reason] += 1

    def joined(self, protocol: StreamProtocol) -> None:
        """A connection is up."""
        self.connections.add(protocol)
        self.traffic.connections += 1
        self.traffic.connected += 1

    def left(self, protocol: StreamProtocol) -> None:
        """A connection is gone."""
        self.connections.discard(protocol)
        self.traffic.connections -= 1
        self.core.load.leave(protocol.address)
        if not self.connections:
            drained, self._drained = self._drained, []
            for deferred in drained:
                deferred.callback(None)

    @property
    def drain_seconds_max(self) -> float:
        """How long connections get to end at shutdown."""
        return self.core.limits.drain_seconds_max

    def drain(self) -> Deferred[Any]:
        """End all connections in order, within the limit; fires when they are gone."""
        if not self.connections:
            return DeferredList([])
        drained: Deferred[None] = Deferred()
        self._drained.append(drained)
        late = self.core.clock.callLater(self.drain_seconds_max, self._abort_all)
        drained.addCallback(lambda _: late.cancel() if late.active() else None)
        for protocol in list(self.connections):
            protocol.drain()
        return drained

    def _abort_all(self) -> None:
        for protocol in list(self.connections):
            protocol.abort()
