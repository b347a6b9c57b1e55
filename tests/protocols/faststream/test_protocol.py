"""FastStreamDB byte by byte, on a real store."""

from __future__ import annotations

import os
import pathlib
import shutil

from twisted.trial.unittest import SynchronousTestCase

from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.settings import RetentionRule
from streamd.store.retention import Retention
from streamd.wire.faststream import PONG, contents_header, state
from tests.protocols.laws.faststream import CHECK, CREATE, DELETE, PEEK, TAKE, contents
from tests.rigs.protocols.rig import BUFFER_BYTES, Peer, Rig
from tests.rigs.wire.faststream import PING, all_except, multiple, one, single, to_all


class FastStreamCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = os.path.abspath(self.mktemp())
        self.rig = self.start()
        self.peer = self.rig.connect()

    def start(self) -> Rig:
        rig = Rig(self.directory, make_factory=FastStreamFactory)
        self.addCleanup(rig.close)
        return rig

    def restart(self) -> Peer:
        self.rig.close()
        self.rig = self.start()
        self.peer = self.rig.connect()
        return self.peer

    def peek(self, stream: int) -> bytes:
        """What is in a stream, as another connection sees it."""
        other = self.rig.connect()
        answer = other.send(one(PEEK, stream)).take_all()
        other.drop()
        self.assertEqual(answer[:8], contents_header(len(answer) - 8))
        return answer[8:]


class PacketTests(FastStreamCase):
    def test_conversation(self) -> None:
        """Each packet of the document, one after the other."""
        self.assertEqual(self.peer.ask(PING), PONG)
        self.assertEqual(self.peer.ask(one(CHECK, 5)), state(5, False))
        self.assertEqual(self.peer.ask(one(CREATE, 5)), b"")
        self.assertEqual(self.peer.ask(one(CHECK, 5)), state(5, True))
        self.assertEqual(self.peer.ask(one(PEEK, 5)), contents(b""))
        self.assertEqual(self.peer.ask(single(5, b"one") + single(5, b"two")), b"")
        self.assertEqual(self.peer.ask(one(PEEK, 5)), contents(b"onetwo"))
        self.assertEqual(self.peer.ask(one(CREATE, 5)), b"")
        self.assertEqual(self.peer.ask(one(TAKE, 5)), contents(b"onetwo"))
        self.assertEqual(self.peer.ask(one(TAKE, 5) + one(CHECK, 5)), contents(b"") + state(5, True))
        self.assertEqual(self.peer.ask(one(DELETE, 5) + one(CHECK, 5)), state(5, False))
        self.assertEqual(self.peer.ask(one(DELETE, 5) + one(TAKE, 5)), contents(b""))

    def test_nobody_there(self) -> None:
        """An enqueue to a stream that is not there does nothing."""
        self.peer.send(single(3, b"x") + multiple(b"y", 3, 4) + to_all(b"z") + one(CREATE, 3))
        self.assertEqual(self.peek(3), b"")

    def test_fan_out(self) -> None:
        """To several, to all, to all but some; an id that stands twice receives twice; strangers are ignored."""
        self.peer.send(one(CREATE, 1) + one(CREATE, 2) + one(CREATE, 3))
        self.peer.send(multiple(b"a", 1, 2, 2, 99) + to_all(b"b") + all_except(b"c", 1, 99) + single(1, b"d"))
        self.assertEqual([self.peek(stream) for stream in (1, 2, 3)], [b"abd", b"aabc", b"bc"])
        self.restart()
        self.assertEqual([self.peek(stream) for stream in (1, 2, 3)], [b"abd", b"aabc", b"bc"])

    def test_counted(self) -> None:
        """What somebody receives counts as appended, once; what nobody receives does not, and is not stored."""
        traffic = self.rig.load.traffic_of("faststream")

        def counted(asked: bytes) -> int:
            before = traffic.appended_records
            self.peer.send(asked)
            return traffic.appended_records - before

        nobody = [single(1, b"x"), multiple(b"x"), multiple(b"x", 1, 2), to_all(b"x"), all_except(b"x", 1, 2)]
        self.assertEqual([counted(asked) for asked in nobody], [0] * len(nobody))
        self.peer.send(one(CREATE, 1) + one(CREATE, 2))
        somebody = [single(1, b"x"), multiple(b"x", 2, 1), to_all(b"x"), all_except(b"x", 1)]
        self.assertEqual([counted(asked) for asked in somebody], [1] * len(somebody))
        self.assertEqual(counted(all_except(b"x", 2, 1, 7)), 0)
        self.rig.store.seal(self.rig.store.find("faststream/1"))
        self.assertEqual(counted(all_except(b"x", 2)), 0)
        self.assertEqual(counted(to_all(b"x")), 1)
        self.rig.store.seal(self.rig.store.find("faststream/2"))
        self.rig.run()
        stored = self.rig.store.broadcasts.number
        self.assertEqual([counted(asked) for asked in (to_all(b"x"), multiple(b"x", 1, 2))], [0, 0])
        self.assertEqual(self.rig.store.broadcasts.number, stored)
        self.assertEqual(counted(one(CREATE, 3) + to_all(b"x")), 1)
        self.assertEqual(counted(one(DELETE, 3) + to_all(b"x")), 0)

    def test_fan_out_sees_what_is_pending(self) -> None:
        """All streams are those that are there in the order of requests, on disk or not."""
        self.rig.held = True
        self.peer.send(one(CREATE, 1) + to_all(b"a") + one(CREATE, 2) + to_all(b"b") + one(DELETE, 1) + to_all(b"c"))
        self.rig.release()
        self.assertEqual(self.peek(2), b"bc")
        self.assertEqual(self.peer.ask(one(CHECK, 1)), state(1, False))

    def test_sealed(self) -> None:
        """A stream that somebody sealed takes nothing and keeps the others from nothing."""
        self.peer.send(one(CREATE, 1) + one(CREATE, 2))
        self.rig.store.seal(self.rig.store.find("faststream/1"))
        self.rig.run()
        self.assertEqual(self.peer.ask(single(1, b"x") + to_all(b"y") + PING), PONG)
        self.assertEqual((self.peek(1), self.peek(2)), (b"", b"y"))

    def test_names(self) -> None:
        """Stream N is the segment faststream/N, which other protocols read and write."""
        self.peer.send(one(CREATE, 2**32 - 1) + single(2**32 - 1, b"from here"))
        self.assertEqual(self.rig.store.names(), ["faststream/4294967295"])
        self.rig.publish("faststream/4294967295", b" and there")
        self.assertEqual(self.peek(2**32 - 1), b"from here and there")

    def test_full_disk(self) -> None:
        """What a full disk drops ends the connection, so that no answer behind it is taken for a sign of success."""
        self.peer.send(one(CREATE, 1) + single(1, b"x"))
        self.rig.disk.full = True
        for dropped in (single(1, b"y"), multiple(b"y", 1), to_all(b"y"), all_except(b"y", 2), one(CREATE, 2)):
            peer = self.rig.connect()
            self.assertEqual(peer.send(PING + one(PEEK, 1) + dropped + one(CHECK, 1)).take_all(), PONG + contents(b"x"))
            self.assertTrue(peer.closed)
        self.assertEqual(self.peer.ask(one(PEEK, 1) + one(CHECK, 2)), contents(b"x") + state(2, False))


