"""Fujin over real QUIC: streams beside each other, codes that arrive, pings, and the end of the daemon."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.trial.unittest import TestCase

from streamd.connections.core import Core
from streamd.connections.load import Load
from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.settings import FujinSettings, configure
from streamd.quic.client import Trust
from streamd.quic.endpoint import QuicServerEndpoint
from streamd.settings import Limits, StoreSettings
from streamd.store import open_store
from streamd.tls.server_certificate import CA_KEY_NAME, CA_NAME, FILE_NAME, KEY_NAME
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin_replies import Code, Reply
from tests.rigs.daemon import Daemon
from tests.rigs.protocols.fujin_quic import Client, asynchronous
from tests.rigs.quic.certificates import write_self_made

READERS = {"manual": {"topic": "a", "group": "g", "auto_commit": False}, "all": {"topic": "a", "group": ""}}
CONNECTED = client.Connected(True, 0, 0, "")
WRITER = client.connect_writer(0)


class FujinQuicCase(TestCase):
    """A store and an endpoint in this process."""

    timeout = 60

    def setUp(self) -> Deferred[None]:  # type: ignore[override]
        # Here and not above: the reactor is whatever trial runs these tests in.
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.clients: list[Client] = []
        self.directory = os.path.abspath(self.mktemp())
        self.store = open_store(self.directory, StoreSettings(), reactor, self.fail)
        self.addCleanup(lambda: Deferred.fromCoroutine(self.end()))
        return Deferred.fromCoroutine(self.listen(configure({"readers": READERS})))

    async def listen(self, settings: FujinSettings, clock: Any = None) -> None:
        limits = Limits()
        core = Core(self.store, limits, Load(limits), clock or self.reactor, self.reactor.seconds())
        self.factory = FujinFactory(core, settings)
        endpoint: Any = self.factory.equip(QuicServerEndpoint(self.reactor, 0, certificate=None), self.directory)
        self.port: Any = await endpoint.listen(self.factory)
        with open(os.path.join(self.directory, CA_NAME), "rb") as file:
            self.trust = Trust(file.read())

    async def dial(self, **options: Any) -> Client:
        made = await Client(**options).dial(self.reactor, self.port.getHost().port, self.trust)
        self.clients.append(made)
        return made

    async def end(self) -> None:
        for each in self.clients:
            assert each.connection is not None
            each.connection.close()
        for connection in list(self.port.listener.connections):
            connection.close()
        await self.port.stopListening()
        await self.port.whenClosed()
        await self.store.close()
        while any(each.connection is not None and each.connection.is_active for each in self.clients):
            await deferLater(self.reactor, 0.001, lambda: None)
        await deferLater(self.reactor, 0, lambda: None)

    async def publish(self, *messages: bytes) -> None:
        """Messages for the topic `a`, by a writer of its own."""
        stream = (await self.dial()).stream(WRITER, client.writes(0, "a", messages), client.DISCONNECT)
        left = len(messages)
        while left:
            event = await stream.event()
            assert isinstance(event, client.Answers) and event.code == 0, event
            left -= len(event.ids)
        self.assertEqual(await stream.event(), client.Told(Reply.DISCONNECTED))
        self.assertEqual(await stream.end(), 0)


class StreamTests(FujinQuicCase):
    @asynchronous
    async def test_write_and_read(self) -> None:
        """Many messages, through a writer, to a reader that was there and to one that comes later."""
        connection = await self.dial()
        early = connection.stream(client.connect_reader("all", consumer=False))
        self.assertEqual(await early.event(), CONNECTED)
        messages = [b"%d " % number * (number % 50) for number in range(5000)]
        await self.publish(*messages)
        self.assertEqual([each for _, each in await early.messages(5000)], messages)
        late = connection.stream(client.connect_reader("all", consumer=False))
        self.assertEqual(await late.event(), CONNECTED)
        self.assertEqual([each for _, each in await late.messages(5000)], messages)

    @asynchronous
    async def test_codes(self) -> None:
        """A stream that is closed with a code: it arrives, behind the answers; the other streams go on."""
        connection = await self.dial()
        other = connection.stream(WRITER)
        for wrong, code in (
            (b"\0", Code.UNKNOWN_OPCODE),
            (client.fetch(1), Code.OUT_OF_PLACE),
            (client.commit(1), Code.NO_TRANSACTION),
            (client.begin(1) + client.begin(2), Code.IN_TRANSACTION),
        ):
            stream = connection.stream(WRITER, client.writes(7, "b", [bytes(30_000)] * 20), wrong)
            answered = 0
            while answered < 20:
                event = await stream.event()
                assert isinstance(event, client.Answers)
                answered += len(event.ids)
            if code is Code.IN_TRANSACTION:
                self.assertEqual(await stream.event(), client.Answers(Reply.BEGUN, [1]))
            self.assertEqual(await stream.end(), code)
        self.assertEqual(await other.send(client.write(9, "b", b"")).event(), client.Answers(Reply.WRITTEN, [9]))

    @asynchronous
    async def test_acknowledge(self) -> None:
        """Messages that are acknowledged are done with; those of a stream that is reset come again to another one."""
        await self.publish(b"0", b"1", b"2")
        connection = await self.dial()
        one = connection.stream(client.connect_reader("manual", consumer=True), client.fetch(3))
        self.assertEqual(await one.event(), client.Connected(False, 8, 0, ""))
        got = await one.messages(3)
        one.send(client.acknowledge(5, got[1][0]))
        self.assertEqual(await one.event(), client.Answers(Reply.ACKNOWLEDGED, [5]))
        two = connection.stream(client.connect_reader("manual", consumer=False))
        self.assertEqual(await two.event(), client.Connected(False, 8, 0, ""))
        one.transport.abortConnection()
        self.assertEqual(await two.messages(2), [got[0], got[2]])

    @asynchronous
    async def test_lost_connection(self) -> None:
        """A connection that is lost rolls its transaction back, and gives back what it read."""
        await self.publish(b"0")
        connection = await self.dial()
        writer = connection.stream(WRITER, client.begin(1), client.write(2, "a", b"never"))
        self.assertEqual(await writer.event(), client.Answers(Reply.BEGUN, [1]))
        self.assertEqual(await writer.event(), client.Answers(Reply.WRITTEN, [2]))
        reader = connection.stream(client.connect_reader("manual", consumer=False))
        await reader.event()
        await reader.messages(1)
        assert connection.connection is not None
        connection.connection.close(3, "gone")
        again = (await self.dial()).stream(client.connect_reader("manual", consumer=False))
        await again.event()
        self.assertEqual([each for _, each in await again.messages(1)], [b"0"])
        await self.publish(b"1")
        self.assertEqual([each for _, each in await again.messages(1)], [b"1"])

    @asynchronous
    async def test_slow_reader(self) -> None:
        """A reader that takes nothing costs a bounded amount, and the others nothing."""
        await self.publish(*[bytes(50_000)] * 100)
        connection = await self.dial()
        slow = connection.stream(client.connect_reader("manual", consumer=False))
        slow.transport.pauseProducing()
        quick = (await self.dial()).stream(client.connect_reader("all", consumer=False))
        self.assertEqual(await quick.event(), CONNECTED)
        self.assertEqual(len(await quick.messages(100)), 100)
        slow.transport.resumeProducing()
        await slow.event()
        self.assertEqual(len(await slow.messages(100)), 100)


class PingTests(FujinQuicCase):
    """Pings, at times that the test decides."""

    async def listen(self, settings: FujinSettings, clock: Any = None) -> None:
        self.clock = Clock()
        await super().listen(settings, self.clock)

    async def dial(self, **options: Any) -> Client:
        connection = await super().dial(**options)
        # The server may not know yet that the handshake has ended: from then on it counts the seconds.
        await self.answered(connection)
        return connection

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await deferLater(self.reactor, 0.001, lambda: None)

    async def pinged(self, connection: Client, count: int) -> None:
        """Wait until so many pings have come, and the last one is answered, as far as that goes."""
        await self.until(lambda: len(connection.pings) >= count)
        await self.answered(connection)
        self.assertEqual(connection.pings, replies.PING * count)

    async def answered(self, connection: Client) -> None:
        """A round trip behind all that was sent before, both ways."""
        stream = connection.stream(client.DISCONNECT)
        self.assertEqual(await stream.event(), client.Told(Reply.DISCONNECTED))
        self.assertEqual(await stream.end(), 0)

    @asynchronous
    async def test_times(self) -> None:
        """The first one comes so many seconds after the handshake, the others as many later; who answers stays."""
        connection = await self.dial()
        for count in range(5):
            await self.pinged(connection, count)
            self.clock.advance(1.5)
            await self.pinged(connection, count)
            self.clock.advance(0.5)
        await self.pinged(connection, 5)

    @asynchronous
    async def test_any_answer(self) -> None:
        """Whatever comes back is a PONG: clients of the document's own age answer 10."""
        for pong in (bytes([10]), bytes([12]), bytes([99]), b"\0", b"several bytes"):
            connection = await self.dial(pong=pong)
            for count in range(1, 9):
                self.clock.advance(2)
                await self.pinged(connection, count)
            assert connection.connection is not None
            connection.connection.close()
            await self.until(lambda: not self.factory._pingers)

    @asynchronous
    async def test_unanswered(self) -> None:
        """Who does not answer is cut off with a code, so many seconds after the ping."""
        connection = await self.dial(pong=b"")
        stream = connection.stream(WRITER)
        self.clock.pump([2, 2, 2])
        await self.pinged(connection, 3)
        self.clock.advance(0.5)
        await self.answered(connection)
        self.clock.advance(0.5)
        self.assertEqual(await stream.end(), Code.NO_PONG)
        self.assertEqual(self.factory._pingers, {})
        self.assertEqual(self.clock.getDelayedCalls(), [])


