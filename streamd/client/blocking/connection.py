"""A session on a blocking socket: sends and receives at once, so that neither end waits for the other for ever."""

from __future__ import annotations

import socket
import ssl
import time
from select import POLLIN, POLLOUT, poll
from typing import Final, Generic, TypeVar

from streamd.client.address import UnixAddress
from streamd.client.errors import ClientError, ConnectionLost, Timeout
from streamd.client.session import Answer, Session, Steps, closed
from streamd.client.target import Target
from streamd.client.tls import context_for

T = TypeVar("T")
S = TypeVar("S", bound=Session)  # type: ignore[type-arg]

_RECEIVE_BYTES: Final = 256 << 10
_SEND_BYTES: Final = 256 << 10
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection(Generic[S]):
    """One connection, from its making to its end. Not for two threads at once."""

    def __init__(self, session: S, target: Target) -> None:
        self.session = session
        self._target = target
        self._socket: socket.socket | None = None
        self._unsent = memoryview(b"")

    def open(self) -> None:
        """Connect, and do what the session wants done first. A second time does nothing."""
        if self._socket is not None:
            return
        if self.session.error is not None:
            raise self.session.error
        try:
            self._socket = _connect(self._target)
            self.run(self.session.opening())
        except BaseException as error:
            # Half open it is of no use to anybody, also after a Ctrl-C.
            self.abort(error if isinstance(error, ClientError) else ConnectionLost("connecting was given up"))
            raise

    def run(self, steps: Steps[T]) -> T:
        """Carry out an operation. What it sends is with the operating system when this returns."""
        self.open()
        try:
            while True:
                self._wait(next(steps))
        except StopIteration as end:
            self._send_all()
            value: T = end.value
            return value
        except Exception:
            self._send_all()
            raise

    def _send_all(self) -> None:
        while self.session.error is None and (self.session.is_sending or self._unsent):
            self._turn()
            if self.session.error is not None:
                raise self.session.error

    def close(self) -> None:
        """Do what the session wants done last, and hang up."""
        try:
            if self._socket is not None and self.session.error is None:
                self.run(self.session.closing())
        finally:
            self.abort(closed())

    def abort(self, error: ClientError) -> None:
        """Hang up."""
        self.session.lost(error)
        self._unsent = memoryview(b"")
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _wait(self, answer: Answer[object]) -> None:
        while not answer.done:
            self._turn()

    def _turn(self) -> None:
        """Send what can be sent; where nothing can, wait for the daemon. After an error the session is lost."""
        assert self._socket is not None
        if not self._unsent and self.session.is_sending:
            self._unsent = memoryview(self.session.outgoing())
        try:
            if self._unsent and self._send(self._socket):
                return
            if self._is_ready(self._socket):
                self._receive(self._socket)
            else:
                seconds = self._target.reply_seconds_max
                self.abort(Timeout(f"{self._target.address} was silent for {seconds:g} s"))
        except OSError as error:
            self._last_words(self._socket)
            self.abort(ConnectionLost(f"the connection to {self._target.address} is lost: {error}"))

    def _last_words(self, connection: socket.socket) -> None:
        """What the daemon said before it hung up on us may be the reason."""
        try:
            while data := connection.recv(_RECEIVE_BYTES):
                self.session.receive(data)
        except OSError:
            pass

    def _is_ready(self, connection: socket.socket) -> bool:
        """Whether something happens in time."""
        if isinstance(connection, ssl.SSLSocket) and connection.pending():
            return True
        ready = poll()
        ready.register(connection, POLLIN | POLLOUT if self._unsent else POLLIN)
        return bool(ready.poll(1000 * self._target.reply_seconds_max))

    def _receive(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(_RECEIVE_BYTES)
        except _NOT_NOW:
            return
        if data:
            self.session.receive(data)
            if self.session.error is not None:
                self.abort(self.session.error)
        else:
            self.abort(ConnectionLost(f"{self._target.address} closed the connection"))

    def _send(self, connection: socket.socket) -> bool:
        """Whether anything could be sent."""
        try:
            self._unsent = self._unsent[connection.send(self._unsent[:_SEND_BYTES]) :]
        except _NOT_NOW:
            return False
        if not self._unsent:
            self.session.sent()
        return True


def _connect(target: Target) -> socket.socket:
    """A connected socket that never waits by itself."""
    address = target.address
    deadline = time.monotonic() + target.connect_seconds_max
    context = context_for(target)
    try:
        connection = _connected(target)
        try:
            if context is not None:
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                name = None if isinstance(address, UnixAddress) else address.host
                connection = context.wrap_socket(connection, server_hostname=name)
            connection.setblocking(False)
        except BaseException:
            connection.close()
            raise
    except TimeoutError:
        raise Timeout(f"no connection to {address} within {target.connect_seconds_max:g} s")
    except OSError as error:
        raise ConnectionLost(f"no connection to {address}: {error}")
    return connection


def _connected(target: Target) -> socket.socket:
    if not isinstance(target.address, UnixAddress):
        connection = socket.create_connection(target.address[:2], target.connect_seconds_max)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(target.connect_seconds_max)
        connection.connect(target.address.path)
    except BaseException:
        connection.close()
        raise
    return connection
