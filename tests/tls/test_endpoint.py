"""TLS with certificates on both sides, to a real daemon."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from datetime import timedelta
from pathlib import Path

from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from streamd.tls.endpoint import parse
from tests.protocols.laws.description import Description, joined
from tests.protocols.laws.faststream import FastStream
from tests.protocols.laws.pravega import Pravega
from tests.protocols.laws.sesp import Sesp
from tests.protocols.laws.smq import Smq
from tests.rigs.access.authority import Authority
from tests.rigs.access.daemon_case import EVERYTHING, LOOPBACK
from tests.rigs.daemon import Daemon
from tests.rigs.tls import TlsCase


def certificate_shown(connection: socket.socket) -> bytes:
    """What the server showed."""
    assert isinstance(connection, ssl.SSLSocket)
    shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return shown


class EveryProtocolTests(TlsCase):
    """Each protocol over TCP is the same protocol over TLS."""

    def speak(self, spoken: type[Description], endpoint: str) -> None:
        daemon = self.daemon(f'[{spoken.name}]\nendpoint = "{endpoint}"\n').start()
        connection = self.connect(daemon, spoken.name, self.context("alice"))
        whole = joined(spoken.transcript)
        connection.sendall(whole.asked)
        told = b""
        # What differs from run to run may be longer than what stands for it.
        while spoken.comparable(told) != spoken.comparable(whole.told):
            part = connection.recv(1 << 16)
            self.assertTrue(part, told)
            told += part
        connection.close()
        self.assertEqual(daemon.terminate(), 0, daemon.output)

    def test_sesp(self) -> None:
        """SESP."""
        self.speak(Sesp, self.endpoint())

    def test_smq(self) -> None:
        """Simple Message Queue."""
        self.speak(Smq, self.endpoint())

    def test_faststream(self) -> None:
        """FastStreamDB."""
        self.speak(FastStream, self.endpoint())

    def test_pravega(self) -> None:
        """Pravega."""
        self.speak(Pravega, self.endpoint())

    def test_one_sided(self) -> None:
        """Without an authority nobody is asked who they are."""
        self.speak(Smq, self.endpoint(mutual=False))

    def test_ssl(self) -> None:
        """Twisted's own endpoint works as it did."""
        self.speak(FastStream, f"ssl:0:interface=127.0.0.1:privateKey={self.server}:certKey={self.server}")


