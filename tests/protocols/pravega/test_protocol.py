"""Pravega's append blocks byte by byte, on a real store: exactly once, and the same bytes at the same offsets."""

from __future__ import annotations

import os
from itertools import accumulate, product

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.protocols.pravega.protocol import READ_BYTES_MAX
from streamd.settings import Limits
from streamd.store.records.offsets import TAG_RAW
from streamd.wire.pravega.documented import HEADER, Type, message
from tests.protocols.laws.pravega import appended, create, created, ready, segment_read
from tests.rigs.protocols.pravega_case import TAIL_SECONDS, make_factory
from tests.rigs.protocols.rig import Peer, Rig
from tests.rigs.wire.pravega import OTHER, block, event, partial, read, setup, text


class PravegaCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = os.path.abspath(self.mktemp())
        self.rig = self.start()
        self.peer = self.rig.connect()
        self.assertEqual(self.peer.ask(create("s")), created("s"))

    def start(self) -> Rig:
        rig = Rig(self.directory, make_factory=make_factory, limits=Limits(message_bytes_max=1 << 20))
        self.addCleanup(rig.close)
        return rig

    def restart(self) -> Peer:
        self.rig.close()
        self.rig = self.start()
        return self.rig.connect()

    def content(self, name: str = "s") -> bytes:
        """All bytes of a segment, as a reader gets them."""
        reader = self.rig.connect()
        segment = self.rig.store.find(name)
        data = b""
        while len(data) < segment.offset:
            answer = reader.ask(read(name, len(data), READ_BYTES_MAX))
            data += answer[HEADER.size + len(text(name)) + 10 :]
        reader.drop()
        return data


