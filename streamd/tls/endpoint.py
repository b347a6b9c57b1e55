"""The server endpoint, as a class and as a string: ``tlsfile:4840:privateKey=…:certKey=…:clientCA=…:crl=…``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.interfaces import IAddress, IListeningPort, IProtocolFactory, IStreamServerEndpoint
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from streamd.endpoints import BACKLOG
from streamd.interfaces import IReloadable
from streamd.tls.certificates import Certificates


class _Factory(TLSMemoryBIOFactory):
    """Wraps TLS around the protocols of a factory. Where that builds none there is none: Twisted's would wrap None."""

    def buildProtocol(self, addr: IAddress | None) -> Any:
        built = self.wrappedFactory.buildProtocol(addr)
        return None if built is None else self.protocol(self, built)


@implementer(IStreamServerEndpoint, IReloadable)
class TlsServerEndpoint:
    """A server endpoint for TLS 1.2 and above on a TCP port.

    :param interface: the address to listen on, IPv4 or IPv6; empty for all of IPv4, ``::`` for all of both.
    """

    def __init__(
        self, reactor: Any, port: int, certificates: Certificates, *, interface: str = "", backlog: int = BACKLOG
    ) -> None:
        kind = TCP6ServerEndpoint if ":" in interface else TCP4ServerEndpoint
        self._below = kind(reactor, port, backlog, interface)
        self._certificates = certificates
        self._reactor = reactor

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Begin to listen; the Deferred fails with CannotListenError where that is not possible."""
        self._certificates.tell()
        wrapped = _Factory(self._certificates, False, protocolFactory, self._reactor)
        listening: Deferred[IListeningPort] = self._below.listen(wrapped)  # type: ignore[no-untyped-call]
        return listening

    def reread(self) -> Callable[[], None]:
        """Read key, certificate, authority and lists again; call the result to use them for new connections."""
        return self._certificates.reread()


def parse(
    reactor: Any,
    *ports: str,
    interface: str = "",
    privateKey: str | None = None,
    certKey: str | None = None,
    clientCA: str | None = None,
    crl: str | None = None,
    backlog: str = str(BACKLOG),
    **unknown: str,
) -> TlsServerEndpoint:
    """The endpoint that the parts of an endpoint string describe; ValueError says what is wrong with them."""
    if len(ports) != 1:
        raise ValueError("a tlsfile endpoint is tlsfile:PORT, then arguments with a name")
    if unknown:
        known = "interface, privateKey, certKey, clientCA, crl, backlog"
        raise ValueError(f"tlsfile endpoint: there is no {', '.join(unknown)}, only {known}")
    if privateKey is None:
        raise ValueError("a tlsfile endpoint needs a certificate: tlsfile:PORT:privateKey=FILE:certKey=FILE")
    if crl is not None and clientCA is None:
        raise ValueError("tlsfile endpoint: crl is about the certificates of clients, which only clientCA asks for")
    return TlsServerEndpoint(
        reactor,
        _number("a port", ports[0]),
        Certificates(privateKey, certKey, clientCA, crl),
        interface=interface,
        backlog=_number("a backlog", backlog),
    )


def _number(what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise ValueError(f"tlsfile endpoint: {text!r} is not {what}")
    return int(text)