class CertificateTests(TlsCase):
    """Who gets in, and as whom."""

    def start(self) -> Daemon:
        return self.daemon(
            f'[sesp]\nendpoint = ["{self.endpoint()}", "{LOOPBACK}"]\n'
            '[[access]]\nwho = "cert:alice"\nallow = ["create", "read", "write"]\ntopics = ["a*"]\n'
            '[[access]]\nwho = "cert:bob"\nallow = ["read"]\n'
        ).start()

    def test_names(self) -> None:
        """The rules go by the name in the certificate; who comes another way has none."""
        daemon = self.start()
        alice, bob = (self.connect(daemon, context=self.context(name)) for name in ("alice", "bob"))
        self.assertEqual(self.ask(alice, "#a", "#b", "@a", ">hello"), ["+", "-NotAllowed", "+", "+"])
        self.assertEqual(self.ask(bob, "@a", "<", ">no"), ["+", "+hello", "-NotAllowed"])
        mallory = self.connect(daemon, context=self.context("mallory"))
        plain = self.connect(daemon, at=1)
        for stranger in (mallory, plain):
            self.assertEqual(self.ask(stranger, "@a", "&"), ["-NotAllowed"] * 2)

    def test_kept_out(self) -> None:
        """Without a certificate, with one of somebody else, or with an old version, nobody gets past the handshake."""
        daemon = self.start()
        (self.directory / "other").mkdir()
        other = Authority(self.directory / "other", "other")
        self.assert_kept_out(daemon, self.authority.context(), "it showed no certificate, and clientCA asks for one")
        strange = self.authority.context(other.issue("alice"))
        self.assert_kept_out(daemon, strange, "the certificate of CN=alice", "an authority that is not in clientCA")
        late = self.authority.context(self.authority.issue("carol", until=timedelta(minutes=-1)))
        self.assert_kept_out(daemon, late, "CN=carol", "has run out")
        old = self.context("alice")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        self.assert_kept_out(daemon, old, "no version from TLS 1.2 on")
        self.assert_cut_off(daemon, b"GET / HTTP/1.0\r\n\r\n", "it speaks HTTP, without TLS")
        self.assert_cut_off(daemon, b"?\n" * 100, "what it sends is no TLS")
        # And they cost nobody else anything.
        alice = self.connect(daemon, context=self.context("alice"))
        self.assertEqual(self.ask(alice, "#a"), ["+"])
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        self.assertNotIn("Traceback", daemon.output)

    def test_too_many(self) -> None:
        """Over TLS of either kind, and behind a proxy's greeting, one connection too many is closed, and no more."""
        own = f"ssl:0:interface=127.0.0.1:privateKey={self.server}:certKey={self.server}"
        endpoints = (self.endpoint(mutual=False), own, f"haproxy:{LOOPBACK}")
        services = "".join(
            f'[{name}]\nendpoint = "{each}"\n'
            for name, each in zip(("sesp", "smq", "faststream"), endpoints, strict=True)
        )
        daemon = self.daemon(f"[limits]\nconnections_max = 1\n{services}").start()
        kept = self.connect(daemon, "sesp", self.authority.context())
        self.assertEqual(self.ask(kept, "$0"), ["+"])
        for service in ("sesp", "smq", "faststream"):
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(self.connect(daemon, service).recv(1), b"")
        self.assertEqual(json.loads(self.ask(kept, "&")[0][1:])["refusals"]["connections"], 3)
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        self.assertNotIn("Traceback", daemon.output)

    def test_unfinished(self) -> None:
        """A handshake has to end in time; what follows it may take its time."""
        daemon = self.daemon(f'[limits]\nframe_seconds_max = 0.5\n[sesp]\nendpoint = "{self.endpoint()}"\n').start()
        idle = self.connect(daemon, context=self.context("alice"))
        self.assertRaises(ConnectionResetError, self.connect(daemon).recv, 1)
        daemon.wait_for_line("did not end what it began to send to sesp")
        self.assertEqual(self.ask(idle, "$0"), ["+"])

    def test_names_of_protocols(self) -> None:
        """Who says what it speaks (ALPN), as browsers do, is served by the dashboard, and told of by the others."""
        plain = self.endpoint(mutual=False)
        daemon = self.daemon(f'[http]\nendpoint = "{plain}"\n[sesp]\nendpoint = "{plain}"\n').start()
        browser = self.authority.context()
        browser.set_alpn_protocols(["h2", "http/1.1"])
        connection = self.connect(daemon, "http", browser)
        assert isinstance(connection, ssl.SSLSocket)
        self.assertEqual(connection.selected_alpn_protocol(), "http/1.1")
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn(b" 200 ", connection.recv(100))
        self.assert_kept_out(daemon, browser, "protocols (ALPN) that are not spoken here")

    def assert_cut_off(self, daemon: Daemon, data: bytes, why: str) -> None:
        with self.connect(daemon) as connection:
            connection.sendall(data)
            while connection.recv(100):
                pass
        daemon.wait_for_line(why)

    def test_versions(self) -> None:
        """1.2 and 1.3 are spoken."""
        daemon = self.start()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context("alice")
            context.minimum_version = context.maximum_version = version
            self.assertEqual(self.ask(self.connect(daemon, context=context), "$0"), ["+"])


