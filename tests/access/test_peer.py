"""What is known of a peer: its address, its user, its certificate."""

from __future__ import annotations

import os
import pwd
import socket
from datetime import UTC, datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from streamd.access.peer import certificate_names, peer_of, peer_text
from streamd.access.who import Peer, parse_who


def certificate(name: str, *others: x509.GeneralName) -> x509.Certificate:
    """A certificate for these names that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now)
    )
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    return builder.sign(key, SHA256())


class UnixTransport(StringTransport):
    """A transport with a socket, as Twisted's have one."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(peerAddress=UNIXAddress(None))
        self.socket = connection


class PeerTests(SynchronousTestCase):
    """What a transport tells."""

    def test_address(self) -> None:
        """The network address, where there is one."""
        for address, expected in (
            (IPv4Address("TCP", "10.0.0.1", 1), ip_address("10.0.0.1")),
            (IPv6Address("TCP", "::ffff:10.0.0.1", 1), ip_address("10.0.0.1")),
            (UNIXAddress(None), None),
        ):
            self.assertEqual(peer_of(StringTransport(peerAddress=address)), Peer(address=expected))

    def test_text(self) -> None:
        """In the log an address is as people write it."""
        for address, text in (
            (IPv4Address("TCP", "10.0.0.1", 7), "10.0.0.1:7"),
            (IPv6Address("TCP", "::1", 7), "[::1]:7"),
            (UNIXAddress(None), "a unix socket"),
            (UNIXAddress(b"/run/s"), "/run/s"),
        ):
            self.assertEqual(peer_text(StringTransport(peerAddress=address)), text)

    def test_user(self) -> None:
        """The user at the other end of a unix socket, as the kernel tells it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        with ours, theirs:
            found = peer_of(UnixTransport(ours))
            self.assertEqual(peer_text(UnixTransport(ours)), f"user {os.getuid()} on a unix socket")
        self.assertEqual(found, Peer(user=os.getuid()))
        self.assertTrue(parse_who(f"user:{pwd.getpwuid(os.getuid()).pw_name}").fits(found))

    def test_certificate(self) -> None:
        """All names of a certificate count: common names, and those beside them."""
        self.assertEqual(certificate_names(certificate("alice")), {"alice"})
        names = [
            x509.DNSName("host.example.org"),
            x509.RFC822Name("alice@example.org"),
            x509.UniformResourceIdentifier("spiffe://example.org/alice"),
            x509.IPAddress(ip_address("10.0.0.1")),
        ]
        self.assertEqual(
            certificate_names(certificate("alice", *names)),
            {"alice", "host.example.org", "alice@example.org", "spiffe://example.org/alice"},
        )
