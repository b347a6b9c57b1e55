"""The endpoint as a string, and the certificate behind it."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from streamd.quic.certificate import FILE_NAME, KEY_NAME, CertificateError, ServerCertificate, self_signed
from streamd.quic.client import Trust
from streamd.quic.endpoint import parse_settings
from streamd.quic.interfaces import QuicClosed
from streamd.quic.settings import QuicSettings
from tests.quic.case import Echo, QuicCase, Recorder, Recorders


class StringTests(QuicCase):
    async def test_listens(self) -> None:
        """Twisted finds the plugin; what the string says is what is served."""
        directory = self.mktemp()
        os.mkdir(directory)
        _, path = self_signed(directory)
        key = os.path.join(directory, KEY_NAME)
        text = f"quic:0:interface=127.0.0.1:privateKey={key}:certKey={path}:alpn=test:retry=yes:idleTimeout=5"
        factory = Recorders(Echo)
        port: Any = await serverFromString(self.reactor, text).listen(factory)
        self.ports.append(port)
        with open(path, "rb") as file:
            trust = Trust(file.read())
        connection = await self.endpoint(port.getHost().port, trust).dial()
        self.connections.append(connection)
        client, _ = await self.open(connection, factory, Recorder(), b"hello")
        await self.until(lambda: client.data == b"hello")

    async def test_untrusted(self) -> None:
        """A client does not believe a server whose certificate it has no reason to trust, unless it is told to."""
        port = await self.listen(Recorders())
        await self.assertFailure(self.endpoint(port.getHost().port, Trust()).dial(), QuicClosed)
        wrong = Trust(self.trust.certificates, name="another.example")
        await self.assertFailure(self.endpoint(port.getHost().port, wrong).dial(), QuicClosed)
        self.connections.append(await self.endpoint(port.getHost().port, Trust(verify=False)).dial())


class ParserTests(SynchronousTestCase):
    def parse(self, text: str) -> Any:
        return serverFromString(MemoryReactorClock(), text)

    def test_no_certificate(self) -> None:
        """Without a certificate there is no server, and the text says what is missing; it can be equipped with one."""
        bare = self.parse("quic:4848")
        self.assertFalse(bare.has_certificate)
        error = self.failureResultOf(bare.listen(Recorders()), CannotListenError)
        self.assertIn("privateKey", str(error.value))
        directory = self.mktemp()
        os.mkdir(directory)
        equipped = bare.equipped(alpn="test", certificate=self_signed(directory)[0])
        self.assertTrue(equipped.has_certificate)
        self.assertIn("privateKey", str(self.assertRaises(ValueError, self.parse, "quic:4848:certKey=x")))

    def test_wrong(self) -> None:
        """What is wrong with a string is said with its name."""
        directory = self.mktemp()
        os.mkdir(directory)
        path = os.path.join(directory, "both.pem")
        _, certificate = self_signed(directory)
        with open(path, "wb") as both:
            for part in (os.path.join(directory, KEY_NAME), certificate):
                with open(part, "rb") as file:
                    both.write(file.read())
        good = f"quic:4848:privateKey={path}"
        self.parse(good)
        for text, words in (
            (f"quic:65536:privateKey={path}", "'65536' is no port"),
            (f"quic:x:privateKey={path}", "'x' is no port"),
            (f"quic:1:2:privateKey={path}", "quic:PORT"),
            (f"{good}.missing", "No such file"),
            (f"{good}:colour=blue", "colour"),
            (f"{good}:idleTimeout=soon", "idleTimeout"),
            (f"{good}:idleTimeout=0", "idle_seconds"),
            (f"{good}:retry=maybe", "retry"),
            (f"{good}:datagramBytes=100", "datagram_bytes_max"),
            (f"{good}:datagramBytes=16001", "datagram_bytes_max"),
            (f"{good}:congestion=none", "congestion_control"),
        ):
            self.assertIn(words, str(self.assertRaises(ValueError, self.parse, text)), text)

    def test_settings(self) -> None:
        """Each argument reaches its setting."""
        given = {"alpn": "fujin,h3", "retry": "no", "idleTimeout": "2.5", "streams": "7", "congestion": "cubic"}
        expected = QuicSettings(
            alpn=("fujin", "h3"), retry_handshakes=None, idle_seconds=2.5, streams_max=7, congestion_control="cubic"
        )
        self.assertEqual(parse_settings(given), expected)
        self.assertEqual(parse_settings({"retry": "12"}).retry_handshakes, 12)
        self.assertEqual(parse_settings({"retry": "yes"}).retry_handshakes, 0)


class CertificateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = self.mktemp()
        os.mkdir(self.directory)
        self.path = os.path.join(self.directory, FILE_NAME)
        self.key = os.path.join(self.directory, KEY_NAME)

    def test_made(self) -> None:
        """One is made for this machine, to be given to clients, with a key apart from it that nobody else can read."""
        made, path = self_signed(self.directory)
        self.assertEqual(path, self.path)
        self.assertEqual(stat.S_IMODE(os.stat(self.key).st_mode), 0o600)
        with open(path, "rb") as file:
            self.assertNotIn(b"PRIVATE", file.read())
        names = made.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        self.assertEqual(names.get_values_for_type(x509.DNSName), ["localhost"])
        self.assertEqual(names.get_values_for_type(x509.IPAddress), [ip_address("127.0.0.1"), ip_address("::1")])
        self.assertEqual(sorted(os.listdir(self.directory)), [FILE_NAME, KEY_NAME])
        self.assertNotIn("key", repr(made))

    def test_kept(self) -> None:
        """The next start finds it again; when it is about to run out there is a new one."""
        first, _ = self_signed(self.directory)
        again, _ = self_signed(self.directory)
        self.assertEqual(first.certificate, again.certificate)
        later = datetime.now(UTC) + timedelta(days=800)
        renewed, _ = self_signed(self.directory, now=later)
        self.assertNotEqual(renewed.certificate, first.certificate)
        self.assertGreater(renewed.certificate.not_valid_after_utc, later)
        self.assertEqual(renewed.certificate.public_key(), first.certificate.public_key())

    def test_cut_short(self) -> None:
        """A start that was cut off behind the key makes both anew."""
        first, _ = self_signed(self.directory)
        os.unlink(self.path)
        made, _ = self_signed(self.directory)
        self.assertNotEqual(made.certificate.public_key(), first.certificate.public_key())

    def test_unusable(self) -> None:
        """What is no key, no certificate, or the certificate of another key is refused with the file's name."""
        self_signed(self.directory)
        other = self.mktemp()
        os.mkdir(other)
        stranger, _ = self_signed(other)
        paths = {}
        for name, data in (("empty", b""), ("other", stranger.certificate.public_bytes(Encoding.PEM))):
            paths[name] = os.path.join(self.directory, name)
            with open(paths[name], "wb") as file:
                file.write(data)
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
        for path in (self.path, self.key):
            self_signed(self.directory)
            with open(path, "wb") as file:
                file.write(b"-----BEGIN PRIVATE KEY-----\n")
            self.assertRaises(CertificateError, self_signed, self.directory)
            os.unlink(self.path)
