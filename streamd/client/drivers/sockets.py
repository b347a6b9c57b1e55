"""Blocking sockets: a connection sends and receives at once, so that neither end waits for the other for ever."""

from __future__ import annotations

import socket
import ssl
import time
from math import inf
from select import POLLIN, POLLOUT, poll
from typing import Any, Final

from streamd.client.address import UnixAddress
from streamd.client.core.commands import run
from streamd.client.core.connection import ClientConnection
from streamd.client.core.session import Answer, Steps
from streamd.client.target import Target
from streamd.client.tls import context_for

_RECEIVE_BYTES: Final = 256 << 10
_SEND_BYTES: Final = 256 << 10
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class SocketDriver:
    """Drives one connection at a time, in the thread of the caller."""

    def __init__(self) -> None:
        self._transport: SocketTransport | None = None

    def spawn(self, steps: Steps[None]) -> None:
        """Carry this out at once."""
        run(steps)

    async def dial(self, connection: ClientConnection[Any], target: Target) -> SocketTransport:
        """Connect a socket."""
        self._transport = SocketTransport(_connect(target), connection)
        return self._transport

    async def until(self, answer: Answer[Any], seconds: float) -> None:
        """Send and receive until the answer is done, or for so long."""
        end = time.monotonic() + seconds
        while not answer.done and (left := end - time.monotonic()) > 0:
            if self._transport is None or self._transport.is_gone:
                time.sleep(left)
            else:
                self._transport.turn(left)

    def seconds(self) -> float:
        """Return the time of the system's monotonic clock."""
        return time.monotonic()


class SocketTransport:
    """A socket that never waits by itself, and what it could not send yet."""

    def __init__(self, connected: socket.socket, connection: ClientConnection[Any]) -> None:
        self._socket = connected
        self._connection = connection
        self._unsent = memoryview(b"")
        self._poll = poll()
        self._poll.register(connected, POLLIN)
        self.is_gone = False

    def write(self, data: bytes) -> None:
        """Send what the operating system takes now. The rest pauses the connection."""
        self._unsent = memoryview(data)
        try:
            while self._unsent and self._send():
                pass
        except OSError as error:
            self._fail(error)
        if self._unsent:
            self._poll.modify(self._socket, POLLIN | POLLOUT)
            self._connection.paused()

    def close(self) -> None:
        """Hang up."""
        self._lose("the client closed it")

    abort = close

    def turn(self, seconds: float) -> None:
        """Send something; where nothing can be sent, wait for the daemon for so long."""
        try:
            if self._unsent and self._send():
                if not self._unsent:
                    self._poll.modify(self._socket, POLLIN)
                    self._connection.resumed()
            elif self._is_ready(seconds):
                self._receive()
        except OSError as error:
            self._fail(error)

    def _is_ready(self, seconds: float) -> bool:
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        return bool(self._poll.poll(None if seconds == inf else 1000 * seconds))

    def _send(self) -> bool:
        """Send a piece; returns whether the operating system took anything."""
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent[:_SEND_BYTES]) :]
        except _NOT_NOW:
            return False
        return True

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except _NOT_NOW:
            return
        if data:
            self._connection.received(data)
        else:
            self._lose("the daemon closed it")

    def _fail(self, error: OSError) -> None:
        """End the connection. What the daemon said before it hung up may be the reason, and comes first."""
        try:
            while data := self._socket.recv(_RECEIVE_BYTES):
                self._connection.received(data)
        except OSError:
            pass
        self._lose(str(error))

    def _lose(self, reason: str) -> None:
        if not self.is_gone:
            self.is_gone = True
            self._unsent = memoryview(b"")
            self._socket.close()
            self._connection.lost(reason)


def _connect(target: Target) -> socket.socket:
    """Return a connected socket that never waits by itself."""
    address, seconds_max = target.address, target.connect_seconds_max
    end = time.monotonic() + seconds_max
    context = context_for(target)
    if isinstance(address, UnixAddress):
        connected, name = socket.socket(socket.AF_UNIX), None
    else:
        connected, name = socket.create_connection(address[:2], seconds_max), address.host
    try:
        if isinstance(address, UnixAddress):
            connected.settimeout(seconds_max)
            connected.connect(address.path)
        else:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            connected.settimeout(max(end - time.monotonic(), 0.001))
            connected = context.wrap_socket(connected, server_hostname=name)
        connected.setblocking(False)
    except BaseException:
        connected.close()
        raise
    return connected
