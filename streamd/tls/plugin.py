"""The parser of ``tlsfile:`` endpoints for a plugin file. It imports little, since Twisted reads those often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IStreamServerEndpointStringParser
from twisted.plugin import IPlugin
from zope.interface import implementer

if TYPE_CHECKING:
    from streamd.tls.endpoint import TlsServerEndpoint


@implementer(IPlugin, IStreamServerEndpointStringParser)
class TlsServerParser:
    """Parses server endpoint strings that begin with ``tlsfile:``."""

    prefix = "tlsfile"

    def parseStreamServer(self, reactor: Any, *args: Any, **kwargs: Any) -> TlsServerEndpoint:
        """The endpoint of a string; ValueError says what is wrong with it."""
        from streamd.tls.endpoint import parse

        return parse(reactor, *args, **kwargs)
