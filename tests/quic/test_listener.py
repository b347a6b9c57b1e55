"""Who may come in, and what it costs us when somebody should not."""

from __future__ import annotations

import os
import socket
from random import Random
from typing import Any

from twisted.internet.error import CannotListenError
from twisted.internet.protocol import DatagramProtocol

from streamd.quic.client import Trust
from streamd.quic.endpoint import QuicServerEndpoint
from streamd.quic.flow import BoundedConnection, configuration
from streamd.quic.interfaces import QuicClosed
from streamd.quic.settings import QuicSettings
from streamd.tls.server_certificate import FILE_NAME, local_certificate
from tests.rigs.quic.case import Echo, HalfRecorder, QuicCase, Recorder, Recorders


class Stranger(DatagramProtocol):
    """Sends single datagrams to a server, and remembers what comes back."""

    noisy = False
    transport: Any

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self.answers: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.transport.write(data, self._server)

    def datagramReceived(self, data: bytes, addr: Any) -> None:
        self.answers.append(data)


def first_datagram(reactor: Any) -> bytes:
    """What a client begins a handshake with."""
    settings = QuicSettings(alpn=("test",))
    quic = BoundedConnection(settings, configuration=configuration(settings, is_client=True, server_name="localhost"))
    quic.connect(("127.0.0.1", 1), now=reactor.seconds())
    data: bytes = quic.datagrams_to_send(now=reactor.seconds())[0][0]
    return data


