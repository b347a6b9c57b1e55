"""Who breaks the protocol gets what it asked for before, the last words, and the end."""

from __future__ import annotations

import tracemalloc

from tests.protocols.laws import description
from tests.protocols.laws.description import Exchange, Size
from tests.protocols.laws.every import PROTOCOLS, WRITING, every
from tests.protocols.laws.held import HeldLaw, contents, states
from tests.rigs.protocols.rig import Peer

# What Python itself may need meanwhile, with a log and all. The sizes that matter are far over it.
SMALL_BYTES = 1 << 20


@every(PROTOCOLS)
class Breach(HeldLaw):
    """What stands before it is carried out and answered, what stands behind it is not."""

    def assert_closed(self, peer: Peer, breach: description.Breach, what: object) -> None:
        """It was closed in order, so that it can read what it was told, and with a code where there are some."""
        self.assertEqual((peer.closed, peer.aborted), (True, False), what)
        self.assertEqual(getattr(peer, "code", 0), breach.code, what)

    def test_behind_requests(self) -> None:
        """In one read with valid requests around it, while the disk is busy and while it is not."""
        asked, told = self.spoken.whole()
        for breach in self.spoken.breaches:
            for held in (False, True):
                rig = self.furnished()
                peer = rig.connect()
                rig.held = held
                peer.send(asked + breach.frame + asked)
                peer.send(asked)
                rig.release()
                self.assert_told(peer.wire.value(), told + breach.told, breach.frame[:50])
                self.assert_closed(peer, breach, breach.frame[:50])
                self.assertEqual(contents(rig.store), states(self.spoken)[-1])
                self.assert_empty(rig)

    def test_cut(self) -> None:
        """Wherever it is cut, and byte by byte."""
        ask = self.spoken().ask()
        rig = self.make()
        for breach in self.spoken.breaches:
            frame = breach.frame[:60], breach.frame[60:]
            for cut in range(len(frame[0])):
                peer = self.connected(rig)
                peer.send(ask.asked + frame[0][:cut]).send(frame[0][cut:]).send(frame[1])
                self.assert_told(peer.wire.value(), ask.told + breach.told, (breach.frame[:50], cut))
                self.assert_closed(peer, breach, cut)
            peer = self.connected(rig)
            for byte in frame[0]:
                peer.send(bytes((byte,)))
            peer.send(frame[1])
            self.assert_told(peer.wire.value(), breach.told, breach.frame[:50])
            self.assert_closed(peer, breach, breach.frame[:50])
        self.assert_empty(rig)

    def test_others_go_on(self) -> None:
        """Nobody else notices."""
        rig = self.make()
        witness, spoken = self.other(rig)
        for breach in self.spoken.breaches:
            self.connected(rig).send(breach.frame)
            self.talk(witness, spoken.write(b"still here"))
        self.assert_empty(rig)

    def test_unknown(self) -> None:
        """Each id that means nothing is answered, and the connection goes on; or it is closed, as the protocol says."""
        rig = self.make()
        ask = self.spoken().ask()
        count = 0
        for frame, told, goes_on in self.spoken.unknown():
            peer = self.connected(rig)
            peer.send(ask.asked + frame + ask.asked)
            self.assert_told(peer.wire.value(), ask.told + told + (ask.told if goes_on else b""), frame)
            self.assertEqual(peer.closed, not goes_on, frame)
            self.assertFalse(peer.aborted, frame)
            peer.drop()
            count += 1
        self.assertGreater(count, 200)
        self.assertEqual(rig.store.names(), list(self.spoken.names))
        self.assert_empty(rig)


@every(PROTOCOLS)
class Oversize(HeldLaw):
    """What is too large is refused before anything is kept of it."""

    def values(self, size: Size) -> list[int]:
        """Around the limit, and around all that a type or a program could stumble over."""
        powers = [1 << bits for bits in (15, 16, 24, 31, 32, 63, 64)]
        values = {0, 1, size.largest, size.largest + 1, size.end - 1}
        values.update(value for power in powers for value in (power - 1, power) if value < size.end)
        if size.signed:
            values.update((-1, -size.largest, -size.end))
        return sorted(values)

    def send_measured(self, peer: Peer, data: bytes) -> int:
        """Send, and tell how much memory that took at its height."""
        tracemalloc.start()
        try:
            peer.send(data)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def test_declared(self) -> None:
        """A declared size costs nothing: over the limit it is refused at once, below it waits for what follows."""
        rig = self.make()
        for size in self.spoken.sizes:
            for value in self.values(size):
                what = f"{size.name} of {value}"
                peer = rig.connect()
                self.assertLess(self.send_measured(peer, size.declare(value)), SMALL_BYTES, what)
                if 0 <= value <= size.largest:
                    self.assertTrue(value < size.least or not peer.closed, what)
                else:
                    self.assertEqual((peer.closed, peer.aborted), (True, False), what)
                    self.assertEqual(peer.wire.value(), size.told, what)
                peer.drop()
        self.assertEqual(rig.store.names(), [])
        self.assert_empty(rig)

    def test_without_end(self) -> None:
        """A peer that goes on sending after it was refused is not listened to, and nothing is kept."""
        for breach in self.spoken.breaches:
            rig = self.make()
            peer = self.connected(rig)
            rig.held = True
            peer.send(self.spoken(1).ask().asked + breach.frame)
            for _ in range(20):
                self.assertLess(self.send_measured(peer, b"x" * 100_000), 100_000 + SMALL_BYTES)
            rig.release()
            self.assertTrue(peer.closed)
            self.assert_empty(rig)


@every(WRITING)
class OversizeRecord(HeldLaw):
    """Records up to the limit are stored, and nothing is kept of larger ones."""

    def test_largest(self) -> None:
        """A record of the largest size is stored, one of a byte more is not, in one piece and in many."""
        limit = self.spoken.record_bytes_max
        for piece in (1 << 20, 1000):
            rig = self.make()
            peer, spoken = self.opened(rig)
            self.send_in(peer, spoken.write(b"x" * limit), piece)
            self.assertEqual(rig.store.find(spoken.segment).number, 1)
            asked, _ = spoken.write(b"x" * (limit + 1))
            for at in range(0, len(asked), piece):
                peer.send(asked[at : at + piece])
            self.assertEqual(peer.wire.value(), spoken.too_large)
            self.assertEqual((peer.closed, peer.aborted), (True, False))
            self.assertEqual(rig.store.find(spoken.segment).number, 1)
            self.assert_empty(rig)

    def send_in(self, peer: Peer, exchange: Exchange, piece: int) -> None:
        for at in range(0, len(exchange.asked), piece):
            peer.send(exchange.asked[at : at + piece])
        self.assert_told(peer.take_all(), exchange.told)

    def test_goes_on_and_on(self) -> None:
        """One that never ends is refused as soon as it is over the limit, not when all of it was kept."""
        limit, piece = self.spoken.frame_bytes_max or self.spoken.record_bytes_max, 1000
        rig = self.make()
        peer, spoken = self.opened(rig)
        asked = spoken.write(b"x" * (limit + 10 * piece)).asked
        sent = 0
        while not peer.closed and sent < limit + 5 * piece:
            peer.send(asked[sent : sent + piece])
            sent += piece
        self.assertLess(sent, limit + 3 * piece)
        self.assertEqual(peer.wire.value(), spoken.too_large)
        self.assert_empty(rig)
