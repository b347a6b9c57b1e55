"""Laws that are tried with connections that a test holds in its hand, at every byte."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import Any

from twisted.internet.testing import EventLoggingObserver
from twisted.logger import LogLevel, globalLogPublisher

from streamd.protocols.smq import GROUP
from streamd.settings import Limits
from streamd.store import Segment, Store
from tests.protocols.laws.description import LIMITS, Description, Exchange
from tests.protocols.laws.every import Law
from tests.protocols.rig import Peer, Rig
from tests.store.inline import DIRECTORY, read_all
from tests.store.simulated import SimulatedDisk

Contents = dict[str, tuple[object, ...]]
"""What a store holds, by segment."""


def contents(store: Store) -> Contents:
    """Everything that a peer can see of a store: records, levels, whether it is sealed."""
    found: Contents = {}
    for name in store.names():
        segment = store.find(name)
        first = first_record(segment)
        records = [
            (run.number + at, run.tag, bytes(record))
            for run in read_all(store, segment)
            for at, record in enumerate(run.batch.records())
        ]
        levels = dict(segment.levels or {})
        found[name] = (segment.number, segment.sealed, levels, [each for each in records if each[0] >= first])
    return found


def first_record(segment: Segment) -> int:
    """The first record that is still there for somebody. Of a queue what was pulled may go a little later."""
    group = (segment.groups or {}).get(GROUP)
    return segment.first_number if group is None else max(segment.first_number, group.position)


class HeldLaw(Law):
    """A store on a disk in memory, new for each try, with connections of one protocol."""

    def setUp(self) -> None:
        self.events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)
        self._rigs: list[Rig] = []
        self.addCleanup(self.close)

    def make(self, **limits: Any) -> Rig:
        """A new store on a new disk, `medium`. The one before is closed: a test may need hundreds."""
        self.close()
        self.medium = SimulatedDisk()
        return self.also(self.medium, **limits)

    def also(self, medium: SimulatedDisk, **limits: Any) -> Rig:
        """Open the store that is on a disk, beside those that are open."""
        rig = make_rig(self.spoken, medium, replace(LIMITS, **limits))
        self._rigs.append(rig)
        return rig

    def close(self) -> None:
        """Close all stores."""
        while self._rigs:
            self._rigs.pop().close()

    def opened(self, rig: Rig, number: int = 0) -> tuple[Peer, Description]:
        """A connection that can write and read; the first one prepares the store."""
        spoken = self.spoken(number)
        peer = rig.connect()
        if not rig.store.names():
            self.talk(peer, spoken.prepare())
        self.talk(peer, spoken.open())
        return peer, spoken

    def talk(self, peer: Peer, exchange: Exchange) -> None:
        """Ask, and compare the answer."""
        self.assert_told(peer.send(exchange.asked).take_all(), exchange.told)

    def assert_told(self, told: bytes, expected: bytes, what: object = None) -> None:
        """Replies are what they should be, but for what may differ."""
        self.assertEqual(self.spoken.comparable(told), self.spoken.comparable(expected), what)

    def assert_empty(self, rig: Rig) -> None:
        """Nothing is counted for connections that are gone, no timer runs, and nothing that happened was a bug."""
        for peer in list(rig.peers):
            peer.drop()
        self.assertEqual((rig.load.connections, rig.load.held_bytes), (0, 0))
        self.assertEqual(rig.clock.getDelayedCalls(), [])
        self.assertEqual(rig.factory.connections, set())
        self.assert_no_bug()

    def assert_no_bug(self) -> None:
        """Nothing was logged that is an error of ours."""
        errors = [event for event in self.events if event["log_level"] >= LogLevel.error]
        self.assertEqual(errors, [])


def make_rig(spoken: type[Description], medium: SimulatedDisk, limits: Limits) -> Rig:
    """A store of its own with an endpoint of one protocol."""
    return Rig(DIRECTORY, limits=limits, make_factory=spoken.factory, medium=medium)


@cache
def states(spoken: type[Description]) -> list[Contents]:
    """What the store holds after none of the transcript's requests, after one, after two …"""
    rig = make_rig(spoken, SimulatedDisk(), LIMITS)
    peer = rig.connect()
    found = [contents(rig.store)]
    for exchange in spoken.transcript:
        peer.ask(exchange.asked)
        found.append(contents(rig.store))
    rig.close()
    return found


def whole_requests(spoken: type[Description], length: int) -> int:
    """How many requests of the transcript are whole in its first bytes."""
    return bisect_right(_ends(spoken), length)


def acknowledged(spoken: type[Description], told: bytes) -> int:
    """How many requests of the transcript are answered at least, where this was told."""
    return _beginnings(spoken).index(spoken.comparable(told))


def around_requests(spoken: type[Description]) -> list[int]:
    """Places in the transcript: before and behind each request, and a byte to either side."""
    ends = [0, *_ends(spoken)]
    return sorted({at for end in ends for at in (end - 1, end, end + 1) if 0 <= at <= ends[-1]})


@cache
def _ends(spoken: type[Description]) -> list[int]:
    """Where the requests of the transcript end."""
    return list(accumulate(len(each.asked) for each in spoken.transcript))


@cache
def _beginnings(spoken: type[Description]) -> list[bytes]:
    """What is told after none of the transcript's requests, after one, after two …"""
    told = accumulate((each.told for each in spoken.transcript), initial=b"")
    return [spoken.comparable(each) for each in told]