class TakeTests(FastStreamCase):
    def fill(self, size: int = 5000, count: int = 200) -> bytes:
        """A stream with more than one answer can carry at once."""
        data = [bytes((65 + number % 26,)) * size for number in range(count)]
        self.peer.send(one(CREATE, 1))
        for record in data:
            self.peer.send(single(1, record))
        return b"".join(data)

    def test_large(self) -> None:
        """Contents of any size come in pieces, and are gone when they were taken."""
        data = self.fill()
        self.assertEqual(self.peer.send(one(TAKE, 1)).take_all(), contents(data))
        self.assertEqual(self.peek(1), b"")
        self.restart()
        self.assertEqual(self.peek(1), b"")

    def test_new_ones_stay(self) -> None:
        """What is enqueued while a take goes on is not part of it, and stays."""
        data = self.fill()
        self.peer.wire.slow = True
        self.peer.send(one(TAKE, 1))
        self.rig.connect().send(single(1, b"later"))
        self.assertEqual(self.peer.take_all(), contents(data))
        self.assertEqual(self.peek(1), b"later")

    def test_dropped(self) -> None:
        """A connection that drops before the last byte was handed over keeps it all."""
        data = self.fill()
        self.peer.wire.slow = True
        self.peer.send(one(TAKE, 1))
        self.assertLess(len(self.peer.wire.value()), len(data))
        self.assertGreater(len(self.peer.wire.value()), BUFFER_BYTES)
        self.peer.drop()
        self.assertEqual(self.peek(1), data)

    def test_second_waits(self) -> None:
        """A second take of the same stream waits for the first, and gets what is left."""
        data = self.fill()
        self.peer.wire.slow = True
        self.peer.send(one(TAKE, 1))
        second, third = self.rig.connect(), self.rig.connect()
        self.assertEqual(second.ask(one(TAKE, 1)), b"")
        self.assertEqual(third.ask(one(PEEK, 1))[:8], contents_header(len(data)))
        self.assertEqual(self.peer.take_all(), contents(data))
        self.assertEqual(second.take(), contents(b""))

    def test_second_gets_it(self) -> None:
        """And all of it where the first one drops."""
        data = self.fill()
        self.peer.wire.slow = True
        self.peer.send(one(TAKE, 1))
        second = self.rig.connect()
        second.send(one(TAKE, 1))
        self.peer.drop()
        self.assertEqual(second.take_all(), contents(data))

    def test_does_not_wait(self) -> None:
        """The answer does not wait for the disk, and the next one does not give it again."""
        self.peer.send(one(CREATE, 1) + single(1, b"x"))
        self.rig.held = True
        self.assertEqual(self.peer.ask(one(TAKE, 1)), contents(b"x"))
        self.assertEqual(self.peer.ask(one(TAKE, 1)), contents(b""))
        self.rig.release()
        self.assertEqual(self.peek(1), b"")


