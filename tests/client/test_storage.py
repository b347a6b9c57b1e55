"""The client for tools: every command, what is refused, a reader and a writer that do not wait for each piece."""

from __future__ import annotations

import os
import pickle
from array import array

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import LENGTH_TYPE, Batch
from streamd.client import StorageClient, asynchronous
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken, Refused
from streamd.client.storage import StorageRefused, StorageTruncated
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from streamd.wire import tools as storage
from streamd.wire.fields import to_bytes
from streamd.wire.tools import LevelChange, Part, Run
from tests.rigs.client.peers import begin_publication
from tests.rigs.client.rig import ClientCase
from tests.rigs.daemon import Daemon

REPLY_BYTES_MAX = 64 << 20
WRITER = b"w" * 16
ROUNDS = 3


class StorageCase(ClientCase):
    def make_factory(self, core: Core) -> StreamFactory:
        return PravegaFactory(core, PravegaSettings())

    def setUp(self) -> None:
        super().setUp()
        self.driven = self.drive(asynchronous.StorageClient, reply_bytes_max=REPLY_BYTES_MAX)
        self.client = self.driven.client

    def records(self, segment: int, first: int = 0, end: int | None = None, bytes_max: int = 1 << 20) -> list[bytes]:
        return plain(self.driven.everything(self.client.read(segment, first, end, bytes_max=bytes_max)))


def plain(runs: list[Run]) -> list[bytes]:
    return [bytes(record) for run in runs for record in run.batch.records()]


class SessionTests(StorageCase):
    def test_segments(self) -> None:
        """Made, listed, named and described, however the replies are cut."""
        for at, driven in enumerate(self.each_size(asynchronous.StorageClient)):
            client = driven.client
            made = driven.run(client.create(f"grüße {at}"))
            self.assertEqual(driven.run(client.create(f"grüße {at}", exists_ok=True)), made)
            self.assertEqual(driven.run(client.segments(f"*{at}")), [made])
            self.assertEqual(driven.run(client.named(["none", made.name])), [made])
            self.assertEqual(driven.run(client.segment(made.name)), made)
            self.assertEqual(driven.run(client.segment(made.id)), made)
            self.assertFalse(client._session.is_waiting)

    def test_many_segments(self) -> None:
        """More than one answer holds are one list."""
        for number in range(10_001):
            self.rig.store.create(f"{number}")
        self.rig.run()
        found = self.driven.run(self.client.segments())
        self.assertEqual([each.name for each in found], [f"{number}" for number in range(10_001)])

    def test_refused(self) -> None:
        """The daemon's word is the reason, the connection goes on, and the error crosses process borders."""
        client = self.client
        self.driven.run(client.create("s"))
        for operation, reason in (
            (client.create("s"), "SegmentExists"),
            (client.create(""), "BadName"),
            (client.segment("t"), "NoSuchSegment"),
            (client.segment(12345), "NoSuchSegment"),
            (client.offset_of(1, 99), "BadRequest"),
        ):
            error = self.assertRaises(StorageRefused, self.driven.run, operation)
            self.assertEqual(error.reason, reason)
            self.assertIsInstance(error, Refused)
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), again.reason), (StorageRefused, str(error), reason))

    def test_places(self) -> None:
        """Numbers, offsets, times, and where to cut."""
        segment = self.driven.run(self.client.create("s")).id
        self.rig.publish("s", *[b"0123456789ab"] * 1000)
        self.assertEqual(self.driven.run(self.client.offset_of(segment, 7)), 140)
        self.assertEqual(self.driven.run(self.client.number_of(segment, 159)), 7)
        self.assertEqual(self.driven.run(self.client.number_at(segment, 0)), 0)
        self.assertEqual(self.driven.run(self.client.number_at(segment, 1 << 60)), 1000)
        self.assertEqual(self.driven.run(self.client.split_points(segment, 0, 1000, 4)), [250, 500, 750])

    def test_groups_and_levels(self) -> None:
        """None where there is none."""
        segment = self.driven.run(self.client.create("s")).id
        self.rig.publish("s", b"x", b"y")
        self.assertIsNone(self.driven.run(self.client.group(segment, "g")))
        self.assertEqual(self.driven.run(self.client.set_group(segment, "g", 2)), 2)
        self.assertEqual(self.driven.run(self.client.group(segment, "g")), 2)
        self.assertIsNone(self.driven.run(self.client.level(segment, WRITER)))
        self.assertTrue(self.driven.run(self.client.publish([], [LevelChange(segment, WRITER, 0, 9)])))
        self.assertEqual(self.driven.run(self.client.level(segment, WRITER)), 9)
        self.assertFalse(self.driven.run(self.client.publish([], [LevelChange(segment, WRITER, 0, 9)])))

    def test_no_answer_of_ours(self) -> None:
        """A reply to something else, or of another kind, ends the connection."""
        for reply in (storage.RecordsAppended(99, 1), storage.RecordsAppended(1, 1)):
            driven = self.drive(asynchronous.StorageClient)
            driven.run(driven.client.connect())
            asking = driven.begin(driven.client.segment(1))
            driven.wire.protocol.dataReceived(to_bytes(reply))
            self.failureResultOf(asking, ProtocolBroken)
            self.assertTrue(driven.client.is_closed)