class AppendTests(PravegaCase):
    def test_conversation(self) -> None:
        """Create, set up, append, read: the document's own way, each answer to the byte."""
        self.assertEqual(self.peer.ask(create("s")), message(Type.SEGMENT_EXISTS, text("s")))
        self.assertEqual(self.peer.ask(setup("none")), message(Type.NO_SUCH_SEGMENT, text("none")))
        self.assertEqual(self.peer.ask(setup("s")), ready("s", 0))
        data = event(b"hello") + event(b"")
        self.assertEqual(self.peer.ask(block(0, data)), appended(len(data)))
        self.assertEqual(self.peer.ask(read("s", 0, 1000)), segment_read("s", 0, data))
        self.assertEqual(self.peer.ask(message(Type.KEEP_ALIVE, b"alive")), message(Type.KEEP_ALIVE, b"alive"))

    def test_three_forms(self) -> None:
        """Exact, padded and split blocks store the same."""
        data = event(b"one") + event(b"three")
        self.peer.ask(setup("s"))
        for at, promised in enumerate((len(data), len(data) + 50, 5, 0)):
            offset = at * len(data)
            self.assertEqual(self.peer.ask(block(offset, data, promised)), appended(offset + len(data)))
        self.assertEqual(self.content(), data * 4)

    def test_not_before_commit(self) -> None:
        """Nothing is acknowledged, or read, before it is on disk."""
        self.peer.ask(setup("s"))
        self.rig.held = True
        reader = self.rig.connect()
        self.assertEqual(self.peer.ask(block(0, event(b"x"))), b"")
        self.assertEqual(reader.ask(read("s", 0, 10)), b"")
        self.rig.release()
        self.assertEqual(self.peer.take(), appended(9))
        self.assertEqual(reader.take(), segment_read("s", 0, event(b"x")))

    def test_again(self) -> None:
        """What came before is acknowledged again and not stored; what goes on above it is stored from there."""
        one, two, three = event(b"1"), event(b"22"), event(b"333")
        self.peer.ask(setup("s"))
        self.assertEqual(self.peer.ask(block(0, one + two)), appended(19))
        self.assertEqual(self.peer.ask(block(0, one)), appended(19))
        self.assertEqual(self.peer.ask(block(0, one + two)), appended(19))
        self.assertEqual(self.peer.ask(block(9, two + three)), appended(30))
        self.assertEqual(self.content(), one + two + three)

    def test_again_while_pending(self) -> None:
        """The same where the first one is not on disk yet."""
        one, two = event(b"1"), event(b"22")
        self.peer.ask(setup("s"))
        other = self.rig.connect()
        other.ask(setup("s"))
        self.rig.held = True
        self.peer.send(block(0, one))
        other.send(block(0, one)).send(block(0, one + two))
        self.rig.release()
        self.assertEqual((self.peer.take(), other.take()), (appended(9), appended(9) + appended(19)))
        self.assertEqual(self.content(), one + two)

    def test_every_resend(self) -> None:
        """Whatever a writer sends again, from wherever to wherever, what follows is stored in its order, once."""
        events = [event(bytes((65 + at,)) * at) for at in range(6)]
        places = list(accumulate(map(len, events), initial=0))
        for first, end, (pending, several) in product(range(5), range(1, 6), product((False, True), repeat=2)):
            if first >= end:
                continue
            name = f"s{first}{end}{pending}{several}"
            self.peer.ask(create(name))
            writer = self.rig.connect()
            again = self.rig.connect() if several else writer
            writer.ask(setup(name))
            again.ask(setup(name))
            self.rig.held = pending
            writer.send(block(0, b"".join(events[:3])))
            again.send(block(places[first], b"".join(events[first:end])) if first <= 3 else b"")
            reached = max(end, 3) if first <= 3 else 3
            again.send(block(places[reached], b"".join(events[reached:])))
            self.rig.release()
            self.assertEqual(again.take()[-len(appended(0)) :], appended(places[6]), name)
            self.assertEqual(self.content(name), b"".join(events), name)

    def test_over_restarts(self) -> None:
        """Ack levels survive: a writer that comes back is told how far it came."""
        self.peer.ask(setup("s"))
        self.peer.ask(block(0, event(b"x")))
        peer = self.restart()
        self.assertEqual(peer.ask(setup("s")), ready("s", 9))
        self.assertEqual(peer.ask(setup("s", OTHER)), ready("s", 0, OTHER))
        self.assertEqual(peer.ask(block(0, event(b"x"))), appended(9))
        self.assertEqual(self.content(), event(b"x"))

    def test_several(self) -> None:
        """Several writers and segments share one connection; a writer belongs to the segment of its last setup."""
        self.peer.ask(create("t"))
        self.assertEqual(self.peer.ask(setup("s") + setup("t", OTHER)), ready("s", 0) + ready("t", 0, OTHER))
        self.peer.ask(block(0, event(b"s")) + block(0, event(b"t"), writer=OTHER))
        self.assertEqual(self.peer.ask(setup("t")), ready("t", 0))
        self.assertEqual(self.peer.ask(block(0, event(b"both"))), appended(12))
        self.assertEqual((self.content("s"), self.content("t")), (event(b"s"), event(b"t") + event(b"both")))

    def test_closed(self) -> None:
        """A gap, a level inside an event, an append without setup, a broken frame: the connection is closed."""
        for asked in (
            setup("s") + block(1, event(b"x")),
            block(0, event(b"x")),
            setup("s") + block(0, b"garbage!"),
            event(b"x"),
        ):
            peer = self.rig.connect()
            self.rig.held = True
            peer.send(create(asked.hex()[-200:]) + message(Type.KEEP_ALIVE, b"") + asked)
            self.assertFalse(peer.closed)
            self.rig.release()
            expected = created(asked.hex()[-200:]) + message(Type.KEEP_ALIVE, b"")
            self.assertEqual(peer.wire.value()[: len(expected)], expected)
            self.assertTrue(peer.closed and not peer.aborted, asked)
        peer = self.rig.connect()
        peer.ask(setup("s", OTHER) + block(0, event(b"abc"), writer=OTHER))
        peer.send(block(2, event(b"abcdef"), writer=OTHER))
        self.assertTrue(peer.closed)
        self.assertEqual(self.content(), event(b"abc"))

    def test_sealed_and_deleted(self) -> None:
        """Both are told by name, at the setup and at an append."""
        segment = self.rig.store.find("s")
        self.peer.ask(setup("s") + block(0, event(b"x")))
        self.rig.store.seal(segment)
        self.rig.run()
        sealed, gone = message(Type.SEGMENT_IS_SEALED, text("s")), message(Type.NO_SUCH_SEGMENT, text("s"))
        self.assertEqual(self.peer.ask(block(9, event(b"y")) + setup("s")), sealed + sealed)
        self.assertEqual(self.peer.ask(read("s", 9, 10)), segment_read("s", 9, b"", end=True))
        self.rig.store.delete(segment)
        self.rig.run()
        self.assertEqual(self.peer.ask(block(9, event(b"y")) + setup("s") + read("s", 0, 1)), gone * 3)

    def test_full_disk(self) -> None:
        """There is no word for a full disk: the connection is closed, and nothing is stored."""
        self.peer.ask(setup("s"))
        self.rig.disk.full = True
        self.peer.send(block(0, event(b"x")))
        self.assertTrue(self.peer.closed)
        self.rig.disk.full = False
        self.assertEqual(self.content(), b"")

    def test_partial(self) -> None:
        """A message in parts is that message."""
        whole = setup("s")
        asked = b"".join(partial(part, whole[at : at + 8]) for part, at in ((0, 0), (1, 8), (1, 16)))
        self.assertEqual(self.peer.ask(asked + partial(2, whole[24:])), ready("s", 0))


