"""What all connections share: how many there are, how much is buffered for them together, and what was refused."""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from twisted.internet.defer import Deferred

from streamd.metrics import Traffic
from streamd.settings import Limits

# How the reasons end for which a connection waits for a rate.
_RATE: Final = "per_second"


class Waiting(Protocol):
    """A connection that stopped reading because too much is buffered."""

    def uncrowded(self) -> None:
        """There is room again."""


class Receiver(Protocol):
    """A connection whose peer is sent large records."""

    def hurry_peer(self) -> None:
        """Others wait until the peer has taken what it is sent. May be called again and again."""


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
        self._rooms: dict[Receiver, int] = {}
        self._rooms_bytes = 0
        self._asking: dict[Receiver, tuple[int, Deferred[None]]] = {}
        """Who waits for room, in the order of asking."""
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

    # -- room for large records ----------------------------------------------------------------------------------------

    @property
    def is_room_awaited(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._asking)

    def take_room(self, receiver: Receiver, size: int) -> Deferred[None] | None:
        """Room for a record of so many bytes, from before it is read until the peer has taken it.

        None where there is, else a Deferred that fires when there is. All records together take no more than
        `buffered_bytes_max`, however many peers do not take theirs; a single one may be larger.
        """
        if not self._asking and self._has_room(size):
            self._give(receiver, size)
            return None
        room: Deferred[None] = Deferred()
        self._asking[receiver] = (size, room)
        for holder in list(self._rooms):
            holder.hurry_peer()
        return room

    def leave_room(self, receiver: Receiver) -> None:
        """The peer has taken its record, or is gone."""
        self._asking.pop(receiver, None)
        self._rooms_bytes -= self._rooms.pop(receiver, 0)
        while self._asking:
            asking, (size, room) = next(iter(self._asking.items()))
            if not self._has_room(size):
                return
            del self._asking[asking]
            self._give(asking, size)
            room.callback(None)

    def _has_room(self, size: int) -> bool:
        return not self._rooms or self._rooms_bytes + size <= self.limits.buffered_bytes_max

    def _give(self, receiver: Receiver, size: int) -> None:
        self._rooms[receiver] = size
        self._rooms_bytes += size
        if self._asking:
            receiver.hurry_peer()
