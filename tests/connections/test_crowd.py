"""The crowd: sockets that are served together, each of which keeps what Twisted promises of a transport."""

from __future__ import annotations

import os
import resource
import select
import socket
import struct
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from twisted.internet import tcp, unix
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IHalfCloseableProtocol, IPushProducer, ITCPTransport
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from streamd.access.peer import peer_of
from streamd.connections.crowd import Crowd, Member, UnixMember
from streamd.store.commit.turn import Turn

DEADLINE_SECONDS = 60.0
MUCH = bytes(range(256)) * (32 << 10)
SMALL_BUFFER_BYTES = 16 << 10
READ_BYTES = 64 << 10


class Loop(Clock):
    """As much of a reactor as a crowd needs: a test says when it turns."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Any] = []

    def addReader(self, reader: Any) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        if reader in self.readers:
            self.readers.remove(reader)

    def removeWriter(self, writer: Any) -> None:
        pass

    def turn(self) -> bool:
        """Let everybody who is ready do something: whether anybody was."""
        self.advance(0)
        by_descriptor = {reader.fileno(): reader for reader in self.readers}
        ready, _, _ = select.select(list(by_descriptor), [], [], 0)
        for descriptor in ready:
            by_descriptor[descriptor].doRead()
        return bool(ready)

    def until(self, done: Callable[[], object]) -> None:
        """Turn until this is so."""
        while not done():
            self.advance(0)
            if done():
                return
            ready, _, _ = select.select([reader.fileno() for reader in self.readers], [], [], DEADLINE_SECONDS)
            assert ready, "nothing happened"
            self.turn()


class Plain(Protocol):
    """Writes down what happens to it, and does what a test tells it to."""

    def __init__(self) -> None:
        self.data = b""
        self.reads = 0
        self.lost: list[Failure] = []
        self.calls: list[str] = []
        self.on_data: Callable[[bytes], object] = lambda data: None

    def dataReceived(self, data: bytes) -> None:
        self.data += data
        self.reads += 1
        self.on_data(data)

    def connectionLost(self, reason: Any = None) -> None:
        self.lost.append(reason)

    def pauseProducing(self) -> None:
        self.calls.append("pause")

    def resumeProducing(self) -> None:
        self.calls.append("resume")

    def stopProducing(self) -> None:
        self.calls.append("stop")


@implementer(IHalfCloseableProtocol, IPushProducer)
class Halves(Plain):
    """Is told of each half of its connection."""

    def readConnectionLost(self) -> None:
        self.calls.append("read lost")

    def writeConnectionLost(self) -> None:
        self.calls.append("write lost")


class CrowdCase(SynchronousTestCase):
    """A crowd on a reactor that a test turns, and real sockets."""

    def setUp(self) -> None:
        self.loop = Loop()
        self.flights = 0
        self.turn = Turn(self.fly)
        self.crowd = Crowd(self.loop, self.turn)
        self.addCleanup(self.crowd.close)
        self.protocols: list[Any] = []

    def fly(self) -> None:
        """What is gathered in a turn is written."""
        self.flights += 1

    def factory(self, kind: type[Plain]) -> Factory:
        made = Factory()
        made.noisy = False

        def build(address: object) -> Plain:
            self.protocols.append(kind())
            protocol: Plain = self.protocols[-1]
            return protocol

        made.buildProtocol = build  # type: ignore[method-assign,assignment]
        return made

    def pair(self, kind: type[Plain] = Halves) -> tuple[socket.socket, Any]:
        """Both ends of a connection that no port made."""
        ours, theirs = socket.socketpair()
        self.addCleanup(theirs.close)
        theirs.settimeout(DEADLINE_SECONDS)
        protocol = kind()
        protocol.makeConnection(UnixMember(self.crowd, ours, protocol, "", None, 0, self.loop))
        return theirs, protocol

    def is_quiet(self) -> bool:
        """Whether the reactor has no reason to call us."""
        return not select.select([self.crowd.fileno()], [], [], 0)[0]


class TcpTests(CrowdCase):
    """Everything that a transport promises, on a TCP socket."""

    def listen(self, kind: type[Plain]) -> Any:
        """A port whose connections are in the crowd."""
        port = tcp.Port(0, self.factory(kind), 50, "127.0.0.1", self.loop)
        self.crowd.adopt(port)
        port.startListening()
        self.addCleanup(self.close, port)
        return port

    def close(self, port: Any) -> None:
        port.stopListening()
        self.loop.advance(0)

    def dial(self, port: Any) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port.getHost().port))

    def connect(self, kind: type[Plain] = Halves, small: bool = False) -> tuple[socket.socket, Any]:
        """A peer, and our end of its connection; `small`: with buffers that hold little."""
        peer = self.dial(self.listen(kind))
        self.addCleanup(peer.close)
        peer.settimeout(DEADLINE_SECONDS)
        count = len(self.protocols)
        self.loop.until(lambda: len(self.protocols) > count)
        protocol = self.protocols[-1]
        self.assertIsInstance(protocol.transport, Member)
        if small:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
            protocol.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER_BYTES)
        return peer, protocol

    def reset(self, peer: socket.socket) -> None:
        """Let the peer be gone without a farewell: what it was sent and has not read, a unix socket resets for."""
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()

    def take(self, peer: socket.socket, size: int) -> bytes:
        """So many bytes of what the peer is sent, or all until the end, while the crowd turns."""
        parts, got = [], 0
        peer.setblocking(False)
        while got < size:
            try:
                part = peer.recv(1 << 20)
            except BlockingIOError:
                self.loop.turn()
                continue
            if not part:
                break
            parts.append(part)
            got += len(part)
        return b"".join(parts)

    def assert_lost(self, protocol: Any, kind: type[Exception]) -> None:
        """It was told once that its connection is lost, and nobody watches that any more."""
        self.loop.until(lambda: protocol.lost)
        self.loop.turn()
        self.assertEqual([reason.type for reason in protocol.lost], [kind])
        self.assertEqual((len(self.crowd), self.is_quiet()), (0, True))

    # -- in ------------------------------------------------------------------------------------------------------------

    def test_received(self) -> None:
        """What is sent arrives, in pieces of at most 64 KiB."""
        peer, protocol = self.connect()
        rest = memoryview(MUCH)
        peer.setblocking(False)
        while rest:
            try:
                rest = rest[peer.send(rest) :]
            except BlockingIOError:
                self.loop.turn()
        self.loop.until(lambda: len(protocol.data) == len(MUCH))
        self.assertTrue(protocol.data == MUCH)
        self.assertGreaterEqual(protocol.reads, len(MUCH) // READ_BYTES)

    def test_paused(self) -> None:
        """A paused connection gets nothing, wakes nobody, and gets all of it when it goes on."""
        peer, protocol = self.connect()
        protocol.transport.pauseProducing()
        for _ in range(3):
            peer.sendall(b"x" * 1000)
            self.loop.turn()
            self.loop.turn()
            self.assertEqual((protocol.data, self.is_quiet()), (b"", True))
        protocol.transport.resumeProducing()
        self.loop.until(lambda: len(protocol.data) == 3000)
        # For less than it takes to be reported.
        protocol.transport.pauseProducing()
        peer.sendall(b"y")
        protocol.transport.resumeProducing()
        self.loop.until(lambda: protocol.data.endswith(b"y"))

    def test_paused_in_between(self) -> None:
        """One that pauses while it is given something gets no more of it."""
        peer, protocol = self.connect()
        protocol.on_data = lambda data: protocol.transport.pauseProducing()
        peer.sendall(MUCH[: 2 * READ_BYTES])
        self.loop.until(lambda: protocol.data)
        got = len(protocol.data)
        self.assertLessEqual(got, READ_BYTES)
        for _ in range(3):
            self.loop.turn()
        self.assertEqual((len(protocol.data), self.is_quiet()), (got, True))

    def test_paused_and_reset(self) -> None:
        """A paused connection that is reset wakes nobody; when it goes on it is lost."""
        peer, protocol = self.connect()
        protocol.transport.pauseProducing()
        peer.sendall(b"x")
        self.loop.turn()
        self.reset(peer)
        for _ in range(3):
            self.loop.turn()
        self.assertEqual((protocol.lost, self.is_quiet()), ([], True))
        protocol.transport.resumeProducing()
        self.loop.until(lambda: protocol.lost or "read lost" in protocol.calls)
        protocol.transport.abortConnection()
        self.loop.until(lambda: protocol.lost)
        self.assertEqual((len(self.crowd), self.is_quiet()), (0, True))

    def test_reset_at_once(self) -> None:
        """A peer that connects and is gone before anybody looks leaves nothing behind."""
        port = self.listen(Plain)
        self.reset(self.dial(port))
        peer = self.dial(port)
        self.addCleanup(peer.close)
        self.loop.until(lambda: len(self.protocols) - sum(bool(each.lost) for each in self.protocols) == 1)
        peer.sendall(b"x")
        self.loop.until(lambda: self.protocols[-1].data == b"x")
        self.assertEqual(len(self.crowd), 1)

    def test_failed(self) -> None:
        """A protocol that raises loses its connection, and no other one is served less for it."""
        peers = [self.pair() for _ in range(5)]

        def fail(data: bytes) -> None:
            raise ZeroDivisionError

        peers[2][1].on_data = fail
        for peer, _ in peers:
            peer.sendall(b"x")
        self.loop.turn()
        self.assertEqual([protocol.data for _, protocol in peers], [b"x"] * 5)
        self.assertEqual([len(protocol.lost) for _, protocol in peers], [0, 0, 1, 0, 0])
        self.assertEqual([each.type for each in self.flushLoggedErrors(ZeroDivisionError)], [ZeroDivisionError])
        self.assertEqual(peers[2][0].recv(1), b"")

    # -- out -----------------------------------------------------------------------------------------------------------

    def test_written(self) -> None:
        """Much more than the socket takes at once arrives whole, in order, however it was written."""
        peer, protocol = self.connect(small=True)
        transport = protocol.transport
        transport.write(MUCH)
        transport.writeSequence([b"a", b"b", b"c"])
        transport.write(b"d")
        expected = MUCH + b"abcd"
        self.assertTrue(self.take(peer, len(expected)) == expected)
        self.loop.turn()
        self.assertTrue(self.is_quiet())

    def test_at_once(self) -> None:
        """What the operating system takes is sent without a turn; from there on it takes nothing until it is read."""
        peer, protocol = self.connect(small=True)
        sent = 0
        while (some := protocol.transport.writeSomeData(MUCH)) != 0:
            self.assertIsInstance(some, int)
            sent += some
        self.assertGreater(sent, 0)
        self.assertEqual(protocol.transport.writeSomeData(memoryview(MUCH)), 0)
        protocol.transport.write(b"end")
        self.assertTrue(self.take(peer, sent + 3).endswith(b"end"))

    def test_closed_with_much_to_send(self) -> None:
        """Who closes gets rid of all that was written first, and reads no more."""
        peer, protocol = self.connect(small=True)
        protocol.transport.write(MUCH)
        protocol.transport.loseConnection()
        protocol.transport.write(b"")
        peer.sendall(b"nobody reads this")
        taken = self.take(peer, len(MUCH))
        self.assertTrue(taken == MUCH)
        self.assert_lost(protocol, ConnectionDone)
        self.assertEqual(protocol.data, b"")

    def test_reset_while_writing(self) -> None:
        """A peer that is gone with replies on their way: the protocol is told once, and knows what was not sent."""
        peer, protocol = self.connect(small=True)
        transport = protocol.transport
        transport.write(MUCH)
        self.loop.turn()
        self.reset(peer)
        self.loop.until(lambda: protocol.lost)
        self.assert_lost(protocol, ConnectionLost)
        left = len(transport.dataBuffer) - transport.offset + transport._tempDataLen
        self.assertTrue(0 < left <= len(MUCH))
        self.assertIsNone(transport.write(b"into the void"))

    def test_send_fails(self) -> None:
        """What is sent to who is gone is an error that is given back, not raised."""
        peer, protocol = self.connect()
        self.reset(peer)
        results = {type(protocol.transport.writeSomeData(b"x")) for _ in range(10)}
        self.assertIn(ConnectionLost, results)

    def test_aborted(self) -> None:
        """Who aborts drops what was written; the peer sees no end in order."""
        peer, protocol = self.connect(small=True)
        protocol.transport.write(MUCH)
        protocol.transport.abortConnection()
        protocol.transport.abortConnection()
        self.assert_lost(protocol, ConnectionAborted)
        try:
            self.assertLess(len(self.take(peer, len(MUCH))), len(MUCH))
        except ConnectionError:
            pass

    # -- half of it ----------------------------------------------------------------------------------------------------

    def test_peer_half_closed(self) -> None:
        """A peer that sends no more still gets its answers; nobody is woken by its end a second time."""
        peer, protocol = self.connect()
        peer.sendall(b"last")
        peer.shutdown(socket.SHUT_WR)
        self.loop.until(lambda: protocol.calls)
        self.assertEqual((protocol.data, protocol.calls, protocol.lost), (b"last", ["read lost"], []))
        self.loop.turn()
        self.loop.turn()
        self.assertTrue(self.is_quiet())
        protocol.transport.write(b"answer")
        protocol.transport.loseConnection()
        self.assertEqual(self.take(peer, 100), b"answer")
        self.assert_lost(protocol, ConnectionDone)

    def test_end_of_what_knows_no_halves(self) -> None:
        """To a protocol that does not know of halves, the end of one is the end."""
        peer, protocol = self.connect(Plain)
        peer.shutdown(socket.SHUT_WR)
        self.assert_lost(protocol, ConnectionDone)

    def test_we_half_close(self) -> None:
        """We send no more, once all is sent, and still read."""
        peer, protocol = self.connect(small=True)
        protocol.transport.write(MUCH)
        protocol.transport.loseWriteConnection()
        self.assertTrue(self.take(peer, len(MUCH) + 1) == MUCH)
        self.loop.until(lambda: protocol.calls == ["write lost"])
        peer.setblocking(True)
        peer.sendall(b"still here")
        self.loop.until(lambda: protocol.data == b"still here")
        protocol.transport.loseConnection()
        self.assert_lost(protocol, ConnectionDone)

    # -- what else a transport is --------------------------------------------------------------------------------------

    def test_push_producer(self) -> None:
        """One that pushes is stopped when more than 64 KiB wait, and goes on when all is sent."""
        peer, protocol = self.connect(small=True)
        protocol.transport.registerProducer(protocol, True)
        protocol.transport.write(MUCH[:READ_BYTES])
        self.assertEqual(protocol.calls, [])
        protocol.transport.write(MUCH[READ_BYTES:])
        self.assertEqual(protocol.calls, ["pause"])
        self.assertTrue(self.take(peer, len(MUCH)) == MUCH)
        self.loop.until(lambda: protocol.calls == ["pause", "resume"])
        protocol.transport.abortConnection()
        self.loop.until(lambda: protocol.lost)
        self.assertEqual(protocol.calls, ["pause", "resume", "stop"])

    def test_pull_producer(self) -> None:
        """One that is asked is asked when all is sent; a connection that closes waits for it."""
        peer, protocol = self.connect()
        protocol.transport.registerProducer(protocol, False)
        self.loop.until(lambda: protocol.calls)
        asked = len(protocol.calls)
        protocol.transport.write(b"x")
        self.loop.until(lambda: len(protocol.calls) > asked)
        protocol.transport.loseConnection()
        self.loop.turn()
        self.assertEqual(protocol.lost, [])
        protocol.transport.unregisterProducer()
        self.assertEqual(self.take(peer, 100), b"x")
        self.assert_lost(protocol, ConnectionDone)

    def test_faces(self) -> None:
        """It is what Twisted's protocols look for, and knows both ends."""
        peer, protocol = self.connect()
        transport = protocol.transport
        self.assertTrue(ITCPTransport.providedBy(transport) and IConsumer.providedBy(transport))
        transport.setTcpNoDelay(True)
        transport.setTcpKeepAlive(True)
        self.assertTrue(transport.getTcpKeepAlive())
        self.assert_ends(peer, transport)

    def assert_ends(self, peer: socket.socket, transport: Any) -> None:
        self.assertTrue(transport.getTcpNoDelay())
        self.assertEqual((transport.getPeer().host, transport.getPeer().port), peer.getsockname())
        self.assertEqual((transport.getHost().host, transport.getHost().port), peer.getpeername())
        self.assertEqual(str(peer_of(transport).address), "127.0.0.1")


