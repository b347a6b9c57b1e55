"""Simple Message Queue, asynchronous."""

from __future__ import annotations

from streamd.client.asynchronous.client import Client, asynchronous
from streamd.client.smq import SmqSession


class SmqClient(Client[SmqSession]):
    """One queue: the one of the endpoint at this address."""

    _session_type = SmqSession

    push = asynchronous(SmqSession.push)
    pull = asynchronous(SmqSession.pull)
    pull_many = asynchronous(SmqSession.pull_many)
