"""Every protocol counts what it stores and reads, what it is refused, and whom it cuts off."""

from __future__ import annotations

from itertools import count
from typing import Any

from twisted.internet.testing import EventLoggingObserver
from twisted.logger import LogLevel, globalLogPublisher

from streamd.settings import Limits
from streamd.store.records.offsets import EVENT_HEADER_BYTES
from tests.protocols.laws.description import LIMITS
from tests.protocols.laws.every import BOTH, PROTOCOLS, READING, WRITING, Law, every
from tests.protocols.laws.sesp import Sesp
from tests.rigs.protocols.rig import Peer

RECORDS = [b"one", b"twelve bytes", b"3" * 1000]


class _Counted(Law):
    limits: Limits = LIMITS

    def setUp(self) -> None:
        self.rig = self.spoken.rig(self.mktemp(), limits=self.limits, make_factory=self.spoken.factory)
        self.addCleanup(self.rig.close)
        self.peer = (self.spoken.writer or self.spoken)()
        self.traffic = self.rig.load.traffic_of(self.spoken.name)

    def open(self) -> Peer:
        """A connection that can write."""
        connection = self.rig.connect()
        connection.ask(self.peer.prepare().asked)
        connection.ask(self.peer.open().asked)
        return connection

    def connect(self) -> Peer:
        """One that has begun, and can break the protocol."""
        connection = self.rig.connect()
        connection.ask(self.spoken.hello.asked)
        return connection


@every(READING)
class Counted(_Counted):
    """What goes through is counted under the protocol's own name."""

    def test_appended_and_read(self) -> None:
        """Records and their bytes are counted when they are on disk, and again when they are read."""
        connection = self.open()
        self.assertEqual(list(self.rig.load.traffic), [self.spoken.name])
        # Some protocols prepare with a record of their own.
        records, bytes = self.traffic.appended_records, self.traffic.appended_bytes
        self.rig.held = True
        for record in RECORDS:
            connection.send(self.peer.write(record).asked)
        self.assertEqual(self.traffic.appended_records, records, "before it is on disk")
        self.rig.release()
        segment = self.rig.store.find(self.spoken.segment)
        stored = segment.offset - segment.first_offset - EVENT_HEADER_BYTES * len(RECORDS)
        self.assertEqual(self.traffic.appended_records, records + len(RECORDS))
        self.assertEqual(self.traffic.appended_bytes, bytes + stored)
        self.assertGreaterEqual(stored, sum(map(len, RECORDS)))
        connection.take_all()
        if self.spoken.writer is not None:
            connection = self.rig.connect()
        connection.send(self.spoken().fetch(RECORDS).asked)
        connection.take_all()
        self.assertEqual(self.traffic.read_records, len(RECORDS))
        self.assertGreaterEqual(self.traffic.read_bytes, stored)
        self.assertEqual(self.traffic.connections_cut_off.total(), 0)


@every(WRITING)
class CountedWrites(_Counted):
    """What can't be stored is counted too."""

    def test_full(self) -> None:
        """What finds no room is refused with its reason, and is not counted as stored."""
        connection = self.open()
        connection.send(self.peer.write(b"there is room").asked)
        segment = self.rig.store.find(self.spoken.segment)
        before = self.traffic.appended_records - segment.number
        failed = self.rig.store.counted.failed
        self.rig.disk.full = True
        for _ in range(80):
            connection.send(self.peer.write(b"x" * self.spoken.record_bytes_max).asked)
            if self.traffic.requests_refused.total():
                break
        self.assertIn("store_read_only", self.traffic.requests_refused)
        self.assertEqual(self.rig.store.counted.failed, failed + 1)
        self.assertEqual(self.traffic.appended_records - segment.number, before)

    def test_full_is_said_once(self) -> None:
        """However often its peers come back to a full disk, to write or to take, the log has one line of it."""
        self.open().send(self.peer.write(b"there is room").asked)
        events: Any = EventLoggingObserver()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        self.rig.disk.full = True
        for number in count(1):
            peer = self.spoken(number)
            self.rig.connect().send(peer.open().asked + peer.write(b"x" * self.spoken.record_bytes_max).asked)
            if self.rig.store.read_only:
                break
        for number in range(1000, 1020):
            peer = self.spoken(number)
            taken = [peer.fetch([b"there is room"])] if self.spoken in BOTH else []
            for exchange in (peer.write(b"x" * 100), *taken):
                connection = self.rig.connect()
                connection.send(peer.open().asked)
                connection.send(exchange.asked)
                connection.take_all()
                connection.drop()
            self.rig.advance(1)
        said = [event for event in events if event["log_level"] >= LogLevel.info]
        self.assertEqual([event["log_format"] for event in said if "the disk is full" not in event["log_format"]], [])
        self.assertEqual(len(said), 1)


@every(PROTOCOLS)
class CountedConnections(_Counted):
    """Connections are counted under the protocol's own name."""

    def test_connections(self) -> None:
        """Connections are counted while they are there, and for good."""
        connections = [self.rig.connect() for _ in range(3)]
        self.assertEqual((self.traffic.connections, self.traffic.connected), (3, 3))
        connections[0].drop()
        self.assertEqual((self.traffic.connections, self.traffic.connected), (2, 3))


@every(PROTOCOLS)
class CutOff(_Counted):
    """Whom the daemon leaves is counted with the reason."""

    def test_broken(self) -> None:
        """A broken frame. All that breaks a protocol of lines is one that is too long."""
        self.connect().send(self.spoken.breaches[0].frame)
        self.assertEqual(+self.traffic.connections_cut_off, {"line_bytes" if self.spoken is Sesp else "broken": 1})

    def test_overdue(self) -> None:
        """A frame without an end."""
        self.connect().send(self.spoken.begun[0])
        self.rig.advance(2 * self.limits.frame_seconds_max)
        self.assertEqual(+self.traffic.connections_cut_off, {"overdue": 1})

    def test_http(self) -> None:
        """A browser."""
        self.rig.connect().send(b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(+self.traffic.connections_cut_off, {"http": 1})


@every(WRITING)
class CutOffWriter(_Counted):
    """So is who writes too much."""

    def test_too_large(self) -> None:
        """A message over the limit."""
        self.open().send(self.peer.write(b"x" * (self.spoken.record_bytes_max + 1)).asked)
        limit = "line_bytes" if self.spoken is Sesp else "message_bytes"
        self.assertEqual(+self.traffic.connections_cut_off, {limit: 1})
