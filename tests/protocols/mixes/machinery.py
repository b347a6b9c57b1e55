"""Random requests on a real store beside a plain model: with slow syncs, cold pages, slow peers, and any cuts."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, maybeDeferred

from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from tests.protocols.laws.description import LIMITS
from tests.protocols.laws.held import first_record
from tests.rigs.protocols.rig import Peer, Rig
from tests.rigs.store.simulated import SimulatedDisk

SEEDS = 60
"""So many mixes are tried by default, the same ones each time."""


def seeds() -> Iterator[int]:
    """The mixes to try: some, the one that is asked for, or new ones for as long as is asked for."""
    if seed := os.environ.get("STREAMD_MIX_SEED"):
        yield int(seed)
        return
    yield from range(SEEDS)
    end = time.monotonic() + float(os.environ.get("STREAMD_MIX_SECONDS", "0"))
    fresh = Random()
    while time.monotonic() < end:
        yield fresh.getrandbits(48)


class Closed(Exception):
    """Raised by a request of a model that ends its connection; with what is answered before that."""

    def __init__(self, reply: bytes = b"") -> None:
        super().__init__()
        self.reply = reply


class Ask(NamedTuple):
    """One request: its bytes, and what it does to a model's world, for the connection of that number."""

    data: bytes
    act: Callable[[Any, int], bytes]
    name: str


class Speaker(ABC):
    """A protocol, as the mixes need it. One of these for each mix: it may remember what it made up."""

    def __init__(self, random: Random) -> None:
        self.random = random

    @classmethod
    @abstractmethod
    def factory(cls, core: Core) -> StreamFactory:
        """What makes its connections."""

    @abstractmethod
    def world(self) -> Any:
        """What the model knows at first. It is copied where several orders are tried."""

    def prepare(self, rig: MixRig) -> None:
        """Put into the store what can't be said in the protocol, before anybody is connected."""
        rig.run()

    @abstractmethod
    def opening(self, number: int) -> list[Ask]:
        """What a connection begins with: it is answered before others are there."""

    @abstractmethod
    def ask(self, number: int) -> Ask:
        """A random request of one connection."""

    @classmethod
    def comparable(cls, told: bytes) -> bytes:
        """Replies without what may differ with how requests arrive."""
        return told

    @classmethod
    def begins(cls, told: bytes, said: bytes) -> bool:
        """Whether these comparable replies may begin with what was said so far."""
        return told.startswith(said)

    @abstractmethod
    def stored(self, world: Any) -> dict[str, list[bytes]]:
        """What a store is to hold then: the records of each topic."""


