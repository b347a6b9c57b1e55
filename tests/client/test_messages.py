"""The client for everyday work, against a real daemon: under asyncio, on Twisted's reactor, and blocking."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

import streamd
from streamd.client import Refused, StorageClient
from streamd.client.asynchronous import Client, Record
from tests.rigs.client.peers import address
from tests.rigs.daemon import Daemon


async def several(client: Client, topic: str, count: int, **options: Any) -> list[Record]:
    """The first messages of a subscription, which is then closed."""
    records: list[Record] = []
    subscription = client.subscribe(topic, **options)
    async for record in subscription:
        records.append(record)
        if len(records) == count:
            break
    await subscription.close()
    return records


class MessagesCase(SynchronousTestCase):
    def setUp(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self.daemon = Daemon(os.path.abspath(self.mktemp()), "--pravega", f"tcp:{port}:interface=127.0.0.1")
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.address = address(self.daemon, "pravega")

    def run_async(self, steps: Coroutine[Any, Any, Any]) -> None:
        asyncio.run(asyncio.wait_for(steps, 60))


class AsyncioTests(MessagesCase):
    def test_publish_and_follow(self) -> None:
        """What is published is what a subscriber gets, with topic, offset and time, also what comes later."""

        async def main() -> None:
            async with streamd.connect(self.address) as client:
                await client.create("t")
                await client.create("t", exist_ok=True)
                self.assertEqual(await client.topics(), ["t"])
                self.assertEqual(await client.publish("t", b"one"), 0)
                self.assertEqual(await client.publish("t", [b"two", b"three"]), 1)
                later = asyncio.create_task(several(client, "t", 4))
                records = await several(client, "t", 3)
                self.assertEqual(
                    [(each.offset, each.data) for each in records], [(0, b"one"), (1, b"two"), (2, b"three")]
                )
                self.assertEqual({each.topic for each in records}, {"t"})
                self.assertLessEqual(records[0].time, records[2].time)
                await client.publish("t", b"four")
                self.assertEqual((await later)[-1].data, b"four")
                self.assertEqual([each.offset for each in await several(client, "t", 2, start=2)], [2, 3])

        self.run_async(main())

    def test_many_at_once(self) -> None:
        """Messages that are published side by side each have an offset of their own, in their order."""

        async def main() -> None:
            async with streamd.connect(self.address) as client:
                await client.create("t")
                offsets = await asyncio.gather(*[client.publish("t", b"%d" % number) for number in range(500)])
                self.assertEqual(offsets, list(range(500)))
                records = await several(client, "t", 500)
                self.assertEqual([each.data for each in records], [b"%d" % number for number in range(500)])

        self.run_async(main())

    def test_group(self) -> None:
        """Members share the messages; what is given back comes again, with its count; what is acknowledged does not."""

        async def main() -> None:
            async with streamd.connect(self.address) as one, streamd.connect(self.address) as two:
                await one.create("t")
                await one.publish("t", [b"%d" % number for number in range(10)])
                (first,) = await several(one, "t", 1, group="g", prefetch=1)
                await first.ack()
                other = two.subscribe("t", group="g", prefetch=1)
                bad = await anext(other)
                self.assertEqual((bad.offset, bad.deliveries), (1, 1))
                await bad.nack(delay=0.01, error="no")
                await other.close()
                seen: dict[int, int] = {}
                async for record in one.subscribe("t", group="g"):
                    seen[record.offset] = record.deliveries
                    await record.ack()
                    if len(seen) == 9:
                        break
                self.assertEqual(sorted(seen), list(range(1, 10)))
                self.assertEqual(seen[1], 2)

        self.run_async(main())

    def test_reconnects(self) -> None:
        """A daemon that is killed and started again: nothing is lost, nothing is stored twice, all goes on."""

        async def main() -> None:
            async with streamd.connect(self.address) as client:
                await client.create("t")
                following = asyncio.create_task(several(client, "t", 40))
                for number in range(40):
                    if number == 20:
                        self.daemon.kill()
                        publishing = asyncio.create_task(client.publish("t", b"20"))
                        self.daemon.start()
                        await publishing
                    else:
                        await client.publish("t", b"%d" % number)
                records = await following
                self.assertEqual([each.data for each in records], [b"%d" % number for number in range(40)])
                self.assertEqual([each.offset for each in records], list(range(40)))

        self.run_async(main())

    def test_errors(self) -> None:
        """What is refused is told, by its reason; the client goes on."""

        async def main() -> None:
            async with streamd.connect(self.address) as client:
                for wrong in (client.publish("nosuch", b"x"), client.create("bell\a"), several(client, "nosuch", 1)):
                    with self.assertRaises(Refused):
                        await wrong
                await client.create("t")
                with self.assertRaises(Refused):
                    await client.create("t")
                await client.publish("t", b"x")
                (record,) = await several(client, "t", 1)
                with self.assertRaises(ValueError):
                    await record.ack()
                self.assertRaises(ValueError, client.subscribe, "t", group="g", start=1)
                self.assertRaises(ValueError, client.subscribe, "t", start="middle")

        self.run_async(main())

    def test_sealed(self) -> None:
        """A subscription ends with a topic that is sealed, with a group and without."""

        async def main() -> None:
            async with streamd.connect(self.address) as client:
                await client.create("t")
                await client.publish("t", b"x")
                with StorageClient(self.address) as tools:
                    tools.seal(tools.segment("t").id)
                self.assertEqual([each.data async for each in client.subscribe("t")], [b"x"])
                self.assertEqual([each.data async for each in client.subscribe("t", group="g")], [b"x"])

        self.run_async(main())

    def test_later(self) -> None:
        """A message for later comes at its time, in the order of time, also after the daemon was killed meanwhile."""

        async def main() -> None:
            async with streamd.connect(self.address) as client:
                await client.create("t")
                self.assertIsNone(await client.publish("t", b"last", delay=2.0))
                self.assertIsNone(await client.publish("t", b"middle", delay=1.5))
                self.assertEqual(await client.publish("t", b"first"), 0)
                self.daemon.kill()
                self.daemon.start()
                records = await several(client, "t", 3)
                self.assertEqual([each.data for each in records], [b"first", b"middle", b"last"])

        self.run_async(main())

    def test_batches(self) -> None:
        """What has come already can be taken together, and acknowledged together."""

        async def main() -> None:
            async with streamd.connect(self.address) as client:
                await client.create("t")
                await client.publish("t", [b"%d" % number for number in range(50)])
                subscription = client.subscribe("t", group="g")
                first = await anext(subscription)
                records = [first, *subscription.waiting()]
                self.assertEqual([each.offset for each in records], list(range(50)))
                await client.ack_all(records)
                await subscription.close()
                with StorageClient(self.address) as tools:
                    self.assertEqual(tools.groups()[0].lag, 0)

        self.run_async(main())

    def test_idempotent(self) -> None:
        """The same writer with the same sequence is stored once; a part that is new is stored."""
        from uuid import uuid4

        from streamd.batch import Batch

        writer = uuid4().bytes
        with StorageClient(self.address) as tools:
            id = tools.create("t").id
            self.assertEqual(tools.store(id, Batch.of([b"a", b"b"]), writer=writer).number, 0)
            self.assertTrue(tools.store(id, Batch.of([b"a", b"b"]), writer=writer).again)
            self.assertFalse(tools.store(id, Batch.of([b"a", b"b", b"c"]), writer=writer).again)
            with self.assertRaises(Refused) as caught:
                tools.store(id, Batch.of([b"x"]), writer=writer, sequence=9)
            self.assertEqual(caught.exception.reason, "LevelMismatch")
            stored = [bytes(record) for run in tools.read(id, 0) for record in run.batch.records()]
            self.assertEqual(stored, [b"a", b"b", b"c"])


class BlockingTests(MessagesCase):
    def test_all(self) -> None:
        """The same, for code that blocks."""
        with streamd.connect_blocking(self.address) as client:
            client.create("t")
            self.assertEqual([client.publish("t", b"one"), client.publish("t", [b"two", b"three"])], [0, 1])
            subscription = client.subscribe("t", group="g")
            for expected in (b"one", b"two", b"three"):
                record = next(subscription)
                self.assertEqual(record.data, expected)
                record.ack()
            subscription.close()
            client.publish("t", b"four")
            again = client.subscribe("t", group="g")
            record = next(again)
            record.nack(0.0)
            record = next(again)
            self.assertEqual((record.data, record.deliveries), (b"four", 2))


class ReactorTests(TestCase):
    def test_all(self) -> Deferred[None]:
        """The same, on Twisted's reactor."""
        from twisted.internet import reactor

        daemon = Daemon(os.path.abspath(self.mktemp()))
        self.addCleanup(daemon.close)
        daemon.start()

        async def main() -> None:
            async with streamd.connect(address(daemon, "pravega"), reactor=reactor) as client:
                await client.create("t")
                await client.publish("t", [b"one", b"two"])
                records = await several(client, "t", 2, group="g")
                self.assertEqual([each.data for each in records], [b"one", b"two"])
                for record in records:
                    await record.ack()

        return Deferred.fromCoroutine(main())
