"""What makes the connections of a stream protocol."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from streamd.access.peer import address_text
from streamd.connections.base import StreamProtocol
from streamd.connections.core import Core
from streamd.connections.gathering import Gathering
from streamd.connections.joint import JointAppend
from streamd.store import Segment


class StreamFactory(Gathering[StreamProtocol], Factory, metaclass=ABCMeta):
    """Makes the connections of one endpoint, unless there are too many, and ends them together."""

    noisy = False
    name: ClassVar[str]
    """The protocol's name, by which its traffic is counted."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, core.load.traffic_of(self.name))
        self.joint: dict[tuple[Segment, int], JointAppend] = {}
        """By topic and tag: the messages that came together in this turn."""

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
        return protocol

    def refused(self, reason: str) -> None:
        """Count a connection that was refused on arrival."""
        self.traffic.connections_refused[reason] += 1

    def left(self, connection: StreamProtocol) -> None:
        """A connection is gone, and leaves room for another."""
        self.core.load.leave(connection.address)
        super().left(connection)
