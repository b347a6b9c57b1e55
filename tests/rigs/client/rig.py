"""Clients on a reactor without sockets, against the daemon's own protocol: a real store, no threads, a clock by hand.

Clients are the asynchronous ones, made as a user makes them: the rig's reactor takes a connection to any unix socket.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from math import inf
from typing import Any, Generic, TypeVar

from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from streamd.client.address import UnixAddress
from streamd.client.core.session import Answer, Session
from streamd.client.drivers.reactor import ReactorDriver
from streamd.client.target import Target
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.settings import Limits
from tests.rigs.protocols.rig import Peer, Rig

T = TypeVar("T")
C = TypeVar("C")
S = TypeVar("S", bound="Session[Any]")

ADDRESS = "unix:rig"
RECORD_BYTES = 10_000
REPLY_BYTES_MAX = 1 << 20
WHOLE = 1 << 20


class ClientWire(StringTransport):
    """The client's end of a connection. What the client writes waits until the reactor's next turn."""

    def __init__(self, protocol: Any, peer: Peer, piece_bytes: int) -> None:
        super().__init__(lenient=True)
        self.protocol = protocol
        self.peer = peer
        self.piece_bytes = piece_bytes
        self.sent = b""
        """All that was ever sent."""
        self.lost = False

    def turn(self) -> bool:
        """Send what is there and take what comes back, in pieces: whether that was anything."""
        if self.lost:
            return False
        data = self.value()
        self.clear()
        if data and not self.peer.closed:
            self.sent += data
            self.peer.send(data)
        return self.take() or bool(data)

    def take(self) -> bool:
        """Take what comes back: whether that was anything."""
        reply = self.peer.take_all()
        for at in range(0, len(reply), self.piece_bytes):
            if not self.disconnecting:
                self.protocol.dataReceived(reply[at : at + self.piece_bytes])
        if self.peer.closed or self.disconnecting:
            self.drop(ConnectionAborted() if self.disconnected else None)
        return bool(reply) or self.lost

    def drop(self, reason: Exception | None = None) -> None:
        """End the connection, for both."""
        if not self.lost:
            self.lost = True
            self.peer.drop()
            self.protocol.connectionLost(Failure(reason or ConnectionDone()))

    def pause(self) -> None:
        """Take nothing more of what the client writes."""
        assert self.producer is not None
        self.producer.pauseProducing()

    def resume(self) -> None:
        """Take more again."""
        assert self.producer is not None
        self.producer.resumeProducing()


class RigReactor(Clock):
    """A reactor whose connections lead to a rig."""

    def __init__(self, rig: Rig, piece_bytes: int = WHOLE) -> None:
        super().__init__()
        self._rig = rig
        self._piece_bytes = piece_bytes
        self.wires: list[ClientWire] = []
        self.refuses = False
        """Whether nobody listens."""
        self.tries = 0
        """How often a client tried to connect."""

    def connectUNIX(self, address: str, factory: Any, timeout: float, checkPID: bool) -> None:
        """Connect to the rig."""
        self.tries += 1
        if self.refuses:
            factory.clientConnectionFailed(None, Failure(ConnectionRefusedError("refused")))
            return
        protocol: Any = factory.buildProtocol(UNIXAddress(address))
        wire = ClientWire(protocol, self._rig.connect(), self._piece_bytes)
        self.wires.append(wire)
        protocol.makeConnection(wire)


class Driven(Generic[C]):
    """A client of the rig, and what happens between the two."""

    def __init__(self, rig: Rig, make: Callable[..., C], piece_bytes: int = WHOLE, **options: Any) -> None:
        self.reactor = RigReactor(rig, piece_bytes)
        self.client = make(ADDRESS, reactor=self.reactor, **{"reply_bytes_max": REPLY_BYTES_MAX, **options})

    @property
    def wire(self) -> ClientWire:
        """The last connection that was made."""
        return self.reactor.wires[-1]

    @property
    def sent(self) -> bytes:
        """All that was ever sent, on every connection."""
        return b"".join(wire.sent for wire in self.reactor.wires)

    def begin(self, operation: Awaitable[T]) -> Deferred[T]:
        """Begin to carry an operation out, and do not wait: nothing is sent yet."""

        async def carry_out() -> T:
            return await operation

        return Deferred.fromCoroutine(carry_out())

    def run(self, operation: Awaitable[T]) -> T:
        """Carry an operation out."""
        return self.finish(self.begin(operation))

    def finish(self, begun: Deferred[T]) -> T:
        """Wait for an operation that was begun."""
        results: list[Any] = []
        begun.addBoth(results.append)
        while not results:
            assert self.turn(), "it waits for what does not come"
        self.turn()
        if isinstance(results[0], Failure):
            results[0].raiseException()
        value: T = results[0]
        return value

    def turn(self) -> bool:
        """Send what is there and take what comes back: whether that was anything."""
        return sum(wire.turn() for wire in self.reactor.wires) > 0

    def everything(self, items: Any) -> list[Any]:
        """All that an asynchronous iterator gives."""

        async def gather() -> list[Any]:
            return [item async for item in items]

        return self.run(gather())


class Endless:
    """Records without an end, and how many of them were taken."""

    def __init__(self) -> None:
        self.taken_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.taken_bytes += RECORD_BYTES
            yield b"x" * RECORD_BYTES


TARGET = Target(UnixAddress("rig"), reply_bytes_max=REPLY_BYTES_MAX)


async def wait(answer: Answer[Any]) -> None:
    """How a command waits for an answer where there is no connection."""
    await ReactorDriver(Clock()).until(answer, inf)


def bare(session: S) -> S:
    """A session without a connection: a test moves its bytes."""
    session.wait = wait
    return session


class ClientCase(SynchronousTestCase):
    """Clients of one protocol on a store of their own."""

    limits = Limits()

    def make_factory(self, core: Core) -> StreamFactory:
        """The daemon's side."""
        raise NotImplementedError

    def setUp(self) -> None:
        self.rig = Rig(self.mktemp(), limits=self.limits, make_factory=self.make_factory)
        self.addCleanup(self.rig.close)

    def drive(self, make: Callable[..., C], piece_bytes: int = WHOLE, **options: Any) -> Driven[C]:
        """A client that connects when it is first used."""
        return Driven(self.rig, make, piece_bytes, **options)

    def each_size(self, make: Callable[..., C]) -> list[Driven[C]]:
        """Clients whose replies come whole, in small pieces, and byte by byte."""
        return [self.drive(make, size) for size in (WHOLE, 7, 1)]
