"""The identity of a peer as its transport knows it: certificate, unix user and address."""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Any, Final

from cryptography import x509
from twisted.internet.address import IPv4Address as TcpAddress4
from twisted.internet.address import IPv6Address as TcpAddress6
from twisted.internet.address import UNIXAddress
from twisted.protocols.policies import ProtocolWrapper

from streamd.access.who import Peer, plain_address

# struct ucred of Linux: pid, uid, gid.
_CREDENTIALS: Final = Struct("iII")
assert _CREDENTIALS.size == 12

# Kinds of names in a certificate that stand for a person or a program.
_NAMES: Final = (x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier)


def address_text(address: Any) -> str:
    """An address as a person would write it."""
    if isinstance(address, TcpAddress4):
        return f"{address.host}:{address.port}"
    if isinstance(address, TcpAddress6):
        return f"[{address.host}]:{address.port}"
    if isinstance(address, UNIXAddress):
        return os.fsdecode(address.name) if address.name else "a unix socket"
    return str(address)


def peer_text(transport: Any) -> str:
    """The peer of a transport for the log: its address, or its user on a unix socket."""
    user = _socket_user(transport)
    return address_text(transport.getPeer()) if user is None else f"user {user} on a unix socket"


def peer_of(transport: Any) -> Peer:
    """The peer of a transport. Call it after the first bytes have arrived: before that, TLS has no certificate."""
    return Peer(_certificate_names(transport), _socket_user(transport), _address(transport))


def _certificate_names(transport: Any) -> frozenset[str]:
    # Nothing here asks who signed it: an endpoint that wants no certificates gets none, and one that wants them has
    # refused the connection of who could not show one that its authority vouches for.
    shown = getattr(transport, "getPeerCertificate", None)
    certificate = shown() if shown is not None else None
    return frozenset() if certificate is None else certificate_names(certificate.to_cryptography())


def certificate_names(certificate: x509.Certificate) -> frozenset[str]:
    """All names of a certificate that a rule of access can refer to."""
    names = {str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)}
    try:
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset(names)
    for kind in _NAMES:
        names.update(others.get_values_for_type(kind))
    return frozenset(names)


def _socket_user(transport: Any) -> int | None:
    while isinstance(transport, ProtocolWrapper):
        transport = transport.transport
    connection = getattr(transport, "socket", None)
    if not isinstance(connection, socket.socket) or connection.family is not socket.AF_UNIX:
        return None
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(given)[1]
    return user


def _address(transport: Any) -> IPv4Address | IPv6Address | None:
    host = getattr(transport.getPeer(), "host", None)
    try:
        return None if host is None else plain_address(host)
    except ValueError:
        return None
