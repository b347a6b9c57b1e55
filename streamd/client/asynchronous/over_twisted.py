"""Connections on Twisted's reactor."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

from OpenSSL import SSL, crypto
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.error import ConnectionDone, TimeoutError
from twisted.internet.interfaces import IPushProducer, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import Certificate, PrivateCertificate, optionsForClientTLS, trustRootFromCertificates
from twisted.python.failure import Failure
from txaio import tx
from zope.interface import implementer

from streamd.client.address import TlsAddress, UnixAddress
from streamd.client.asynchronous.connection import Framework, Receiver, Transport
from streamd.client.errors import ClientError, ConnectionLost, Timeout
from streamd.client.target import Target


class TwistedFramework(Framework):
    """The reactor that is given."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    @cached_property
    def txaio(self) -> Any:
        return tx.with_config(loop=self._reactor)  # type: ignore[no-untyped-call]

    async def connect(self, receiver: Receiver, target: Target) -> Transport:
        address = target.address
        endpoint: Any
        if isinstance(address, UnixAddress):
            endpoint = UNIXClientEndpoint(self._reactor, address.path, timeout=target.connect_seconds_max)
        else:
            endpoint = HostnameEndpoint(self._reactor, address.host, address.port, timeout=target.connect_seconds_max)
        creator = _tls_of(target)
        if creator is not None:
            endpoint = wrapClientTLS(creator, endpoint)
        reports = _Reports(receiver)
        try:
            await connectProtocol(endpoint, reports)
        except TimeoutError:
            raise Timeout(f"no connection to {address} within {target.connect_seconds_max:g} s")
        except OSError as error:
            raise ConnectionLost(f"no connection to {address}: {error}")
        except Exception as error:
            # Twisted's own errors of connecting have no ancestor but this.
            raise ConnectionLost(f"no connection to {address}: {type(error).__name__}: {error}")
        return reports


def _tls_of(target: Target) -> Any:
    """What to speak TLS with: as given, or by the address; None where it is not spoken."""
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
            trusted = trustRootFromCertificates(list(map(Certificate.loadPEM, _certificates(address.ca))))
    except OSError as error:
        raise ClientError(f"{error.filename}: {error.strerror}") from None
    except (SSL.Error, crypto.Error, ValueError):
        raise ClientError(f"{address}: expected certificates and keys in these files, as PEM") from None
    return optionsForClientTLS(address.host, trusted, shown)


def _certificates(file: str) -> list[bytes]:
    found = re.findall(b"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", Path(file).read_bytes(), re.DOTALL)
    if not found:
        raise ValueError(file)
    return found


@implementer(IPushProducer)
class _Reports(Protocol):
    # Each of our transports is a consumer too, which ITransport does not say.
    transport: Any

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def connectionMade(self) -> None:
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        self._receiver.received(data)

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._receiver.paused()

    def resumeProducing(self) -> None:
        """It has room again."""
        self._receiver.resumed()

    def stopProducing(self) -> None:
        """The connection is gone; `connectionLost` says why."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        closed = reason.check(ConnectionDone)
        self._receiver.lost("the daemon closed it" if closed else reason.getErrorMessage())

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
