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
from tests.rigs.protocols.rig import Peer, Rig
from tests.rigs.store.inline import DIRECTORY, read_all
from tests.rigs.store.simulated import SimulatedDisk

Contents = dict[str, tuple[object, ...]]
"""What a store holds, by segment."""


def contents(store: Store) -> Contents:
    """Everything that a peer can see of a store: records, levels, what readers acknowledged, whether it is sealed."""
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
        known = {group: each for group, each in (segment.groups or {}).items() if group != GROUP}
        groups = {group: (each.position, each.ranges) for group, each in known.items()}
        shown = [each for each in records if each[0] >= first]
        found[name] = (segment.number, segment.sealed, levels, groups, shown)
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

    def furnished(self, **limits: Any) -> Rig:
        """A new store that holds what the transcript finds there."""
        return furnish(self.spoken, self.make(**limits))

    def connected(self, rig: Rig) -> Peer:
        """A connection that has said what one begins with."""
        peer = rig.connect()
        self.talk(peer, self.spoken.hello)
        return peer

    def witness(self, rig: Rig) -> tuple[Peer, Exchange]:
        """A connection that has nothing to do with others, and what it can ask at any time."""
        spoken = self.spoken.bystander or self.spoken
        peer = rig.connect()
        self.talk(peer, spoken.hello)
        return peer, spoken().ask()

    def asking(self, rig: Rig, number: int = 0) -> tuple[Peer, Description]:
        """A connection that can ask."""
        return (self.connected(rig), self.spoken(number)) if self.spoken.writer else self.opened(rig, number)

    def other(self, rig: Rig, number: int = 0) -> tuple[Peer, Description]:
        """A connection that can write, and takes nothing that is for others."""
        return self._open(rig, (self.spoken.bystander or self.spoken)(number))

    def pair(self, rig: Rig, number: int = 0) -> tuple[tuple[Peer, Description], tuple[Peer, Description]]:
        """Who writes, and who reads that: one connection, or where the protocol wants it two."""
        writer = None if self.spoken.writer is None else self._open(rig, self.spoken.writer(number))
        reader = self.opened(rig, number)
        return writer or reader, reader

    def opened(self, rig: Rig, number: int = 0) -> tuple[Peer, Description]:
        """A connection that can write and read, or, where it can do only one of these, that; the first one prepares."""
        return self._open(rig, self.spoken(number))

    def _open(self, rig: Rig, spoken: Description) -> tuple[Peer, Description]:
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
    return spoken.rig(DIRECTORY, limits=limits, make_factory=spoken.factory, medium=medium)


def furnish(spoken: type[Description], rig: Rig) -> Rig:
    """Put records into a store that a transcript finds there."""
    if spoken.furnished:
        rig.store.create(spoken.segment)
        rig.run()
        for record in spoken.furnished:
            rig.publish(spoken.segment, record)
    return rig


@cache
def states(spoken: type[Description]) -> list[Contents]:
    """What the store holds after none of the transcript's requests, after one, after two …"""
    rig = furnish(spoken, make_rig(spoken, SimulatedDisk(), LIMITS))
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


def around_requests(spoken: type[Description]) -> list[int]:
    """Places in the transcript: before and behind each request, and a byte to either side."""
    ends = [0, *_ends(spoken)]
    return sorted({at for end in ends for at in (end - 1, end, end + 1) if 0 <= at <= ends[-1]})


@cache
def _ends(spoken: type[Description]) -> list[int]:
    """Where the requests of the transcript end."""
    return list(accumulate(len(each.asked) for each in spoken.transcript))