class IdleTests(FastStreamCase):
    """Streams that nobody uses are deleted, where a rule says so."""

    idle_seconds_max = 150.0

    def setUp(self) -> None:
        super().setUp()
        self.now = self.rig.writer.now / 1e6
        self.retention = Retention(
            self.rig.store,
            [RetentionRule(pattern="faststream/*", idle_seconds_max=self.idle_seconds_max)],
            interval_seconds=10,
            hidden_seconds_max=0,
            clock=self.rig.clock,
            now=lambda: self.now,
        )
        self.rig.store.retention = self.retention

    def sweep(self, seconds: float) -> list[str]:
        """Which streams are there when so much time has passed, and all were looked at."""
        self.now += seconds
        swept = self.retention.sweep()
        self.rig.run()
        self.successResultOf(swept)
        return self.rig.store.names()

    def test_use(self) -> None:
        """To enqueue to a stream, or to ask for its contents in either way, keeps it; to look for it does not."""
        self.peer.send(b"".join(one(CREATE, stream) for stream in range(1, 6)))
        self.assertEqual(len(self.sweep(100)), 5)
        self.rig.writer.now = int(self.now * 1e6)
        self.peer.send(single(1, b"x") + one(PEEK, 2) + one(TAKE, 3) + one(CHECK, 4))
        self.assertEqual(self.sweep(100), ["faststream/1", "faststream/2", "faststream/3"])
        self.peer.send(one(PEEK, 2))
        self.assertEqual(self.sweep(100), ["faststream/2"])
        self.assertEqual(self.sweep(100), [])

    def test_begins_anew(self) -> None:
        """What was read before the daemon began is not known: from then on each stream has its whole time."""
        self.peer.send(one(CREATE, 1))
        self.now += 1000
        self.retention.start()
        self.addCleanup(self.retention.stop)
        self.assertEqual(self.sweep(self.idle_seconds_max - 1), ["faststream/1"])
        self.assertEqual(self.sweep(2), [])


class MixTests(FastStreamCase):
    """Requests in one write are answered as if each had been sent alone."""

    def test_takes_in_one_write(self) -> None:
        """Takes and reads of one stream and of several, in one write: each sees what those before it left."""
        self.peer.send(one(CREATE, 1) + one(CREATE, 2) + single(2, b"b"))
        asked = single(1, b"x") + one(TAKE, 1) * 2 + one(PEEK, 1) + single(1, b"y") + one(PEEK, 1)
        self.assertEqual(self.peer.ask(asked), contents(b"x") + contents(b"") * 2 + contents(b"y"))
        self.assertEqual(
            self.peer.ask(one(TAKE, 1) + one(TAKE, 2) + one(TAKE, 1) + one(TAKE, 2)),
            contents(b"y") + contents(b"b") + contents(b"") * 2,
        )
        other = self.rig.connect()
        self.assertEqual(other.ask(one(TAKE, 1) + one(TAKE, 2) + PING), contents(b"") * 2 + PONG)

    def test_many_takes(self) -> None:
        """More takes in one write than one turn begins."""
        self.peer.send(one(CREATE, 1))
        self.assertEqual(self.peer.send((single(1, b"x") + one(TAKE, 1)) * 1000).take_all(), contents(b"x") * 1000)

    def test_peek_sees_it_as_taken(self) -> None:
        """Also while what was taken is still on its way to a slow peer; others see it until then."""
        self.peer.send(one(CREATE, 1))
        data = [b"a" * 50_000, b"b" * 50_000]
        self.peer.send(single(1, data[0]) + single(1, data[1]))
        self.peer.wire.slow = True
        self.peer.send(one(TAKE, 1) + one(PEEK, 1) + single(1, b"new") + one(PEEK, 1))
        self.assertEqual(self.peek(1), b"".join(data))
        self.assertEqual(self.peer.take_all(), contents(b"".join(data)) + contents(b"") + contents(b"new"))
        self.assertEqual(self.peek(1), b"new")