class ReloadTests(TlsCase):
    """Certificates that change while the daemon runs."""

    def text(self) -> str:
        return f'[sesp]\nendpoint = "{self.endpoint()}"\n[[access]]\nwho = "cert:alice"\nallow = {EVERYTHING}\n'

    def test_new_certificate(self) -> None:
        """New connections see the new certificate; those that are there go on."""
        daemon = self.daemon(self.text()).start()
        context = self.context("alice")
        before = self.connect(daemon, context=context)
        self.assertEqual(self.ask(before, "#a", "@a"), ["+", "+"])
        self.authority.issue("server")
        self.reload(daemon, self.text(), "sesp uses the certificate that its files have now")
        after = self.connect(daemon, context=context)
        self.assertNotEqual(certificate_shown(before), certificate_shown(after))
        self.assertEqual(self.ask(after, "@a", ">new"), ["+", "+"])
        self.assertEqual(self.ask(before, "<"), ["+new"])

    def test_new_authority(self) -> None:
        """So it is with who is believed."""
        daemon = self.daemon(self.text()).start()
        old = self.context("alice")
        before = self.connect(daemon, context=old)
        self.ask(before, "#a")
        (self.directory / "next").mkdir()
        following = Authority(self.directory / "next")
        shown = following.issue("alice")
        self.authority.file.rename(self.directory / "old.pem")
        following.file.rename(self.authority.file)
        self.reload(daemon, self.text())
        context = ssl.create_default_context(cafile=self.directory / "old.pem")
        context.load_cert_chain(shown)
        self.assertEqual(self.ask(self.connect(daemon, context=context), "@a"), ["+"])
        self.assertEqual(self.ask(before, "@a"), ["+"])

    def test_wrong_file(self) -> None:
        """A certificate that can't be used changes nothing, and the log names it."""
        daemon = self.daemon(self.text()).start()
        context = self.context("alice")
        self.ask(self.connect(daemon, context=context), "#a")
        self.server.write_text("nonsense")
        said = self.reload(daemon, self.text().replace("alice", "bob"), "nothing is changed")
        self.assertIn(str(self.server), said)
        self.assertEqual(self.ask(self.connect(daemon, context=context), "@a"), ["+"])

    def test_ssl(self) -> None:
        """Twisted's own endpoint keeps its certificate, and the log says so."""
        endpoint = f"ssl:0:interface=127.0.0.1:privateKey={self.server}:certKey={self.server}"
        text = f'[sesp]\nendpoint = "{endpoint}"\n'
        daemon = self.daemon(text).start()
        self.assertIn("sesp keeps its certificate", self.reload(daemon, text))

    def test_quic(self) -> None:
        """QUIC's are read again too."""
        text = f'[fujin]\nendpoint = "quic:0:interface=127.0.0.1:privateKey={self.server}"\n'
        daemon = self.daemon(text).start()
        self.assertIn("fujin uses the certificate that its files have now", self.reload(daemon, text))


class ParseTests(SynchronousTestCase):
    """The string of an endpoint."""

    def wrong(self, *ports: str, **arguments: str) -> str:
        return str(self.assertRaises(ValueError, parse, MemoryReactorClock(), *ports, **arguments))

    def test_wrong(self) -> None:
        """What is wrong with it is said."""
        path = Path(self.mktemp())
        path.mkdir()
        key = str(Authority(path).issue("server"))
        self.assertIn("tlsfile:PORT", self.wrong())
        self.assertIn("needs a certificate", self.wrong("1"))
        self.assertIn("'x' is not a port", self.wrong("x", privateKey=key))
        self.assertIn("'65536' is not a port", self.wrong("65536", privateKey=key))
        self.assertIn("'-1' is not a backlog", self.wrong("1", privateKey=key, backlog="-1"))
        self.assertIn("there is no clientCa, only", self.wrong("1", privateKey=key, clientCa=key))
        self.assertIn("which only clientCA asks for", self.wrong("1", privateKey=key, crl=key))
        for missing in ({"privateKey": "none"}, {"privateKey": key, "certKey": "none"}):
            self.assertEqual(self.wrong("1", **missing), "none: No such file or directory")
        self.assertEqual(self.wrong("1", privateKey=key, clientCA="none"), "none: No such file or directory")
        (path / "empty").touch()
        self.assertIn("empty: ", self.wrong("1", privateKey=key, clientCA=str(path / "empty")))
        self.assertIn("is not for the key", self.wrong("1", privateKey=key, certKey=str(path / "authority.pem")))

    def test_kinds(self) -> None:
        """An address of IPv6 is listened on as such."""
        path = Path(self.mktemp())
        path.mkdir()
        key = str(Authority(path).issue("server"))
        for interface in ("127.0.0.1", "::1"):
            reactor = MemoryReactorClock()
            self.successResultOf(parse(reactor, "1", interface=interface, privateKey=key).listen(Factory()))
            self.assertEqual([(server[0], server[3]) for server in reactor.tcpServers], [(1, interface)])