class ListenerTests(QuicCase):
    async def stranger(self, port: int) -> Stranger:
        """One who sends what it likes from a port of its own."""
        stranger = Stranger(("127.0.0.1", port))
        opened = self.reactor.listenUDP(0, stranger, interface="127.0.0.1", maxPacketSize=65535)
        self.addCleanup(opened.stopListening)
        return stranger

    async def works(self, port: int, factory: Recorders) -> None:
        """An honest client is served."""
        connection = await self.dial(port)
        client, _ = await self.open(connection, factory, Recorder(), b"hello")
        await self.until(lambda: client.data == b"hello")

    async def test_garbage(self) -> None:
        """Datagrams that mean nothing leave no trace: no state, no answer, no harm."""
        factory = Recorders(Echo)
        port = await self.listen(factory)
        number = port.getHost().port
        stranger, random = await self.stranger(number), Random(1)
        for first in range(256):
            stranger.send(bytes([first]) + random.randbytes(random.randrange(60)))
        for _ in range(200):
            stranger.send(random.randbytes(random.randrange(1, 1500)))
        stranger.send(b"")
        await self.works(number, factory)
        self.assertEqual(len(port.listener.connections), 1)

    async def test_damaged_beginnings(self) -> None:
        """Nor does a first datagram with any byte of its beginning changed; it costs a handshake that runs out."""
        factory = Recorders(Echo)
        port = await self.listen(factory, handshake_seconds_max=2)
        number = port.getHost().port
        stranger, whole = await self.stranger(number), first_datagram(self.reactor)
        for at in range(40):
            stranger.send(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        await self.works(number, factory)
        await self.until(lambda: not port.listener.handshakes)

    async def test_version(self) -> None:
        """A version that we do not know is answered with those that we do, unless the answer would be the longer."""
        port = await self.listen(Recorders())
        stranger = await self.stranger(port.getHost().port)
        unknown = b"\xc0\x1a\x2a\x3a\x4a" + b"\x08ABCDEFGH" + b"\x04wxyz"
        stranger.send(unknown)
        stranger.send(unknown.ljust(1200, b"\0"))
        await self.until(lambda: bool(stranger.answers))
        (answer,) = stranger.answers
        self.assertEqual(answer[1:5], bytes(4))
        self.assertTrue(answer[5:].startswith(b"\x04wxyz" + b"\x08ABCDEFGH"))
        self.assertIn(b"\x00\x00\x00\x01", answer[19:])
        # An answer of that kind is never answered: two servers would talk for ever.
        stranger.send(answer.ljust(1200, b"\0"))
        stranger.send(unknown.ljust(1200, b"\0"))
        await self.until(lambda: len(stranger.answers) == 2)
        self.assertEqual(port.listener.connections, set())

    async def test_retry(self) -> None:
        """Where a peer has to show its address, one who does not leaves nothing behind, and one who does gets in."""
        factory = Recorders(Echo)
        port = await self.listen(factory, retry_handshakes=0)
        number = port.getHost().port
        stranger = await self.stranger(number)
        for _ in range(20):
            stranger.send(first_datagram(self.reactor))
        await self.until(lambda: len(stranger.answers) == 20)
        self.assertEqual({each[0] & 0xF0 for each in stranger.answers}, {0xF0})
        self.assertLess(max(map(len, stranger.answers)), 200)
        self.assertEqual(port.listener.connections, set())
        await self.works(number, factory)

    async def test_retry_under_load(self) -> None:
        """Otherwise that is asked for from a number of unfinished handshakes on; these run out."""
        factory = Recorders(Echo)
        port = await self.listen(factory, retry_handshakes=5, handshake_seconds_max=2)
        number = port.getHost().port
        stranger = await self.stranger(number)
        for _ in range(50):
            stranger.send(first_datagram(self.reactor))
        await self.until(lambda: len(port.listener.handshakes) == 5)
        await self.works(number, factory)
        self.assertLessEqual(len(port.listener.connections), 6)
        await self.until(lambda: not port.listener.handshakes)
        self.assertEqual(len(factory.opened), 1)
        self.assertEqual(factory.closed, [], "nobody is told of a connection that never was one")

    async def test_handshake_flood(self) -> None:
        """Without that, unfinished handshakes are bounded, and what each is sent is at most three times what came."""
        factory = Recorders()
        port = await self.listen(factory, retry_handshakes=None, handshakes_max=10, handshake_seconds_max=0.4)
        stranger = await self.stranger(port.getHost().port)
        datagrams = [first_datagram(self.reactor) for _ in range(40)]
        for each in datagrams:
            stranger.send(each)
        await self.until(lambda: len(port.listener.handshakes) == 10)
        await self.until(lambda: not port.listener.handshakes)
        self.assertTrue(stranger.answers)
        self.assertLessEqual(sum(map(len, stranger.answers)), 3 * 10 * len(datagrams[0]))
        self.assertIn("handshakes", factory.refused)

    async def test_connections_max(self) -> None:
        """One connection more than there may be is not answered; when one goes, there is room again."""
        factory = Recorders(Echo)
        port = await self.listen(factory, connections_max=2)
        number = port.getHost().port
        first = await self.dial(number)
        await self.dial(number)
        refused = self.endpoint(number, handshake_seconds_max=0.2).dial()
        error = await self.assertFailure(refused, QuicClosed)
        self.assertIn("took too long", str(error))
        self.assertEqual(set(factory.refused), {"connections"})
        first.close()
        await self.until(lambda: len(port.listener.connections) == 1)
        await self.works(number, factory)

    async def test_wrong_protocol(self) -> None:
        """A client that speaks another protocol is told so."""
        port = await self.listen(Recorders())
        error: Any = await self.assertFailure(self.endpoint(port.getHost().port, alpn=("other",)).dial(), QuicClosed)
        self.assertEqual((error.application, error.code), (False, 0x100 + 120))

    async def test_bug(self) -> None:
        """Where the library itself fails on a connection, that one is gone, and no other feels it."""
        factory = Recorders(Echo)
        port = await self.listen(factory)
        number = port.getHost().port

        def fail(*_: Any, **named: Any) -> None:
            raise ArithmeticError(named)

        names = ("receive_datagram", "datagrams_to_send", "next_event", "handle_timer", "get_timer")
        for name in names:
            factory.opened.clear()
            connection = await self.dial(number)
            client, server = await self.open(connection, factory, Recorder())
            await self.until(lambda client=client: client.data == b"?")  # type: ignore[misc]
            setattr(factory.opened[0]._quic, name, fail)
            client.transport.write(b"!")
            await self.until(lambda server=server: server.reason is not None)  # type: ignore[misc]
            self.assertEqual(server.reason.value.reason, "internal error", name)
            self.assertEqual(len(self.flushLoggedErrors(ArithmeticError)), 1, name)
        self.assertEqual(port.listener.connections, set())
        self.assertEqual(len(factory.closed), len(names))
        await self.works(number, factory)

    async def test_stop(self) -> None:
        """A port that stops takes nobody new; streams that are there end in their own time, then it is closed."""
        factory = Recorders(Echo)
        port = await self.listen(factory)
        number = port.getHost().port
        connection = await self.dial(number)
        idle = await self.dial(number)
        client, _ = await self.open(connection, factory, HalfRecorder())
        await port.stopListening()
        late = Recorder()
        connection.openStream(late).write(b"?")
        await self.until(lambda: late.reason is not None)
        await self.assertFailure(self.endpoint(number, handshake_seconds_max=0.2).dial(), QuicClosed)
        await self.until(lambda: not idle.is_open)
        client.transport.write(b"still here")
        client.transport.loseWriteConnection()
        await self.until(lambda: client.reason is not None)
        self.assertEqual(client.data, b"?still here")
        await port.whenClosed()
        await self.until(lambda: not connection.is_open)

    async def test_stop_with_a_deaf_peer(self) -> None:
        """A stream that we have ended does not keep the port open because its peer has not."""
        factory = Recorders(HalfRecorder)
        port = await self.listen(factory)
        connection = await self.dial(port.getHost().port)
        client, server = await self.open(connection, factory, HalfRecorder())
        # It takes note of nothing that it is told, and never ends its part.
        client.transport._stream.sender.reset = lambda error_code: None
        server.transport.loseConnection()
        await port.stopListening()
        await port.whenClosed()
        await self.until(lambda: client.reason is not None)

    async def test_taken_port(self) -> None:
        """A port that another has can't be had."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            endpoint = QuicServerEndpoint(self.reactor, taken.getsockname()[1], certificate=self.certificate)
            await self.assertFailure(endpoint.listen(Recorders()), CannotListenError)


class RereadTests(QuicCase):
    """A certificate that changes while the port is open."""

    async def test_reread(self) -> None:
        """New connections see what is in the files now; one that is there goes on with what it has."""
        directory = self.mktemp()
        os.mkdir(directory)
        first, trusted, _ = local_certificate(directory)
        endpoint = QuicServerEndpoint(self.reactor, 0, certificate=first, settings=QuicSettings(alpn=("test",)))
        port: Any = await endpoint.listen(Recorders(Echo))
        self.ports.append(port)
        before = await self.dial(port.getHost().port, trust=self.trusting(trusted))
        os.unlink(os.path.join(directory, FILE_NAME))
        following = local_certificate(directory).certificate
        endpoint.reread()()
        after = await self.dial(port.getHost().port, trust=self.trusting(trusted))
        shown = [each.peerCertificate for each in (before, after)]
        self.assertEqual(shown, [first.certificate, following.certificate])
        client = HalfRecorder()
        before.openStream(client).write(b"still here")
        await self.until(lambda: client.data == b"still here")

    def trusting(self, path: str) -> Trust:
        with open(path, "rb") as file:
            return Trust(file.read())
