"""No request keeps the others waiting: what takes long is done step by step, and others have their turns between."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.protocols.sesp import SespFactory
from streamd.store.commit.fanout import ROWS_MAX
from streamd.wire import tools as storage
from streamd.wire.client.tools import StorageReplies, request_bytes
from streamd.wire.faststream import PONG
from streamd.wire.tools import Part
from tests.rigs.access.rules import rule
from tests.rigs.protocols.pravega_case import make_factory
from tests.rigs.protocols.rig import Peer, Rig
from tests.rigs.wire.faststream import PING, all_except, multiple

SEGMENTS = 5000
CALLS_MAX = 150_000
"""Calls of functions that a turn may make: some milliseconds of a slow processor."""


class BusyClock:
    """A clock for a slow processor: each look at it is half a millisecond later than the one before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks = 0

    def seconds(self) -> float:
        self._looks += 1
        return self._clock.seconds() + self._looks / 2000

    def callLater(self, seconds: float, call: Callable[..., object], *args: Any) -> IDelayedCall:
        return self._clock.callLater(seconds, call, *args)


class Work:
    """Counts calls of functions while it is entered: how much is done, on whatever machine."""

    def __init__(self) -> None:
        self.calls = 0

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        self.calls += 1

    def __enter__(self) -> Work:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)


class TurnCase(SynchronousTestCase):
    """One connection that asks for much, and another one."""

    def start(self, make: Callable[[Core], StreamFactory]) -> Rig:
        rig = Rig(self.mktemp(), make_factory=make)
        self.addCleanup(rig.close)
        rig.core.clock = BusyClock(rig.clock)  # type: ignore[assignment]
        return rig

    def turns(self, rig: Rig, peer: Peer, asked: bytes, *, calls_max: int = CALLS_MAX) -> bytes:
        """What is answered when all has been done; each turn is bounded, and another connection is served between."""
        other = rig.connect(SespFactory(rig.core))
        told: list[bytes] = []

        def turn(call: Callable[..., object], *args: Any) -> None:
            with Work() as work:
                call(*args)
            self.assertLess(work.calls, calls_max)
            self.assertEqual(other.ask(b"$0\n"), b"+\n")
            told.append(peer.wire.take())

        # What is read at once from a socket is no more than this.
        pieces = [asked[at : at + (64 << 10)] for at in range(0, len(asked), 64 << 10)]
        while pieces or self.due(rig) or len(rig.writer):
            if pieces and peer.read:
                turn(peer.protocol.dataReceived, pieces.pop(0))
            for call in self.due(rig):
                # One after the other, and not with the clock: that would go on with what they leave for the next turn.
                rig.clock.calls.remove(call)
                call.called = 1
                turn(call.func, *call.args)
            if len(rig.writer):
                turn(rig.writer.step)
        other.drop()
        return b"".join(told)

    def due(self, rig: Rig) -> list[DelayedCall]:
        """What is to be done in the next turn."""
        return [call for call in rig.clock.calls if call.getTime() <= rig.clock.seconds()]


class SespTurnTests(TurnCase):
    """The list of topics."""

    def test_list(self) -> None:
        """A hundred lists of thousands of topics, in one write."""
        rig = self.start(SespFactory)
        for number in range(SEGMENTS):
            rig.store.create(f"topic {number}")
        rig.run()
        told = self.turns(rig, rig.connect(), b"?\n" * 100).splitlines()
        self.assertEqual(len(told), 100)
        self.assertEqual(json.loads(told[0][1:]), rig.store.names())
        self.assertEqual(len(set(told)), 1)


