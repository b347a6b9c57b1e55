"""Twisted: connections on a reactor."""

from __future__ import annotations

from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from cryptography.x509 import load_pem_x509_certificates
from OpenSSL import SSL, crypto
from twisted.internet import error as failures
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.interfaces import IPushProducer, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import Certificate, PrivateCertificate, optionsForClientTLS, trustRootFromCertificates
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.client.address import TlsAddress, UnixAddress
from streamd.client.core.connection import ClientConnection
from streamd.client.core.session import Answer, Steps
from streamd.client.errors import ClientError
from streamd.client.target import Target


class ReactorDriver:
    """Drives connections on the reactor that it is given."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def spawn(self, steps: Steps[None]) -> None:
        """Carry this out beside the caller."""
        Deferred.fromCoroutine(steps)

    async def dial(self, connection: ClientConnection[Any], target: Target) -> ReactorTransport:
        """Connect through an endpoint."""
        address = target.address
        endpoint: Any
        if isinstance(address, UnixAddress):
            endpoint = UNIXClientEndpoint(self._reactor, address.path, timeout=target.connect_seconds_max)
        else:
            endpoint = HostnameEndpoint(self._reactor, address.host, address.port, timeout=target.connect_seconds_max)
        creator = _tls_of(target)
        if creator is not None:
            endpoint = wrapClientTLS(creator, endpoint)
        transport = ReactorTransport(connection)
        try:
            await connectProtocol(endpoint, transport)
        except OSError:
            raise
        except failures.TimeoutError:
            raise TimeoutError
        except Exception as error:
            # Twisted's own errors of connecting have no ancestor but this.
            raise OSError(f"{type(error).__name__}: {error}")
        return transport

    async def until(self, answer: Answer[Any], seconds: float) -> None:
        """Wait for a Deferred that the answer fires, or a timer."""
        waiting: Deferred[None] = Deferred()
        answer.when_done(partial(_resolve, waiting))
        timer = None if seconds == inf else self._reactor.callLater(seconds, _resolve, waiting)
        try:
            await waiting
        finally:
            if timer is not None and timer.active():
                timer.cancel()

    def seconds(self) -> float:
        """Return the reactor's time."""
        seconds: float = self._reactor.seconds()
        return seconds


def _resolve(waiting: Deferred[None]) -> None:
    # A Deferred that was cancelled has been called already, and so has one whose time is over.
    if not waiting.called:
        waiting.callback(None)


def _tls_of(target: Target) -> Any:
    """Return what to speak TLS with: as given, or by the address; None where it is not spoken."""
    address = target.address
    if target.ssl_context is not None or not isinstance(address, TlsAddress):
        return target.ssl_context
    try:
        shown = None
        if address.cert is not None:
            # The key may stand in the same file.
            files = dict.fromkeys(filter(None, (address.key, address.cert)))
            shown = PrivateCertificate.loadPEM(b"".join(Path(file).read_bytes() for file in files))
        trusted = None
        if address.ca is not None:
            authorities = map(crypto.X509.from_cryptography, load_pem_x509_certificates(Path(address.ca).read_bytes()))
            trusted = trustRootFromCertificates(list(map(Certificate, authorities)))
    except OSError as error:
        raise ClientError(f"{error.filename}: {error.strerror}") from None
    except (SSL.Error, crypto.Error, ValueError):
        raise ClientError(f"{address}: expected certificates and keys in these files, as PEM") from None
    return optionsForClientTLS(address.host, trusted, shown)


@implementer(IPushProducer)
class ReactorTransport(Protocol):
    """A transport of Twisted's. It reports to a connection."""

    # Every stream transport of Twisted is a consumer too, which ITransport does not say.
    transport: Any

    def __init__(self, connection: ClientConnection[Any]) -> None:
        self._connection = connection

    def connectionMade(self) -> None:
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        self._connection.received(data)

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._connection.paused()

    def resumeProducing(self) -> None:
        """The transport's buffer has room again."""
        self._connection.resumed()

    def stopProducing(self) -> None:
        """The transport is gone; `connectionLost` says why."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        closed = reason.check(failures.ConnectionDone)
        self._connection.lost("the daemon closed it" if closed else reason.getErrorMessage())

    def write(self, data: bytes) -> None:
        """Send this, now or later."""
        self.transport.write(data)

    def close(self) -> None:
        """Hang up when all is sent."""
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def abort(self) -> None:
        """Hang up at once."""
        self.transport.abortConnection()
