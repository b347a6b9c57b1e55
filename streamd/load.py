"""What all connections share: how many there are, how much is buffered for them together, and what was refused."""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from streamd.metrics import Traffic
from streamd.settings import Limits

REASONS: Final = (
    "connections",  # there were limits.connections_max
    "address_connections",  # and limits.address_connections_max from this address
    "not_allowed",  # no rule of access allows it
    "topic_bytes",  # a rule's topic_bytes_max
    "topics",  # a rule's topics_max
    "broken",  # the peer broke the protocol, or sent more than a message may hold
    "overdue",  # it did not end within limits.frame_seconds_max what it began
    "http",  # it spoke HTTP to a stream protocol
)
"""Why a connection or a request is refused."""


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
        self.limits = limits
        """May be replaced: what is there stays, and what comes is held against the new ones."""
        self._waiting: set[Waiting] = set()
        self.connections = 0
        self._addresses: Counter[str] = Counter()
        self.held_bytes = 0
        self.refusals = dict.fromkeys(REASONS, 0)
        """How often something was refused, by reason."""
        self.slowed = 0
        """How often a connection had to wait for a rate."""
        self.traffic: dict[str, Traffic] = {}
        """What is counted of each protocol that was spoken, by its name."""

    def traffic_of(self, protocol: str) -> Traffic:
        """What is counted of one protocol, on all its endpoints together."""
        return self.traffic.setdefault(protocol, Traffic())

    @property
    def is_full(self) -> bool:
        """Whether there are as many connections as there may be."""
        return self.connections >= self.limits.connections_max

    def admit(self, address: str | None = None) -> bool:
        """Count one more connection, from an address where it has one, unless that is too many."""
        if self.is_full:
            self.refuse("connections")
            return False
        if address is not None:
            if 0 < self.limits.address_connections_max <= self._addresses[address]:
                self.refuse("address_connections")
                return False
            self._addresses[address] += 1
        self.connections += 1
        return True

    def leave(self, address: str | None = None) -> None:
        """One connection is gone."""
        self.connections -= 1
        if address is not None:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    def refuse(self, reason: str) -> None:
        """Count something that is refused."""
        self.refusals[reason] += 1

    @property
    def share_bytes(self) -> int:
        """What each connection may hold when the total is over its limit."""
        return self.limits.buffered_bytes_max // max(self.connections, 1)

    @property
    def crowded(self) -> bool:
        """Whether the total is over its limit."""
        return self.held_bytes > self.limits.buffered_bytes_max

    def must_wait(self, held_bytes: int, busy_bytes: int) -> bool:
        """Whether a connection should not take on more: it holds so much, `busy_bytes` of it in progress.

        The rest is a request that is still coming in. Its size has a limit of its own, and not to read it would never
        end it.
        """
        if busy_bytes > self.limits.connection_buffered_bytes_max:
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
