"""Datagrams that go out together arrive as if each had gone by itself."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.quic.sending import Sender, runs

ADDRESSES = [("127.0.0.1", 1), ("127.0.0.1", 2)]


class RunTests(SynchronousTestCase):
    @given(st.lists(st.tuples(st.sampled_from([0, 1, 700, 1200, 60_000]), st.sampled_from(ADDRESSES)), max_size=200))
    def test_runs(self, sizes: list[tuple[int, Any]]) -> None:
        """Together the runs are the list; each has one address and one size, and a shorter one only at its end."""
        datagrams = [(bytes(size), addr) for size, addr in sizes]
        cut = list(runs(datagrams))
        self.assertEqual([each for run in cut for each in run], datagrams)
        for run in cut:
            self.assertEqual(len({addr for _, addr in run}), 1)
            lengths = [len(data) for data, _ in run]
            self.assertEqual(set(lengths[:-1]) - {lengths[0]}, set())
            self.assertLessEqual(lengths[-1], lengths[0])
            self.assertTrue(len(run) == 1 or (len(run) <= 64 and sum(lengths) <= 65_000))

    def test_long(self) -> None:
        """Full datagrams for one peer are few runs."""
        self.assertEqual([len(run) for run in runs([(bytes(1200), ADDRESSES[0])] * 120)], [54, 54, 12])


class Refusing:
    """A socket as of a system that can't send many at once."""

    def __init__(self, sock: socket.socket, error: int) -> None:
        self._socket = sock
        self._error = error
        self.asked = 0

    def sendto(self, data: bytes, addr: Any) -> int:
        return self._socket.sendto(data, addr)

    def sendmsg(self, *arguments: Any) -> int:
        self.asked += 1
        raise OSError(self._error, os.strerror(self._error))


class SenderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
        for each in self.sockets:
            self.addCleanup(each.close)
            each.bind(("127.0.0.1", 0))
            each.settimeout(10)
        self.out, *self.ends = self.sockets
        first, second = (each.getsockname() for each in self.ends)
        self.datagrams = [(bytes([number]) * 1000, first) for number in range(10)]
        self.datagrams += [(b"last", first), (b"other", second), (b"x" * 900, first), (b"y" * 1000, first)]

    def check(self) -> None:
        for end in self.ends:
            expected = [data for data, addr in self.datagrams if addr == end.getsockname()]
            self.assertEqual([end.recv(65535) for _ in expected], expected)

    def test_together(self) -> None:
        """All arrive, whole and in order, at whom they are for."""
        Sender(self.out).send(self.datagrams)
        self.check()

    def test_refused(self) -> None:
        """Where the system refuses, each is sent by itself, and it is not asked again."""
        refusing: Any = Refusing(self.out, errno.EIO)
        sender = Sender(refusing)
        sender.send(self.datagrams)
        sender.send(self.datagrams)
        self.datagrams *= 2
        self.check()
        self.assertEqual(refusing.asked, 1)

    def test_full(self) -> None:
        """Where there is no room, datagrams are lost, and the next are tried the same way."""
        refusing: Any = Refusing(self.out, errno.EAGAIN)
        sender = Sender(refusing)
        sender.send(self.datagrams)
        self.assertTrue(sender.segments)
        self.assertEqual(refusing.asked, 1)

    def test_unreachable(self) -> None:
        """An address that can't be sent to costs its own datagrams only."""
        Sender(self.out).send([(b"x", ("::1", 9)), *self.datagrams])
        self.check()
