"""Sending many datagrams with few system calls.

Linux splits a large buffer into datagrams of one size by itself (`UDP_SEGMENT`), in about a fifth of the time that a
call for each takes. What QUIC has to send at once is mostly just that: full datagrams for one peer, the last one
shorter.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final

Datagram = tuple[bytes, tuple[str, int]]

# Neither Python nor all C libraries have names for these; the numbers are Linux's.
_UDP_SEGMENT: Final = 103
_SEGMENTS_MAX: Final = 64
_BYTES_MAX: Final = 65_000

_SIZE: Final = struct.Struct("=H")

# How a kernel, an interface or a container says that it can't.
_REFUSALS: Final = frozenset({errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.ENOPROTOOPT, errno.EOPNOTSUPP})


def runs(datagrams: Sequence[Datagram]) -> Iterator[Sequence[Datagram]]:
    """Split a list into runs that one call can send: one address and one size, only the last may be shorter."""
    begin = 0
    while begin < len(datagrams):
        data, addr = datagrams[begin]
        size = total = len(data)
        end = begin + 1
        while end < len(datagrams) and end - begin < _SEGMENTS_MAX and datagrams[end][1] == addr:
            length = len(datagrams[end][0])
            total += length
            if length > size or total > _BYTES_MAX:
                break
            end += 1
            if length < size:
                break
        yield datagrams[begin:end]
        begin = end


class Sender:
    """Sends on a socket. What the operating system does not take is lost, as on any network; QUIC sends it again."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.segments = sys.platform == "linux"
        """Whether many datagrams are sent with one call: until the operating system refuses that."""

    def send(self, datagrams: Sequence[Datagram]) -> None:
        """Send datagrams, in order."""
        if len(datagrams) == 1 or not self.segments:
            self._send_each(datagrams)
            return
        for run in runs(datagrams):
            if len(run) == 1 or not self.segments:
                self._send_each(run)
            else:
                self._send_run(run)

    def _send_each(self, datagrams: Sequence[Datagram]) -> None:
        for data, addr in datagrams:
            try:
                self._socket.sendto(data, addr)
            except OSError:
                continue

    def _send_run(self, run: Sequence[Datagram]) -> None:
        first, addr = run[0]
        size = [(socket.IPPROTO_UDP, _UDP_SEGMENT, _SIZE.pack(len(first)))]
        try:
            self._socket.sendmsg([data for data, _ in run], size, 0, addr)
        except OSError as error:
            if error.errno in _REFUSALS:
                self.segments = False
                self._send_each(run)
