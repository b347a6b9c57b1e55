"""A daemon that is killed again and again under writers, transactions and readers, over real QUIC.

The oracle is what the clients know. A write that was answered is there. A transaction is there in both of its topics or
in none; in both if its commit was answered, in none if it was rolled back. A message whose acknowledgement was answered
never comes again, not even after the next kill; one without comes again until it has one.
"""

from __future__ import annotations

import random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from streamd.quic.client import Trust
from streamd.tls.server_certificate import CA_NAME
from streamd.wire.client import fujin as client
from streamd.wire.fujin_replies import Reply
from tests.rigs.daemon import Daemon
from tests.rigs.protocols.fujin_quic import Client, Ended, Stream, asynchronous

ROUNDS = 6
CONFIG = """
data_dir = "{directory}/data"

[store]
# Small, so that the journal rolls and is folded many times.
journal_file_bytes = 1048576
reserve_bytes = 65536

[fujin]
endpoint = "quic:0:interface=127.0.0.1"

[fujin.readers.manual]
topic = "a"
group = "g"
auto_commit = false

[fujin.readers.all-a]
topic = "a"
group = ""

[fujin.readers.all-b]
topic = "b"
group = ""
"""


class Known:
    """What the clients know, over all rounds."""

    def __init__(self) -> None:
        self.sent = 0
        self.written: set[bytes] = set()
        """Answered: written alone, or committed."""
        self.in_transactions: set[bytes] = set()
        self.rolled_back: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        """Answered acknowledgements of messages in `a`."""
        self.delivered: set[bytes] = set()
        self.answers = 0
        """So much has happened: a test waits here for the moment to strike."""
        self.errors: list[str] = []

    def number(self) -> bytes:
        """The next message."""
        self.sent += 1
        return b"%d " % self.sent + bytes(random.Random(self.sent).choice((0, 10, 100, 3000)))


async def write(stream: Stream, known: Known, chance: random.Random) -> None:
    """Write to `a`, many at a time."""
    stream.send(client.connect_writer(1))
    while True:
        messages = [known.number() for _ in range(chance.randint(1, 40))]
        stream.send(client.writes(0, "a", messages))
        answered = 0
        while answered < len(messages):
            event = await stream.event()
            assert isinstance(event, client.Answers) and event.code == 0, event
            known.written.update(messages[id] for id in event.ids)
            answered += len(event.ids)
        known.answers += answered


async def transact(stream: Stream, known: Known, chance: random.Random) -> None:
    """The same messages to `a` and `b`, in transactions small and large, some of them rolled back."""
    stream.send(client.connect_writer(2))
    while True:
        messages = [known.number() for _ in range(chance.choice((1, 5, 300)))]
        good = chance.random() < 0.8
        known.in_transactions.update(messages)
        known.rolled_back.update(() if good else messages)
        stream.send(client.begin(1), client.writes(0, "a", messages), client.writes(0, "b", messages))
        stream.send(client.commit(2) if good else client.rollback(2))
        while True:
            event = await stream.event()
            assert isinstance(event, client.Answers) and event.code == 0, event
            if event.reply in (Reply.COMMITTED, Reply.ROLLED_BACK):
                break
        known.written.update(messages if good else ())
        known.answers += 1


async def read(stream: Stream, known: Known, chance: random.Random) -> None:
    """Read `a` in the group, and acknowledge most of it, in any order; refuse some."""
    stream.send(client.connect_reader("manual", consumer=True))
    await stream.event()
    asked: dict[int, bytes] = {}
    next_id, held = 0, 0
    while True:
        if held < 20:
            stream.send(client.fetch(30))
            held += 30
        event = await stream.event()
        if isinstance(event, client.Messages):
            held -= event.batch.count
            pairs = list(zip(event.metas, [bytes(each) for each in event.batch.records()], strict=True))
            for _, message in pairs:
                if message in known.acknowledged:
                    known.errors.append(f"{message[:20]!r} came again")
                known.delivered.add(message)
            chance.shuffle(pairs)
            for meta, message in pairs:
                next_id += 1
                back = chance.random() < 0.1
                asked[next_id] = b"" if back else message
                stream.send(client.acknowledge(next_id, meta, back=back))
        else:
            assert isinstance(event, client.Answers) and event.code == 0, event
            for id in event.ids:
                message = asked.pop(id)
                if event.reply is Reply.ACKNOWLEDGED:
                    known.acknowledged.add(message)
            known.answers += len(event.ids)


