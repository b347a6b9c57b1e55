"""Laws that are tried on real connections to a real daemon."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.protocols.laws.description import Description, Exchange, joined
from tests.protocols.laws.every import Law
from tests.rigs.daemon import DEADLINE_SECONDS, Daemon
from tests.rigs.protocols.sockets import exchange, receive, write_certificate

BUFFER_BYTES = 64 << 10
AT_ONCE = 200


class ServedLaw(Law):
    """A daemon of its own for each test, with one protocol as the description says, and SESP to ask how it is."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).resolve()
        self.directory.mkdir()
        self.certificate = str(self.directory / "certificate.pem")

    def start(self, settings: str = "") -> Daemon:
        """Start the daemon."""
        config = self.directory / "streamd.toml"
        plain = 'endpoint = "tcp:0:interface=127.0.0.1"\n'
        # A second one, where the first is not one that every test can ask.
        extra = f"[[sesp]]\n{plain}" if self.spoken.name == "sesp" else ""
        config.write_text(
            f'data_dir = "{self.directory}/data"\n{settings}\n'
            f'{extra}[[{self.spoken.name}]]\nendpoint = "{self._endpoint()}"\n{self.spoken.settings}'
        )
        daemon = Daemon(str(self.directory), "--config", str(config))
        self.addCleanup(daemon.close)
        return daemon.start()

    def _endpoint(self) -> str:
        if self.spoken.endpoint == "unix":
            # A socket's path has 108 bytes at most, which trial's own directories may not leave.
            place = TemporaryDirectory()
            self.addCleanup(place.cleanup)
            return f"unix:{place.name}/socket"
        if self.spoken.endpoint == "tls":
            write_certificate(self.certificate)
            return f"ssl:0:interface=127.0.0.1:privateKey={self.certificate}:certKey={self.certificate}"
        return "tcp:0:interface=127.0.0.1"

    def connect(self, daemon: Daemon) -> socket.socket:
        """A new connection, closed when the test ends. Its buffers are small: what it does not take, we have."""
        address = daemon.addresses(self.spoken.name)[-1]
        made = socket.socket(socket.AF_UNIX if self.spoken.endpoint == "unix" else socket.AF_INET)
        self.addCleanup(made.close)
        made.settimeout(DEADLINE_SECONDS)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        made.connect(address if self.spoken.endpoint == "unix" else ("127.0.0.1", int(address.rpartition(":")[2])))
        if self.spoken.endpoint == "tls":
            context = ssl.create_default_context(cafile=self.certificate)
            made = context.wrap_socket(made, server_hostname="localhost")
            self.addCleanup(made.close)
        return made

    def opened(self, daemon: Daemon, number: int = 0) -> tuple[socket.socket, Description]:
        """A connection that can write and read, or what it can of that; number 0 prepares the store."""
        return self._open(daemon, self.spoken(number))

    def _open(self, daemon: Daemon, spoken: Description) -> tuple[socket.socket, Description]:
        connection = self.connect(daemon)
        if spoken.number == 0:
            self.talk(connection, spoken.prepare())
        self.talk(connection, spoken.open())
        return connection, spoken

    def other(self, daemon: Daemon, number: int = 0) -> tuple[socket.socket, Description]:
        """A connection that can write, and takes nothing that is for others."""
        return self._open(daemon, (self.spoken.bystander or self.spoken)(number))

    def writing(self, daemon: Daemon) -> tuple[socket.socket, Description]:
        """The first connection that can write what others read."""
        return self._open(daemon, (self.spoken.writer or self.spoken)(0))

    def asking(self, daemon: Daemon) -> tuple[socket.socket, Description]:
        """The first connection that can ask."""
        if self.spoken.writer is None:
            return self.opened(daemon)
        connection = self.connect(daemon)
        self.talk(connection, self.spoken.hello)
        return connection, self.spoken()

    def furnish(self, daemon: Daemon) -> None:
        """Store what the transcript finds there."""
        if self.spoken.furnished:
            lines = [
                b"#%b\n@%b\n" % ((self.spoken.segment.encode(),) * 2),
                *[b">%b\n" % each for each in self.spoken.furnished],
            ]
            with daemon.connect() as connection:
                connection.sendall(b"".join(lines))
                self.assertEqual(receive(connection, 2 * len(lines) + 2), b"+\n" * (len(lines) + 1))

    def talk(self, connection: socket.socket, expected: Exchange) -> None:
        """Ask, and compare the answer."""
        told = exchange(connection, expected.asked, len(expected.told))
        comparable = self.spoken.comparable
        self.assertTrue(told == expected.told or comparable(told) == comparable(expected.told), told[:200])

    def write(self, connection: socket.socket, spoken: Description, records: Sequence[bytes]) -> None:
        """Store records, many at once: then of several answers one may speak for all."""
        for at in range(0, len(records), AT_ONCE):
            some = joined([*map(spoken.write, records[at : at + AT_ONCE]), spoken.ask()])
            connection.sendall(some.asked)
            told = b""
            while spoken.comparable(told) != spoken.comparable(some.told):
                part = connection.recv(BUFFER_BYTES)
                self.assertTrue(part, "closed")
                told += part

    def assert_stops(self, daemon: Daemon) -> None:
        """It ends in order, and nothing that happened was a bug."""
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        self.assertNotIn("Traceback", daemon.output)
