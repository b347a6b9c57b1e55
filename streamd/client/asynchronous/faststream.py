"""FastStreamDB, asynchronous."""

from __future__ import annotations

from streamd.client.asynchronous.client import Client, asynchronous
from streamd.client.faststream import FastStreamSession


class FastStreamClient(Client[FastStreamSession]):
    """Streams by number. `close`, and the end of an ``async with`` block, wait until all of it is on disk."""

    _session_type = FastStreamSession

    create = asynchronous(FastStreamSession.create)
    delete = asynchronous(FastStreamSession.delete)
    enqueue = asynchronous(FastStreamSession.enqueue)
    enqueue_many = asynchronous(FastStreamSession.enqueue_many)
    enqueue_all = asynchronous(FastStreamSession.enqueue_all)
    enqueue_all_except = asynchronous(FastStreamSession.enqueue_all_except)
    flush = asynchronous(FastStreamSession.flush)
    take = asynchronous(FastStreamSession.take)
    peek = asynchronous(FastStreamSession.peek)
    exists = asynchronous(FastStreamSession.exists)
    ping = asynchronous(FastStreamSession.ping)
