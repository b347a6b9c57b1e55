"""Connections: opened once for all who want them, given up when the daemon is silent, closed in order."""

from __future__ import annotations

from streamd.client.asynchronous import FastStreamClient, SespClient
from streamd.client.errors import ConnectionLost, Refused, Timeout
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.protocols.sesp import SespFactory
from tests.rigs.client.rig import ClientCase, Driven, Endless


class OpenTests(ClientCase):
    def make_factory(self, core: Core) -> StreamFactory:
        return SespFactory(core)

    def setUp(self) -> None:
        super().setUp()
        self.driven = self.drive(SespClient)
        self.client = self.driven.client

    def test_once(self) -> None:
        """Commands that come before there is a connection share one, and what comes first on it comes first."""
        self.driven.run(self.client.create("t"))
        topic = self.client.topic("t")
        publishing = [self.driven.begin(topic.publish([b"%d" % number])) for number in range(3)]
        self.assertEqual(self.driven.wire.value(), b"@t\n")
        for begun in publishing:
            self.driven.finish(begun)
        self.assertEqual(self.driven.wire.sent, b"@t\n>0\n>1\n>2\n")
        self.assertEqual(len(self.driven.reactor.wires), 2)

    def test_refused(self) -> None:
        """Where the beginning is refused, each command is told why, and the connection is gone."""
        topic = self.client.topic("t")
        publishing = [self.driven.begin(topic.publish([b"x"])) for _ in range(3)]
        self.driven.turn()
        for begun in publishing:
            self.failureResultOf(begun, Refused)
        self.failureResultOf(self.driven.begin(topic.publish([b"x"])), Refused)
        self.driven.turn()
        self.assertTrue(topic.is_closed and self.driven.wire.lost)

    def test_nobody(self) -> None:
        """Where nobody listens each command is told, and no other connection is tried."""
        self.driven.reactor.refuses = True
        for _ in range(2):
            error = self.failureResultOf(self.driven.begin(self.client.topics()), ConnectionLost).value
            self.assertIn("no connection to unix:rig", str(error))
        self.assertEqual(self.driven.reactor.tries, 1)

    def test_cancelled(self) -> None:
        """A command that is cancelled while it connects takes the connection from nobody."""
        self.driven.run(self.client.create("t"))
        topic = self.client.topic("t")
        first, second = (self.driven.begin(topic.publish([message])) for message in (b"1", b"2"))
        first.cancel()
        self.failureResultOf(first)
        self.driven.finish(second)
        self.assertEqual(self.driven.everything(topic.read()), [b"2"])

    def test_closed(self) -> None:
        """A client that is closed before it was used never connects."""
        self.driven.run(self.client.close())
        self.failureResultOf(self.driven.begin(self.client.topics()), ConnectionLost)
        self.assertEqual(self.driven.reactor.tries, 0)

    def test_lost(self) -> None:
        """Every command that waits is told of the end, and so is each that comes later."""
        waiting = [self.driven.begin(self.client.topics()) for _ in range(3)]
        self.driven.wire.drop()
        waiting.append(self.driven.begin(self.client.topics()))
        for begun in waiting:
            error = self.failureResultOf(begun, ConnectionLost).value
            self.assertEqual(str(error), "the connection to unix:rig is lost: the daemon closed it")
        self.assertEqual(self.driven.reactor.getDelayedCalls(), [])


class SilenceTests(ClientCase):
    """With `reply_seconds_max` at 10 seconds."""

    def make_factory(self, core: Core) -> StreamFactory:
        return FastStreamFactory(core)

    def setUp(self) -> None:
        super().setUp()
        self.driven: Driven[FastStreamClient] = self.drive(FastStreamClient, reply_seconds_max=10)
        self.client = self.driven.client
        self.driven.run(self.client.create(1))
        self.driven.run(self.client.enqueue(1, [b"record"]))

    def test_silent(self) -> None:
        """A daemon that says nothing for so long is given up, by all who wait."""
        waiting = [self.driven.begin(self.client.flush())]
        self.driven.reactor.advance(9.9)
        waiting.append(self.driven.begin(self.client.ping()))
        self.driven.reactor.advance(0.2)
        for begun in waiting:
            self.failureResultOf(begun, Timeout)
        self.driven.turn()
        self.assertTrue(self.driven.wire.lost)

    def test_speaks(self) -> None:
        """A daemon that sends a byte now and then is not silent, until it is."""
        peeking = self.driven.begin(self.client.peek(1))
        wire = self.driven.wire
        wire.peer.send(wire.value())
        wire.clear()
        reply = wire.peer.take_all()
        for byte in reply[:-1]:
            self.driven.reactor.advance(9)
            self.assertNoResult(peeking)
            wire.protocol.dataReceived(bytes([byte]))
        self.driven.reactor.advance(10)
        self.failureResultOf(peeking, Timeout)

    def test_takes(self) -> None:
        """A daemon that takes what is sent is not silent, although it says nothing."""
        wire = self.driven.wire
        wire.pause()
        enqueueing = self.driven.begin(self.client.enqueue(1, Endless()))
        # A transport that is full again with the first thing that is written.
        wire.write = lambda data: wire.pause()  # type: ignore[method-assign]
        for _ in range(3):
            self.driven.reactor.advance(9)
            self.assertNoResult(enqueueing)
            wire.resume()
        self.driven.reactor.advance(10)
        self.failureResultOf(enqueueing, Timeout)

    def test_idle(self) -> None:
        """Where nobody waits the daemon may be silent for ever."""
        self.driven.run(self.client.flush())
        self.driven.reactor.pump([9] * 100)
        self.assertFalse(self.client.is_closed)
        flushing = self.driven.begin(self.client.flush())
        self.driven.reactor.advance(9.9)
        self.assertNoResult(flushing)
        self.driven.finish(flushing)

    def test_close(self) -> None:
        """A daemon that does not let go is let go after so long."""
        self.driven.run(self.client.flush())
        closing = self.driven.begin(self.client.close())
        wire = self.driven.wire
        self.driven.reactor.advance(9.9)
        self.assertNoResult(closing)
        self.assertEqual((wire.disconnecting, wire.disconnected), (True, False))
        self.driven.reactor.advance(0.2)
        self.assertTrue(wire.disconnected)
        self.driven.finish(closing)
        self.assertEqual(self.driven.reactor.getDelayedCalls(), [])
