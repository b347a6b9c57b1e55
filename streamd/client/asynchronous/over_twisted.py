"""Connections on Twisted's reactor."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.error import ConnectionDone, TimeoutError
from twisted.internet.interfaces import IPushProducer, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from txaio import tx
from zope.interface import implementer

from streamd.client.address import UnixAddress
from streamd.client.asynchronous.connection import Framework, Receiver, Transport
from streamd.client.errors import ConnectionLost, Timeout
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
        if target.ssl_context is not None:
            endpoint = wrapClientTLS(target.ssl_context, endpoint)
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