class MixRig(Rig):
    """A rig whose reads from a cold page end when a test says so."""

    def __init__(self, speaker: Speaker) -> None:
        self.simulated = SimulatedDisk()
        self.waiting: deque[tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self.cold_held = False
        super().__init__("/mix", limits=LIMITS, make_factory=speaker.factory, medium=self.simulated)
        self.in_turns = speaker.random.random() < 0.7

    def run_apart(self, call: Callable[..., Any], *args: Any) -> Deferred[Any]:
        result: Deferred[Any] = Deferred()
        self.waiting.append((result, call, args))
        return result

    def run(self) -> None:
        while True:
            super().run()
            if self.cold_held or not self.waiting:
                return
            result, call, args = self.waiting.popleft()
            maybeDeferred(call, *args).chainDeferred(result)

    def stir(self, random: Random) -> None:
        """Let the disk, its reads or time be otherwise than before."""
        match random.randrange(5):
            case 0:
                self.held = not self.held
            case 1:
                self.simulated.is_cold = not self.simulated.is_cold
            case 2:
                self.cold_held = not self.cold_held
            case 3:
                self.clock.advance(0)
        self.run()

    def settle(self) -> None:
        """Let everything happen."""
        self.held = self.cold_held = False
        self.run()


class Mix:
    """One mix of requests, on one connection or on several."""

    def __init__(self, speaker: Speaker, connections: int, requests: int) -> None:
        self.speaker = speaker
        self.random = speaker.random
        self.rig = MixRig(speaker)
        speaker.prepare(self.rig)
        self.world = speaker.world()
        self.asks: list[list[Ask]] = [[] for _ in range(connections)]
        self.peers: list[Peer] = []
        self.told: list[bytes] = [b""] * connections
        for number in range(connections):
            self.peers.append(self.rig.connect())
            for ask in speaker.opening(number):
                self.peers[number].send(ask.data)
                reply = self.peers[number].take_all()
                expected = ask.act(self.world, number)
                assert reply == expected, f"{ask.name}: {reply!r}, expected {expected!r}"
        for _ in range(requests):
            number = self.random.randrange(connections)
            self.asks[number].append(speaker.ask(number))

    def run(self) -> None:
        """Send it, cut anywhere, while the disk and the peers are slow and quick by turns; then let it all end."""
        random = self.random
        sent: list[deque[bytes]] = []
        for asks in self.asks:
            if random.random() < 0.4:
                # Each by itself, as a client does that waits for the answers.
                sent.append(deque(ask.data for ask in asks))
                continue
            data = b"".join(ask.data for ask in asks)
            cuts = sorted(random.sample(range(len(data) + 1), min(len(data), random.choice((0, 0, 1, 3, 8)))))
            sent.append(deque(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)))
        for peer in self.peers:
            peer.wire.slow = random.random() < 0.3
            peer.wire.buffer_bytes = random.choice((0, 10, 1000))
        while any(sent):
            number = random.choice([at for at, pieces in enumerate(sent) if pieces])
            self.rig.stir(random)
            for other, pieces in enumerate(sent):
                if pieces and other != number and random.random() < 0.5:
                    self.peers[other].put(pieces.popleft())
            self.peers[number].send(sent[number].popleft())
            if random.random() < 0.3:
                taker = random.randrange(len(self.peers))
                self.told[taker] += self.peers[taker].take()
        while random.random() < 0.8:
            self.rig.stir(random)
        self.rig.settle()
        for number, peer in enumerate(self.peers):
            self.told[number] += peer.take_all()
        # Once more: what one peer took may have let another one go on.
        for number, peer in enumerate(self.peers):
            self.told[number] += peer.take_all()

    def explain(self) -> str:
        """What was asked and told, for a person."""
        lines = []
        for asks, told in zip(self.asks, self.told, strict=True):
            lines += [f"  asked {' '.join(ask.name for ask in asks)}", f"  told  {told!r}"]
        return "\n".join(lines)

    def answers(self) -> Any:
        """The model's world after some order of all requests that gives just these replies, and this store.

        None where none does.
        """
        told = [self.speaker.comparable(told) for told in self.told]
        return _Orders(self.speaker, self.asks, told, self.stored()).search(self.world)

    def stored(self) -> dict[str, list[bytes]]:
        """What the store holds: the records of each topic."""
        store = self.rig.store
        held: dict[str, list[bytes]] = {}
        for name in store.names():
            segment = store.find(name)
            first = first_record(segment)
            records: list[bytes] = []
            while first + len(records) < segment.number:
                runs: list[Any] = []
                store.read(segment, first + len(records), bytes_max=1 << 20).addCallback(runs.extend)
                self.rig.run()
                records += [bytes(record) for run in runs for record in run.batch.records()]
            held[name] = records
        return held


class _Orders:
    """Every order that keeps each connection's own, tried until one gives just the replies that came."""

    def __init__(
        self, speaker: Speaker, asks: Sequence[list[Ask]], told: Sequence[bytes], stored: dict[str, list[bytes]]
    ) -> None:
        self._speaker = speaker
        self._stored = stored
        self._asks = asks
        self._told = told
        self._places = [0] * len(asks)
        self._said = [b""] * len(asks)

    def search(self, world: Any) -> Any:
        """The world at the end of such an order; None where there is none."""
        if all(place == len(own) for place, own in zip(self._places, self._asks, strict=True)):
            same_replies = list(map(self._speaker.comparable, self._said)) == list(self._told)
            return world if same_replies and self._speaker.stored(world) == self._stored else None
        for number, own in enumerate(self._asks):
            if self._places[number] == len(own):
                continue
            after = deepcopy(world) if len(self._asks) > 1 else world
            before = (self._said[number], self._places[number])
            try:
                self._said[number] += own[self._places[number]].act(after, number)
                self._places[number] += 1
            except Closed as closed:
                self._said[number] += closed.reply
                self._places[number] = len(own)
            # Go no further where a reply does not fit.
            if self._speaker.begins(self._told[number], self._said[number]):
                found = self.search(after)
                if found is not None:
                    return found
            self._said[number], self._places[number] = before
        return None
