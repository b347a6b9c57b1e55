"""Receiving many datagrams with few system calls.

Linux hands over consecutive datagrams of one size from one peer as one buffer (`UDP_GRO`), often without having split
them at all. What QUIC peers send at once is mostly just that.
"""

from __future__ import annotations

import socket
import sys
from typing import Any, Final

from twisted.internet import udp
from twisted.internet.interfaces import IReactorFDSet
from twisted.internet.protocol import DatagramProtocol
from twisted.python import log

DATAGRAM_BYTES_MAX: Final = 65_535
"""The maximum size of a datagram, and of several in one buffer."""

# Neither Python nor all C libraries have a name for it; the number is Linux's.
_UDP_GRO: Final = 104
_SIZE_BYTES: Final = 4


class Receiver:
    """Receives on a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = memoryview(bytearray(DATAGRAM_BYTES_MAX))
        self._space = 0
        if sys.platform == "linux":
            try:
                sock.setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
            except OSError:
                return
            self._space = socket.CMSG_SPACE(_SIZE_BYTES)

    def receive(self) -> tuple[list[bytes], tuple[str, int]]:
        """Some datagrams of one peer, in order; BlockingIOError where none has arrived."""
        length, ancillary, _, addr = self._socket.recvmsg_into([self._buffer], self._space)
        size = length
        for level, kind, value in ancillary:
            if level == socket.IPPROTO_UDP and kind == _UDP_GRO:
                size = int.from_bytes(value[:_SIZE_BYTES], sys.byteorder)
        buffer = self._buffer
        datagrams = [bytes(buffer[at : min(at + size, length)]) for at in range(0, length, size or 1)]
        # An IPv6 address comes with flow and scope too.
        return datagrams or [b""], addr[:2]


class Port(udp.Port):
    """Twisted's UDP port with another way to read."""

    def createInternetSocket(self) -> socket.socket:
        """The socket, with `UDP_GRO` where there is that."""
        sock: socket.socket = super().createInternetSocket()
        self._receiver = Receiver(sock)
        return sock

    def doRead(self) -> None:
        """Pass on datagrams, for a bounded number of reads."""
        read = 0
        while read < self.maxThroughput:
            try:
                datagrams, addr = self._receiver.receive()
            except (BlockingIOError, InterruptedError, ConnectionRefusedError):
                return
            for data in datagrams:
                read += len(data)
                try:
                    self.protocol.datagramReceived(data, addr)
                except Exception:
                    log.err()


def listen(reactor: Any, port: int, protocol: DatagramProtocol, interface: str) -> None:
    """Open a socket for a protocol; CannotListenError where that is not possible."""
    if IReactorFDSet.providedBy(reactor):
        made: Any = Port
        made(port, protocol, interface, DATAGRAM_BYTES_MAX, reactor).startListening()
    else:
        reactor.listenUDP(port, protocol, interface=interface, maxPacketSize=DATAGRAM_BYTES_MAX)
