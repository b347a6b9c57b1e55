"""FastStreamDB for clients: every request, and what is awaited of it."""

from __future__ import annotations

from streamd.client.asynchronous import FastStreamClient
from streamd.client.errors import ConnectionLost, ProtocolBroken
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.settings import Limits
from streamd.wire.faststream import PONG
from tests.rigs.client.rig import TARGET, ClientCase, Endless


class FastStreamTests(ClientCase):
    limits = Limits(message_bytes_max=1000)

    def make_factory(self, core: Core) -> StreamFactory:
        return FastStreamFactory(core)

    def test_streams(self) -> None:
        """Make, fill, look, take, delete, however the replies are cut."""
        for driven in self.each_size(FastStreamClient):
            client = driven.client
            driven.run(client.ping())
            for stream in (1, 2, 2**32 - 1):
                driven.run(client.create(stream))
            driven.run(client.enqueue(1, [b"a", b"bc", b""]))
            driven.run(client.enqueue_many([1, 2, 2, 9], b"!"))
            driven.run(client.enqueue_all(b"*"))
            driven.run(client.enqueue_all_except([1, 9], b"-"))
            self.assertEqual(driven.run(client.peek(1)), b"abc!*")
            self.assertEqual(driven.run(client.take(1)), b"abc!*")
            self.assertEqual(driven.run(client.take(1)), b"")
            self.assertEqual(driven.run(client.take(2)), b"!!*-")
            self.assertEqual(driven.run(client.take(2**32 - 1)), b"*-")
            self.assertEqual(driven.run(client.peek(77)), b"")
            for stream in (1, 2, 2**32 - 1):
                self.assertTrue(driven.run(client.exists(stream)))
                driven.run(client.delete(stream))
                self.assertFalse(driven.run(client.exists(stream)))

    def test_flush(self) -> None:
        """It waits until what was enqueued is on disk."""
        driven = self.drive(FastStreamClient)
        driven.run(driven.client.create(1))
        self.rig.held = True
        driven.run(driven.client.enqueue(1, [b"x"]))
        flushing = driven.begin(driven.client.flush())
        driven.turn()
        self.assertNoResult(flushing)
        self.rig.release()
        driven.turn()
        self.successResultOf(flushing)

    def test_closing(self) -> None:
        """Closing waits for what was enqueued, and asks for nothing where nothing was."""
        driven = self.drive(FastStreamClient)
        driven.run(driven.client.connect())
        driven.run(driven.client.close())
        self.assertEqual(driven.sent, b"")
        driven = self.drive(FastStreamClient)
        driven.run(driven.client.create(1))
        self.rig.held = True
        driven.run(driven.client.enqueue(1, [b"x"]))
        closing = driven.begin(driven.client.close())
        driven.turn()
        self.assertNoResult(closing)
        self.rig.release()
        driven.finish(closing)
        self.assertTrue(driven.client.is_closed)

    def test_no_stream(self) -> None:
        """What is no number of a stream is not sent."""
        driven = self.drive(FastStreamClient)
        for stream in (-1, 2**32):
            self.assertRaises(ValueError, driven.run, driven.client.create(stream))
            self.assertRaises(ValueError, driven.run, driven.client.enqueue_many([stream], b""))
        self.assertRaises(TypeError, driven.run, driven.client.enqueue(1, b"one"))  # type: ignore[arg-type]
        self.assertEqual(driven.sent, b"")

    def test_too_large(self) -> None:
        """The daemon hangs up on a record over its limit: the next question tells."""
        driven = self.drive(FastStreamClient)
        driven.run(driven.client.enqueue(1, [bytes(1001)]))
        self.assertRaises(ConnectionLost, driven.run, driven.client.flush())

    def test_reply_limit(self) -> None:
        """Contents over our own limit are not taken in."""
        driven = self.drive(FastStreamClient, reply_bytes_max=10)
        driven.run(driven.client.create(1))
        driven.run(driven.client.enqueue(1, [b"0123456789"]))
        self.assertEqual(driven.run(driven.client.peek(1)), b"0123456789")
        driven.run(driven.client.enqueue(1, [b"x"]))
        self.assertRaises(ProtocolBroken, driven.run, driven.client.take(1))

    def test_nonsense(self) -> None:
        """An answer of another kind ends the connection."""
        driven = self.drive(FastStreamClient)
        driven.run(driven.client.connect())
        asking = driven.begin(driven.client.exists(1))
        driven.wire.protocol.dataReceived(PONG)
        self.failureResultOf(asking, ProtocolBroken)
        self.assertTrue(driven.client.is_closed)

    def test_bounded(self) -> None:
        """Endless records are taken no faster than they are sent."""
        endless = Endless()
        driven = self.drive(FastStreamClient)
        driven.run(driven.client.connect())
        driven.wire.pause()
        enqueueing = driven.begin(driven.client.enqueue(1, endless))
        self.assertNoResult(enqueueing)
        self.assertLess(endless.taken_bytes, 2 * TARGET.pipelined_bytes_max)
        driven.wire.drop()
        self.failureResultOf(enqueueing, ConnectionLost)

    def test_room(self) -> None:
        """What could not be sent goes out when the transport takes more, and the command goes on."""
        driven = self.drive(FastStreamClient)
        driven.run(driven.client.create(1))
        driven.wire.pause()
        enqueueing = driven.begin(driven.client.enqueue(1, [b"x"]))
        self.assertNoResult(enqueueing)
        driven.wire.resume()
        driven.finish(enqueueing)
        self.assertEqual(driven.run(driven.client.take(1)), b"x")
