"""What all connections share: how many there are, how much is buffered for them together, and what was refused."""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from streamd.metrics import Traffic
from streamd.settings import Limits

# How the reasons end for which a connection waits for a rate.
_RATE: Final = "per_second"


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
        self.traffic: dict[str, Traffic] = {}
        """What is counted of each protocol that was spoken, by its name."""

    def traffic_of(self, protocol: str) -> Traffic:
        """What is counted of one protocol, on all its endpoints together."""
        return self.traffic.setdefault(protocol, Traffic())

    @property
    def refusals(self) -> dict[str, int]:
        """How often something was refused or cut off, by reason, in all protocols."""
        sums: Counter[str] = Counter()
        for each in self.traffic.values():
            for counts in (each.connections_refused, each.requests_refused, each.connections_cut_off):
                sums.update(counts)
        return dict(sums)

    @property
    def slowed(self) -> int:
        """How often a connection had to wait for a rate."""
        counts = [each.connections_slowed for each in self.traffic.values()]
        return sum([times for each in counts for reason, times in each.items() if reason.endswith(_RATE)])

    @property
    def address_connections(self) -> int:
        """How many connections come from the address that has most of them."""
        return max(self._addresses.values(), default=0)

    def admit(self, address: str | None = None) -> str | None:
        """Count one more connection, from an address where it has one, unless that is too many: then the reason."""
        if self.connections >= self.limits.connections_max:
            return "connections"
        if address is not None:
            if 0 < self.limits.address_connections_max <= self._addresses[address]:
                return "address_connections"
            self._addresses[address] += 1
        self.connections += 1
        return None

    def leave(self, address: str | None = None) -> None:
        """One connection is gone."""
        self.connections -= 1
        if address is not None:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    @property
    def share_bytes(self) -> int:
        """What each connection may hold when the total is over its limit."""
        return self.limits.buffered_bytes_max // max(self.connections, 1)

    @property
    def crowded(self) -> bool:
        """Whether the total is over its limit."""
        return self.held_bytes > self.limits.buffered_bytes_max

    def must_wait(self, held_bytes: int, busy_bytes: int) -> str | None:
        """Why a connection should not take on more, if so: it holds so much, `busy_bytes` of it in progress.

        The rest is a request that is still coming in. Its size has a limit of its own, and not to read it would never
        end it.
        """
        if busy_bytes > self.limits.connection_buffered_bytes_max:
            return "connection_buffered_bytes"
        return "buffered_bytes" if self.crowded and held_bytes > self.share_bytes else None

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