class ReadTests(StorageCase):
    def test_ranges(self) -> None:
        """Any range, in pieces of any size, is the records of it and no others."""
        segment = self.driven.run(self.client.create("s")).id
        records = [b"%d" % number for number in range(60)]
        for at in range(0, 60, 20):
            self.rig.publish("s", *records[at : at + 20])
        for bytes_max in (1, 30, 1 << 20):
            for first, end in ((0, None), (0, 60), (7, 33), (59, 60), (60, None), (5, 5), (9, 5)):
                expected = records[first:] if end is None else records[first:end]
                self.assertEqual(self.records(segment, first, end, bytes_max), expected)

    def test_end_is_fixed(self) -> None:
        """Without an end it reads what there was when it began, whatever comes meanwhile."""
        segment = self.driven.run(self.client.create("s")).id
        self.rig.publish("s", b"1", b"2", b"3")
        reading = self.client.read(segment, 0, bytes_max=1)
        first = self.driven.run(anext(reading))
        self.rig.publish("s", b"4")
        self.assertEqual(plain([first, *self.driven.everything(reading)]), [b"1", b"2", b"3"])

    def test_too_far(self) -> None:
        """Fewer records than were asked for are an error, and not an end."""
        segment = self.driven.run(self.client.create("s")).id
        self.rig.publish("s", b"1", b"2", b"3")
        error = self.assertRaises(ClientError, self.records, segment, 0, 4)
        self.assertIn("up to 3, not up to 4", str(error))

    def test_gone(self) -> None:
        """Truncated is told with what is there, deleted as such, also in the middle."""
        segment = self.driven.run(self.client.create("s")).id
        self.rig.publish("s", b"1", b"2", b"3")
        reading = self.client.read(segment, 0, bytes_max=1)
        self.driven.run(anext(reading))
        self.driven.run(anext(reading))
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
        segment = self.driven.run(self.client.create("s")).id
        self.rig.publish("s", *[b"x" * number for number in range(50)])
        for driven in self.each_size(asynchronous.StorageClient):
            runs = driven.everything(driven.client.read(segment, 0, 50, bytes_max=100))
            self.assertEqual(plain(runs), [b"x" * number for number in range(50)])


class WriteTests(StorageCase):
    def test_append(self) -> None:
        """Batches of any size, the largest in pieces, are on disk after `flush`."""
        segment = self.driven.run(self.client.create("s")).id
        hidden = self.driven.run(self.client.create_hidden("h"))
        large = [bytes([number]) * 700_000 for number in range(10)]
        number = self.driven.run(self.client.append(hidden, 0, Batch.of([b"one", b"two"])))
        number = self.driven.run(self.client.append(hidden, number, Batch.of([])))
        number = self.driven.run(self.client.append(hidden, number, Batch.of(large)))
        empty = Batch(array(LENGTH_TYPE, [0]) * (storage.RECORDS_MAX + 5), b"")
        number = self.driven.run(self.client.append(hidden, number, empty))
        self.driven.run(self.client.flush())
        self.assertEqual(self.rig.store.find_hidden("h").number, number)
        self.assertTrue(self.driven.run(self.client.publish([Part(hidden, segment)])))
        self.assertEqual(self.records(segment, 0, 12), [b"one", b"two", *large])
        self.assertEqual(number, 12 + empty.count)

    def test_refused_later(self) -> None:
        """What is refused is told by a later append, or by `flush`."""
        hidden = self.driven.run(self.client.create_hidden("h"))
        self.assertEqual(self.driven.run(self.client.delete_hidden([hidden, 9999])), 1)
        self.driven.run(self.client.append(hidden, 0, Batch.of([b"x"])))
        error = self.assertRaises(StorageRefused, self.driven.run, self.client.flush())
        self.assertEqual(error.reason, "NoSuchSegment")
        self.driven.run(self.client.flush())

    def test_replace(self) -> None:
        """A name that is taken is refused, unless it is to be replaced."""
        first = self.driven.run(self.client.create_hidden("h"))
        self.assertRaises(StorageRefused, self.driven.run, self.client.create_hidden("h"))
        self.assertNotEqual(self.driven.run(self.client.create_hidden("h", replace=True)), first)


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
                    begin_publication(client, parts, [LevelChange(targets[0], WRITER, batch, batch + 1)])
                    daemon.kill()
                client.publish(parts, [LevelChange(targets[0], WRITER, batch, batch + 1)])
        except ConnectionLost:
            return False
        return True

    def connect(self, daemon: Daemon) -> StorageClient:
        return StorageClient(f"127.0.0.1:{daemon.port('pravega')}")
