"""Transactions of Fujin: all of it or nothing, over topics, crashes and ends of any kind."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from struct import pack
from typing import Any

from streamd.protocols.fujin.settings import FujinSettings
from streamd.settings import AccessRule
from streamd.store import Segment
from streamd.store.records.offsets import EVENT_HEADER_BYTES
from streamd.wire import fujin_replies as replies
from streamd.wire.client import fujin as client
from streamd.wire.fujin_replies import Code, Reply
from tests.rigs.access.rules import rule
from tests.rigs.protocols.fujin_case import FujinCase, FujinRig, StreamPeer, error, written
from tests.rigs.protocols.rig import Peer

SMALL = 20
LARGE = 200_000
"""Two of these are more than a transaction keeps in memory."""


def answer(reply: Reply, id: int) -> bytes:
    return replies.transaction(reply, pack(">I", id))


class TransactionCase(FujinCase):
    def setUp(self) -> None:
        super().setUp()
        self.writer = self.rig.connect_writer()

    def begin(self, size: int) -> None:
        """A transaction with messages for two topics, one of which is not there yet."""
        self.topic("there", b"before")
        self.assertEqual(self.writer.ask(client.begin(1)), answer(Reply.BEGUN, 1))
        for id in (2, 3, 4):
            self.assertEqual(self.writer.send(client.write(id, "there", bytes(size))).take_all(), written(id))
        self.assertEqual(self.writer.send(client.write(5, "new", bytes(size))).take_all(), written(5))

    def topics(self) -> dict[str, list[int]]:
        """The sizes of all messages in all topics."""
        return {name: [len(each) for each in self.messages_of(name)] for name in self.rig.store.names()}

    @property
    def hidden(self) -> list[Segment]:
        return self.rig.store.hidden_segments()


class CommitTests(TransactionCase):
    def test_commit(self) -> None:
        """Nothing is visible before the commit, and all of it afterwards; also after a restart."""
        for size in (SMALL, LARGE):
            with self.subTest(size=size):
                self.setUp()
                self.begin(size)
                self.assertEqual(self.topics(), {"there": [6]})
                self.assertEqual(len(self.hidden), 0 if size == SMALL else 2)
                self.assertEqual(self.writer.ask(client.commit(9)), answer(Reply.COMMITTED, 9))
                expected = {"there": [6, size, size, size], "new": [size]}
                self.assertEqual(self.topics(), expected)
                self.assertEqual(self.hidden, [])
                self.restart()
                self.assertEqual(self.topics(), expected)

    def test_one_read(self) -> None:
        """A whole transaction, and the next one, in one read."""
        asked = client.begin(1) + client.writes(2, "a", [b"x"] * 3) + client.commit(5)
        again = client.begin(6) + client.write(7, "b", b"y") + client.rollback(8) + client.write(9, "c", b"z")
        expected = answer(Reply.BEGUN, 1) + written(2, 3, 4) + answer(Reply.COMMITTED, 5)
        expected += answer(Reply.BEGUN, 6) + written(7) + answer(Reply.ROLLED_BACK, 8) + written(9)
        self.assertEqual(self.writer.ask(asked + again), expected)
        self.assertEqual(self.topics(), {"a": [1, 1, 1], "c": [1]})

    def test_durable(self) -> None:
        """COMMIT is answered when it is on disk."""
        self.begin(SMALL)
        self.rig.held = True
        self.assertEqual(self.writer.ask(client.commit(9)), b"")
        self.rig.release()
        self.assertEqual(self.writer.take(), answer(Reply.COMMITTED, 9))

    def test_counted(self) -> None:
        """What it wrote is counted as appended when its COMMIT is on disk, and only then."""
        for size in (SMALL, LARGE):
            self.setUp()
            traffic = self.rig.load.traffic_of("fujin")
            self.begin(size)
            self.rig.held = True
            self.writer.send(client.commit(9))
            self.assertEqual((traffic.appended_records, traffic.appended_bytes), (0, 0))
            self.rig.release()
            self.assertEqual((traffic.appended_records, traffic.appended_bytes), (4, 4 * size))
            self.writer.ask(client.begin(1) + client.write(2, "there", b"x") + client.rollback(3))
            self.writer.ask(client.begin(4) + client.commit(5))
            self.assertEqual((traffic.appended_records, traffic.appended_bytes), (4, 4 * size))

    def test_empty(self) -> None:
        """A transaction without a message is one, too."""
        for end, reply in ((client.commit, Reply.COMMITTED), (client.rollback, Reply.ROLLED_BACK)):
            self.assertEqual(self.writer.ask(client.begin(1) + end(2)), answer(Reply.BEGUN, 1) + answer(reply, 2))

    def test_crash_anywhere(self) -> None:
        """Whatever of the disk's work is done when the process dies: all of a transaction is there, or none."""
        for size in (SMALL, LARGE):
            for steps in range(8):
                self.setUp()
                self.begin(size)
                self.rig.held = True
                self.writer.send(client.commit(9))
                for _ in range(min(steps, 8)):
                    if len(self.rig.writer):
                        self.rig.writer.step()
                told = self.writer.take() == answer(Reply.COMMITTED, 9)
                directory = self.directory
                other = self.copy(directory)
                sizes = [len(self.all_of(other, "there")), len(self.all_of(other, "new"))]
                self.assertIn(sizes, [[4, 1]] if told else [[4, 1], [1, 0]])
                other.close()

    def copy(self, directory: str) -> FujinRig:
        """Another daemon on what is on disk now."""
        self.directory = self.mktemp()
        shutil.copytree(directory, self.directory)
        return self.start()

    def all_of(self, rig: FujinRig, topic: str) -> list[bytes]:
        own, self.rig = self.rig, rig
        try:
            return self.messages_of(topic)
        finally:
            self.rig = own


