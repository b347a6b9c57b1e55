"""The sessions of Pravega: segments, events from an offset on, and a writer that sends again just what is missing."""

from __future__ import annotations

from uuid import UUID

from streamd.client.backlog import Backlog, Patience, WriterSession
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken, Refused
from streamd.client.pravega import PravegaSession, Reading, Truncated
from streamd.interfaces import Core
from streamd.protocols.factory import StreamFactory
from streamd.protocols.pravega import PravegaFactory, PravegaSettings
from streamd.wire.pravega import Name, Type, append_setup, data_appended, named
from tests.client.driver import Driver, SessionCase

LIMIT = 1 << 20
WRITER = UUID(int=7)


class PravegaCase(SessionCase):
    def make_factory(self, core: Core) -> StreamFactory:
        return PravegaFactory(core, PravegaSettings())

    def setUp(self) -> None:
        super().setUp()
        self.client = self.drive(PravegaSession(LIMIT))
        self.client.run(self.client.session.create("s"))

    def writer(self, backlog: Backlog, segment: str = "s") -> Driver[WriterSession]:
        return self.drive(WriterSession(LIMIT, segment, backlog))

    def write(self, backlog: Backlog, events: list[bytes]) -> Driver[WriterSession]:
        """Write these, and wait until they are on disk."""
        writer = self.writer(backlog)
        backlog.add(events)
        writer.run(writer.session.settle(0))
        return writer

    def stored(self, segment: str = "s") -> list[bytes]:
        """All events of a segment."""
        return self.events(Reading(self.client.session, segment, 0, wait=False))

    def events(self, reading: Reading, driver: Driver[PravegaSession] | None = None) -> list[bytes]:
        found: list[bytes] = []
        while (driver or self.client).run(reading._fill()):
            while (event := reading._next()) is not None:
                found.append(event)
        return found


class ReadTests(PravegaCase):
    def test_segment(self) -> None:
        """A segment is made once; one that is not there can't be read."""
        error = self.assertRaises(Refused, self.client.run, self.client.session.create("s"))
        self.assertEqual(error.reason, "SegmentAlreadyExists")
        error = self.assertRaises(Refused, self.client.run, self.client.session.read("t", 0))
        self.assertEqual(error.reason, "NoSuchSegment")
        self.client.run(self.client.session.ping())

    def test_events(self) -> None:
        """Events come out as they went in, from the beginning or from where one begins, however they are cut."""
        events = [b"%d" % number * (number % 50) for number in range(500)]
        self.write(Backlog(WRITER, replay=False), events)
        self.assertEqual(self.stored(), events)
        for piece_bytes in (1 << 20, 1000, 1):
            driver = self.drive(PravegaSession(LIMIT), piece_bytes)
            offset = sum(8 + len(event) for event in events[:123])
            reading = Reading(driver.session, "s", offset, wait=False)
            self.assertEqual(self.events(reading, driver), events[123:])
            self.assertEqual(reading.offset, self.rig.store.find("s").offset)

    def test_large(self) -> None:
        """More than one answer holds, and events larger than one piece."""
        events = [bytes([number]) * 300_000 for number in range(20)]
        backlog = Backlog(WRITER, replay=False)
        for event in events:
            self.write(backlog, [event])
        self.assertEqual(self.stored(), events)

    def test_offset(self) -> None:
        """The reader's offset is where the next event begins, event by event."""
        self.write(Backlog(WRITER, replay=False), [b"one", b"", b"three"])
        reading = Reading(self.client.session, "s", 0, wait=False)
        self.client.run(reading._fill())
        offsets = [reading.offset]
        while reading._next() is not None:
            offsets.append(reading.offset)
        self.assertEqual(offsets, [0, 11, 19, 32])

    def test_waits(self) -> None:
        """At the tail a reader waits, also longer than the daemon does; other requests go on meanwhile."""
        reading = Reading(self.client.session, "s", 0, wait=True)
        steps = reading._fill()
        answer = next(steps)
        self.client.turn()
        self.rig.advance(11)
        self.client.take()
        self.assertTrue(answer.done)
        answer = next(steps)
        self.client.turn()
        self.client.run(self.client.session.ping())
        self.assertFalse(answer.done)
        self.write(Backlog(WRITER, replay=False), [b"late"])
        self.client.take()
        self.assertTrue(self.client.run(steps))
        self.assertEqual(reading._next(), b"late")

    def test_stops(self) -> None:
        """One that does not wait stops at the tail, and goes on from there when it is asked again."""
        backlog = Backlog(WRITER, replay=False)
        reading = Reading(self.client.session, "s", 0, wait=False)
        for event in (b"one", b"two"):
            self.write(backlog, [event])
            self.assertEqual(self.events(reading), [event])

    def test_sealed(self) -> None:
        """The end of a sealed segment is the end."""
        self.write(Backlog(WRITER, replay=False), [b"last"])
        self.rig.store.seal(self.rig.store.find("s"))
        self.rig.run()
        self.assertEqual(self.events(Reading(self.client.session, "s", 0, wait=True)), [b"last"])

    def test_truncated(self) -> None:
        """What is gone is said to be gone, and where the rest begins."""
        self.write(Backlog(WRITER, replay=False), [b"one", b"two"])
        self.rig.store.truncate(self.rig.store.find("s"), 1)
        self.rig.run()
        error = self.assertRaises(Truncated, self.events, Reading(self.client.session, "s", 0, wait=True))
        self.assertEqual(error.first_offset, 11)
        self.assertEqual(self.events(Reading(self.client.session, "s", 11, wait=False)), [b"two"])

    def test_no_event(self) -> None:
        """An offset inside an event is found out."""
        self.write(Backlog(WRITER, replay=False), [b"one", b"\1\2\3\4\5\6\7\10"])
        self.assertRaises(ProtocolBroken, self.events, Reading(self.client.session, "s", 19, wait=False))
        self.assertRaises(ValueError, self.events, Reading(self.client.session, "s", -1, wait=False))


