"""FastStreamDB, blocking."""

from __future__ import annotations

from streamd.client.blocking.client import Client, blocking
from streamd.client.faststream import FastStreamSession


class FastStreamClient(Client[FastStreamSession]):
    """Streams by number. `close`, and the end of a ``with`` block, wait until all of it is on disk."""

    _session_type = FastStreamSession

    create = blocking(FastStreamSession.create)
    delete = blocking(FastStreamSession.delete)
    enqueue = blocking(FastStreamSession.enqueue)
    enqueue_many = blocking(FastStreamSession.enqueue_many)
    enqueue_all = blocking(FastStreamSession.enqueue_all)
    enqueue_all_except = blocking(FastStreamSession.enqueue_all_except)
    flush = blocking(FastStreamSession.flush)
    take = blocking(FastStreamSession.take)
    peek = blocking(FastStreamSession.peek)
    exists = blocking(FastStreamSession.exists)
    ping = blocking(FastStreamSession.ping)
