"""The session for tools: every operation, what is refused, a reader and a writer that do not wait for each piece."""

from __future__ import annotations

import os
import pickle
from array import array

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import LENGTH_TYPE, Batch
from streamd.client import StorageClient
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken, Refused
from streamd.client.storage import Records, StorageRefused, StorageSession, StorageTruncated
from streamd.interfaces import Core
from streamd.protocols.factory import StreamFactory
from streamd.protocols.pravega import PravegaFactory, PravegaSettings
from streamd.wire import storage
from streamd.wire.fields import to_bytes
from streamd.wire.storage import LevelChange, Part, Run
from tests.client.driver import Driver, SessionCase
from tests.daemon import Daemon

LIMIT = 64 << 20
WRITER = b"w" * 16
ROUNDS = 3


class StorageCase(SessionCase):
    def make_factory(self, core: Core) -> StreamFactory:
        return PravegaFactory(core, PravegaSettings())

    def setUp(self) -> None:
        super().setUp()
        self.client = self.drive(StorageSession(LIMIT))
        self.session = self.client.session

    def runs(
        self, driver: Driver[StorageSession], segment: int, first: int, end: int | None, bytes_max: int = 1 << 20
    ) -> list[Run]:
        reading = Records(driver.session, segment, first, end, bytes_max)
        found: list[Run] = []
        while runs := driver.run(reading._some()):
            found += runs
        return found

    def records(self, segment: int, first: int = 0, end: int | None = None, bytes_max: int = 1 << 20) -> list[bytes]:
        return plain(self.runs(self.client, segment, first, end, bytes_max))


def plain(runs: list[Run]) -> list[bytes]:
    return [bytes(record) for run in runs for record in run.batch.records()]


class SessionTests(StorageCase):
    def test_segments(self) -> None:
        """Made, listed, named and described, however the replies are cut."""
        for at, driver in enumerate(self.each_size(lambda: StorageSession(LIMIT))):
            session = driver.session
            made = driver.run(session.create(f"grüße {at}"))
            self.assertEqual(driver.run(session.create(f"grüße {at}", exists_ok=True)), made)
            self.assertEqual(driver.run(session.segments(f"*{at}")), [made])
            self.assertEqual(driver.run(session.named(["none", made.name])), [made])
            self.assertEqual(driver.run(session.segment(made.name)), made)
            self.assertEqual(driver.run(session.segment(made.id)), made)
            self.assertFalse(session.is_waiting)

    def test_many_segments(self) -> None:
        """More than one answer holds are one list."""
        for number in range(10_001):
            self.rig.store.create(f"{number}")
        self.rig.run()
        found = self.client.run(self.session.segments())
        self.assertEqual([each.name for each in found], [f"{number}" for number in range(10_001)])

    def test_refused(self) -> None:
        """The daemon's word is the reason, the connection goes on, and the error crosses process borders."""
        session = self.session
        self.client.run(session.create("s"))
        for steps, reason in (
            (session.create("s"), "SegmentExists"),
            (session.create(""), "BadName"),
            (session.segment("t"), "NoSuchSegment"),
            (session.segment(12345), "NoSuchSegment"),
            (session.offset_of(1, 99), "BadRequest"),
        ):
            error = self.assertRaises(StorageRefused, self.client.run, steps)
            self.assertEqual(error.reason, reason)
            self.assertIsInstance(error, Refused)
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), again.reason), (StorageRefused, str(error), reason))

    def test_places(self) -> None:
        """Numbers, offsets, times, and where to cut."""
        segment = self.client.run(self.session.create("s")).id
        self.rig.publish("s", *[b"0123456789ab"] * 1000)
        self.assertEqual(self.client.run(self.session.offset_of(segment, 7)), 140)
        self.assertEqual(self.client.run(self.session.number_of(segment, 159)), 7)
        self.assertEqual(self.client.run(self.session.number_at(segment, 0)), 0)
        self.assertEqual(self.client.run(self.session.number_at(segment, 1 << 60)), 1000)
        self.assertEqual(self.client.run(self.session.split_points(segment, 0, 1000, 4)), [250, 500, 750])

    def test_groups_and_levels(self) -> None:
        """None where there is none."""
        segment = self.client.run(self.session.create("s")).id
        self.rig.publish("s", b"x", b"y")
        self.assertIsNone(self.client.run(self.session.group(segment, "g")))
        self.assertEqual(self.client.run(self.session.set_group(segment, "g", 2)), 2)
        self.assertEqual(self.client.run(self.session.group(segment, "g")), 2)
        self.assertIsNone(self.client.run(self.session.level(segment, WRITER)))
        self.assertTrue(self.client.run(self.session.publish([], [LevelChange(segment, WRITER, 0, 9)])))
        self.assertEqual(self.client.run(self.session.level(segment, WRITER)), 9)
        self.assertFalse(self.client.run(self.session.publish([], [LevelChange(segment, WRITER, 0, 9)])))

    def test_no_answer_of_ours(self) -> None:
        """A reply to something else, or of another kind, ends the connection."""
        for reply in (storage.RecordsAppended(99, 1), storage.RecordsAppended(1, 1)):
            session = StorageSession(LIMIT)
            steps = session.segment(1)
            answer = next(steps)
            session.receive(to_bytes(reply))
            self.assertTrue(answer.done)
            self.assertRaises(ProtocolBroken, answer.result)
            self.assertIsInstance(session.error, ProtocolBroken)


