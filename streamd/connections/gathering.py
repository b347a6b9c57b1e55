"""The connections of one endpoint: they are counted, and at the end of the daemon they end together."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from streamd.connections.core import Core
from streamd.interfaces import IDrained
from streamd.metrics import Traffic


class Ending(Protocol):
    """A connection, as far as its end goes."""

    def drain(self) -> None:
        """End in order: what was asked is answered first."""

    def abort(self) -> None:
        """End at once."""


C = TypeVar("C", bound=Ending)


@implementer(IDrained)
class Gathering(Generic[C]):
    """What a factory knows of its connections."""

    def __init__(self, core: Core, traffic: Traffic) -> None:
        self.core = core
        self.traffic = traffic
        """What is counted of the protocol, on all its endpoints together."""
        self.connections: set[C] = set()
        self._drained: list[Deferred[None]] = []

    def joined(self, connection: C) -> None:
        """A connection is up."""
        self.connections.add(connection)
        self.traffic.connections += 1
        self.traffic.connected += 1

    def left(self, connection: C) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self.traffic.connections -= 1
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
            return succeed(None)
        drained: Deferred[None] = Deferred()
        self._drained.append(drained)
        late = self.core.clock.callLater(self.drain_seconds_max, self._abort_all)
        drained.addCallback(lambda _: late.cancel() if late.active() else None)
        for connection in list(self.connections):
            connection.drain()
        return drained

    def _abort_all(self) -> None:
        for connection in list(self.connections):
            connection.abort()
