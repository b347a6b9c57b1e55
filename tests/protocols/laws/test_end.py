"""At the end, the peer's or the daemon's, what was asked is finished and answered; who just goes hurts nobody."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.protocols.laws.description import Description, joined
from tests.protocols.laws.every import PROTOCOLS, READING, every
from tests.protocols.laws.held import HeldLaw, around_requests, contents, states, whole_requests
from tests.rigs.protocols.rig import Peer, Rig

SEED = 5


def shut(rig: Rig, peer: Peer) -> None:
    """The peer sends no more, and still takes answers."""
    peer.shut()


def drain(rig: Rig, peer: Peer) -> None:
    """The daemon ends."""
    rig.factory.drain()


@every(PROTOCOLS)
class End(HeldLaw):
    """All that was asked before the end is carried out and answered, then it is closed."""

    def try_end(self, end: Callable[[Rig, Peer], None], cut: int, held: bool) -> None:
        rig = self.furnished()
        peer = rig.connect()
        rig.held = held
        peer.send(self.spoken.whole().asked[:cut])
        end(rig, peer)
        # What comes in after the daemon's end is not done, unless the peer is to say when it ends.
        stop = self.spoken.stop if end is drain and cut > 0 else None
        if end is drain:
            peer.send(self.spoken.whole().asked[cut:])
        rig.release()
        count = whole_requests(self.spoken, cut) if stop is None else len(self.spoken.transcript)
        told = joined(self.spoken.transcript[:count]).told
        if stop is not None:
            peer.send(stop.asked)
            told += stop.told
        self.assert_told(self.spoken.without_stop(peer.wire.value()), told, cut)
        self.assertEqual((peer.closed, peer.aborted), (True, False), cut)
        self.assertEqual(contents(rig.store), states(self.spoken)[count], cut)
        self.assert_empty(rig)

    def test_half_closed(self) -> None:
        """Between two requests, and in the middle of one, a peer may shut its side."""
        for cut in around_requests(self.spoken):
            for held in (False, True):
                self.try_end(shut, cut, held)

    def test_drained(self) -> None:
        """And there the daemon may end."""
        for cut in around_requests(self.spoken):
            for held in (False, True):
                self.try_end(drain, cut, held)

    def test_begins_again(self) -> None:
        """Everything that was answered at the end is there when the daemon begins again."""
        for count in range(len(self.spoken.transcript) + 1):
            rig = self.furnished()
            peer = rig.connect()
            rig.held = True
            peer.send(joined(self.spoken.transcript[:count]).asked)
            rig.factory.drain()
            rig.release()
            rig.close()
            self.assertEqual(contents(self.also(self.medium).store), states(self.spoken)[count])


@every(READING)
class EndSlow(HeldLaw):
    """A peer that takes its answers slowly gets all of them before the end, within a limit."""

    def filled(self, records: list[bytes], **limits: Any) -> tuple[Rig, Peer, Description]:
        """A store with these records, and a connection that is to read them, slowly."""
        rig = self.make(**limits)
        (writer, wrote), (peer, spoken) = self.pair(rig)
        for record in records:
            self.talk(writer, wrote.write(record))
        peer.wire.slow = True
        return rig, peer, spoken

    def test_slow(self) -> None:
        """It gets all that it asked for."""
        records = [b"%04d" % number * 2500 for number in range(100)]
        for end in (shut, drain):
            rig, peer, spoken = self.filled(records)
            asked, told = spoken.fetch(records)
            peer.send(asked)
            end(rig, peer)
            rig.run()
            self.assertFalse(peer.closed)
            taken = self.spoken.without_stop(peer.take_all())
            if end is drain and self.spoken.stop is not None:
                self.assertFalse(peer.closed)
                self.talk(peer, self.spoken.stop)
            if end is shut and self.spoken.endless:
                self.assertTrue(told.startswith(taken))
            else:
                self.assertTrue(taken == told)
            self.assertEqual((peer.closed, peer.aborted), (True, False))
            self.assert_empty(rig)

    def test_too_slow(self) -> None:
        """At the daemon's end there is a deadline for that, and then it is cut off."""
        records = [b"x" * 10_000] * 100
        rig, peer, spoken = self.filled(records, drain_seconds_max=10.0)
        peer.send(spoken.fetch(records).asked)
        drained = rig.factory.drain()
        rig.advance(9)
        self.assertFalse(peer.closed or drained.called)
        rig.advance(1)
        self.assertTrue(peer.aborted and drained.called)
        self.assert_empty(rig)


@every(PROTOCOLS)
class Lost(HeldLaw):
    """A peer that is gone after any byte leaves nothing half done, and nothing behind."""

    def test_anywhere(self) -> None:
        """With nothing on disk yet: each request is carried out whole or not at all, in order; what was answered is."""
        for cut in range(len(self.spoken.whole().asked) + 1):
            self.try_lost(cut, held=True)

    def test_idle_disk(self) -> None:
        """With everything on disk that can be: each one that was whole is carried out."""
        for cut in around_requests(self.spoken):
            self.try_lost(cut, held=False)

    def try_lost(self, cut: int, held: bool) -> None:
        rig = self.furnished()
        witness, question = self.witness(rig)
        peer = rig.connect()
        rig.held = held
        peer.send(self.spoken.whole().asked[:cut])
        peer.drop()
        whole = whole_requests(self.spoken, cut)
        least = self.spoken.acknowledged(peer.wire.value()) if held else whole
        rig.release()
        self.assertIn(contents(rig.store), states(self.spoken)[least : whole + 1])
        self.talk(witness, question)
        self.assertEqual(rig.load.connections, 1)
        self.assert_empty(rig)

    def test_power_cut(self) -> None:
        """What was answered is there when the power comes back; but what was given away may come again."""
        rng = Random(SEED)
        for count in range(len(self.spoken.transcript) + 1):
            rig = self.furnished()
            peer = rig.connect()
            for exchange in self.spoken.transcript[:count]:
                peer.ask(exchange.asked)
            durable = count
            while durable and not self.spoken.waits(self.spoken.transcript[durable - 1]):
                durable -= 1
            after = self.also(self.medium.crash(rng))
            self.assertIn(contents(after.store), states(self.spoken)[durable : count + 1], count)


@every(READING)
class LostSlow(HeldLaw):
    """A peer that goes with its replies in our buffers costs nothing any more."""

    def test_slow(self) -> None:
        """And it takes nothing along but what counts as its own when it is sent."""
        records = [b"%04d" % number * 2500 for number in range(100)]
        rig = self.make()
        (writer, wrote), (peer, spoken) = self.pair(rig)
        for record in records:
            self.talk(writer, wrote.write(record))
        before = contents(rig.store)
        peer.wire.slow = True
        peer.send(spoken.fetch(records).asked)
        self.assertGreater(rig.load.held_bytes, 0)
        given = self.spoken.given(peer.wire.value())
        peer.drop()
        if not given:
            self.assertEqual(contents(rig.store), before)
        witness, other = self.opened(rig, 1)
        self.talk(witness, other.fetch(records[given:]))
        self.assert_empty(rig)
