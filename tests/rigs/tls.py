"""A real daemon that speaks TLS, with certificates on both sides."""

from __future__ import annotations

import ssl

from tests.rigs.access.authority import Authority
from tests.rigs.access.daemon_case import DaemonCase
from tests.rigs.daemon import Daemon


class TlsCase(DaemonCase):
    """A daemon with ``tlsfile:`` and an authority."""

    def setUp(self) -> None:
        super().setUp()
        self.authority = Authority(self.directory)
        self.server = self.authority.issue("server")

    def endpoint(self, *, mutual: bool = True) -> str:
        own = f"tlsfile:0:interface=127.0.0.1:privateKey={self.server}"
        return f"{own}:clientCA={self.authority.file}" if mutual else own

    def context(self, name: str) -> ssl.SSLContext:
        return self.authority.context(self.authority.issue(name))

    def assert_kept_out(self, daemon: Daemon, context: ssl.SSLContext, *why: str) -> None:
        """Nothing is ever answered, and the log says why. With TLS 1.3 a client learns that only when it reads."""
        for each in why:
            # Not what was said of somebody before.
            daemon.log[:] = [line.replace(each, "…") for line in daemon.log]
        try:
            with self.connect(daemon, context=context) as connection:
                connection.sendall(b"?\n")
                self.assertEqual(connection.recv(100), b"")
        except (ssl.SSLError, ConnectionError):
            pass
        for each in why:
            daemon.wait_for_line(each)
