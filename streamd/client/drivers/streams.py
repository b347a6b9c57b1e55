"""QUIC on Twisted: each connection of the core is a stream of one QUIC connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.client.core.connection import ClientConnection
from streamd.client.drivers.reactor import ReactorDriver, ReactorTransport
from streamd.client.target import Target
from streamd.quic.interfaces import TooManyStreams


class StreamDriver(ReactorDriver):
    """Opens streams on a QUIC connection.

    :param name_of_code: names a code that the daemon closes a stream with.
    """

    def __init__(self, reactor: Any, quic: Any, name_of_code: Callable[[int], str]) -> None:
        super().__init__(reactor)
        self._quic = quic
        self._name_of_code = name_of_code

    async def dial(self, connection: ClientConnection[Any], target: Target) -> ReactorTransport:
        """Open a stream."""
        stream = StreamReports(connection, self._name_of_code)
        try:
            self._quic.openStream(stream)
        except (ConnectionDone, TooManyStreams) as error:
            raise OSError(str(error))
        connection.session.flow = stream.transport
        return stream


@implementer(IHalfCloseableProtocol)
class StreamReports(ReactorTransport):
    """A stream of QUIC. It reports to a connection."""

    def __init__(self, connection: ClientConnection[Any], name_of_code: Callable[[int], str]) -> None:
        super().__init__(connection)
        self._name_of_code = name_of_code

    def readConnectionLost(self) -> None:
        """The daemon sends no more."""
        self._connection.session.ended()
        self.close()

    def writeConnectionLost(self) -> None:
        """The daemon takes no more; what it sends may still come."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if code := getattr(reason.value, "code", None):
            self._connection.lost(f"the daemon closed it with {self._name_of_code(code)}")
        else:
            super().connectionLost(reason)
