"""However a conversation arrives, it is the same conversation."""

from __future__ import annotations

from tests.protocols.laws.every import PROTOCOLS, every
from tests.protocols.laws.held import HeldLaw, contents, states


@every(PROTOCOLS)
class Cut(HeldLaw):
    """The same replies, and the same in the store, wherever TCP cuts what is sent."""

    def test_one_by_one(self) -> None:
        """Each request of the transcript is answered as it says."""
        peer = self.furnished().connect()
        for exchange in self.spoken.transcript:
            self.assert_told(peer.ask(exchange.asked), exchange.told, exchange.asked)

    def test_at_once(self) -> None:
        """So it is with all of them in one read."""
        rig = self.furnished()
        asked, told = self.spoken.whole()
        self.assert_told(rig.connect().ask(asked), told)
        self.assertEqual(contents(rig.store), states(self.spoken)[-1])
        self.assert_empty(rig)

    def test_anywhere(self) -> None:
        """And in two reads, cut at every byte."""
        asked, told = self.spoken.whole()
        for cut in range(1, len(asked)):
            rig = self.furnished()
            peer = rig.connect()
            self.assert_told(peer.ask(asked[:cut]) + peer.ask(asked[cut:]), told, cut)
            self.assertEqual(contents(rig.store), states(self.spoken)[-1], cut)

    def test_byte_by_byte(self) -> None:
        """And byte by byte; nothing is answered before the request has ended, and nothing waits for the next one."""
        rig = self.furnished()
        peer = rig.connect()
        for exchange in self.spoken.transcript:
            for byte in exchange.asked[:-1]:
                peer.send(bytes((byte,)))
            early = peer.take()
            # Of an exchange with several frames the first ones may be answered, the last one may not.
            self.assertTrue(not exchange.told or early != exchange.told, exchange.asked)
            self.assert_told(early + peer.ask(exchange.asked[-1:]), exchange.told, exchange.asked)
        self.assertEqual(contents(rig.store), states(self.spoken)[-1])
        self.assert_empty(rig)

    def test_while_the_disk_is_busy(self) -> None:
        """And where no commit gets through until everything was sent, in reads of any size."""
        asked, told = self.spoken.whole()
        for size in (1, 2, 3, 7, 16, 61, len(asked)):
            rig = self.furnished()
            peer = rig.connect()
            rig.held = True
            for at in range(0, len(asked), size):
                peer.send(asked[at : at + size])
            rig.release()
            self.assert_told(peer.take_all(), told, size)
            self.assertEqual(contents(rig.store), states(self.spoken)[-1], size)

    def test_not_before_the_commit(self) -> None:
        """Nothing that changes the store is answered, or seen by anybody, before it is on disk."""
        for number, exchange in enumerate(self.spoken.transcript):
            before, after = states(self.spoken)[number : number + 2]
            if before == after:
                continue
            rig = self.furnished()
            peer = rig.connect()
            for earlier in self.spoken.transcript[:number]:
                peer.ask(earlier.asked)
            rig.held = True
            told = peer.ask(exchange.asked)
            if self.spoken.waits(exchange):
                self.assertEqual((told, contents(rig.store)), (b"", before), exchange.asked)
            rig.release()
            self.assert_told(told + peer.take(), exchange.told)
            self.assertEqual(contents(rig.store), after)
