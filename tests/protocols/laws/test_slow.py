"""Peers that send without end and take nothing: they are no longer read, little is kept, and nobody else waits."""

from __future__ import annotations

from tests.protocols.laws.description import Exchange, joined
from tests.protocols.laws.every import BOTH, PROTOCOLS, READING, WRITING, every
from tests.protocols.laws.fujin_readers import FujinConsumer, FujinLoneConsumer, FujinLoneSubscriber
from tests.protocols.laws.held import HeldLaw
from tests.rigs.protocols.rig import BUFFER_BYTES, Peer, Rig

RECORDS = [b"%04d" % number * 2500 for number in range(300)]
KEPT_BYTES_MAX = BUFFER_BYTES + (600 << 10)
"""What a transport keeps of replies: its buffer, and an answer or two that were on their way."""


@every(READING)
class Slow(HeldLaw):
    """For a peer that does not take its replies nothing more is done."""

    def filled(self) -> Rig:
        """A store with some megabytes."""
        rig = self.make()
        (peer, spoken), _ = self.pair(rig)
        for at in range(0, len(RECORDS), 50):
            self.talk(peer, joined(spoken.write(record) for record in RECORDS[at : at + 50]))
        peer.drop()
        return rig

    def test_large_replies(self) -> None:
        """A few buffers are filled, then it waits; others are served; in the end it gets everything."""
        rig = self.filled()
        peer, spoken = self.opened(rig, 1)
        witness, other = self.other(rig, 2)
        asked, told = spoken.fetch(RECORDS)
        peer.wire.slow = True
        peer.send(asked)
        self.assertFalse(peer.read)
        self.assertLess(len(peer.wire.value()), KEPT_BYTES_MAX)
        self.assertGreaterEqual(rig.load.held_bytes, len(peer.wire.value()) - len(self.spoken.hello.told))
        kept = len(peer.wire.value())
        # Nothing that happens makes it take on more, however long it takes.
        peer.send(spoken.ask().asked * 100)
        rig.advance(1000)
        for _ in range(20):
            self.talk(witness, other.ask())
        self.assertEqual(len(peer.wire.value()), kept)
        self.assertFalse(peer.closed)
        comparable = self.spoken.comparable
        self.assertTrue(comparable(peer.take_all()) == comparable(told + spoken.ask().told * 100))
        self.assertTrue(peer.read)
        self.assert_empty(rig)

    def test_when_memory_is_short(self) -> None:
        """Also while others fill the memory and answers are small: they are not gathered instead."""
        rig = self.filled()
        peer, spoken = self.opened(rig, 1)
        crowd = rig.limits.buffered_bytes_max + 1
        rig.load.change(crowd)
        peer.wire.slow = True
        peer.send(spoken.fetch(RECORDS).asked)
        self.assertLess(len(peer.wire.value()), KEPT_BYTES_MAX)
        rig.load.change(-crowd)
        self.assertTrue(peer.take_all() == spoken.fetch(RECORDS).told)
        self.assert_empty(rig)


@every(PROTOCOLS)
class Flood(HeldLaw):
    """For a peer that asks without end and takes nothing nothing more is done."""

    def test_flood(self) -> None:
        """One that asks without end and takes no reply is no longer read when the buffers are full."""
        rig = self.make()
        peer, spoken = self.asking(rig)
        witness, other = self.other(rig, 1)
        peer.wire.slow = True
        told = self.flood(rig, peer, spoken.flood())
        self.talk(witness, other.write(b"still here"))
        self.assertTrue(peer.take_all() == told)
        self.assertTrue(peer.read)
        self.assertEqual(peer.waiting_bytes, 0)
        self.assert_empty(rig)

    def flood(self, rig: Rig, peer: Peer, question: Exchange) -> bytes:
        """Send until it is no longer read, and then much more; gives what all of it is answered with."""
        told = b""
        while peer.read or peer.waiting_bytes < 100_000:
            told += question.told * 2000
            peer.send(question.asked * 2000)
            self.assertLess(len(peer.wire.value()), KEPT_BYTES_MAX)
            self.assertLess(len(told), 100 * KEPT_BYTES_MAX, "it is read for ever")
        self.assertLess(rig.load.held_bytes, 4 * KEPT_BYTES_MAX)
        return told


@every(WRITING)
class BusyDisk(HeldLaw):
    """What can't be stored now is not taken in without end."""

    def test_busy_disk(self) -> None:
        """While no commit gets through, one connection holds so much and no more; then everything is stored."""
        limit = 64 << 10
        rig = self.make(connection_buffered_bytes_max=limit)
        peer, spoken = self.opened(rig)
        witness, question = self.witness(rig)
        rig.held = True
        told = b""
        for record in RECORDS:
            exchange = spoken.write(record)
            told += exchange.told
            peer.send(exchange.asked)
            self.assertLess(rig.load.held_bytes, limit + 4 * len(record))
        self.assertFalse(peer.read)
        self.assertGreater(peer.waiting_bytes, len(b"".join(RECORDS)) // 2)
        self.talk(witness, question)
        rig.release()
        self.assert_told(peer.take_all(), told)
        self.assertEqual(rig.store.find(spoken.segment).number, len(RECORDS))
        self.assert_empty(rig)


# Which message is whose depends on the others of a group: not for subscribers, which get all of them, and not where
# each has its number.
@every([*BOTH, FujinConsumer, FujinLoneSubscriber, FujinLoneConsumer])
class Together(HeldLaw):
    """Peers that ask for large records and do not take them keep a bounded amount in memory, all together."""

    def test_bounded(self) -> None:
        """However many they are; who takes its record gets it in time, and nothing is left in the end."""
        record, room_bytes = b"x" * 19_000, 50_000
        rig = self.make(buffered_bytes_max=room_bytes, reply_seconds_max=30.0)
        (writer, spoken), _ = self.pair(rig)
        slow = [self.opened(rig, number) for number in range(1, 21)]
        for _ in slow if self.spoken.consumes else [0]:
            self.talk(writer, spoken.write(record))
        for peer, reader in slow:
            peer.wire.slow = True
            peer.wire.buffer_bytes = len(self.spoken.hello.told)
            asked, told = reader.fetch([record])
            peer.send(asked)
        self.assertLess(sum(len(peer.wire.value()) for peer, _ in slow), room_bytes + len(slow) * 2500)
        self.talk(writer, spoken.ask())
        last = slow[-1][0]
        last.wire.slow = False
        rig.advance(30.0 * len(slow))
        self.assert_told(last.take_all(), told)
        self.assertFalse(last.closed)
        rig.advance(100)
        self.assertFalse(last.closed)
        self.talk(writer, spoken.ask())
        self.assert_empty(rig)
