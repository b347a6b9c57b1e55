"""What a connection leaves behind when it is gone."""

from __future__ import annotations

import gc
import weakref

from streamd.connections.base import StreamProtocol
from tests.protocols.laws.every import PROTOCOLS, READING, every
from tests.protocols.laws.held import HeldLaw
from tests.rigs.protocols.rig import Peer, Rig


class _Gone(HeldLaw):
    def setUp(self) -> None:
        super().setUp()
        # Its memory is free at once: who waits for the collector may wait for a long time.
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)

    def drop(self, rig: Rig, peer: Peer) -> weakref.ref[StreamProtocol]:
        protocol = weakref.ref(peer.protocol)
        peer.drop()
        rig.run()
        return protocol


@every(PROTOCOLS)
class Gone(_Gone):
    """A connection that is gone is not kept, and neither is anything that it was answered with."""

    def test_after_anything(self) -> None:
        """After each part of the transcript, answered or not."""
        rig = self.furnished()
        asked = self.spoken.whole().asked
        for end in range(0, len(asked) + 1, 7 if self.spoken.repeatable else 97):
            for held in (False, True):
                if not self.spoken.repeatable:
                    rig = self.furnished()
                peer = rig.connect()
                rig.held = held
                peer.send(asked[:end])
                protocol = self.drop(rig, peer)
                del peer
                rig.release()
                self.assertIsNone(protocol(), f"{asked[:end]!r} {held}")


@every(READING)
class GoneSlow(_Gone):
    """So it is with one that did not take what it asked for."""

    def test_slow(self) -> None:
        """With answers that nobody takes."""
        rig = self.make()
        (writer, spoken), _ = self.pair(rig)
        records = [b"x" * 10_000] * 30
        for record in records:
            self.talk(writer, spoken.write(record))
        peer, reader = self.opened(rig, 1)
        peer.wire.slow = True
        peer.send(reader.fetch(records).asked)
        protocol = self.drop(rig, peer)
        del peer
        self.assertIsNone(protocol())
