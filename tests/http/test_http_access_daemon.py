"""Rules of access and the dashboard of a real daemon: who a peer is, by whatever way it comes."""

from __future__ import annotations

import os
import socket
from typing import Any

from tests.rigs.access.daemon_case import EVERYTHING, LOOPBACK, DaemonCase
from tests.rigs.daemon import Daemon
from tests.rigs.http.case import Answer, parse, request
from tests.rigs.protocols.sockets import receive_all
from tests.rigs.tls import TlsCase

PREPARED = ("#shown", "@shown", ">something", "#secret")


def rule(who: str, topics: str, allow: str = EVERYTHING) -> str:
    return f'[[access]]\nwho = "{who}"\nallow = {allow}\ntopics = ["{topics}"]\n'


def ask(connection: socket.socket, path: str) -> Answer:
    """The answer to one request."""
    connection.sendall(request(path, connection="close"))
    return parse(receive_all(connection))


class Page:
    """An open page."""

    def __init__(self, connection: socket.socket, query: str = "") -> None:
        connection.sendall(request(f"/events{query}"))
        self._lines: Any = connection.makefile("rb")

    def line(self, begin: bytes) -> bytes:
        """The next line that begins so."""
        while line := self._lines.readline():
            if line.startswith(begin):
                found: bytes = line
                return found
        raise AssertionError(f"no {begin!r}")

    def wait_for(self, text: bytes) -> None:
        """Wait for an event that has this in it."""
        while text not in self.line(b"data: "):
            pass


class PeerTests(TlsCase):
    """By certificate, by user and by address."""

    def start(self, endpoint: str, rules: str) -> Daemon:
        # What is there before the rules are: SESP's connection makes it while none guards anything.
        text = f'[http]\nendpoint = "{endpoint}"\n[sesp]\nendpoint = "{LOOPBACK}"\n'
        daemon = self.daemon(text).start()
        self.assertEqual(self.ask(self.connect(daemon), *PREPARED), ["+"] * len(PREPARED))
        self.reload(daemon, text + rules)
        return daemon

    def names(self, connection: socket.socket) -> list[bytes]:
        line = Page(connection).line(b"data: ")
        return [name for name in (b"shown", b"secret") if b'"name": "%s"' % name in line]

    def test_certificate(self) -> None:
        """The names in it count; a holder of another one is told what to ask for."""
        daemon = self.start(self.endpoint(), rule("cert:alice", "shown"))
        alice, bob = self.context("alice"), self.context("bob")
        self.assertEqual(self.names(self.connect(daemon, "http", alice)), [b"shown"])
        page = Page(self.connect(daemon, "http", alice), "?segment=shown")
        page.wait_for(b"something")
        refused = ask(self.connect(daemon, "http", bob), "/metrics")
        self.assertEqual(refused.status, 403)
        self.assertIn('a rule with "cert:bob" or "net:127.0.0.1" as who', refused.text)
        self.assertEqual(ask(self.connect(daemon, "http", bob), "/healthz").status, 200)

    def test_user(self) -> None:
        """The user at the other end of a unix socket."""
        path = self.directory / "http.sock"
        daemon = self.start(f"unix:{path}", rule(f"user:{os.getuid()}", "shown"))
        self.assertEqual(self.names(self.connect(daemon, "http")), [b"shown"])
        self.assertEqual(ask(self.connect(daemon, "http"), "/events?segment=secret").status, 403)

    def test_address(self) -> None:
        """The address; and a request on a connection that was there before the rules goes by the new ones."""
        daemon = self.start(LOOPBACK, rule("net:127.0.0.0/8", "shown"))
        self.assertEqual(self.names(self.connect(daemon, "http")), [b"shown"])
        page = Page(self.connect(daemon, "http"))
        page.wait_for(b'"shown"')
        kept = self.connect(daemon, "http")
        kept.sendall(request("/metrics"))
        while b"process_open_fds" not in kept.recv(1 << 16):
            pass
        self.reload(daemon, self.config.read_text().partition("\n")[2].replace("127.0.0.0/8", "10.0.0.0/8"))
        page.line(b"event: refused")
        self.assertIn(b'"net:127.0.0.1\\" as who', page.line(b"data: "))
        self.assertEqual(ask(kept, "/metrics").status, 403)
        self.assertEqual(ask(self.connect(daemon, "http"), "/readyz").status, 200)


class ExposureTests(DaemonCase):
    """Beyond loopback."""

    def test_rules(self) -> None:
        """With a rule it starts like other listeners, and tells strangers nothing."""
        anywhere = '[http]\nendpoint = "tcp:0"\n'
        daemon = self.daemon(anywhere + rule("user:0", "*")).start()
        self.assertEqual(ask(self.connect(daemon, "http"), "/metrics").status, 403)
        self.assertEqual(ask(self.connect(daemon, "http"), "/healthz").status, 200)
        said = self.reload(daemon, anywhere, "nothing is changed")
        self.assertRegex(said, r"http on 0\.0\.0\.0:\d+ would be open to everybody")
        self.assertEqual(daemon.terminate(), 0, daemon.output)