class ReadersTests(FastStreamCase):
    """A take and those who read the same stream do not hurt each other."""

    def large(self) -> bytes:
        self.peer.send(one(CREATE, 1))
        data = [bytes((65 + number % 26,)) * 5000 for number in range(200)]
        for record in data:
            self.peer.send(single(1, record))
        return b"".join(data)

    def slow_read(self) -> Peer:
        reader = self.rig.connect()
        reader.wire.slow = True
        reader.send(one(PEEK, 1))
        return reader

    def test_take_while_others_read(self) -> None:
        """Who reads goes on to the end; for others it is gone at once, and after a restart too."""
        data = self.large()
        reader = self.slow_read()
        self.assertEqual(self.peer.send(one(TAKE, 1)).take_all(), contents(data))
        self.assertEqual(self.peek(1), b"")
        self.assertEqual(self.peer.ask(single(1, b"later") + one(TAKE, 1)), contents(b"later"))
        self.assertEqual(reader.take_all(), contents(data))
        segment = self.rig.store.find("faststream/1")
        self.assertEqual((segment.first_number, segment.groups), (201, {}))

    def test_crash_while_others_read(self) -> None:
        """What was taken stays taken, although it could not be dropped before the daemon ended."""
        self.large()
        reader = self.slow_read()
        self.peer.send(one(TAKE, 1)).take_all()
        self.assertEqual(self.rig.store.find("faststream/1").first_number, 0)
        # What a crash leaves is what is committed now.
        crashed = shutil.copytree(self.directory, self.directory + "-crashed")
        rig = Rig(crashed, make_factory=FastStreamFactory)
        self.addCleanup(rig.close)
        self.assertEqual(rig.connect().ask(one(PEEK, 1) + one(TAKE, 1)), contents(b"") * 2)
        self.assertFalse(reader.closed)

    def test_reader_that_stops(self) -> None:
        """A reader for whom alone something is kept, and who takes nothing, is cut off in time."""
        self.large()
        reader = self.slow_read()
        self.rig.advance(1000)
        self.assertFalse(reader.closed)
        self.peer.send(one(TAKE, 1)).take_all()
        self.rig.advance(29)
        self.assertFalse(reader.closed)
        self.rig.advance(2)
        self.assertTrue(reader.aborted)
        self.assertEqual(self.rig.store.find("faststream/1").first_number, 200)

    def test_taker_that_stops(self) -> None:
        """A taker that takes nothing is cut off once somebody waits; those who wait get it, in their order."""
        data = self.large()
        self.peer.wire.slow = True
        self.peer.send(one(TAKE, 1))
        self.rig.advance(1000)
        second, third = self.rig.connect(), self.rig.connect()
        second.send(one(TAKE, 1))
        third.send(one(TAKE, 1))
        self.rig.advance(31)
        self.assertTrue(self.peer.aborted)
        self.assertEqual(second.take_all() + third.take_all(), contents(data) + contents(b""))

    def test_who_waits_may_go(self) -> None:
        """One that drops while it waits is no longer in anybody's way."""
        data = self.large()
        self.peer.wire.slow = True
        self.peer.send(one(TAKE, 1))
        waiting = [self.rig.connect() for _ in range(3)]
        for peer in waiting:
            peer.send(one(TAKE, 1))
        waiting[0].drop()
        self.peer.drop()
        self.assertEqual(waiting[1].take_all() + waiting[2].take_all(), contents(data) + contents(b""))


class UnreadableTests(FastStreamCase):
    """Contents that can't be read."""

    def test_closes(self) -> None:
        """The connection is closed behind what came before, nobody gets anything else, and no stream stays locked."""
        self.peer.send(one(CREATE, 1) + one(CREATE, 2) + single(1, b"damaged") + single(2, b"sound"))
        damage(self.directory, b"damaged", b"dam-ged")
        for asked in (PEEK, TAKE):
            peer = self.rig.connect()
            self.assertEqual(peer.send(PING + one(asked, 1) + PING).take_all(), PONG)
            self.assertTrue(peer.closed)
        self.assertEqual(self.peer.ask(one(TAKE, 2)), contents(b"sound"))
        damage(self.directory, b"dam-ged", b"damaged")
        self.assertEqual(self.peer.ask(one(TAKE, 1)), contents(b"damaged"))


def damage(directory: str, before: bytes, after: bytes) -> None:
    """Change bytes in the journal, behind the daemon's back."""
    for path in pathlib.Path(directory).rglob("*"):
        if path.is_file() and before in (data := path.read_bytes()):
            with path.open("r+b") as file:
                file.seek(data.index(before))
                file.write(after)
