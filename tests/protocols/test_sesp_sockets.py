"""SESP on real sockets: what the limits do to peers, and every kind of endpoint. The rest is in `laws.test_served`."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import Daemon
from tests.rigs.protocols.sockets import exchange, receive, receive_all, write_certificate

MESSAGE = b"x" * 10_000


class SocketTests(SynchronousTestCase):
    """One daemon, real connections."""

    def start(self, settings: str = "", endpoint: str = "tcp:0:interface=127.0.0.1") -> Daemon:
        directory = Path(self.mktemp()).resolve()
        directory.mkdir()
        config = directory / "streamd.toml"
        config.write_text(f'data_dir = "{directory}/data"\n{settings}\n[sesp]\nendpoint = "{endpoint}"\n')
        daemon = Daemon(str(directory), "--config", str(config))
        self.addCleanup(daemon.close)
        return daemon.start()

    def connect(self, daemon: Daemon) -> socket.socket:
        made = daemon.connect()
        self.addCleanup(made.close)
        return made

    def ask(self, connection: socket.socket, data: bytes, expected: bytes) -> None:
        connection.sendall(data)
        self.assertEqual(receive(connection, len(expected)), expected)

    def much(self, peer: socket.socket) -> None:
        """Much in, much out, at the same time; and then many small questions."""
        count = 3000
        self.ask(peer, b"#a\n@a\n", b"+\n+\n")
        asked = (b">" + MESSAGE + b"\n") * count + b"<\n" * count
        expected = b"+\n" * count + (b"+" + MESSAGE + b"\n") * count
        self.assertTrue(exchange(peer, asked, len(expected)) == expected)
        for number in range(200):
            self.ask(peer, b">%d\n<\n" % number, b"+\n+%d\n" % number)

    def test_unix(self) -> None:
        """A unix socket is no different."""
        with TemporaryDirectory() as directory:
            # A socket's path has 108 bytes at most, which trial's own directories may not leave.
            daemon = self.start(endpoint=f"unix:{directory}/sesp.sock")
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(60)
                peer.connect(daemon.addresses("sesp")[0])
                self.much(peer)
            self.assertEqual(daemon.terminate(), 0, daemon.output)

    def test_tls(self) -> None:
        """Nor is TLS, whose transport has buffers of its own."""
        directory = Path(self.mktemp()).resolve()
        directory.mkdir()
        path = str(directory / "certificate.pem")
        write_certificate(path)
        daemon = self.start(endpoint=f"ssl:0:interface=127.0.0.1:privateKey={path}:certKey={path}")
        context = ssl.create_default_context(cafile=path)
        with context.wrap_socket(daemon.connect(), server_hostname="localhost") as peer:
            self.much(peer)
        self.assertEqual(daemon.terminate(), 0, daemon.output)

    def test_last_words(self) -> None:
        """Who sends a line without end is told so, behind its answers, although it still sends."""
        daemon = self.start("[limits]\nline_bytes_max = 1000\n")
        for size in (1002, 100_000, 3_000_000):
            peer = self.connect(daemon)
            try:
                peer.sendall(b"#%d\n@%d\n>1\n<\n>" % (size, size) + b"x" * size)
            except ConnectionError:
                pass
            self.assertEqual(receive(peer, 18), b"+\n+\n+\n+1\n-TooLong\n")

    def test_http(self) -> None:
        """A browser gets nothing."""
        daemon = self.start()
        peer = self.connect(daemon)
        peer.sendall(b"POST / HTTP/1.1\r\n\r\n#made\n")
        self.assertRaises(ConnectionError, receive_all, peer)
        self.ask(self.connect(daemon), b"?\n", b"+[]\n")

    def test_too_many(self) -> None:
        """Connections over the limit are closed, the others are not, and one that goes makes room."""
        daemon = self.start("[limits]\nconnections_max = 3\n")
        peers = [self.connect(daemon) for _ in range(3)]
        for peer in peers:
            self.ask(peer, b"?\n", b"+[]\n")
        self.assertEqual(self.connect(daemon).recv(1), b"")
        peers[0].shutdown(socket.SHUT_WR)
        self.assertEqual(peers[0].recv(1), b"")
        peers[0].close()
        daemon.wait_for_line("as many connections as limits.connections_max allows")
        for peer in peers[1:]:
            self.ask(peer, b"?\n", b"+[]\n")
        self.ask(self.connect(daemon), b"?\n", b"+[]\n")

    def test_overdue(self) -> None:
        """Half a line costs the connection, after its time."""
        daemon = self.start("[limits]\nframe_seconds_max = 0.5\n")
        peer, idle = self.connect(daemon), self.connect(daemon)
        self.ask(idle, b"?\n", b"+[]\n")
        peer.sendall(b">half")
        self.assertRaises(ConnectionError, receive_all, peer)
        self.ask(idle, b"?\n", b"+[]\n")