class ReadTests(StorageCase):
    def test_ranges(self) -> None:
        """Any range, in pieces of any size, is the records of it and no others."""
        segment = self.client.run(self.session.create("s")).id
        records = [b"%d" % number for number in range(60)]
        for at in range(0, 60, 20):
            self.rig.publish("s", *records[at : at + 20])
        for bytes_max in (1, 30, 1 << 20):
            for first, end in ((0, None), (0, 60), (7, 33), (59, 60), (60, None), (5, 5), (9, 5)):
                expected = records[first:] if end is None else records[first:end]
                self.assertEqual(self.records(segment, first, end, bytes_max), expected)

    def test_end_is_fixed(self) -> None:
        """Without an end it reads what there was when it began, whatever comes meanwhile."""
        segment = self.client.run(self.session.create("s")).id
        self.rig.publish("s", b"1", b"2", b"3")
        reading = Records(self.session, segment, 0, None, 1)
        found = list(self.client.run(reading._some()))
        self.rig.publish("s", b"4")
        while runs := self.client.run(reading._some()):
            found += runs
        self.assertEqual(plain(found), [b"1", b"2", b"3"])

    def test_too_far(self) -> None:
        """Fewer records than were asked for are an error, and not an end."""
        segment = self.client.run(self.session.create("s")).id
        self.rig.publish("s", b"1", b"2", b"3")
        error = self.assertRaises(ClientError, self.records, segment, 0, 4)
        self.assertIn("up to 3, not up to 4", str(error))

    def test_gone(self) -> None:
        """Truncated is told with what is there, deleted as such, also in the middle."""
        segment = self.client.run(self.session.create("s")).id
        self.rig.publish("s", b"1", b"2", b"3")
        reading = Records(self.session, segment, 0, None, 1)
        self.client.run(reading._some())
        self.client.run(reading._some())
        self.rig.store.truncate(self.rig.store.find("s"), 2)
        self.rig.run()
        error = self.assertRaises(StorageTruncated, self.records, segment, 1)
        self.assertEqual((error.number, error.offset), (2, 18))
        self.assertIsInstance(pickle.loads(pickle.dumps(error)), StorageTruncated)
        self.rig.store.delete(self.rig.store.find("s"))
        self.rig.run()
        gone = self.assertRaises(StorageRefused, self.records, segment, 2)
        self.assertEqual(gone.reason, "NoSuchSegment")

    def test_cut(self) -> None:
        """Replies in small pieces give the same."""
        segment = self.client.run(self.session.create("s")).id
        self.rig.publish("s", *[b"x" * number for number in range(50)])
        for driver in self.each_size(lambda: StorageSession(LIMIT)):
            self.assertEqual(plain(self.runs(driver, segment, 0, 50, 100)), [b"x" * number for number in range(50)])


