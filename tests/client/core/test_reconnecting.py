"""Reconnecting: soon, then later and later, and not for ever."""

from __future__ import annotations

from streamd.client.errors import ConnectionLost, ProtocolBroken
from tests.rigs.client.pravega.case import PravegaCase


class ReconnectingTests(PravegaCase):
    """With a writer, which is what reconnects."""

    def test_gives_up(self) -> None:
        """When nothing was stored for so long the command fails; the next one tries anew, and stores what was kept."""
        writer = self.writer(reconnect_seconds_max=10.0)
        writer.run(writer.client.write([b"one"]))
        writer.reactor.refuses = True
        writer.wire.drop()
        writing = writer.begin(writer.client.write([b"two"]))
        while not writing.called:
            writer.reactor.advance(0.01)
        self.failureResultOf(writing, ConnectionLost)
        self.assertTrue(10 < writer.reactor.seconds() < 13)
        # Soon, then later and later: every 50 ms that would be 200 times, and every 2 s it would be 6 times.
        self.assertTrue(8 < writer.reactor.tries < 30)
        writer.reactor.refuses = False
        writer.run(writer.client.flush())
        self.assertEqual(self.stored(), [b"one", b"two"])

    def test_progress(self) -> None:
        """As long as something is stored in between, a connection may be lost for longer than that in all."""
        writer = self.writer(reconnect_seconds_max=3.0)
        writer.run(writer.client.write([b"0"]))
        events = [b"%d" % number for number in range(1, 6)]
        for event in events:
            writer.reactor.refuses = True
            writer.wire.drop()
            flushing = writer.begin(writer.client.write([event]))
            writer.reactor.pump([0.01] * 200)
            self.assertNoResult(flushing)
            writer.reactor.refuses = False
            writer.reactor.pump([0.01] * 200)
            writer.finish(flushing)
            writer.run(writer.client.flush())
        self.assertEqual(self.stored(), [b"0", *events])

    def test_no_daemon(self) -> None:
        """A peer that speaks something else is not tried again."""
        writer = self.writer()
        connecting = writer.begin(writer.client.connect())
        writer.wire.protocol.dataReceived(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.turn()
        self.failureResultOf(connecting, ProtocolBroken)
        writer.reactor.advance(100)
        self.assertEqual(writer.reactor.tries, 1)

    def test_closed(self) -> None:
        """A writer that is closed stays closed."""
        writer = self.write([b"one"])
        writer.run(writer.client.close())
        writer.run(writer.client.close())
        self.assertRaises(ConnectionLost, writer.run, writer.client.write([b"two"]))
        self.assertEqual(writer.reactor.tries, 1)
