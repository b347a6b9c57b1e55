"""A real daemon with a file of its own, which a test can change while it runs."""

from __future__ import annotations

import os
import signal
import socket
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import DEADLINE_SECONDS, Daemon

LOOPBACK = "tcp:0:interface=127.0.0.1"
EVERYTHING = '["read", "write", "create", "admin"]'
RELOADED = "the configuration was read again"


class DaemonCase(SynchronousTestCase):
    """A directory, a file in it, and a daemon."""

    def setUp(self) -> None:
        # A socket's path has 108 bytes at most, which trial's own directories may not leave.
        place = TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = Path(place.name).resolve()
        self.config = self.directory / "streamd.toml"

    def configure(self, text: str) -> None:
        """Write the file; the data is beside it."""
        self.config.write_text(f'data_dir = "{self.directory}/data"\n{text}')

    def daemon(self, text: str, *options: str) -> Daemon:
        """A daemon with this file, not started."""
        self.configure(text)
        daemon = Daemon(str(self.directory), "--config", str(self.config), *options)
        self.addCleanup(daemon.close)
        return daemon

    def reload(self, daemon: Daemon, text: str, expected: str = RELOADED) -> str:
        """Change the file, have it read again, and wait for a line; all that was said since."""
        self.configure(text)
        said = len(daemon.log)
        daemon.log[:] = [line.replace(expected, "…") for line in daemon.log]
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.wait_for_line(expected)
        return "\n".join(daemon.log[said:])

    def connect(
        self, daemon: Daemon, service: str = "sesp", context: ssl.SSLContext | None = None, at: int = 0
    ) -> socket.socket:
        """A connection to a service, at its first or another endpoint."""
        address = daemon.addresses(service)[at]
        made = socket.socket(socket.AF_UNIX if address.startswith("/") else socket.AF_INET)
        self.addCleanup(made.close)
        made.settimeout(DEADLINE_SECONDS)
        made.connect(address if address.startswith("/") else ("127.0.0.1", int(address.rpartition(":")[2])))
        if context is not None:
            made = context.wrap_socket(made, server_hostname="127.0.0.1")
            self.addCleanup(made.close)
        return made

    def ask(self, connection: socket.socket, *lines: str) -> list[str]:
        """The answers of SESP to these lines."""
        connection.sendall("".join(f"{line}\n" for line in lines).encode())
        told = b""
        while told.count(b"\n") < len(lines):
            part = connection.recv(1 << 16)
            self.assertTrue(part, f"closed after {told!r}")
            told += part
        return told.decode().splitlines()