class UnixTests(TcpTests):
    """The same on a unix socket, which also knows who its peer is."""

    def listen(self, kind: type[Plain]) -> Any:
        # A socket's path has 108 bytes at most, which trial's own directories may not leave.
        place = TemporaryDirectory()
        self.addCleanup(place.cleanup)
        port = unix.Port(f"{place.name}/socket".encode(), self.factory(kind), 50, 0o600, self.loop)
        self.crowd.adopt(port)
        port.startListening()
        self.addCleanup(self.close, port)
        return port

    def dial(self, port: Any) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.connect(port.getHost().name)
        return made

    def reset(self, peer: socket.socket) -> None:
        peer.close()

    def assert_ends(self, peer: socket.socket, transport: Any) -> None:
        self.assertEqual(peer_of(transport).user, os.getuid())


class TogetherTests(CrowdCase):
    """Many at once."""

    def test_one_turn(self) -> None:
        """All who are ready are served in one turn, which lasts as long; then those who have something left to do."""
        peers = [self.pair() for _ in range(300)]
        lasted = []
        for number, (peer, protocol) in enumerate(peers):
            protocol.on_data = lambda data: lasted.append(self.turn.lasts)
            peer.sendall(b"%d" % number)
        self.assertTrue(self.loop.turn())
        self.assertEqual([protocol.data for _, protocol in peers], [b"%d" % number for number in range(300)])
        self.assertEqual((all(lasted), self.turn.lasts, self.flights > 0), (True, False, True))
        self.assertTrue(self.is_quiet())

    def test_nobody_is_forgotten(self) -> None:
        """Those who send without end do not keep the others from being read, nor the reactor from its other work."""
        peers = [self.pair() for _ in range(200)]
        for peer, _ in peers:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            peer.setblocking(False)

        def fill() -> None:
            for peer, _ in peers:
                try:
                    peer.send(MUCH)
                except BlockingIOError:
                    pass

        turns = 0
        while min(protocol.reads for _, protocol in peers) < 10:
            fill()
            before = sum(len(protocol.data) for _, protocol in peers)
            self.loop.turn()
            turns += 1
            self.assertLessEqual(sum(len(protocol.data) for _, protocol in peers) - before, (4 << 20) + READ_BYTES)
            reads = [protocol.reads for _, protocol in peers]
            self.assertLessEqual(max(reads) - min(reads), turns // 4 + 3)

    def test_ten_thousand(self) -> None:
        """So many connections are served, and as many as say nothing cost no turn."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        count = 10_000 if hard == resource.RLIM_INFINITY else min(10_000, hard // 2 - 100)
        peers = [self.pair() for _ in range(count)]
        self.assertEqual((len(self.crowd), self.is_quiet()), (count, True))
        for peer, _ in peers:
            peer.sendall(b"x")
        while self.loop.turn():
            pass
        self.assertTrue(all(protocol.data == b"x" for _, protocol in peers))
        for peer, _ in peers:
            peer.close()
        while self.loop.turn():
            for _, protocol in peers:
                if protocol.calls and not protocol.lost:
                    protocol.transport.loseConnection()
        self.assertEqual(len(self.crowd), 0)

    def test_closed(self) -> None:
        """With the crowd all its connections end, and the reactor does not watch it any more."""
        peers = [self.pair() for _ in range(10)]
        self.crowd.close()
        self.crowd.close()
        self.assertEqual(self.loop.readers, [])
        self.assertEqual([len(protocol.lost) for _, protocol in peers], [1] * 10)

    def test_somebody_closes_another(self) -> None:
        """One that is lost while another one is served is not served any more."""
        peers = [self.pair() for _ in range(10)]
        for peer, protocol in peers:
            peer.sendall(b"x")
            protocol.on_data = lambda data: [
                each.transport.abortConnection() for _, each in peers if not each.data and not each.lost
            ]
        self.loop.turn()
        self.loop.turn()
        self.assertEqual(sorted(len(protocol.lost) for _, protocol in peers), [0] + [1] * 9)
        self.assertEqual(len(self.crowd), 1)