class KillTests(TestCase):
    timeout = 300

    def setUp(self) -> None:
        from twisted.internet import reactor

        self.reactor: Any = reactor
        directory = self.mktemp()
        self.daemon = Daemon(directory, "--config", "streamd.toml")
        self.daemon.directory.mkdir(parents=True)
        config = self.daemon.directory / "streamd.toml"
        config.write_text(CONFIG.format(directory=self.daemon.directory))
        self.addCleanup(self.daemon.close)
        self.known = Known()

    async def dial(self) -> Client:
        trust = Trust((self.daemon.data_dir / CA_NAME).read_bytes())
        return await Client().dial(self.reactor, self.daemon.port("fujin"), trust)

    async def hang_up(self, *clients: Client) -> None:
        for each in clients:
            assert each.connection is not None
            each.connection.close()
            while each.connection.is_active:
                await deferLater(self.reactor, 0.001, lambda: None)
        await deferLater(self.reactor, 0, lambda: None)

    def talk(self, talk: Any, each: Client, seed: int) -> Deferred[None]:
        """Let one talk until the daemon is gone."""

        async def run() -> None:
            try:
                await talk(each.stream(), self.known, random.Random(seed))
            except (Ended, EOFError, CancelledError):
                pass

        return Deferred.fromCoroutine(run())

    @asynchronous
    async def test_kill(self) -> None:
        """Rounds with SIGKILL, at moments that differ, on one data directory."""
        chance = random.Random(5)
        for round_ in range(ROUNDS):
            self.daemon.start()
            clients = [await self.dial() for _ in range(3)]
            talks = (write, transact, read, read, read)
            busy = [self.talk(talk, clients[at % 3], 10 * round_ + at) for at, talk in enumerate(talks)]
            strike = self.known.answers + chance.choice((100, 800, 3000))
            while self.known.answers < strike and not any(each.called for each in busy):
                await deferLater(self.reactor, 0.005, lambda: None)
            self.assertFalse(any(each.called for each in busy), self.daemon.output)
            self.daemon.kill()
            await self.hang_up(*clients)
            await DeferredList(busy, fireOnOneErrback=True)
            self.assertEqual(self.known.errors, [])
        self.daemon.start()
        await self.check()

    async def check(self) -> None:
        known = self.known
        last = await self.dial()
        a, b = await self.all_of(last, "all-a"), await self.all_of(last, "all-b")
        self.assertEqual((len(set(a)), len(set(b))), (len(a), len(b)), "nothing is stored twice")
        self.assertLessEqual(known.written, set(a), "what was answered is there")
        self.assertEqual(set(a) & known.in_transactions, set(b), "a transaction is there as a whole")
        self.assertEqual(set(b) & known.rolled_back, set())
        self.assertGreater(len(b), 100)
        # What was never acknowledged comes again, all of it, and nothing else.
        left = await self.drain(last)
        self.assertEqual(left & known.acknowledged, set())
        self.assertLessEqual(set(a) - left, known.delivered, "what does not come was delivered before")
        self.assertGreater(len(known.acknowledged), 500)
        await self.hang_up(last)

    async def all_of(self, connection: Client, name: str) -> list[bytes]:
        stream = connection.stream(client.connect_reader(name, consumer=False))
        await stream.event()
        # A mark behind everything: when it comes, all before it have.
        topic, mark = name[-1], b"the end of " + name.encode()
        connection.stream(client.connect_writer(0), client.write(1, topic, mark))
        found: list[bytes] = []
        while not found or found[-1] != mark:
            found += [message for _, message in await stream.messages(1)]
        return found[:-1]

    async def drain(self, connection: Client) -> set[bytes]:
        """All that the group still gives out, with the mark at its end."""
        stream = connection.stream(client.connect_reader("manual", consumer=False))
        await stream.event()
        found: set[bytes] = set()
        id = 0
        while b"the end of all-a" not in found:
            event = await stream.event()
            if isinstance(event, client.Messages):
                found.update(bytes(each) for each in event.batch.records())
                for meta in event.metas:
                    id += 1
                    stream.send(client.acknowledge(id, meta))
        found.discard(b"the end of all-a")
        return found
