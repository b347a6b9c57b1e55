"""What makes the connections of a stream protocol."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from streamd.interfaces import Core
from streamd.metrics import Traffic
from streamd.protocols.base import StreamProtocol
from streamd.protocols.gathering import Gathering


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
        if not self.core.load.admit(address):
            whose = "" if self.core.load.is_full else " from its address"
            StreamProtocol.log.warn(
                "{peer} refused: there are too many connections{whose}", peer=str(addr), whose=whose
            )
            return None
        protocol = self.build()
        protocol.factory = self
        protocol.address = address
        self.traffic = self.core.load.traffic_of(protocol.name)
        return protocol

    def left(self, connection: StreamProtocol) -> None:
        """A connection is gone, and leaves room for another."""
        self.core.load.leave(connection.address)
        super().left(connection)