class ReadTests(PravegaCase):
    def test_any_offset(self) -> None:
        """The bytes that came in come out at the same offsets, wherever a read begins and whatever its length."""
        data = event(b"a") + event(b"") + event(b"hello") + event(b"xy")
        self.peer.ask(setup("s") + block(0, data))
        for offset in range(len(data)):
            for length in (1, 3, 100):
                answer = self.peer.ask(read("s", offset, length))
                found = answer[len(segment_read("s", offset, b"")) :]
                # The server decides how much to give, as long as it is something.
                self.assertTrue(0 < len(found) <= length)
                self.assertTrue(data.startswith(found, offset))
                tail = offset + len(found) == len(data)
                self.assertEqual(answer, segment_read("s", offset, found, tail=tail))

    def test_other_protocols(self) -> None:
        """A record that another protocol stored reads as an event; raw ones are just their bytes."""
        segment = self.rig.store.find("s")
        self.rig.publish("s", b"plain")
        self.rig.store.append(segment, Batch.of([b"raw"]), tag=TAG_RAW)
        self.rig.publish("s", b"")
        self.assertEqual(self.content(), event(b"plain") + b"raw" + event(b""))

    def test_wait(self) -> None:
        """At the tail a read waits for data, and holds no other reply up."""
        self.assertEqual(self.peer.ask(read("s", 0, 100)), b"")
        alive = message(Type.KEEP_ALIVE, b"x")
        self.assertEqual(self.peer.ask(alive + setup("s")), alive + ready("s", 0))
        answer = self.peer.ask(block(0, event(b"x")))
        self.assertCountEqual(
            [answer[: len(appended(9))], answer[len(appended(9)) :]], [appended(9), segment_read("s", 0, event(b"x"))]
        )

    def test_wait_ends(self) -> None:
        """It is answered empty when its time is over; one beyond the end waits like one at it."""
        self.peer.send(read("s", 0, 100) + read("s", 5, 100))
        self.rig.advance(TAIL_SECONDS - 1)
        self.assertEqual(self.peer.take(), b"")
        self.rig.advance(2)
        self.assertEqual(self.peer.take(), segment_read("s", 0, b"") + segment_read("s", 5, b""))

    def test_wait_beyond(self) -> None:
        """One beyond the end goes on waiting until its own offset is there."""
        self.peer.send(read("s", 10, 100))
        self.rig.publish("s", b"x")
        self.assertEqual(self.peer.take(), b"")
        self.rig.publish("s", b"yz")
        self.assertEqual(self.peer.take(), segment_read("s", 10, event(b"yz")[1:]))

    def test_wait_beyond_ends(self) -> None:
        """Its time is over in time, however often others append meanwhile."""
        self.peer.send(read("s", 1000, 100))
        for _ in range(int(TAIL_SECONDS)):
            self.assertEqual(self.peer.take(), b"")
            self.rig.publish("s", b"x")
            self.rig.advance(1)
        self.assertEqual(self.peer.take(), segment_read("s", 1000, b""))

    def test_wait_for_the_end(self) -> None:
        """Sealing and deleting wake who waits."""
        segment = self.rig.store.find("s")
        self.peer.send(read("s", 0, 100))
        self.rig.store.seal(segment)
        self.rig.run()
        self.assertEqual(self.peer.take(), segment_read("s", 0, b"", end=True))
        self.peer.ask(create("t"))
        self.peer.send(read("t", 0, 100))
        self.rig.store.delete(self.rig.store.find("t"))
        self.rig.run()
        self.assertEqual(self.peer.take(), message(Type.NO_SUCH_SEGMENT, text("t")))

    def test_wait_and_the_end(self) -> None:
        """A peer that shuts its side gets the answer when it comes; at the daemon's end all get theirs at once."""
        self.peer.send(read("s", 0, 100))
        self.peer.shut()
        self.assertFalse(self.peer.closed)
        self.rig.publish("s", b"x")
        self.assertEqual(self.peer.wire.value(), segment_read("s", 0, event(b"x")))
        self.assertTrue(self.peer.closed and not self.peer.aborted)
        late = self.rig.connect().send(read("s", 9, 100))
        late.shut()
        self.rig.advance(TAIL_SECONDS)
        self.assertEqual((late.wire.value(), late.closed), (segment_read("s", 9, b""), True))
        waiting = self.rig.connect().send(read("s", 9, 100) + read("s", 20, 100))
        drained = self.rig.factory.drain()
        self.rig.run()
        self.assertTrue(drained.called)
        self.assertEqual(waiting.wire.value(), segment_read("s", 9, b"") + segment_read("s", 20, b""))
        self.assertFalse(self.rig.clock.getDelayedCalls())

    def test_wait_and_breach(self) -> None:
        """Who breaks the protocol is closed at once: what waits is answered as if its time were over."""
        self.peer.send(read("s", 0, 100) + event(b"x"))
        self.assertEqual(self.peer.wire.value(), segment_read("s", 0, b""))
        self.assertTrue(self.peer.closed)
        self.assertFalse(self.rig.clock.getDelayedCalls())

    def test_woken_together(self) -> None:
        """Hundreds of reads that wake up at once are answered as fast as the peer takes it, and not all into memory."""
        count, data = 300, event(bytes(100_000))
        self.peer.wire.slow = True
        self.peer.send(read("s", 0, len(data)) * count)
        self.rig.publish("s", bytes(100_000))
        self.assertLess(len(self.peer.wire.value()), 5 * len(data))
        self.assertTrue(self.peer.take_all() == segment_read("s", 0, data) * count)

    def test_gone_while_waiting(self) -> None:
        """A peer that goes away leaves nothing behind: no timer, nobody who is waited for."""
        self.peer.send(read("s", 0, 100))
        self.peer.drop()
        self.assertFalse(self.rig.store.find("s").waiters)
        self.assertFalse(self.rig.clock.getDelayedCalls())

    def test_truncated(self) -> None:
        """What is gone is told with the first offset that is there."""
        self.rig.publish("s", b"first", b"second")
        self.rig.store.truncate(self.rig.store.find("s"), 1)
        self.rig.run()
        told = message(Type.SEGMENT_IS_TRUNCATED, text("s") + (13).to_bytes(8, "big"))
        self.assertEqual(self.peer.ask(read("s", 3, 10)), told)
        self.assertEqual(self.peer.ask(read("s", 13, 100)), segment_read("s", 13, event(b"second")))

    def test_large(self) -> None:
        """One answer has two megabytes at most."""
        for _ in range(5):
            self.rig.publish("s", bytes(1 << 19))
        answer = self.peer.ask(read("s", 0, 100 << 20))
        self.assertEqual(len(answer), HEADER.size + len(text("s")) + 10 + READ_BYTES_MAX)