class WriteTests(StorageCase):
    def test_append(self) -> None:
        """Batches of any size, the largest in pieces, are on disk after `flush`."""
        segment = self.client.run(self.session.create("s")).id
        hidden = self.client.run(self.session.create_hidden("h"))
        large = [bytes([number]) * 700_000 for number in range(10)]
        number = self.client.run(self.session.append(hidden, 0, Batch.of([b"one", b"two"])))
        number = self.client.run(self.session.append(hidden, number, Batch.of([])))
        number = self.client.run(self.session.append(hidden, number, Batch.of(large)))
        empty = Batch(array(LENGTH_TYPE, [0]) * (storage.RECORDS_MAX + 5), b"")
        number = self.client.run(self.session.append(hidden, number, empty))
        self.client.run(self.session.flush())
        self.assertEqual(self.rig.store.find_hidden("h").number, number)
        self.assertTrue(self.client.run(self.session.publish([Part(hidden, segment)])))
        self.assertEqual(self.records(segment, 0, 12), [b"one", b"two", *large])
        self.assertEqual(number, 12 + empty.count)

    def test_refused_later(self) -> None:
        """What is refused is told by a later append, or by `flush`."""
        hidden = self.client.run(self.session.create_hidden("h"))
        self.assertEqual(self.client.run(self.session.delete_hidden([hidden, 9999])), 1)
        self.client.run(self.session.append(hidden, 0, Batch.of([b"x"])))
        error = self.assertRaises(StorageRefused, self.client.run, self.session.flush())
        self.assertEqual(error.reason, "NoSuchSegment")
        self.client.run(self.session.flush())

    def test_replace(self) -> None:
        """A name that is taken is refused, unless it is to be replaced."""
        first = self.client.run(self.session.create_hidden("h"))
        self.assertRaises(StorageRefused, self.client.run, self.session.create_hidden("h"))
        self.assertNotEqual(self.client.run(self.session.create_hidden("h", replace=True)), first)


class KillTests(SynchronousTestCase):
    """A real daemon, killed."""

    def test_publish_is_atomic(self) -> None:
        """Killed with a publication on its way, in each round: all of it is there or nothing, and in the end once."""
        with Daemon(os.path.abspath(self.mktemp())) as daemon:
            with self.connect(daemon) as client:
                targets = [client.create(name).id for name in ("a", "b")]
            for batch in range(ROUNDS):
                self.assertFalse(self.publish(daemon, targets, batch, kill=True))
                daemon.start()
                with self.connect(daemon) as client:
                    counts = {client.segment(target).records for target in targets}
                    self.assertEqual(counts, {100 * (client.level(targets[0], WRITER) or 0)})
                    self.assertIn(counts, ({100 * batch}, {100 * (batch + 1)}))
                self.assertTrue(self.publish(daemon, targets, batch, kill=False))
            with self.connect(daemon) as client:
                for target in targets:
                    records = plain(list(client.read(target, 0)))
                    self.assertEqual(
                        records, [b"%d:%d" % (batch, row) for batch in range(ROUNDS) for row in range(100)]
                    )
            self.assertEqual(daemon.terminate(), 0, daemon.output)

    def publish(self, daemon: Daemon, targets: list[int], batch: int, *, kill: bool) -> bool:
        """Write and publish one batch, as after a crash too; whether that was told to be done."""
        try:
            with self.connect(daemon) as client:
                parts = [Part(client.create_hidden(f"h{target}", replace=True), target) for target in targets]
                for part in parts:
                    client.append(part.hidden, 0, Batch.of([b"%d:%d" % (batch, row) for row in range(100)]))
                client.flush()
                if kill:
                    # The request is on its way when the daemon dies.
                    steps = client._session.publish(parts, [LevelChange(targets[0], WRITER, batch, batch + 1)])
                    next(steps)
                    client._connection._send_all()
                    daemon.kill()
                client.publish(parts, [LevelChange(targets[0], WRITER, batch, batch + 1)])
        except ConnectionLost:
            return False
        return True

    def connect(self, daemon: Daemon) -> StorageClient:
        return StorageClient(f"127.0.0.1:{daemon.port('pravega')}")