class RollbackTests(TransactionCase):
    def test_every_end(self) -> None:
        """ROLLBACK, DISCONNECT, FIN, and a lost stream: nothing of it is ever seen, and nothing is left."""
        ends: list[Callable[[StreamPeer], object]] = [
            lambda peer: peer.send(client.rollback(9)),
            lambda peer: peer.send(client.DISCONNECT),
            lambda peer: peer.send(b"\0"),
            Peer.shut,
            Peer.drop,
        ]
        for size in (SMALL, LARGE):
            for end in ends:
                self.setUp()
                self.begin(size)
                end(self.writer)
                self.rig.run()
                self.assertEqual(self.topics(), {"there": [6]})
                self.assertEqual(self.hidden, [])
                self.assertLess(self.rig.load.held_bytes, 100_000)

    def test_lost_while_it_is_written(self) -> None:
        """A stream that is lost while its transaction is on the way to the disk leaves nothing, too."""
        self.writer.send(client.begin(1))
        self.rig.held = True
        self.writer.send(client.writes(2, "a", [bytes(LARGE)] * 3))
        self.writer.drop()
        self.rig.release()
        self.assertEqual((self.topics(), self.hidden), ({}, []))

    def test_memory(self) -> None:
        """What a transaction keeps counts as buffered; when it is over, nothing does."""
        self.writer.send(client.begin(1) + client.write(2, "a", bytes(100_000)))
        self.writer.take()
        self.assertGreaterEqual(self.rig.load.held_bytes, 100_000)
        self.writer.send(client.write(3, "a", bytes(LARGE)))
        self.writer.take()
        self.assertLess(self.rig.load.held_bytes, 100_000)
        self.writer.send(client.rollback(4))
        self.writer.drop()
        self.assertEqual(self.rig.load.held_bytes, 0)


