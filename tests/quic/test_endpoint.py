"""The endpoint as a string, and the certificate behind it."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from streamd.quic.client import Trust
from streamd.quic.endpoint import parse_settings
from streamd.quic.interfaces import QuicClosed
from streamd.quic.settings import QuicSettings
from streamd.tls.server_certificate import (
    FILE_NAME,
    KEY_NAME,
    local_certificate,
)
from tests.rigs.quic.case import Echo, QuicCase, Recorder, Recorders


class StringTests(QuicCase):
    async def test_listens(self) -> None:
        """Twisted finds the plugin; what the string says is what is served."""
        directory = self.mktemp()
        os.mkdir(directory)
        trusted = local_certificate(directory).trusted
        key, path = os.path.join(directory, KEY_NAME), os.path.join(directory, FILE_NAME)
        text = f"quic:0:interface=127.0.0.1:privateKey={key}:certKey={path}:alpn=test:retry=yes:idleTimeout=5"
        factory = Recorders(Echo)
        port: Any = await serverFromString(self.reactor, text).listen(factory)
        self.ports.append(port)
        with open(trusted, "rb") as file:
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
        equipped = bare.equipped(alpn="test", certificate=local_certificate(directory).certificate)
        self.assertTrue(equipped.has_certificate)
        self.assertIn("privateKey", str(self.assertRaises(ValueError, self.parse, "quic:4848:certKey=x")))

    def test_wrong(self) -> None:
        """What is wrong with a string is said with its name."""
        directory = self.mktemp()
        os.mkdir(directory)
        path = os.path.join(directory, "both.pem")
        local_certificate(directory)
        with open(path, "wb") as both:
            for part in (KEY_NAME, FILE_NAME):
                with open(os.path.join(directory, part), "rb") as file:
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
