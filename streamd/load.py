"""What all connections share: how many there are, and how much is buffered for them together."""

from __future__ import annotations

from typing import Protocol

from streamd.metrics import Traffic
from streamd.settings import Limits


class Waiting(Protocol):
    """A connection that stopped reading because too much is buffered."""

    def uncrowded(self) -> None:
        """There is room again."""


class Load:
    """Counts connections and buffered bytes, and says who has to wait.

    While the total is under its limit a connection may hold as much as its own limit allows. Over it, only those that
    hold more than an equal share wait: one greedy peer can't stop the modest ones.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: set[Waiting] = set()
        self.connections = 0
        self.refused = 0
        self.held_bytes = 0
        self.traffic: dict[str, Traffic] = {}
        """What is counted of each protocol that was spoken, by its name."""

    def traffic_of(self, protocol: str) -> Traffic:
        """What is counted of one protocol, on all its endpoints together."""
        return self.traffic.setdefault(protocol, Traffic())

    def admit(self) -> bool:
        """Count one more connection, unless that is too many."""
        if self.connections >= self._limits.connections_max:
            self.refused += 1
            return False
        self.connections += 1
        return True

    def leave(self) -> None:
        """One connection is gone."""
        self.connections -= 1

    @property
    def share_bytes(self) -> int:
        """What each connection may hold when the total is over its limit."""
        return self._limits.buffered_bytes_max // max(self.connections, 1)

    @property
    def crowded(self) -> bool:
        """Whether the total is over its limit."""
        return self.held_bytes > self._limits.buffered_bytes_max

    def must_wait(self, held_bytes: int, busy_bytes: int) -> bool:
        """Whether a connection should not take on more: it holds so much, `busy_bytes` of it in progress.

        The rest is a request that is still coming in. Its size has a limit of its own, and not to read it would never
        end it.
        """
        if busy_bytes > self._limits.connection_buffered_bytes_max:
            return True
        return self.crowded and held_bytes > self.share_bytes

    def wait(self, connection: Waiting) -> None:
        """Call the connection's `uncrowded` when the total has fallen."""
        self._waiting.add(connection)

    def forget(self, connection: Waiting) -> None:
        """Do not call it after all."""
        self._waiting.discard(connection)

    def change(self, delta: int) -> None:
        """Somebody holds more, or less."""
        self.held_bytes += delta
        if delta < 0 and self._waiting and not self.crowded:
            waiting, self._waiting = self._waiting, set()
            for connection in waiting:
                connection.uncrowded()
