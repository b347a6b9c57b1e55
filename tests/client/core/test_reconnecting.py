"""Reconnecting: soon, then later and later, and not for ever."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from streamd.client.core.reconnecting import Patience
from streamd.client.errors import ConnectionLost, ProtocolBroken
from tests.client.pravega.case import PravegaCase


class PatienceTests(SynchronousTestCase):
    def test_gives_up(self) -> None:
        """Later and later, up to a limit that begins again whenever there is progress."""
        stored = 0
        patience = Patience(10.0, lambda: stored, 0.0)
        error = ConnectionLost("gone")
        delays = [patience.delay(error, float(now)) for now in range(11)]
        self.assertLess(delays[0], delays[-1])
        self.assertLessEqual(max(delays), 2.0)
        stored = 1
        self.assertLess(patience.delay(error, 11.0), 0.1)
        self.assertIs(self.assertRaises(ConnectionLost, patience.delay, error, 22.0), error)

    def test_no_daemon(self) -> None:
        """Who speaks something else won't speak this protocol later."""
        patience = Patience(10.0, lambda: 0, 0.0)
        self.assertRaises(ProtocolBroken, patience.delay, ProtocolBroken("HTTP"), 0.0)


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
        self.assertLess(writer.reactor.tries, 30)
        writer.reactor.refuses = False
        writer.run(writer.client.flush())
        self.assertEqual(self.stored(), [b"one", b"two"])

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
