"""Real connections to a real daemon, and what tests do with them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamd.tls.server_certificate import FILE_NAME, KEY_NAME
from tests.rigs.daemon import Daemon
from tests.rigs.quic.certificates import write_self_made


def memory_bytes(pid: int, what: str = "VmRSS") -> int:
    """What a process has in memory now, or with ``VmHWM`` had at its height."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {what}")


def forget_height(pid: int) -> int:
    """Let the height begin anew: from what the process has in memory now, which is returned."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory_bytes(pid, "VmHWM")


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


def receive_all(connection: socket.socket) -> bytes:
    """Everything until the daemon closes."""
    parts: list[bytes] = []
    while part := connection.recv(1 << 20):
        parts.append(part)
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


def send_some(connection: socket.socket, data: memoryview) -> int:
    """Send what the operating system takes now: how much that is."""
    deadline = connection.gettimeout()
    connection.setblocking(False)
    try:
        return connection.send(data[: 1 << 18])
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return 0
    finally:
        connection.settimeout(deadline)


@contextmanager
def sending(connection: socket.socket, data: bytes) -> Iterator[None]:
    """Send in a thread, while the test does something else."""
    thread = threading.Thread(target=connection.sendall, args=(data,))
    thread.start()
    yield
    thread.join()


def reset(connection: socket.socket) -> None:
    """Be gone, without a farewell."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def wait_for_connections(daemon: Daemon, count: int) -> None:
    """Until the daemon knows of no more connections than so many, beside the one that asks, and holds nothing."""
    with daemon.connect() as connection, connection.makefile("rwb") as stream:
        while True:
            stream.write(b"&\n")
            stream.flush()
            told = json.loads(stream.readline()[1:])
            if told["connections"] <= count + 1 and not told["store"]["buffered_bytes"]:
                return


def write_certificate(path: str) -> None:
    """A key and a certificate for this machine that signed itself, in one file."""
    directory = f"{path}.made"
    os.mkdir(directory)
    write_self_made(directory)
    with open(path, "wb") as file:
        for name in (KEY_NAME, FILE_NAME):
            with open(os.path.join(directory, name), "rb") as part:
                file.write(part.read())
