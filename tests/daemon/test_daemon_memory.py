"""What the daemon keeps in memory: a little for each topic, and nothing of what has passed through.

The bounds are generous: these tests find a leak or a structure that has grown fat, not a percent.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import Daemon

MIB = 1 << 20


def resident_bytes(pid: int) -> int:
    """The memory that a process has now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def exchange(connection: socket.socket, data: bytes, expected_bytes: int) -> None:
    """Send all of this while so much comes back."""
    sending = threading.Thread(target=connection.sendall, args=(data,))
    sending.start()
    buffer = bytearray(MIB)
    while expected_bytes > 0:
        received = connection.recv_into(buffer, min(expected_bytes, MIB))
        assert received, "closed too early"
        expected_bytes -= received
    sending.join()


class MemoryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.daemon = Daemon(self.mktemp())
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    @property
    def resident(self) -> int:
        return resident_bytes(self.daemon.pid)

    def connect(self) -> socket.socket:
        made = self.daemon.connect()
        self.addCleanup(made.close)
        return made

    def test_topics(self) -> None:
        """Ten thousand topics take less than 3 KiB each, as they are made and after a restart."""
        count = 10_000
        self.daemon.terminate()
        self.daemon.start()
        before = self.resident
        creates = b"".join(b"#a topic with a name %d\n" % number for number in range(count))
        connection = self.connect()
        exchange(connection, creates, 2 * count)
        self.assertLess((self.resident - before) / count, 3 * 1024)
        self.daemon.terminate()
        self.daemon.start()
        self.assertLess((self.resident - before) / count, 3 * 1024)

    def test_connections(self) -> None:
        """Idle connections take less than 30 KiB each."""
        count = 300
        before = self.resident
        connections = [self.connect() for _ in range(count)]
        for connection in connections:
            exchange(connection, b"$1\n", 2)
        self.assertLess((self.resident - before) / count, 30 * 1024)

    def flat(self, one_round: Callable[[], None], rounds: int) -> None:
        """After it has warmed up, memory does not grow with what passes through."""
        for _ in range(2):
            one_round()
        before = self.resident
        for _ in range(rounds):
            one_round()
        self.assertLess(self.resident - before, 24 * MIB)

    def test_published_and_read(self) -> None:
        """Two hundred megabytes that are published and read, in large messages and in small ones, leave no trace."""
        for size in (100, 10_000):
            connection = self.connect()
            exchange(connection, b"#%d\n@%d\n" % (size, size), 4)
            count = 10 * MIB // size
            lines = (b">" + b"x" * size + b"\n") * count
            reads = b"<\n" * count

            def one_round(
                connection: socket.socket = connection, lines: bytes = lines, reads: bytes = reads, count: int = count
            ) -> None:
                exchange(connection, lines, 2 * count)
                exchange(connection, reads, len(lines))

            self.flat(one_round, 10)

    def test_many_connections_come_and_go(self) -> None:
        """Nor do connections that were there."""

        def one_round() -> None:
            for _ in range(200):
                with self.daemon.connect() as connection:
                    exchange(connection, b"$1\n@none\n>x\n", 2 + 19 + 17)

        self.flat(one_round, 5)
