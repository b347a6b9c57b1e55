"""The server's certificate: made where there is none, renewed in time, and read again."""

from __future__ import annotations

import os
import socket
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store
from OpenSSL.crypto import X509, X509Store, X509StoreContext, X509StoreFlags
from twisted.trial.unittest import SynchronousTestCase

from streamd.tls.server_certificate import (
    CA_KEY_NAME,
    CA_NAME,
    FILE_NAME,
    KEY_NAME,
    CertificateError,
    LocalCertificate,
    ServerCertificate,
    local_certificate,
)
from tests.rigs.quic.certificates import write_self_made


class CertificateTests(SynchronousTestCase):
    """What is made for this machine where nobody gave a certificate."""

    def setUp(self) -> None:
        self.directory = self.mktemp()
        os.mkdir(self.directory)
        self.ca, self.ca_key, self.path, self.key = self.paths = [
            os.path.join(self.directory, name) for name in (CA_NAME, CA_KEY_NAME, FILE_NAME, KEY_NAME)
        ]

    def make(self, days: int = 0) -> LocalCertificate:
        """What a start so many days from now finds or makes."""
        return local_certificate(self.directory, now=datetime.now(UTC) + timedelta(days=days))

    def content(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def put(self, path: str, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)

    def test_made(self) -> None:
        """An authority and what it signed for this machine; keys apart, which nobody else can read."""
        made, trusted, replaced = self.make()
        self.assertEqual((trusted, replaced), (self.ca, False))
        self.assertEqual(sorted(os.listdir(self.directory)), sorted([CA_NAME, CA_KEY_NAME, FILE_NAME, KEY_NAME]))
        for path in self.paths:
            is_key = path in (self.ca_key, self.key)
            self.assertEqual(b"PRIVATE" in self.content(path), is_key)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, path)
        names = made.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        wanted = dict.fromkeys(["localhost", socket.gethostname().lower()])
        self.assertEqual(names.get_values_for_type(x509.DNSName), list(wanted))
        self.assertEqual(names.get_values_for_type(x509.IPAddress), [ip_address("127.0.0.1"), ip_address("::1")])
        self.assertNotIn("key", repr(made))

    def test_accepted(self) -> None:
        """OpenSSL, as strict as it can be, and the verifier of cryptography, which is as strict as rustls, take it."""
        self.make()
        certificate, authority = (x509.load_pem_x509_certificate(self.content(path)) for path in (self.path, self.ca))
        trusted = X509Store()
        trusted.set_flags(X509StoreFlags.X509_STRICT)
        trusted.add_cert(X509.from_cryptography(authority))
        X509StoreContext(trusted, X509.from_cryptography(certificate)).verify_certificate()
        store = Store([authority])
        for name in (x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))):
            chain = PolicyBuilder().store(store).build_server_verifier(name).verify(certificate, [])
            self.assertEqual(len(chain), 2)

    def test_kept(self) -> None:
        """The next start finds it again. Renewed in time it is signed by the same authority, for the same key."""
        first = self.make().certificate.certificate
        authority = self.content(self.ca)
        self.assertEqual(self.make(200).certificate.certificate, first)
        for days in (300, 800, 900):
            later = datetime.now(UTC) + timedelta(days=days)
            renewed = self.make(days).certificate.certificate
            self.assertNotEqual(renewed, first)
            self.assertGreater(renewed.not_valid_after_utc, later + timedelta(days=500))
            self.assertEqual(renewed.public_key(), first.public_key())
            self.assertEqual(self.content(self.ca), authority)

    def test_authority_renewed(self) -> None:
        """An authority that is about to run out is renewed with its key: older copies of its file go on to be right."""
        self.make()
        before = x509.load_pem_x509_certificate(self.content(self.ca))
        made = self.make(7000).certificate
        after = x509.load_pem_x509_certificate(self.content(self.ca))
        self.assertGreater(after.not_valid_after_utc, before.not_valid_after_utc)
        self.assertLess(made.certificate.not_valid_after_utc, after.not_valid_after_utc)
        for authority in (before, after):
            made.certificate.verify_directly_issued_by(authority)

    def test_other_name(self) -> None:
        """When the machine has another name there is a new certificate, of the same authority."""
        self.make()
        authority = self.content(self.ca)
        for name, wanted in (
            ("other.example", ["localhost", "other.example"]),
            ("UPPER", ["localhost", "upper"]),
            ("localhost", ["localhost"]),
            ("under_score", ["localhost"]),
            ("b\u00fccher", ["localhost"]),
            ("10.0.0.1", ["localhost"]),
            ("", ["localhost"]),
        ):
            self.patch(socket, "gethostname", lambda name=name: name)
            certificate = self.make().certificate.certificate
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            self.assertEqual(names.get_values_for_type(x509.DNSName), wanted)
            self.assertEqual(self.content(self.ca), authority)

    def test_cut_short(self) -> None:
        """A start that was cut off behind any of the files is mended by the next one."""
        self.make()
        order = [self.ca_key, self.ca, self.key, self.path]
        whole = {path: self.content(path) for path in order}
        for there in range(len(order)):
            for number, path in enumerate(order):
                self.put(path, whole[path])
                if number >= there:
                    os.unlink(path)
            made = self.make().certificate
            made.certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(self.content(self.ca)))
            self.assertEqual(self.content(self.ca) == whole[self.ca], there >= 2)

    def test_replaced(self) -> None:
        """One that signed itself, of an earlier version, is replaced, once; its key stays."""
        old = write_self_made(self.directory)
        made, trusted, replaced = self.make()
        self.assertEqual((trusted, replaced), (self.ca, True))
        made.certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(self.content(self.ca)))
        self.assertEqual(made.certificate.public_key(), old.public_key())
        self.assertFalse(self.make().replaced)

    def test_replacing_cut_short(self) -> None:
        """Cut off behind any file, the next start goes on where that one was; there is never one without its key."""
        write_self_made(self.directory)
        old = self.content(self.path)
        self.make()
        self.put(self.path, old)
        self.assertTrue(self.make().replaced)
        self.put(self.path, old)
        os.unlink(self.ca)
        self.assertTrue(self.make().replaced)

    def test_of_an_operator(self) -> None:
        """One that somebody else put in the place is used as it is, and nothing is made beside it."""
        certificate = write_self_made(self.directory, "streamd.example")
        content = self.content(self.path)
        made, trusted, replaced = self.make(800)
        self.assertEqual((trusted, replaced), (self.path, False))
        self.assertEqual(made.certificate, certificate)
        self.assertEqual(self.content(self.path), content)
        self.assertEqual(sorted(os.listdir(self.directory)), sorted([FILE_NAME, KEY_NAME]))

    def test_unusable(self) -> None:
        """What is no key, no certificate, or the certificate of another key is refused with the file's name."""
        self.make()
        other = self.mktemp()
        os.mkdir(other)
        stranger = local_certificate(other).certificate
        paths = {}
        for name, data in (("empty", b""), ("other", stranger.certificate.public_bytes(Encoding.PEM))):
            paths[name] = os.path.join(self.directory, name)
            self.put(paths[name], data)
        for key, certificate, named in (
            (paths["empty"], None, paths["empty"]),
            (self.key, paths["empty"], paths["empty"]),
            (self.key, paths["other"], paths["other"]),
            (self.directory, None, self.directory),
        ):
            error = self.assertRaises(CertificateError, ServerCertificate.read, key, certificate)
            self.assertIn(named, str(error))

    def test_damaged(self) -> None:
        """A file of ours that is damaged is not replaced in silence: clients may trust what was in it."""
        self.make()
        for path in self.paths:
            whole = self.content(path)
            self.put(path, b"-----BEGIN PRIVATE KEY-----\n")
            # The authority's key is not looked at before there is something to sign.
            days = 800 if path == self.ca_key else 0
            error = self.assertRaises(CertificateError, self.make, days)
            self.assertIn(path, str(error))
            self.put(path, whole)
        self.make()
