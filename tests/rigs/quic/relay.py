"""A network between a client and a server: it loses, repeats and reorders datagrams, by a seed, and changes ports."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.protocol import DatagramProtocol

Address = tuple[str, int]


class _Outside(DatagramProtocol):
    """One client, as the server sees it."""

    noisy = False
    transport: Any

    def __init__(self, relay: Relay, client: Address) -> None:
        self._relay = relay
        self._client = client

    def datagramReceived(self, data: bytes, addr: Address) -> None:
        self._relay.carry(data, self._relay.back(self._client))


class Relay(DatagramProtocol):
    """Stands where the server is for its clients, and where they are for the server.

    :param lose: the share of datagrams that never arrive.
    :param repeat: the share that arrive twice.
    :param delay: the share that arrive late, behind others.
    :param damage: the share that arrive with a byte changed.
    """

    noisy = False
    transport: Any

    def __init__(
        self,
        reactor: Any,
        server: Address,
        *,
        seed: int = 0,
        lose: float = 0,
        repeat: float = 0,
        delay: float = 0,
        damage: float = 0,
    ) -> None:
        self._reactor = reactor
        self._server = server
        self._random = Random(seed)
        self._lose = lose
        self._repeat = repeat
        self._delay = delay
        self._damage = damage
        self._outside: dict[Address, Any] = {}
        self._calls: set[Any] = set()
        self.largest_bytes = 0
        self.carried = self.lost = self.repeated = self.delayed = self.damaged = 0

    @property
    def port(self) -> int:
        """Where clients connect to."""
        port: int = self.transport.getHost().port
        return port

    def datagramReceived(self, data: bytes, addr: Address) -> None:
        if addr not in self._outside:
            self._outside[addr] = self._reactor.listenUDP(
                0, _Outside(self, addr), interface="127.0.0.1", maxPacketSize=65535
            )
        self.carry(data, lambda data: self._outside[addr].write(data, self._server))

    def back(self, client: Address) -> Any:
        """The way to a client."""
        return lambda data: self.transport.write(data, client)

    def carry(self, data: bytes, send: Any) -> None:
        """Bring a datagram to the other side, or not, or twice, or late."""
        self.carried += 1
        self.largest_bytes = max(self.largest_bytes, len(data))
        if self._random.random() < self._lose:
            self.lost += 1
            return
        if self._random.random() < self._damage:
            self.damaged += 1
            at = self._random.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ (1 << self._random.randrange(8))]) + data[at + 1 :]
        times = 1
        if self._random.random() < self._repeat:
            self.repeated += 1
            times = 2
        for _ in range(times):
            if self._random.random() < self._delay:
                self.delayed += 1
                self._later(self._random.uniform(0.001, 0.02), send, data)
            else:
                send(data)

    def _later(self, seconds: float, send: Any, data: bytes) -> None:
        def arrive() -> None:
            self._calls.discard(call)
            send(data)

        call = self._reactor.callLater(seconds, arrive)
        self._calls.add(call)

    def cut(self) -> None:
        """Carry nothing any more."""
        self._lose = 1.0

    async def rebind(self) -> list[int]:
        """Give each client another port on the server's side, as a router does that forgot it; the new ports."""
        for client, old in list(self._outside.items()):
            self._outside[client] = self._reactor.listenUDP(
                0, _Outside(self, client), interface="127.0.0.1", maxPacketSize=65535
            )
            await maybeDeferred(old.stopListening)
        return [each.getHost().port for each in self._outside.values()]

    async def stop(self) -> None:
        """Be gone."""
        for call in self._calls:
            call.cancel()
        self._calls.clear()
        for each in [*self._outside.values(), self.transport]:
            stopped: Deferred[None] = maybeDeferred(each.stopListening)
            await stopped
