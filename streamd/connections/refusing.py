"""Closes what a factory refuses, where something is wrapped around it.

A factory refuses a connection with None in place of a protocol. Twisted's wrappers for TLS and for a proxy's greeting
take that for a protocol: the log gets a traceback, and the connection stays open, counted by nobody.
"""

from __future__ import annotations

import re
from typing import Any, Final

from twisted.internet.interfaces import IAddress, IProtocolFactory, ITransport
from twisted.internet.protocol import Factory, Protocol
from zope.interface import directlyProvides, providedBy

# Kinds of endpoints that wrap something around a factory. Ours, tlsfile:, knows better.
_WRAPPING: Final = re.compile(r"(?:haproxy|ssl|tls):")


def refusing(endpoint: str, factory: IProtocolFactory) -> IProtocolFactory:
    """The factory to listen with on an endpoint."""
    return Refusing(factory) if _WRAPPING.match(endpoint) else factory


class TurnedAway(Protocol):
    """A connection that is closed as soon as it is there."""

    def makeConnection(self, transport: ITransport) -> None:
        transport.loseConnection()


class Refusing(Factory):
    """A factory that gives a protocol in any case."""

    noisy = False

    def __init__(self, factory: Any) -> None:
        self._factory = factory
        # Some are asked for more, such as what they speak.
        directlyProvides(self, providedBy(factory))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._factory, name)

    def doStart(self) -> None:
        self._factory.doStart()

    def doStop(self) -> None:
        self._factory.doStop()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """What the factory builds, or one that closes."""
        built = self._factory.buildProtocol(addr)
        return TurnedAway() if built is None else built