class LimitTests(TransactionCase):
    """Limits hold inside of a transaction as they do outside."""

    def put(self, *rules: AccessRule) -> None:
        self.rig.core.access.replace(rules, 0.0)

    def seconds(self, asked: list[bytes], replies: int) -> int:
        """How long it takes until all of this is answered."""
        told, seconds = b"", 0
        for each in asked:
            self.writer.send(each)
        told += self.writer.take_all()
        while len(told) < replies:
            self.rig.advance(1.0)
            seconds += 1
            told += self.writer.take_all()
        self.assertEqual(len(told), replies)
        return seconds

    def test_rates(self) -> None:
        """Each WRITE is paid for, by the rate of the connection and by that of a rule, small and large ones."""
        for size in (3000, 12_000):
            for rate, value in (("messages_per_second", 10.0), ("bytes_per_second", 10.0 * size)):
                for of in ("", "connection_"):
                    self.setUp()
                    limit: Any = {f"{of}{rate}_max": value}
                    if of:
                        self.rig.core.limits = replace(self.rig.core.limits, **limit)
                        self.put()
                    else:
                        self.put(rule("write", "create", **limit))
                    writes = [client.write(id, "a", bytes(size)) for id in range(30)]
                    told = len(answer(Reply.BEGUN, 1)) + 30 * len(written(1))
                    self.assertIn(self.seconds([client.begin(1), *writes], told), (2, 3), (rate, of, size))
                    self.assertEqual(len(self.hidden), int(size > 3000))
                    self.assertGreater(self.rig.load.traffic_of("fujin").connections_slowed[f"{of}{rate}"], 0)

    def test_topic_bytes(self) -> None:
        """A topic is held to its bytes with what the transaction has for it: as if it had been written at once."""
        for size, fits in ((20, 3), (120_000, 4)):
            for there in (False, True):
                self.setUp()
                bytes_max = (size + EVENT_HEADER_BYTES) * fits
                if there:
                    self.topic("a", bytes(size))
                    bytes_max += size + EVENT_HEADER_BYTES
                self.put(
                    rule("read", "write", "create", topic_bytes_max=bytes_max),
                    rule("write", "create", topics=("b",)),
                )
                self.writer.ask(client.begin(1))
                for id in range(fits):
                    self.assertEqual(self.writer.send(client.write(id, "a", bytes(size))).take_all(), written(id))
                code, text = error(self.writer.send(client.write(8, "a", bytes(size))).take_all())
                self.assertEqual(code, Code.NOT_ALLOWED)
                self.assertIn("as much as you may fill it with", text)
                self.assertEqual(self.writer.send(client.write(9, "b", bytes(size))).take_all(), written(9))
                self.assertEqual(self.writer.send(client.commit(10)).take_all(), answer(Reply.COMMITTED, 10))
                self.assertEqual(self.topics(), {"a": [size] * (fits + there), "b": [size]})
                self.assertEqual(self.rig.load.refusals["topic_bytes"], 1)

    def test_topic_bytes_meanwhile(self) -> None:
        """Where others have filled it before the COMMIT, that fails: nothing is stored, and nothing is made."""
        for size in (SMALL, LARGE):
            self.setUp()
            self.topic("full")
            self.put(rule("read", "write", "create", topic_bytes_max=3 * size))
            self.writer.ask(client.begin(1))
            for id, topic in enumerate(("new", "full", "full")):
                self.assertEqual(self.writer.send(client.write(id, topic, bytes(size))).take_all(), written(id))
            self.rig.connect_writer().send(client.write(1, "full", bytes(size + 30)))
            self.rig.run()
            self.assertEqual(self.writer.send(client.commit(9)).take_all(), b"")
            self.assertEqual(self.writer.code, Code.COMMIT_FAILED)
            self.assertEqual((self.topics(), self.hidden), ({"full": [size + 30]}, []))
            self.assertEqual(self.rig.load.refusals["topic_bytes"], 1)

    def test_message_bytes(self) -> None:
        """A message over the limit costs the stream, and what the transaction held."""
        self.rig.core.limits = replace(self.rig.core.limits, message_bytes_max=1000)
        writer = self.rig.connect_writer()
        writer.ask(client.begin(1) + client.write(2, "a", bytes(1000)))
        self.assertEqual(error(writer.ask(client.write(3, "a", bytes(1001))))[0], Code.TOO_LARGE)
        self.assertEqual((writer.closed, writer.code), (True, Code.TOO_LARGE))
        self.assertEqual(self.topics(), {})
        self.assertEqual(+self.rig.load.traffic_of("fujin").connections_cut_off, {"message_bytes": 1})