class WriterTests(PravegaCase):
    def test_resend(self) -> None:
        """After a lost connection just what is above the level is sent again."""
        backlog = Backlog(WRITER, replay=False)
        first = self.write(backlog, [b"one"])
        # The next two are stored, and the connection is gone before anybody says so.
        backlog.add([b"two"])
        backlog.add([b"three"])
        for _ in first.session.settle(0):
            break
        first.peer.send(first.session.outgoing())
        first.session.lost(ConnectionLost("gone"))
        first.peer.drop()
        backlog.add([b"four"])
        second = self.writer(backlog)
        second.run(second.session.settle(0))
        self.assertNotIn(b"three", second.sent)
        self.assertIn(b"four", second.sent)
        self.assertEqual(self.stored(), [b"one", b"two", b"three", b"four"])
        self.assertEqual((backlog.acknowledged, backlog.held_bytes), (backlog.end, 0))

    def test_nothing_arrived(self) -> None:
        """Where nothing arrived, everything is sent again."""
        backlog = Backlog(WRITER, replay=False)
        first = self.writer(backlog)
        backlog.add([b"one"])
        backlog.add([b"two"])
        first.session.lost(ConnectionLost("gone"))
        second = self.writer(backlog)
        second.run(second.session.settle(0))
        self.assertEqual(self.stored(), [b"one", b"two"])

    def test_part_of_a_block(self) -> None:
        """A level inside a block: the events above it are sent, and not those below."""
        backlog = Backlog(WRITER, replay=True)
        session = WriterSession(LIMIT, "s", backlog)
        backlog.add([b"one", b"two", b"three"])
        steps = session.opening()
        next(steps)
        session.receive(append_setup(Name("s", b"s"), WRITER.bytes, 11))
        self.assertRaises(StopIteration, next, steps)
        session.outgoing()
        next(session.settle(0))
        sent = session.outgoing()
        self.assertNotIn(b"one", sent)
        self.assertIn(b"two", sent)
        session.receive(data_appended(WRITER.bytes, backlog.end))
        self.assertEqual(backlog.held_bytes, 0)

    def test_goes_on(self) -> None:
        """With the id of an earlier one a writer goes on behind what that one stored."""
        self.write(Backlog(WRITER, replay=False), [b"one"])
        backlog = Backlog(WRITER, replay=False)
        writer = self.writer(backlog)
        self.assertEqual((backlog.acknowledged, backlog.end), (11, 11))
        backlog.add([b"two"])
        writer.run(writer.session.settle(0))
        self.assertEqual(self.stored(), [b"one", b"two"])

    def test_replay(self) -> None:
        """One that is given everything again skips what is stored."""
        self.write(Backlog(WRITER, replay=False), [b"one", b"two"])
        backlog = Backlog(WRITER, replay=True)
        writer = self.writer(backlog)
        for event in (b"one", b"two", b"three"):
            backlog.add([event])
        writer.run(writer.session.settle(0))
        self.assertEqual(self.stored(), [b"one", b"two", b"three"])

    def test_replay_differs(self) -> None:
        """Where other events are given than were stored, that is found out where they end elsewhere."""
        self.write(Backlog(WRITER, replay=False), [b"one"])
        backlog = Backlog(WRITER, replay=True)
        self.writer(backlog)
        self.assertRaises(ClientError, backlog.add, [b"another"])

    def test_two_at_once(self) -> None:
        """Somebody else with the same id is found out at the next connection."""
        backlog = Backlog(WRITER, replay=False)
        self.write(backlog, [b"one"])
        self.write(Backlog(WRITER, replay=False), [b"somebody else's"])
        self.assertRaises(ClientError, self.writer, backlog)

    def test_segment_replaced(self) -> None:
        """A segment that was deleted and made again has lost what was acknowledged: that is said."""
        backlog = Backlog(WRITER, replay=False)
        self.write(backlog, [b"one"])
        self.rig.store.delete(self.rig.store.find("s"))
        self.rig.run()
        self.client.run(self.client.session.create("s"))
        self.assertRaises(ClientError, self.writer, backlog)

    def test_sealed(self) -> None:
        """A segment that is sealed under a writer refuses it, at once and at its next connection."""
        backlog = Backlog(WRITER, replay=False)
        writer = self.write(backlog, [b"one"])
        self.rig.store.seal(self.rig.store.find("s"))
        self.rig.run()
        backlog.add([b"two"])
        error = self.assertRaises(Refused, writer.run, writer.session.settle(0))
        self.assertEqual(error.reason, "SegmentIsSealed")
        self.assertEqual(self.assertRaises(Refused, self.writer, backlog).reason, "SegmentIsSealed")
        self.assertEqual(self.assertRaises(Refused, self.writer, backlog, "t").reason, "NoSuchSegment")

    def test_waits_when_full(self) -> None:
        """Settling waits until no more than is allowed is not acknowledged."""
        backlog = Backlog(WRITER, replay=False)
        writer = self.writer(backlog)
        self.rig.held = True
        backlog.add([bytes(1000)])
        backlog.add([bytes(1000)])
        steps = writer.session.settle(2000)
        answer = next(steps)
        writer.turn()
        self.assertFalse(answer.done)
        self.rig.release()
        writer.take()
        self.assertTrue(answer.done)
        self.assertRaises(StopIteration, next, steps)

    def test_too_large(self) -> None:
        """An event that no block can hold is refused before it is kept."""
        backlog = Backlog(WRITER, replay=True)
        self.assertRaises(ValueError, backlog.add, [bytes(16 << 20)])
        self.assertEqual((backlog.end, backlog.held_bytes), (0, 0))

    def test_nonsense(self) -> None:
        """A daemon that answers what nobody asked is given up."""
        session = PravegaSession(LIMIT)
        session.receive(named(Type.SEGMENT_CREATED, Name("s", b"s")))
        self.assertIsInstance(session.error, ProtocolBroken)


class PatienceTests(PravegaCase):
    def test_gives_up(self) -> None:
        """Later and later, up to a limit that begins again whenever something is stored."""
        backlog = Backlog(WRITER, replay=True)
        patience = Patience(10.0, backlog)
        error = ConnectionLost("gone")
        delays = [patience.delay(error, float(now)) for now in range(11)]
        self.assertLess(delays[0], delays[-1])
        self.assertLessEqual(max(delays), 2.0)
        backlog.acknowledge(1)
        self.assertLess(patience.delay(error, 11.0), 0.1)
        self.assertIs(self.assertRaises(ConnectionLost, patience.delay, error, 22.0), error)

    def test_no_daemon(self) -> None:
        """Who speaks something else won't speak this protocol later."""
        patience = Patience(10.0, Backlog(WRITER, replay=True))
        self.assertRaises(ProtocolBroken, patience.delay, ProtocolBroken("HTTP"), 0.0)
