"""The session of Pravega: replies that overtake each other, and replies to nothing."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from streamd.client.errors import ConnectionLost, ProtocolBroken
from streamd.client.pravega.session import PravegaSession
from streamd.wire.client.pravega import Reply, SegmentCreated, name_of, request_bytes
from streamd.wire.pravega.documented import CreateSegment, KeepAlive, Name, Type, named
from tests.rigs.client.rig import TARGET, bare


class SessionTests(SynchronousTestCase):
    def test_order(self) -> None:
        """Each reply goes to the first request that accepts it, in whatever order they come."""
        session = bare(PravegaSession(TARGET))

        def created(name: str) -> bytes:
            return named(Type.SEGMENT_CREATED, name_of(name))

        def accepts(name: str, reply: Reply) -> bool:
            return isinstance(reply, SegmentCreated) and reply.name.text == name

        first, second = (
            session.ask(CreateSegment(name_of(name)), lambda reply, name=name: accepts(name, reply))  # type: ignore[misc]
            for name in "ab"
        )
        ping = session.ask(KeepAlive(b""), lambda reply: isinstance(reply, KeepAlive))
        self.assertTrue(session.is_waiting)
        session.receive(created("b"))
        self.assertEqual((first.done, second.done, ping.done), (False, True, False))
        session.receive(request_bytes(KeepAlive(b"")) + created("a"))
        self.assertEqual((first.done, ping.done, session.is_waiting), (True, True, False))

    def test_nonsense(self) -> None:
        """A daemon that answers what nobody asked is given up."""
        session = bare(PravegaSession(TARGET))
        session.receive(named(Type.SEGMENT_CREATED, Name("s", b"s")))
        self.assertIsInstance(session.error, ProtocolBroken)

    def test_lost(self) -> None:
        """Everybody who waits is told of the end, and nothing can be asked afterwards."""
        session = bare(PravegaSession(TARGET))
        answers = [session.read(name_of("s"), offset) for offset in range(3)]
        session.lost(ConnectionLost("gone"))
        for answer in answers:
            self.assertRaises(ConnectionLost, answer.result)
        self.assertRaises(ConnectionLost, session.read, name_of("s"), 0)