class DaemonTests(TestCase):
    """A real daemon, with nothing configured that a client sees."""

    timeout = 120

    def setUp(self) -> None:
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.clients: list[Client] = []
        self.directory = Path(self.mktemp()).resolve()
        self.directory.mkdir()
        self.addCleanup(lambda: Deferred.fromCoroutine(self.end()))

    def start(self, settings: str = "") -> None:
        config = self.directory / "streamd.toml"
        endpoint = 'endpoint = "quic:0:interface=127.0.0.1"'
        config.write_text(f'data_dir = "{self.directory}/data"\n[fujin]\n{endpoint}\n{settings}\n')
        self.daemon = Daemon(str(self.directory), "--config", str(config))
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.trust = Trust((self.daemon.data_dir / CA_NAME).read_bytes())

    async def dial(self) -> Client:
        made = await Client().dial(self.reactor, self.daemon.port("fujin"), self.trust)
        self.clients.append(made)
        return made

    def terminate(self) -> Deferred[int]:
        return deferToThreadPool(self.reactor, self.reactor.getThreadPool(), self.daemon.terminate)

    async def end(self) -> None:
        """Nothing is left in the reactor."""
        for each in self.clients:
            assert each.connection is not None
            each.connection.close()
            while each.connection.is_active:
                await deferLater(self.reactor, 0.001, lambda: None)
        await deferLater(self.reactor, 0, lambda: None)

    @asynchronous
    async def test_stop(self) -> None:
        """Asked to end it says STOP, lets clients finish, and ends with status 0."""
        self.start()
        connection = await self.dial()
        writer = connection.stream(WRITER, client.write(1, "a", b"x"))
        reader = connection.stream(client.connect_reader("a", consumer=False))
        self.assertEqual(await writer.event(), client.Answers(Reply.WRITTEN, [1]))
        self.assertEqual(await reader.event(), CONNECTED)
        await reader.messages(1)
        ended = self.terminate()
        for stream in (writer, reader):
            self.assertEqual(await stream.event(), client.Told(Reply.STOP))
        writer.send(client.write(2, "a", b"y"), client.DISCONNECT)
        self.assertEqual(await writer.event(), client.Answers(Reply.WRITTEN, [2]))
        self.assertEqual(await writer.event(), client.Told(Reply.DISCONNECTED))
        self.assertEqual(len(await reader.messages(1)), 1)
        reader.send(client.DISCONNECT)
        self.assertEqual(await reader.event(), client.Told(Reply.DISCONNECTED))
        self.assertEqual(await ended, 0, self.daemon.output)

    @asynchronous
    async def test_left(self) -> None:
        """A stream that does not disconnect in time is cut off with a code, be it the only one or one of several."""
        self.start("stop_seconds_max = 0.2")
        for several in (False, True):
            connection, other = await self.dial(), await self.dial()
            left = [connection.stream(WRITER, client.write(1, "a", b"x"))]
            self.assertEqual(await left[0].event(), client.Answers(Reply.WRITTEN, [1]))
            if several:
                for each in (connection, other):
                    left.append(each.stream(client.connect_reader("a", consumer=True)))
                    self.assertEqual(await left[-1].event(), CONNECTED)
            ended = self.terminate()
            for stream in left:
                self.assertEqual(await stream.event(), client.Told(Reply.STOP))
                self.assertEqual(await stream.end(), Code.CUT_OFF)
            self.assertEqual(await ended, 0, self.daemon.output)
            self.daemon.start()

    @asynchronous
    async def test_certificate(self) -> None:
        """It says which file clients have to trust, and when it takes the place of what they trust now."""
        self.start()
        self.assertIn("for this machine", self.daemon.wait_for_line(CA_NAME))
        self.assertNotIn("replaced", self.daemon.output)
        self.daemon.terminate()
        for name in (CA_NAME, CA_KEY_NAME, FILE_NAME, KEY_NAME):
            (self.daemon.data_dir / name).unlink()
        write_self_made(str(self.daemon.data_dir))
        self.daemon.start()
        self.assertIn(CA_NAME, self.daemon.wait_for_line("is replaced"))
        self.trust = Trust((self.daemon.data_dir / CA_NAME).read_bytes())
        stream = (await self.dial()).stream(client.DISCONNECT)
        self.assertEqual(await stream.event(), client.Told(Reply.DISCONNECTED))
