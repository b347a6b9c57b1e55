"""The server endpoint, as a class and as a string: ``quic:4848:interface=…:privateKey=…:certKey=…``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred, execute
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IStreamServerEndpoint
from zope.interface import implementer

from streamd.interfaces import IReloadable
from streamd.quic.listener import Listener, QuicPort
from streamd.quic.receiving import listen
from streamd.quic.settings import QuicSettings
from streamd.tls.server_certificate import ServerCertificate


@implementer(IStreamServerEndpoint, IReloadable)
class QuicServerEndpoint:
    """A server endpoint for QUIC on a UDP port. Each stream that a client opens is a connection of the factory.

    :param reactor: provides IReactorUDP and IReactorTime.
    :param interface: the address to listen on; empty for all of IPv4, ``::`` for all.
    """

    def __init__(
        self,
        reactor: Any,
        port: int,
        *,
        certificate: ServerCertificate | None,
        interface: str = "127.0.0.1",
        settings: QuicSettings = QuicSettings(),
    ) -> None:
        self._reactor = reactor
        self._port = port
        self._interface = interface
        self._certificate = certificate
        self._settings = settings
        self._listeners: list[Listener] = []

    @property
    def has_certificate(self) -> bool:
        """Whether the endpoint has a certificate, and so can listen."""
        return self._certificate is not None

    def equipped(self, *, alpn: str, certificate: ServerCertificate | None = None) -> QuicServerEndpoint:
        """The same endpoint with what it lacks: the application protocol, and a certificate."""
        return QuicServerEndpoint(
            self._reactor,
            self._port,
            interface=self._interface,
            certificate=self._certificate or certificate,
            settings=replace(self._settings, alpn=self._settings.alpn or (alpn,)),
        )

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Begin to listen; the Deferred fails with CannotListenError where that is not possible."""
        return execute(self._listen, protocolFactory)

    def _listen(self, factory: IProtocolFactory) -> IListeningPort:
        if self._certificate is None:
            why = ValueError("a quic endpoint needs a certificate: quic:PORT:privateKey=FILE:certKey=FILE")
            raise CannotListenError(self._interface, self._port, why)
        listener = Listener(self._reactor, self._settings, factory, self._certificate)
        listen(self._reactor, self._port, listener, self._interface)
        factory.doStart()
        self._listeners.append(listener)
        return QuicPort(listener)

    def reread(self) -> Callable[[], None]:
        """Read key and certificate again, where they are files; call the result to use them for new connections."""
        files = None if self._certificate is None else self._certificate.files
        return partial(self._use, self._certificate if files is None else ServerCertificate.read(*files))

    def _use(self, certificate: ServerCertificate | None) -> None:
        self._certificate = certificate
        if certificate is None:
            return
        for listener in self._listeners:
            listener.use(certificate)


# What the string calls a setting, where that is not the setting's own name in camelCase without its unit.
_ARGUMENTS: Final = {
    "idleTimeout": "idle_seconds",
    "handshakeTimeout": "handshake_seconds_max",
    "connections": "connections_max",
    "handshakes": "handshakes_max",
    "streams": "streams_max",
    "streamReceiveBytes": "stream_receive_bytes_max",
    "connectionReceiveBytes": "connection_receive_bytes_max",
    "streamSendBytes": "stream_send_bytes_max",
    "connectionSendBytes": "connection_send_bytes_max",
    "datagramBytes": "datagram_bytes_max",
    "socketBufferBytes": "socket_buffer_bytes",
    "congestion": "congestion_control",
}


def parse(
    reactor: Any,
    *ports: str,
    interface: str = "",
    privateKey: str | None = None,
    certKey: str | None = None,
    **arguments: str,
) -> QuicServerEndpoint:
    """The endpoint that the parts of an endpoint string describe; ValueError says what is wrong with them."""
    if len(ports) != 1:
        raise ValueError("a quic endpoint is quic:PORT, then arguments with a name")
    if privateKey is None and certKey is not None:
        raise ValueError("a quic endpoint with a certKey needs a privateKey")
    return QuicServerEndpoint(
        reactor,
        _port(ports[0]),
        interface=interface,
        certificate=None if privateKey is None else ServerCertificate.read(privateKey, certKey),
        settings=parse_settings(arguments),
    )


def parse_settings(arguments: dict[str, str]) -> QuicSettings:
    """The settings in the arguments of an endpoint string; ValueError names one that can't be used."""
    values: dict[str, Any] = {}
    kinds = {field.name: field.default for field in fields(QuicSettings)}
    for name, text in arguments.items():
        if name == "alpn":
            values["alpn"] = tuple(protocol for protocol in text.split(",") if protocol)
        elif name == "retry":
            values["retry_handshakes"] = _retry(text)
        elif name in _ARGUMENTS:
            setting = _ARGUMENTS[name]
            kind: type = type(kinds[setting])
            try:
                values[setting] = kind(text)
            except ValueError:
                raise ValueError(f"quic endpoint: {name} is {text!r}, which is no number")
        else:
            known = ", ".join(("interface", "privateKey", "certKey", "alpn", "retry", *_ARGUMENTS))
            raise ValueError(f"quic endpoint: there is no {name}, only {known}")
    return QuicSettings(**values)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise ValueError(f"quic endpoint: {text!r} is no port")
    return int(text)


def _retry(text: str) -> int | None:
    """The setting for retries: ``yes``: always, ``no``: never, a number: from so many unfinished handshakes on."""
    if text in ("yes", "no"):
        return 0 if text == "yes" else None
    if text.isascii() and text.isdigit():
        return int(text)
    raise ValueError(f"quic endpoint: retry is {text!r}, not yes, no or a number of handshakes")
