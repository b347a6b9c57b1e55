"""At the end, the peer's or the daemon's, what was asked is finished and answered; who just goes hurts nobody."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.protocols.laws.description import joined
from tests.protocols.laws.every import PROTOCOLS, every
from tests.protocols.laws.held import HeldLaw, acknowledged, around_requests, contents, states, whole_requests
from tests.protocols.rig import Peer, Rig

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
        rig = self.make()
        peer = rig.connect()
        rig.held = held
        peer.send(self.spoken.whole().asked[:cut])
        end(rig, peer)
        if end is drain:
            # What comes in from now on is not done.
            peer.send(self.spoken.whole().asked[cut:])
        rig.release()
        count = whole_requests(self.spoken, cut)
        told = b"".join([each.told for each in self.spoken.transcript[:count]])
        self.assert_told(peer.wire.value(), told, cut)
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
            rig = self.make()
            peer = rig.connect()
            rig.held = True
            peer.send(joined(self.spoken.transcript[:count]).asked)
            rig.factory.drain()
            rig.release()
            rig.close()
            self.assertEqual(contents(self.also(self.medium).store), states(self.spoken)[count])

    def test_slow(self) -> None:
        """A peer that takes its answers slowly gets all of them first."""
        records = [b"%04d" % number * 2500 for number in range(100)]
        for end in (shut, drain):
            rig = self.make()
            peer, spoken = self.opened(rig)
            for record in records:
                self.talk(peer, spoken.write(record))
            asked, told = spoken.fetch(records)
            peer.wire.slow = True
            peer.send(asked)
            end(rig, peer)
            rig.run()
            self.assertFalse(peer.closed)
            self.assertTrue(peer.take_all() == told)
            self.assertEqual((peer.closed, peer.aborted), (True, False))
            self.assert_empty(rig)

    def test_too_slow(self) -> None:
        """At the daemon's end there is a deadline for that, and then it is cut off."""
        records = [b"x" * 10_000] * 100
        rig = self.make(drain_seconds_max=10.0)
        peer, spoken = self.opened(rig)
        for record in records:
            self.talk(peer, spoken.write(record))
        peer.wire.slow = True
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
        rig = self.make()
        witness = rig.connect()
        peer = rig.connect()
        rig.held = held
        peer.send(self.spoken.whole().asked[:cut])
        peer.drop()
        whole = whole_requests(self.spoken, cut)
        least = acknowledged(self.spoken, peer.wire.value()) if held else whole
        rig.release()
        self.assertIn(contents(rig.store), states(self.spoken)[least : whole + 1])
        self.talk(witness, self.spoken().ask())
        self.assertEqual(rig.load.connections, 1)
        self.assert_empty(rig)

    def test_power_cut(self) -> None:
        """What was answered is there when the power comes back; but what was given away may come again."""
        rng = Random(SEED)
        for count in range(len(self.spoken.transcript) + 1):
            rig = self.make()
            peer = rig.connect()
            for exchange in self.spoken.transcript[:count]:
                peer.ask(exchange.asked)
            durable = count
            while durable and not self.spoken.waits(self.spoken.transcript[durable - 1]):
                durable -= 1
            after = self.also(self.medium.crash(rng))
            self.assertIn(contents(after.store), states(self.spoken)[durable : count + 1], count)

    def test_slow(self) -> None:
        """One that goes with its replies in our buffers costs nothing any more, and takes nothing along."""
        records = [b"%04d" % number * 2500 for number in range(100)]
        rig = self.make()
        peer, spoken = self.opened(rig)
        for record in records:
            self.talk(peer, spoken.write(record))
        before = contents(rig.store)
        peer.wire.slow = True
        peer.send(spoken.fetch(records).asked)
        self.assertGreater(rig.load.held_bytes, 0)
        peer.drop()
        self.assertEqual(contents(rig.store), before)
        witness, other = self.opened(rig, 1)
        self.talk(witness, other.fetch(records))
        self.assert_empty(rig)
