"""What makes the connections of a stream protocol."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from streamd.access.peer import address_text
from streamd.connections.base import StreamProtocol
from streamd.connections.core import Core
from streamd.connections.gathering import Gathering
from streamd.metrics import Traffic


class StreamFactory(Gathering[StreamProtocol], Factory, metaclass=ABCMeta):
    """Makes the connections of one endpoint, unless there are too many, and ends them together."""

    noisy = False

    def __init__(self, core: Core) -> None:
        # What is counted is known with the first connection, which has the protocol's name.
        super().__init__(core, Traffic())

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

    def left(self, connection: StreamProtocol) -> None:
        """A connection is gone, and leaves room for another."""
        self.core.load.leave(connection.address)
        super().left(connection)
