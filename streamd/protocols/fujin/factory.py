"""The endpoints of Fujin: the factory of its streams, the certificate that a QUIC endpoint shows, and the pings."""

from __future__ import annotations

from errno import EINVAL
from typing import Final

from twisted.internet.interfaces import IStreamServerEndpoint
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.connections.base import StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.groups import Groups
from streamd.interfaces import IEquipping
from streamd.protocols.fujin.ping import Pinger
from streamd.protocols.fujin.protocol import FujinProtocol
from streamd.protocols.fujin.settings import FujinSettings, configure
from streamd.quic.endpoint import QuicServerEndpoint
from streamd.quic.interfaces import IQuicConnection, IQuicFactory
from streamd.tls.server_certificate import CertificateError, local_certificate

__all__ = ["FujinFactory", "FujinSettings", "configure", "factory"]

ALPN: Final = "fujin"
"""The name of the protocol in the handshake of QUIC."""


@implementer(IQuicFactory, IEquipping)
class FujinFactory(StreamFactory):
    """Makes the streams of one endpoint, and pings its connections."""

    name = FujinProtocol.name

    def __init__(self, core: Core, settings: FujinSettings) -> None:
        super().__init__(core)
        self._settings = settings
        self._groups = Groups.of(core)
        self._pingers: dict[IQuicConnection, Pinger] = {}

    @property
    def drain_seconds_max(self) -> float:
        """How long clients get to disconnect after STOP."""
        return self._settings.stop_seconds_max

    def build(self) -> FujinProtocol:
        return FujinProtocol(self.core, self._settings, self._groups)

    def equip(self, endpoint: IStreamServerEndpoint, data_dir: str) -> IStreamServerEndpoint:
        """Supply what the string of a QUIC endpoint left open: the protocol's name, and a certificate of our own."""
        if not isinstance(endpoint, QuicServerEndpoint):
            return endpoint
        if endpoint.has_certificate:
            return endpoint.equipped(alpn=ALPN)
        try:
            certificate, trusted, replaced = local_certificate(data_dir)
        except CertificateError as error:
            raise OSError(EINVAL, str(error))
        if replaced:
            StreamProtocol.log.warn(
                "the self-signed certificate of fujin that an earlier version made is replaced: "
                "clients that trust it have to trust {path} now",
                path=trusted,
            )
        StreamProtocol.log.warn(
            "fujin was given no certificate and shows one of its own, for this machine: give clients the file {path} "
            "to trust, or set privateKey and certKey in the endpoint",
            path=trusted,
        )
        return endpoint.equipped(alpn=ALPN, certificate=certificate)

    def connectionOpened(self, connection: IQuicConnection) -> None:
        """Begin to ping a new connection."""
        pinger = self._pingers[connection] = Pinger(self.core, self._settings, connection)
        pinger.start()

    def connectionRefused(self, limit: str) -> None:
        """Count a connection that the endpoint has refused."""
        self.refused(f"quic_{limit}")

    def connectionClosed(self, connection: IQuicConnection, reason: Failure) -> None:
        """Stop pinging a connection that is gone."""
        pinger = self._pingers.pop(connection, None)
        if pinger is not None:
            pinger.stop()


def factory(core: Core, settings: object) -> FujinFactory:
    """The factory for one endpoint."""
    assert isinstance(settings, FujinSettings)
    return FujinFactory(core, settings)
