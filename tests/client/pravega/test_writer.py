"""Writers of Pravega: they send again just what is missing, and each event is stored once."""

from __future__ import annotations

from streamd.client.asynchronous import Writer
from streamd.client.errors import ClientError, ConnectionLost, Refused
from tests.rigs.client.pravega.case import PravegaCase
from tests.rigs.client.rig import Driven


class WriterTests(PravegaCase):
    def post(self, writer: Driven[Writer], *events: bytes) -> None:
        """Write events, one in each block, which wait to be sent."""
        for event in events:
            self.successResultOf(writer.begin(writer.client.write([event])))

    def flush(self, writer: Driven[Writer]) -> None:
        """Wait until all is on disk; a connection that is lost is made again soon."""
        flushing = writer.begin(writer.client.flush())
        writer.reactor.advance(1)
        writer.finish(flushing)
        self.assertEqual(writer.client.acknowledged, writer.client.written)

    def test_resend(self) -> None:
        """After a lost connection just what is above the level is sent again."""
        writer = self.write([b"one"])
        # The next two are stored, and the connection is gone before anybody says so.
        self.post(writer, b"two", b"three")
        writer.wire.peer.send(writer.wire.value())
        writer.wire.drop()
        self.post(writer)
        flushing = writer.begin(writer.client.write([b"four"]))
        writer.reactor.advance(1)
        writer.finish(flushing)
        self.flush(writer)
        self.assertEqual(len(writer.reactor.wires), 2)
        self.assertNotIn(b"three", writer.wire.sent)
        self.assertIn(b"four", writer.wire.sent)
        self.assertEqual(self.stored(), [b"one", b"two", b"three", b"four"])

    def test_nothing_arrived(self) -> None:
        """Where nothing arrived, everything is sent again."""
        writer = self.writer()
        writer.run(writer.client.connect())
        self.post(writer, b"one", b"two")
        writer.wire.drop()
        self.flush(writer)
        self.assertEqual(self.stored(), [b"one", b"two"])

    def test_goes_on(self) -> None:
        """With the id of an earlier one a writer goes on behind what that one stored."""
        self.write([b"one"])
        writer = self.writer()
        writer.run(writer.client.connect())
        self.assertEqual((writer.client.acknowledged, writer.client.written), (11, 11))
        writer.run(writer.client.write([b"two"]))
        self.flush(writer)
        self.assertEqual(self.stored(), [b"one", b"two"])

    def test_replay(self) -> None:
        """One that is given everything again skips what is stored."""
        self.write([b"one", b"two"])
        writer = self.writer(replay=True)
        writer.run(writer.client.connect())
        self.post(writer, b"one", b"two", b"three")
        self.flush(writer)
        self.assertNotIn(b"two", writer.sent)
        self.assertEqual(self.stored(), [b"one", b"two", b"three"])

    def test_replay_differs(self) -> None:
        """Where other events are given than were stored, that is found out where they end elsewhere."""
        self.write([b"one"])
        writer = self.writer(replay=True)
        writer.run(writer.client.connect())
        self.assertRaises(ClientError, writer.run, writer.client.write([b"another"]))

    def test_two_at_once(self) -> None:
        """Somebody else with the same id is found out at the next connection."""
        writer = self.write([b"one"])
        self.write([b"somebody else's"])
        writer.wire.drop()
        self.assertRaises(ClientError, self.flush, writer)

    def test_segment_replaced(self) -> None:
        """A segment that was deleted and made again has lost what was acknowledged: that is said."""
        writer = self.write([b"one"])
        self.rig.store.delete(self.rig.store.find("s"))
        self.rig.run()
        self.driven.run(self.driven.client.create("s"))
        writer.wire.drop()
        self.assertRaises(ClientError, self.flush, writer)

    def test_sealed(self) -> None:
        """A segment that is sealed under a writer refuses it, at once and at its next connection."""
        writer = self.write([b"one"])
        self.rig.store.seal(self.rig.store.find("s"))
        self.rig.run()
        self.post(writer, b"two")
        for refused, reason in (
            (writer, "SegmentIsSealed"),
            (writer, "SegmentIsSealed"),
            (self.writer("t"), "NoSuchSegment"),
        ):
            error = self.assertRaises(Refused, refused.run, refused.client.flush())
            self.assertEqual(error.reason, reason)
        self.assertEqual(len(writer.reactor.wires), 2)

    def test_no_segment(self) -> None:
        """A segment that is not there refuses a writer; once it is there, the same writer goes on."""
        writer = self.writer("t")
        error = self.assertRaises(Refused, writer.run, writer.client.write([b"x"]))
        self.assertEqual(error.reason, "NoSuchSegment")
        self.driven.run(self.driven.client.create("t"))
        writer.run(writer.client.write([b"x"]))
        self.flush(writer)

    def test_waits_when_full(self) -> None:
        """A write waits until no more than is allowed is not acknowledged."""
        writer = self.writer(unacknowledged_bytes_max=2000)
        writer.run(writer.client.connect())
        self.rig.held = True
        self.post(writer, bytes(1000))
        writing = writer.begin(writer.client.write([bytes(1000)]))
        writer.turn()
        self.assertNoResult(writing)
        self.rig.release()
        writer.finish(writing)

    def test_together(self) -> None:
        """Writes that find the connection lost at the same time share the next one, and each event is stored once."""
        writer = self.write([b"one"])
        self.rig.held = True
        waiting = [writer.begin(writer.client.write([event])) for event in (b"two", b"three")]
        waiting += [writer.begin(writer.client.flush()) for _ in range(2)]
        writer.wire.drop()
        self.rig.release()
        writer.reactor.advance(1)
        for begun in waiting:
            writer.finish(begun)
        self.assertEqual(len(writer.reactor.wires), 2)
        self.assertEqual(self.stored(), [b"one", b"two", b"three"])

    def test_closed_meanwhile(self) -> None:
        """A writer that is closed while it waits to connect again does not connect again."""
        writer = self.write([b"one"])
        self.post(writer, b"two")
        writer.wire.drop()
        flushing = writer.begin(writer.client.flush())
        aborted = writer.begin(writer.client._abort())
        writer.reactor.advance(5)
        self.successResultOf(aborted)
        self.failureResultOf(flushing, ConnectionLost)
        self.assertEqual(len(writer.reactor.wires), 1)
