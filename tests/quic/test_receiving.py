"""Datagrams that are received together are those that were sent."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.quic.receiving import Receiver
from streamd.quic.sending import Sender


class Refusing:
    """A socket as of a system that hands over each datagram by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self.recvmsg_into = sock.recvmsg_into

    def setsockopt(self, *arguments: Any) -> None:
        raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))


class ReceiverTests(SynchronousTestCase):
    def socket(self, family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
        made = socket.socket(family, socket.SOCK_DGRAM)
        self.addCleanup(made.close)
        made.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        made.settimeout(10)
        return made

    def received(self, receiver: Receiver, count: int) -> list[tuple[bytes, Any]]:
        """So many datagrams, and whose they are."""
        found: list[tuple[bytes, Any]] = []
        while len(found) < count:
            datagrams, addr = receiver.receive()
            found += [(data, addr) for data in datagrams]
        return found

    def test_together(self) -> None:
        """All arrive, whole, in order and with their sender, whether the system joins them or not."""
        sizes = [*[1000] * 20, 7, 1200, 1200, 1, 30_000, 9, 9, 9, 5]
        for refuses in (False, True):
            end = self.socket()
            receiving: Any = Refusing(end) if refuses else end
            receiver = Receiver(receiving)
            expected = []
            for _ in range(2):
                out = self.socket()
                datagrams = [(bytes((number,)) * size, end.getsockname()) for number, size in enumerate(sizes)]
                Sender(out).send(datagrams)
                expected += [(data, out.getsockname()) for data, _ in datagrams]
            self.assertEqual(self.received(receiver, len(expected)), expected)
            end.setblocking(False)
            self.assertRaises(BlockingIOError, receiver.receive)

    def test_ipv6(self) -> None:
        """An address is host and port, also that of a datagram without a byte."""
        end, out = self.socket(socket.AF_INET6), self.socket(socket.AF_INET6)
        receiver = Receiver(end)
        for data in (b"hello", b""):
            out.sendto(data, end.getsockname())
            self.assertEqual(self.received(receiver, 1), [(data, out.getsockname()[:2])])
