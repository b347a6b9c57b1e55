"""The laws of the base on real sockets: a daemon of its own for each test, and peers that behave badly."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.trial.unittest import SynchronousTestCase

from tests.daemon import Daemon

MESSAGE = b"x" * 10_000


def memory_bytes(pid: int) -> int:
    """What a process has in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes."""
    parts: list[bytes] = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise AssertionError(f"closed with {size} bytes to come, after {b''.join(parts)[-200:]!r}")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def exchange(connection: socket.socket, data: bytes, size: int) -> bytes:
    """Send all of `data` while so many bytes are received. In one thread: Python's TLS sockets are not for two."""
    deadline = connection.gettimeout()
    connection.setblocking(False)
    rest = memoryview(data)
    parts: list[bytes] = []
    while rest or size:
        stuck = True
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            part = connection.recv(1 << 20)
            if not part:
                raise AssertionError(f"closed with {size} bytes to come, after {b''.join(parts)[-200:]!r}")
            parts.append(part)
            size -= len(part)
            stuck = False
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if rest:
                rest = rest[connection.send(rest[: 1 << 16]) :]
                stuck = False
        if stuck:
            ready = select.select([connection], [connection] if rest else [], [], deadline)
            if not any(ready):
                raise AssertionError(f"nothing for {deadline} s, with {size} bytes to come")
    connection.settimeout(deadline)
    return b"".join(parts)


def receive_all(connection: socket.socket) -> bytes:
    """Everything until the daemon closes."""
    parts: list[bytes] = []
    while part := connection.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


def send_until_stuck(connection: socket.socket, data: bytes) -> int:
    """Send until the daemon reads no more: how much it took. Nothing for two seconds is taken for that."""
    deadline = connection.gettimeout()
    connection.settimeout(2.0)
    sent = 0
    try:
        while sent < len(data):
            sent += connection.send(data[sent : sent + (1 << 18)])
    except TimeoutError:
        pass
    connection.settimeout(deadline)
    return sent


