"""Whom a client meets: a daemon, and some who are none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from streamd.client import StorageClient
from streamd.wire.tools import LevelChange, Part, PublishSegments, SegmentsPublished
from tests.rigs.daemon import Daemon


def address(daemon: Daemon, service: str) -> str:
    """Where a daemon's service is, for a client."""
    return f"127.0.0.1:{daemon.port(service)}"


def begin_publication(client: StorageClient, parts: Iterable[Part], levels: Iterable[LevelChange]) -> None:
    """Send a publication, and do not wait for its reply."""
    client._request(SegmentsPublished, PublishSegments, tuple(parts), tuple(levels))
    client._connection._flush()


@contextmanager
def listener(answer: bytes = b"") -> Iterator[str]:
    """Somebody who takes a connection, says this and then nothing, and is not the daemon."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def take() -> None:
            connection, _ = server.accept()
            taken.append(connection)
            connection.sendall(answer)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            thread.join(60)
            for connection in taken:
                connection.close()


@contextmanager
def deaf() -> Iterator[str]:
    """Somebody who does not even take a connection: all places in the queue are taken."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"
