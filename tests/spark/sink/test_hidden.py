"""Hidden segments of the sink against a real daemon: what a task and a driver do when connections are lost."""

from __future__ import annotations

import os
import socket
import threading
from array import array
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import LENGTH_TYPE, Batch
from streamd.client import StorageClient
from streamd.client.errors import ClientError, ProtocolBroken
from streamd.spark.sink.hidden import SINKS, UNACKNOWLEDGED_BYTES_MAX, Delivery, HiddenWriter
from streamd.wire.tools import PARTS_MAX, Part
from tests.rigs.daemon import Daemon
from tests.rigs.drivers.cluster import free_port
from tests.rigs.spark.sink.written import written

QUERY = UUID(int=5)


class HiddenTests(SynchronousTestCase):
    def setUp(self) -> None:
        endpoint = f"tcp:{free_port()}:interface=127.0.0.1"
        self.daemon = Daemon(os.path.abspath(self.mktemp()), "--pravega", endpoint)
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.server = f"127.0.0.1:{self.daemon.port('pravega')}"

    def write(self, name: str, *records: bytes, topic: str = "t") -> tuple[Part, ...]:
        with HiddenWriter(self.server, name, create_topics=True) as writer:
            for record in records:
                writer.append(topic, Batch.of([record]))
            return writer.finish()

    def written(self, topic: str = "t") -> list[bytes]:
        return written(self.server, topic)

    def test_once(self) -> None:
        """A level that is stored means that all is published: again, with new segments, into others, or with none."""
        parts = self.write("a", b"1", b"2")
        self.assertTrue(Delivery(self.server, parts).publish_once(QUERY, 1))
        self.assertFalse(Delivery(self.server, parts).publish_once(QUERY, 1))
        self.assertFalse(Delivery(self.server, self.write("b", b"1", topic="u")).publish_once(QUERY, 1))
        self.assertFalse(Delivery(self.server, []).publish_once(QUERY, 0))
        # The levels of batches may have gaps, as after a query began elsewhere.
        self.assertTrue(Delivery(self.server, self.write("c", b"3")).publish_once(QUERY, 40))
        self.assertEqual((self.written(), self.written("u"), self.written(SINKS)), ([b"1", b"2", b"3"], [], []))

    def test_abandon(self) -> None:
        """What was published stays, what was not goes, and a daemon that is away is no error."""
        published, other = self.write("a", b"1"), self.write("b", b"2")
        Delivery(self.server, published).publish()
        Delivery(self.server, [*published, *other]).abandon()
        error = self.assertRaises(ClientError, Delivery(self.server, other).publish)
        self.assertIn("the batch is to be written again", str(error))
        self.assertEqual(self.written(), [b"1"])
        self.daemon.kill()
        Delivery(self.server, other).abandon()

    def test_failed_task(self) -> None:
        """A task that fails takes along what it has written."""
        writer = HiddenWriter(self.server, "a", create_topics=True)

        def fail() -> None:
            with writer:
                writer.append("t", Batch.of([b"x"]))
                raise RuntimeError("as the test wanted")

        self.assertRaises(RuntimeError, fail)
        (part,) = writer._parts.values()
        with StorageClient(self.server) as client:
            self.assertRaises(ClientError, client.segment, part.hidden)

    def test_topics(self) -> None:
        """A topic that is not there is made, or refused with a sentence."""
        with HiddenWriter(self.server, "a", create_topics=False) as writer:
            error = self.assertRaises(ClientError, writer.append, "t", Batch.of([b"x"]))
            self.assertIn("there is no topic 't'", str(error))
        self.assertEqual(self.write("a"), ())
        (part,) = self.write("a", b"x")
        with HiddenWriter(self.server, "b", create_topics=False) as writer:
            writer.append("t", Batch.of([b"y"]))
            self.assertEqual(writer.finish()[0].target, part.target)

    def test_too_many(self) -> None:
        """More than one publication has room for is refused before it is sent."""
        error = self.assertRaises(ClientError, Delivery(self.server, [Part(1, 2)] * (PARTS_MAX + 1)).publish)
        self.assertIn("repartition by topic", str(error))
        # In a task already, before anything is written; and what others wrote is dropped all the same, in pieces.
        with HiddenWriter(self.server, "a", create_topics=True) as writer:
            error = self.assertRaises(ClientError, writer.open, map(str, range(PARTS_MAX + 1)))
            self.assertIn("topics in one partition", str(error))
        (part,) = self.write("b", b"x")
        Delivery(self.server, [*[Part(1 << 40, 2)] * (PARTS_MAX + 1), part]).abandon()
        with StorageClient(self.server) as client:
            self.assertRaises(ClientError, client.segment, part.hidden)
            self.assertEqual([info.name for info in client.segments()], ["t"])

    def test_many(self) -> None:
        """Topics that are new, and those that are there, each get their own records, in order."""
        self.write("a", b"0", topic="t7")
        with HiddenWriter(self.server, "b", create_topics=True) as writer:
            for number in range(2):
                topics = [f"t{topic}" for topic in range(600 * (number + 1))]
                writer.open(topics)
                for topic in topics:
                    writer.append(topic, Batch.of([f"{topic}/{number}".encode()]))
            parts = writer.finish()
        Delivery(self.server, parts).publish()
        self.assertEqual(len(parts), 1200)
        for topic in ("t0", "t7", "t599"):
            self.assertEqual(self.written(topic), [f"{topic}/0".encode(), f"{topic}/1".encode()])
        self.assertEqual(self.written("t1199"), [b"t1199/1"])

    def test_daemon_restarts(self) -> None:
        """Killed under a task and before its publication: the rest is sent again, and nothing is stored twice."""
        large = Batch(array(LENGTH_TYPE, [1000]) * 6000, bytes(6_000_000))
        with HiddenWriter(self.server, "a", create_topics=True) as writer:
            writer.append("t", Batch.of([b"first"]))
            writer.append("t", large)
            self.restart()
            writer.append("t", Batch.of([b"second"]))
            writer.append("u", Batch.of([b"of another topic"]))
            for _ in range(UNACKNOWLEDGED_BYTES_MAX // large.size + 1):
                writer.append("t", large)
            self.restart()
            parts = writer.finish()
        self.restart()
        self.assertTrue(Delivery(self.server, parts).publish_once(QUERY, 1))
        records = self.written()
        self.assertEqual([record for record in records if len(record) != 1000], [b"first", b"second"])
        self.assertEqual(len(records), 2 + 6000 * (UNACKNOWLEDGED_BYTES_MAX // large.size + 2))
        self.assertEqual(self.written("u"), [b"of another topic"])

    def test_answer_is_lost(self) -> None:
        """Without a level too, a publication whose answer was lost is not done twice, and is not an error."""
        parts = self.write("a", b"x")
        original = StorageClient.publish
        tried: list[bool] = []

        def publish(client: StorageClient, given: list[Part]) -> bool:
            done = original(client, given)
            if not tried:
                tried.append(done)
                self.restart()
                return original(client, given)
            return done

        self.patch(StorageClient, "publish", publish)
        Delivery(self.server, parts).publish()
        self.assertEqual((tried, self.written()), ([True], [b"x"]))

    def test_somebody_else(self) -> None:
        """Who answers with something else is told of at once."""
        with socket.create_server(("127.0.0.1", 0)) as other:
            answers = threading.Thread(target=lambda: other.accept()[0].sendall(b"HTTP/1.1 400 Bad Request"))
            answers.start()
            server = f"127.0.0.1:{other.getsockname()[1]}"
            self.assertRaises(ProtocolBroken, Delivery(server, []).publish)
            answers.join()

    def restart(self) -> None:
        self.daemon.kill()
        self.daemon.start()