def write_certificate(path: str) -> None:
    """A key and a certificate of its own for this machine, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    with open(path, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.write(certificate.public_bytes(Encoding.PEM))


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

    @contextmanager
    def sending(self, connection: socket.socket, data: bytes) -> Iterator[None]:
        """Send in a thread, while the test does something else."""
        thread = threading.Thread(target=connection.sendall, args=(data,))
        thread.start()
        yield
        thread.join()

    def test_slow_reader(self) -> None:
        """What a peer asks for and does not take is not kept in memory, holds up nobody, and arrives in the end."""
        daemon = self.start()
        writer = self.connect(daemon)
        count = 5000
        self.ask(writer, b"#a\n@a\n", b"+\n+\n")
        with self.sending(writer, (b">" + MESSAGE + b"\n") * count):
            self.assertEqual(receive(writer, 2 * count), b"+\n" * count)
        before = memory_bytes(daemon.pid)
        slow = [self.connect(daemon) for _ in range(10)]
        for peer in slow:
            self.ask(peer, b"@a\n", b"+\n")
            peer.sendall(b"<\n" * count)
        for number in range(20):
            self.ask(writer, b">%04d\n$%d\n<\n" % (number, count + number), b"+\n+\n+%04d\n" % number)
        self.assertLess(memory_bytes(daemon.pid) - before, 64 << 20)
        for peer in slow[:3]:
            self.assertEqual(receive(peer, count * (len(MESSAGE) + 2)), (b"+" + MESSAGE + b"\n") * count)
            self.ask(peer, b"<\n", b"+0000\n")

    def test_flood(self) -> None:
        """Who publishes and does not take the replies is no longer read; when it takes them, everything was done."""
        daemon = self.start()
        peer, other = self.connect(daemon), self.connect(daemon)
        self.ask(peer, b"#a\n@a\n", b"+\n+\n")
        count = 30_000_000
        before = memory_bytes(daemon.pid)
        flood = b">\n" * count
        sent = send_until_stuck(peer, flood)
        self.assertLess(sent, len(flood))
        self.ask(other, b"@a\n>x\n", b"+\n+\n")
        self.assertLess(memory_bytes(daemon.pid) - before, 128 << 20)
        sent -= sent % 2
        peer.shutdown(socket.SHUT_WR)
        replies = receive_all(peer)
        self.assertEqual(replies, b"+\n" * (len(replies) // 2))
        self.assertIn(len(replies) - sent, (0, 2))

    def test_half_closed(self) -> None:
        """A peer that sends its requests and shuts its side gets all answers, then the end."""
        daemon = self.start()
        for count in (0, 1, 10, 100_000):
            peer = self.connect(daemon)
            lines = b"".join(b">%d\n" % number for number in range(count))
            with self.sending(peer, b"#%d\n@%d\n" % (count, count) + lines + b"<\n" * (count + 1)):
                expected = b"+\n" * (count + 2) + lines.replace(b">", b"+") + b"-None\n"
                told = receive(peer, len(expected) // 2)
            peer.shutdown(socket.SHUT_WR)
            self.assertEqual(told + receive_all(peer), expected)

    def test_half_closed_at_once(self) -> None:
        """Also where everything and the end are there before the first answer."""
        daemon = self.start()
        peer = self.connect(daemon)
        peer.sendall(b"#a\n@a\n" + b">x\n" * 1000 + b"<\n" * 1000 + b">half a line")
        peer.shutdown(socket.SHUT_WR)
        self.assertEqual(receive_all(peer), b"+\n" * 1002 + b"+x\n" * 1000)

    def much(self, peer: socket.socket) -> None:
        """Much in, much out, at the same time; and then many small questions."""
        count = 3000
        self.ask(peer, b"#a\n@a\n", b"+\n+\n")
        asked = (b">" + MESSAGE + b"\n") * count + b"<\n" * count
        expected = b"+\n" * count + (b"+" + MESSAGE + b"\n") * count
        self.assertTrue(exchange(peer, asked, len(expected)) == expected)
        for number in range(1000):
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

    def test_dropped_anywhere(self) -> None:
        """A peer that goes after any byte, in order or with a reset, hurts nobody."""
        daemon = self.start()
        witness = self.connect(daemon)
        self.ask(witness, b"#a\n@a\n", b"+\n+\n")
        whole = b"@a\n>1\n<\n>2\n>3\n$0\n<\n&\nnonsense\n?\n>4\n"
        for cut in range(len(whole) + 1):
            for reset in (False, True):
                peer = daemon.connect()
                peer.sendall(whole[:cut])
                if reset:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                peer.close()
            self.ask(witness, b">w\n", b"+\n")
        self.assertEqual(daemon.terminate(), 0, daemon.output)
        self.assertNotIn("Traceback", daemon.output)

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
        daemon.wait_for_line("too many connections")
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

    def test_drain(self) -> None:
        """At shutdown everybody gets the answers to what was read, and then the end; the exit status is 0."""
        daemon = self.start()
        idle, busy, slow = (self.connect(daemon) for _ in range(3))
        self.ask(busy, b"#a\n@a\n", b"+\n+\n")
        with self.sending(busy, (b">" + MESSAGE + b"\n") * 2000):
            receive(busy, 4000)
        self.ask(slow, b"@a\n", b"+\n")
        slow.sendall(b"<\n" * 2000)
        self.ask(idle, b"?\n", b'+["a"]\n')
        status: list[int] = []
        stop = threading.Thread(target=lambda: status.append(daemon.terminate()))
        # The answers are on their way when the signal comes.
        begin = receive(slow, 100_000)
        stop.start()
        self.assertEqual(idle.recv(1), b"")
        self.assertEqual(busy.recv(1), b"")
        told = begin + receive_all(slow)
        self.assertEqual(told, (b"+" + MESSAGE + b"\n") * 2000)
        stop.join()
        self.assertEqual(status, [0], daemon.output)
