"""Who a peer is, and whom a rule means."""

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
from streamd.access.who import Peer, check_rule, parse_who, plain_address
from streamd.interfaces import ConfigError
from streamd.settings import AccessRule

ALICE = Peer(names=frozenset({"alice", "alice.example.org"}))
ROOT = Peer(user=0)
NEAR = Peer(address=ip_address("10.1.2.3"))
FAR = Peer(address=ip_address("2001:db8::1"))
EVERY = (ALICE, ROOT, NEAR, FAR)


class WhoTests(SynchronousTestCase):
    """The value of ``who``."""

    def fit(self, text: str) -> list[Peer]:
        return [each for each in EVERY if parse_who(text).fits(each)]

    def test_fits(self) -> None:
        """Each kind means those it names, and nobody else: who lacks that kind of name is not meant."""
        self.assertEqual(self.fit("anyone"), list(EVERY))
        self.assertEqual(self.fit("cert:alice"), [ALICE])
        self.assertEqual(self.fit("cert:alice.example.org"), [ALICE])
        self.assertEqual(self.fit("cert:Alice"), [])
        self.assertEqual(self.fit("user:0"), [ROOT])
        self.assertEqual(self.fit("user:root"), [ROOT])
        self.assertEqual(self.fit("net:10.0.0.0/8"), [NEAR])
        self.assertEqual(self.fit("net:10.1.2.3"), [NEAR])
        self.assertEqual(self.fit("net:0.0.0.0/0"), [NEAR])
        self.assertEqual(self.fit("net:2001:db8::/32"), [FAR])

    def test_called(self) -> None:
        """What a peer is told that it is called means it, and nobody else."""
        for peer in EVERY:
            for each in peer.called():
                self.assertEqual(self.fit(each), [peer])
        self.assertEqual(ALICE.called(), ["cert:alice", "cert:alice.example.org"])
        self.assertEqual(Peer().called(), [])

    def test_wrong(self) -> None:
        """What can mean nobody is refused, with the reason."""
        for text, reason in (
            ("", 'who: expected "cert:NAME"'),
            ("alice", 'who: expected "cert:NAME"'),
            ("cert:", 'who: expected "cert:NAME"'),
            ("group:wheel", 'who: there is no "group:"'),
            ("user:nobody-has-this-name", "who: there is no user nobody-has-this-name"),
            ("net:10.0.0.1/8", "who: 10.0.0.1/8 has host bits set"),
            ("net:example.org", "who: 'example.org' does not appear to be"),
        ):
            error = self.assertRaises(ConfigError, parse_who, text)
            self.assertTrue(str(error).startswith(reason), str(error))

    def test_rule(self) -> None:
        """Neither whom a rule means nor what it allows has a default."""
        check_rule(AccessRule(who="anyone", allow=("read",)))
        self.assertRaises(ConfigError, check_rule, AccessRule(allow=("read",)))
        self.assertRaises(ConfigError, check_rule, AccessRule(who="anyone"))

    def test_plain_address(self) -> None:
        """An address is the same with a zone, and inside of IPv6."""
        self.assertEqual(plain_address("::ffff:10.0.0.1"), ip_address("10.0.0.1"))
        self.assertEqual(plain_address("fe80::1%eth0"), ip_address("fe80::1"))
        self.assertRaises(ValueError, plain_address, "localhost")


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