class WrongTests(TransactionCase):
    settings = FujinSettings(transaction_bytes_max=1_000_000)

    def test_states(self) -> None:
        """BEGIN inside a transaction, COMMIT and ROLLBACK outside: the stream is closed with a code."""
        for asked, code in (
            (client.begin(1) + client.begin(2), Code.IN_TRANSACTION),
            (client.commit(1), Code.NO_TRANSACTION),
            (client.rollback(1), Code.NO_TRANSACTION),
        ):
            peer = self.rig.connect_writer()
            peer.send(asked + client.write(3, "a", b"never"))
            self.assertEqual((peer.closed, peer.code), (True, code))
        self.assertEqual(self.rig.store.names(), [])

    def test_too_large(self) -> None:
        """Over the limit WRITE is refused, and the transaction can only be rolled back."""
        for count in (3, 6):
            self.writer.send(client.begin(1) + client.writes(2, "a", [bytes(300_000)] * 3))
            self.writer.take_all()
            for _ in range(2):
                code, text = error(self.writer.ask(client.write(7, "b", bytes(300_000))))
                self.assertEqual(code, Code.TRANSACTION_FAILED)
                self.assertIn("1000000 bytes", text)
            self.assertEqual(self.rig.load.refusals["transaction_bytes"], count // 3)
            self.assertEqual(self.rig.load.refusals["transaction_failed"], count // 3)
            if count == 3:
                self.assertEqual(self.writer.ask(client.rollback(8)), answer(Reply.ROLLED_BACK, 8))
                self.assertEqual(self.hidden, [])
        self.assertEqual(self.writer.ask(client.commit(9)), b"")
        self.assertEqual((self.writer.closed, self.writer.code), (True, Code.COMMIT_FAILED))
        self.assertEqual((self.topics(), self.hidden), ({}, []))

    def test_refused_write(self) -> None:
        """A message that can't be written is not part of the transaction, which goes on."""
        self.topic("sealed")
        self.rig.store.seal(self.rig.store.find("sealed"))
        self.rig.run()
        self.writer.ask(client.begin(1) + client.write(2, "a", b"x"))
        self.assertEqual(error(self.writer.ask(client.write(3, "sealed", b"")))[0], Code.TOPIC_SEALED)
        self.assertEqual(error(self.writer.ask(client.write(3, "", b"")))[0], Code.BAD_TOPIC)
        self.assertEqual(self.writer.ask(client.commit(9)), answer(Reply.COMMITTED, 9))
        self.assertEqual(self.topics(), {"sealed": [], "a": [1]})

    def test_sealed_meanwhile(self) -> None:
        """A commit that can't be: nothing of it is seen, and the stream is closed with a code."""
        for size in (SMALL, LARGE):
            self.setUp()
            self.begin(size)
            self.rig.store.seal(self.rig.store.find("there"))
            self.rig.run()
            self.assertEqual(self.writer.ask(client.commit(9)), b"")
            self.assertEqual((self.writer.closed, self.writer.code), (True, Code.COMMIT_FAILED))
            self.assertEqual({name: sizes for name, sizes in self.topics().items() if sizes}, {"there": [6]})
            self.assertEqual(self.hidden, [])

    def test_full_disk(self) -> None:
        """A disk that fills up in the middle of it: writes are refused, and it can be rolled back."""
        self.writer.ask(client.begin(1) + client.write(2, "a", bytes(LARGE)))
        self.rig.disk.full = True
        self.assertEqual(error(self.writer.ask(client.write(3, "a", bytes(LARGE))))[0], Code.READ_ONLY)
        self.assertEqual(error(self.writer.ask(client.write(4, "a", b"")))[0], Code.TRANSACTION_FAILED)
        self.rig.disk.full = False
        self.rig.advance(2)
        self.assertEqual(self.writer.ask(client.rollback(5)), answer(Reply.ROLLED_BACK, 5))
        self.rig.run()
        self.assertEqual((self.topics(), self.hidden), ({}, []))

    def test_any_history(self) -> None:
        """Several writers, transactions of all sizes, in any order: topics hold what was committed, in that order."""
        chance = random.Random(1)
        peers = [self.rig.connect_writer() for _ in range(4)]
        open_: list[dict[str, list[bytes]] | None] = [None] * 4
        expected: dict[str, list[bytes]] = {name: [] for name in "abc"}
        for step in range(300):
            which = chance.randrange(4)
            peer, pending = peers[which], open_[which]
            if pending is None:
                peer.ask(client.begin(step))
                open_[which] = {name: [] for name in "abc"}
            elif chance.random() < 0.6:
                topic, message = chance.choice("abc"), bytes([step % 256]) * chance.choice((1, 50, 60_000))
                self.assertEqual(peer.send(client.write(step, topic, message)).take_all(), written(step))
                pending[topic].append(message)
            else:
                open_[which] = None
                good = chance.random() < 0.7
                peer.send(client.commit(step) if good else client.rollback(step))
                self.assertEqual(peer.take(), answer(Reply.COMMITTED if good else Reply.ROLLED_BACK, step))
                for topic, messages in pending.items() if good else ():
                    expected[topic] += messages
        for peer in peers:
            peer.drop()
        for topic, messages in expected.items():
            self.assertEqual(self.messages_of(topic), messages)
        self.assertEqual(self.hidden, [])
