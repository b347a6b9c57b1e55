"""Simple Message Queue, blocking."""

from __future__ import annotations

from streamd.client.blocking.client import Client, blocking
from streamd.client.smq import SmqSession


class SmqClient(Client[SmqSession]):
    """One queue: the one of the endpoint at this address."""

    _session_type = SmqSession

    push = blocking(SmqSession.push)
    pull = blocking(SmqSession.pull)
    pull_many = blocking(SmqSession.pull_many)