class FastStreamTurnTests(TurnCase):
    """One record for many streams."""

    STREAMS = 3000

    def setUp(self) -> None:
        self.rig = self.start(FastStreamFactory)
        for number in range(self.STREAMS):
            self.rig.store.create(f"faststream/{number}")
        self.rig.run()
        self.peer = self.rig.connect()

    def ask(self, asked: bytes) -> None:
        self.assertEqual(self.turns(self.rig, self.peer, asked + PING), PONG)

    def numbers(self) -> list[int]:
        return [self.rig.store.find(f"faststream/{number}").number for number in range(self.STREAMS)]

    def test_same(self) -> None:
        """The same stream hundreds of thousands of times: it receives as often, and the compactor has little to do."""
        self.ask(multiple(b"x", *[7] * 300_000))
        expected = [0] * self.STREAMS
        expected[7] = 300_000
        self.assertEqual(self.numbers(), expected)
        self.assertLess(self.rig.store.unfolded_entries, self.STREAMS + 200)

    def test_others(self) -> None:
        """Hundreds of thousands of streams, of which some are there."""
        self.ask(multiple(b"x", *range(self.STREAMS // 2, 200_000)))
        expected = [0] * (self.STREAMS // 2) + [1] * (self.STREAMS // 2)
        self.assertEqual(self.numbers(), expected)
        self.ask(all_except(b"x", *range(self.STREAMS // 2, 200_000)))
        self.assertEqual(self.numbers(), [1] * self.STREAMS)

    def test_refused(self) -> None:
        """Streams that the peer may not write to are looked at as quickly, and those receive that it may write to."""
        self.rig.core.access.replace([rule("write", topics=("faststream/1?",), topic_bytes_max=20)], 0.0)
        self.ask(multiple(b"x", *range(100_000)) + multiple(b"x", *range(100_000), 12, 12))
        expected = [0] * self.STREAMS
        expected[10:20] = [2] * 10
        expected[12] = 1
        self.assertEqual(self.numbers(), expected)

    def test_too_many(self) -> None:
        """More than a request may reach closes the connection, since there is no answer, and nobody has received it."""
        self.peer.send(multiple(bytes(200 << 10), *[1] * 20_000) + PING)
        self.assertTrue(self.peer.closed)
        self.assertEqual(self.peer.take(), b"")
        self.assertEqual(self.numbers(), [0] * self.STREAMS)
        for number in range(self.STREAMS, ROWS_MAX + 1):
            self.rig.store.create(f"faststream/{number}")
        for asked in (multiple(b"x", *range(50_000)), all_except(b"x", *range(50_000))):
            self.peer = self.rig.connect()
            self.turns(self.rig, self.peer, asked + PING)
            self.rig.run()
            self.assertTrue(self.peer.closed)
            self.assertEqual(self.numbers(), [0] * self.STREAMS)


class StorageTurnTests(TurnCase):
    """The messages for tools that name, or look at, many segments."""

    def setUp(self) -> None:
        self.rig = self.start(make_factory)
        self.names = [f"{'a' * 100}{number}" for number in range(SEGMENTS)]
        for name in self.names:
            self.rig.store.create(name)
        self.rig.run()
        self.peer = self.rig.connect()

    def ask(self, *requests: Any) -> list[Any]:
        replies = StorageReplies(1 << 30)
        found = replies.receive(self.turns(self.rig, self.peer, b"".join(map(request_bytes, requests))))
        self.assertIsNone(replies.error)
        return list(found)

    def hide(self, count: int) -> list[int]:
        for number in range(count):
            self.rig.store.create(f"hidden {number}", hidden=True)
        self.rig.run()
        hidden = self.rig.store.hidden_segments()
        for segment in hidden:
            self.rig.store.append(segment, Batch.of([b"x"]))
        self.rig.run()
        return [segment.id for segment in hidden]

    def test_list(self) -> None:
        """Many lists in one write, by patterns that are as costly as they get, fitting all or none."""
        costly = "*" + "?" * 90 + "b*" + "[a-z]" * 20 + "c"
        for pattern, count in (("*", 10), (costly, 2), ("*a" * 99 + "b", 10), ("none", 100)):
            replies = self.ask(*[storage.ListSegments(number, pattern, 0) for number in range(count)])
            self.assertEqual([reply.id for reply in replies], list(range(count)))
            self.assertEqual({type(reply) for reply in replies}, {storage.Segments})

    def test_pages(self) -> None:
        """A page has a bounded number of segments, and all pages together are all segments, each once."""
        found: list[str] = []
        after = 0
        while True:
            (page,) = self.ask(storage.ListSegments(1, "*", after))
            self.assertLessEqual(len(page.segments), 1100)
            found += [info.name for info in page.segments]
            after = page.after
            if not after:
                break
        self.assertEqual(found, self.names)

    def test_names(self) -> None:
        """Thousands of names, several times."""
        replies = self.ask(*[storage.NameSegments(number, tuple(self.names)) for number in range(3)])
        self.assertEqual([[info.name for info in reply.segments] for reply in replies], [self.names] * 3)

    def test_hidden(self) -> None:
        """Thousands of hidden segments that are published, or deleted, at once."""
        hidden = self.hide(6000)
        target = self.rig.store.find(self.names[0])
        parts = tuple(Part(id, target.id) for id in hidden[:3000])
        published, deleted = self.ask(storage.PublishSegments(1, parts, ()), storage.DeleteHidden(2, tuple(hidden)))
        self.assertEqual(published, storage.SegmentsPublished(1, False))
        self.assertEqual(deleted, storage.HiddenDeleted(2, 3000))
        self.assertEqual(target.number, 3000)
        self.assertEqual(self.rig.store.hidden_segments(), [])
