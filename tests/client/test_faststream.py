"""The session of FastStreamDB: every request, and what is awaited of it."""

from __future__ import annotations

from streamd.client.errors import ConnectionLost, ProtocolBroken
from streamd.client.faststream import FastStreamSession
from streamd.interfaces import Core
from streamd.protocols.factory import StreamFactory
from streamd.protocols.faststream import FastStreamFactory
from streamd.settings import Limits
from streamd.wire.faststream import PONG
from tests.client.driver import Driver, Endless, SessionCase

LIMIT = 1 << 20


class FastStreamTests(SessionCase):
    limits = Limits(message_bytes_max=1000)

    def make_factory(self, core: Core) -> StreamFactory:
        return FastStreamFactory(core)

    def client(self, piece_bytes: int = 1 << 20) -> Driver[FastStreamSession]:
        return self.drive(FastStreamSession(LIMIT), piece_bytes)

    def test_streams(self) -> None:
        """Make, fill, look, take, delete, however the replies are cut."""
        for client in self.each_size(lambda: FastStreamSession(LIMIT)):
            session = client.session
            client.run(session.ping())
            for stream in (1, 2, 2**32 - 1):
                client.run(session.create(stream))
            client.run(session.enqueue(1, [b"a", b"bc", b""]))
            client.run(session.enqueue_many([1, 2, 2, 9], b"!"))
            client.run(session.enqueue_all(b"*"))
            client.run(session.enqueue_all_except([1, 9], b"-"))
            self.assertEqual(client.run(session.peek(1)), b"abc!*")
            self.assertEqual(client.run(session.take(1)), b"abc!*")
            self.assertEqual(client.run(session.take(1)), b"")
            self.assertEqual(client.run(session.take(2)), b"!!*-")
            self.assertEqual(client.run(session.take(2**32 - 1)), b"*-")
            self.assertEqual(client.run(session.peek(77)), b"")
            for stream in (1, 2, 2**32 - 1):
                self.assertTrue(client.run(session.exists(stream)))
                client.run(session.delete(stream))
                self.assertFalse(client.run(session.exists(stream)))

    def test_flush(self) -> None:
        """It waits until what was enqueued is on disk."""
        client = self.client()
        client.run(client.session.create(1))
        self.rig.held = True
        client.run(client.session.enqueue(1, [b"x"]))
        steps = client.session.flush()
        answer = next(steps)
        client.turn()
        self.assertFalse(answer.done)
        self.rig.release()
        client.take()
        self.assertTrue(answer.done)

    def test_closing(self) -> None:
        """Closing waits for what was enqueued, and asks for nothing where nothing was."""
        client = self.client()
        client.run(client.session.closing())
        self.assertEqual(client.sent, b"")
        client.run(client.session.create(1))
        client.run(client.session.closing())
        self.assertTrue(client.run(client.session.exists(1)))

    def test_no_stream(self) -> None:
        """What is no number of a stream is not sent."""
        client = self.client()
        for stream in (-1, 2**32):
            self.assertRaises(ValueError, client.run, client.session.create(stream))
            self.assertRaises(ValueError, client.run, client.session.enqueue_many([stream], b""))
        self.assertRaises(TypeError, client.run, client.session.enqueue(1, b"one"))  # type: ignore[arg-type]
        self.assertEqual(client.sent, b"")

    def test_too_large(self) -> None:
        """The daemon hangs up on a record over its limit: the next question tells."""
        client = self.client()
        client.run(client.session.enqueue(1, [bytes(1001)]))
        self.assertRaises(ConnectionLost, client.run, client.session.flush())

    def test_reply_limit(self) -> None:
        """Contents over our own limit are not taken in."""
        client = self.drive(FastStreamSession(10))
        client.run(client.session.create(1))
        client.run(client.session.enqueue(1, [b"0123456789"]))
        self.assertEqual(client.run(client.session.peek(1)), b"0123456789")
        client.run(client.session.enqueue(1, [b"x"]))
        self.assertRaises(ProtocolBroken, client.run, client.session.take(1))

    def test_nonsense(self) -> None:
        """An answer of another kind ends the connection."""
        session = FastStreamSession(LIMIT)
        steps = session.exists(1)
        next(steps)
        session.receive(PONG)
        self.assertRaises(ProtocolBroken, next, steps)
        self.assertIsInstance(session.error, ProtocolBroken)

    def test_bounded(self) -> None:
        """Endless records are taken no faster than they are sent."""
        session = FastStreamSession(LIMIT)
        answer = next(session.enqueue(1, Endless()))
        self.assertLess(len(session.outgoing()), 2 * session.pipelined_bytes_max)
        self.assertFalse(answer.done)
        session.sent()
        self.assertTrue(answer.done)
