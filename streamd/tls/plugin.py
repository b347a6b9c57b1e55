"""What stands for ``tlsfile:`` in a plugin file: little, since Twisted reads those often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IStreamServerEndpointStringParser
from twisted.plugin import IPlugin
from zope.interface import implementer

if TYPE_CHECKING:
    from streamd.tls.endpoint import TlsServerEndpoint


@implementer(IPlugin, IStreamServerEndpointStringParser)
class TlsServerParser:
    """Reads a server endpoint string that begins with ``tlsfile:``."""

    prefix = "tlsfile"

    def parseStreamServer(self, reactor: Any, *args: Any, **kwargs: Any) -> TlsServerEndpoint:
        """The endpoint; ValueError says what is wrong with the string."""
        from streamd.tls.endpoint import parse

        return parse(reactor, *args, **kwargs)
