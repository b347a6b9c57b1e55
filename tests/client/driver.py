"""A client's session against the daemon's own protocol, without a socket between them: a real store, no threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from twisted.trial.unittest import SynchronousTestCase

from streamd.client.errors import ConnectionLost
from streamd.client.session import Session, Steps
from streamd.interfaces import Core
from streamd.protocols.factory import StreamFactory
from streamd.settings import Limits
from tests.protocols.rig import Peer, Rig

T = TypeVar("T")

RECORD_BYTES = 10_000
S = TypeVar("S", bound="Session[Any]")


class Driver(Generic[S]):
    """Moves bytes between a session and a peer of the rig, in pieces of any size."""

    def __init__(self, peer: Peer, session: S, piece_bytes: int = 1 << 20) -> None:
        self.peer = peer
        self.session = session
        self.piece_bytes = piece_bytes
        self.sent = b""
        """All that the session ever sent."""
        self.run(session.opening())

    def run(self, steps: Steps[T]) -> T:
        """Carry out an operation."""
        try:
            while True:
                answer = next(steps)
                while not answer.done:
                    assert self.turn(), "it waits for what does not come"
        except StopIteration as end:
            self.turn()
            value: T = end.value
            return value

    def turn(self) -> bool:
        """Send what is there and take what comes back: whether that was anything."""
        data = self.session.outgoing()
        self.session.sent()
        self.sent += data
        if data:
            self.peer.send(data)
        return self.take() or bool(data)

    def take(self) -> bool:
        """Take what comes back."""
        reply = self.peer.take_all()
        for at in range(0, len(reply), self.piece_bytes):
            self.session.receive(reply[at : at + self.piece_bytes])
        if self.peer.closed:
            self.session.lost(ConnectionLost("closed"))
        return bool(reply) or self.peer.closed


class Endless:
    """Records without an end, and how many of them were taken."""

    def __init__(self) -> None:
        self.taken_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.taken_bytes += RECORD_BYTES
            yield b"x" * RECORD_BYTES


class SessionCase(SynchronousTestCase):
    """Sessions of one protocol on a store of their own."""

    limits = Limits()

    def make_factory(self, core: Core) -> StreamFactory:
        """The daemon's side."""
        raise NotImplementedError

    def setUp(self) -> None:
        self.rig = Rig(self.mktemp(), limits=self.limits, make_factory=self.make_factory)
        self.addCleanup(self.rig.close)

    def drive(self, session: S, piece_bytes: int = 1 << 20) -> Driver[S]:
        """A session on a new connection."""
        return Driver(self.rig.connect(), session, piece_bytes)

    def each_size(self, make: Callable[[], S]) -> list[Driver[S]]:
        """Sessions whose replies come whole, in small pieces, and byte by byte."""
        return [self.drive(make(), size) for size in (1 << 20, 7, 1)]
