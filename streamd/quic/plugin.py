"""What stands for ``quic:`` in a plugin file. Twisted reads those often, so nothing is loaded until it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IStreamServerEndpointStringParser
from twisted.plugin import IPlugin
from zope.interface import implementer

if TYPE_CHECKING:
    from streamd.quic.endpoint import QuicServerEndpoint


@implementer(IPlugin, IStreamServerEndpointStringParser)
class QuicServerParser:
    """Reads a server endpoint string that begins with ``quic:``."""

    prefix = "quic"

    def parseStreamServer(self, reactor: Any, *args: Any, **kwargs: Any) -> QuicServerEndpoint:
        """The endpoint; ValueError says what is wrong with the string."""
        from streamd.quic.endpoint import parse

        return parse(reactor, *args, **kwargs)
