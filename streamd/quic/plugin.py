"""The parser of ``quic:`` endpoints for a plugin file. Twisted reads those often, so QUIC is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IStreamServerEndpointStringParser
from twisted.plugin import IPlugin
from zope.interface import implementer

if TYPE_CHECKING:
    from streamd.quic.endpoint import QuicServerEndpoint


@implementer(IPlugin, IStreamServerEndpointStringParser)
class QuicServerParser:
    """Parses server endpoint strings that begin with ``quic:``."""

    prefix = "quic"

    def parseStreamServer(self, reactor: Any, *args: Any, **kwargs: Any) -> QuicServerEndpoint:
        """The endpoint of a string; ValueError says what is wrong with it."""
        from streamd.quic.endpoint import parse

        return parse(reactor, *args, **kwargs)
