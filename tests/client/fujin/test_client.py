"""The client of Fujin on a real daemon, over real QUIC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.trial.unittest import TestCase

from streamd.client import ConnectionLost, Refused
from streamd.client.fujin import FujinClient, Message, Writer
from streamd.quic.client import Trust
from streamd.tls.server_certificate import CA_NAME
from tests.rigs.daemon import Daemon
from tests.rigs.protocols.fujin_quic import asynchronous

CONFIG = """
data_dir = "data"

[limits]
message_bytes_max = 1000000

[fujin]
endpoint = "quic:0:interface=127.0.0.1"
transaction_bytes_max = 100000

[fujin.readers.manual]
topic = "a"
group = "g"
auto_commit = false
"""


class FujinClientTests(TestCase):
    timeout = 120

    def setUp(self) -> None:
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.daemon = Daemon(self.mktemp(), "--config", "streamd.toml")
        self.daemon.directory.mkdir(parents=True)
        (self.daemon.directory / "streamd.toml").write_text(CONFIG)
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def client(self, **options: Any) -> FujinClient:
        trust = Trust((self.daemon.directory / "data" / CA_NAME).read_bytes())
        return FujinClient(f"127.0.0.1:{self.daemon.port('fujin')}", reactor=self.reactor, trust=trust, **options)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[FujinClient]:
        """A client that leaves nothing behind in the reactor."""
        client = self.client()
        async with client:
            connection = client._quic
            yield client
        while connection.is_active:
            await deferLater(self.reactor, 0.001, lambda: None)
        await deferLater(self.reactor, 0, lambda: None)

    @asynchronous
    async def test_write_and_read(self) -> None:
        """Many messages there and back, pushed and fetched."""
        messages = [b"%d " % number * (number % 100) for number in range(20_000)]
        async with self.connected() as client:
            async with client.writer() as writer:
                await writer.write("a", messages)
                await writer.write("b", messages[:3000])
            async with client.reader("a") as reader:
                self.assertTrue(reader.auto_commit)
                self.assertEqual([(await anext(reader)).data for _ in messages], messages)
            async with client.reader("b", fetch=10) as reader:
                self.assertEqual([(await anext(reader)).data for _ in range(3000)], messages[:3000])

    @asynchronous
    async def test_at_once(self) -> None:
        """Several operations at once on one writer: each has its own answer."""
        async with self.connected() as client, client.writer() as writer:
            several = [writer.write(topic, [b"x"] * 2) for topic in ("a", "", "b", "c\0")]
            results = await DeferredList([Deferred.fromCoroutine(each) for each in several], consumeErrors=True)
            self.assertEqual([good for good, _ in results], [True, False, True, False])
            for _, failure in (results[1], results[3]):
                error = failure.value  # type: ignore[attr-defined]
                self.assertIsInstance(error, Refused)
                self.assertEqual((error.reason, error.count), ("BAD_TOPIC", 2))

    async def give_up(self, writer: Writer) -> None:
        async with writer.transaction():
            await writer.write("a", [b"two"])
            raise KeyError

    @asynchronous
    async def test_transactions(self) -> None:
        """Committed at the end of a block, rolled back where it raises."""
        async with self.connected() as client, client.writer() as writer:
            async with writer.transaction():
                await writer.write("a", [b"one"])
            await self.assertFailure(Deferred.fromCoroutine(self.give_up(writer)), KeyError)
            with self.assertRaises(Refused) as caught:
                async with writer.transaction():
                    await writer.write("a", [bytes(60_000)] * 2)
            self.assertEqual(caught.exception.reason, "TRANSACTION_FAILED")
            await writer.write("a", [b"three"])
            async with client.reader("a") as reader:
                self.assertEqual([(await anext(reader)).data for _ in range(2)], [b"one", b"three"])
            with self.assertRaises(ConnectionLost) as lost:
                await writer.commit()
            self.assertIn("NO_TRANSACTION", str(lost.exception))

    @asynchronous
    async def test_acknowledge(self) -> None:
        """What is acknowledged does not come again, what is refused or left behind does."""
        async with self.connected() as client:
            async with client.writer() as writer:
                await writer.write("a", [b"0", b"1", b"2", b"3"])
            async with client.reader("manual", fetch=4) as reader:
                self.assertFalse(reader.auto_commit)
                got = [await anext(reader) for _ in range(4)]
                await reader.acknowledge(got[1:3])
                await reader.refuse(got[:1])
                self.assertEqual(await anext(reader), got[0])
                with self.assertRaises(Refused) as caught:
                    await reader.acknowledge([Message(b"", bytes(7) + b"\x63")])
                self.assertEqual(caught.exception.reason, "NOT_DELIVERED")
            async with client.reader("manual") as reader:
                self.assertEqual([await anext(reader) for _ in range(2)], [got[0], got[3]])

    @asynchronous
    async def test_stop(self) -> None:
        """When the daemon ends a reader ends in order, and so does what follows it."""
        async with self.connected() as client:
            async with client.writer() as writer:
                await writer.write("a", [b"x"])
            reader = client.reader("a")
            await anext(reader)
            ended = deferToThreadPool(self.reactor, self.reactor.getThreadPool(), self.daemon.terminate)
            self.assertEqual([message async for message in reader], [])
            self.assertEqual(await ended, 0, self.daemon.output)

    @asynchronous
    async def test_lost(self) -> None:
        """A daemon that is gone without a word: what waits for it is told, when it was silent for so long."""
        client = await self.client(reply_seconds_max=1.0).connect()
        connection = client._quic
        reader = client.reader("a")
        await reader.connect()
        waiting = Deferred.fromCoroutine(anext(reader))
        self.daemon.kill()
        await self.assertFailure(waiting, ConnectionLost)
        self.assertRaises(ConnectionLost, client.writer)
        await client.close()
        while connection.is_active:
            await deferLater(self.reactor, 0.001, lambda: None)
        await deferLater(self.reactor, 0, lambda: None)

    @asynchronous
    async def test_nobody(self) -> None:
        """Addresses that are none, certificates that nobody trusts, a client that is not connected."""
        self.assertRaises(ValueError, FujinClient, "unix:/x", reactor=self.reactor)
        self.assertRaises(ConnectionLost, self.client().writer)
        stranger = FujinClient(f"127.0.0.1:{self.daemon.port('fujin')}", reactor=self.reactor)
        with self.assertRaises(ConnectionLost):
            await stranger.connect()
        await deferLater(self.reactor, 0, lambda: None)
