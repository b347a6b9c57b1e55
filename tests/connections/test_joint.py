"""Messages of many connections as one append: each stored and answered once, in the order of its connection."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from streamd.connections.joint import JOINT_BYTES_MAX, JointAppend
from streamd.protocols.sesp import SespProtocol
from tests.rigs.protocols.rig import Peer, Rig

CONNECTIONS = 6
STEPS = 120


class Client:
    """A connection that publishes numbered messages, and remembers which of them were acknowledged."""

    def __init__(self, rig: Rig, number: int) -> None:
        self._number = number
        self.peer: Peer = rig.connect()
        assert self.peer.ask(b"@t\n") == b"+\n"
        self.sent: list[bytes] = []
        self.replies = b""

    @property
    def is_answered(self) -> bool:
        return self.replies.count(b"\n") == len(self.sent)

    def put(self, count: int, padding: int = 0) -> None:
        """Send messages in one segment, and do not wait."""
        messages = [b"%d/%d%b" % (self._number, len(self.sent) + each, b"." * padding) for each in range(count)]
        self.sent += messages
        self.peer.put(b"".join(b">%b\n" % message for message in messages))

    def take(self) -> None:
        self.replies += self.peer.take()

    def stored(self) -> list[bytes]:
        """What has to be there: the messages whose reply says so."""
        lines = self.replies.splitlines()
        return [message for message, line in zip(self.sent, lines, strict=False) if line == b"+"]


class JointTests(SynchronousTestCase):
    """SESP, whose messages are the simplest; the mixes try the other protocols."""

    def setUp(self) -> None:
        self.rig = Rig(self.mktemp())
        self.addCleanup(self.rig.close)
        self.rig.connect().ask(b"#t\n")
        self.rig.in_turns = True
        self.appended: list[int] = []
        gather = JointAppend.gather

        def counted(joint: JointAppend) -> None:
            self.appended.append(len(joint.records))
            gather(joint)

        self.patch(JointAppend, "gather", counted)

    def stored(self) -> list[bytes]:
        segment = self.rig.store.find("t")
        runs = self.successResultOf(self.rig.store.read(segment, 0, bytes_max=64 << 20))
        return [bytes(record) for run in runs for record in run.batch.records()]

    def test_together(self) -> None:
        """Those who wait for each answer share one append, and one commit."""
        clients = [Client(self.rig, number) for number in range(CONNECTIONS)]
        before = self.rig.store.commits
        for _ in range(3):
            for client in clients:
                client.put(1)
            self.rig.run()
            for client in clients:
                client.take()
        # The first of a connection may go its usual way.
        self.assertEqual(self.appended[-2:], [CONNECTIONS] * 2)
        self.assertEqual(self.rig.store.commits - before, 3)
        self.assertEqual([client.replies for client in clients], [b"+\n" * 3] * CONNECTIONS)
        self.assertEqual(self.rig.factory.traffic.appended_records, 3 * CONNECTIONS)
        self.assertEqual(self.rig.factory.traffic.appended_bytes, sum(map(len, self.stored())))

    def test_any(self) -> None:
        """Whatever they do beside it: pipeline, end, vanish, be drained, while the disk is slow or full."""
        for seed in range(40):
            random = Random(seed)
            self.appended.clear()
            self.rig.connect().ask(b"#t\n")
            clients = [Client(self.rig, number) for number in range(CONNECTIONS)]
            gone: list[Client] = []
            for _ in range(STEPS):
                for client in clients:
                    if random.random() < (0.8 if client.is_answered else 0.05):
                        client.put(random.choice((1, 1, 1, 1, 1, 2, 3)), random.choice((0, 0, 0, JOINT_BYTES_MAX)))
                if random.random() < 0.1:
                    self.rig.held = not self.rig.held
                if random.random() < 0.02:
                    self.rig.disk.full = not self.rig.disk.full
                self.rig.run()
                if random.random() < 0.05 and len(clients) > 1:
                    client = clients.pop(random.randrange(len(clients)))
                    gone.append(client)
                    random.choice((client.peer.drop, client.peer.shut, client.peer.protocol.drain))()
                self.rig.clock.advance(0.3)
                for client in clients:
                    client.take()
            self.rig.disk.full = self.rig.held = False
            # After that long a full disk is asked again.
            self.rig.advance(2)
            self.assertGreater(max(self.appended), 2, seed)
            stored = self.stored()
            for client in (*clients, *gone):
                client.take()
                own = [message for message in stored if message in set(client.sent)]
                if client in clients:
                    self.assertTrue(client.is_answered, seed)
                    self.assertEqual(own, client.stored(), seed)
                else:
                    # Of one that vanished some may be stored whose answers nobody took.
                    self.assertEqual(own, [message for message in client.sent if message in set(own)], seed)
                    self.assertLessEqual(set(client.stored()), set(own), seed)
                client.peer.drop()
            self.assertEqual(self.rig.load.held_bytes, 0, seed)
            self.rig.connect().ask(b"!t\n")

    def test_left(self) -> None:
        """One that sends more, or is drained, before its answer is there is answered like any other."""
        for last in (b">b\n", b">b\n<\n", b"?\n"):
            clients = [Client(self.rig, number) for number in range(2)]
            for client in clients:
                client.put(1)
            self.rig.run()
            self.rig.held = True
            for client in clients:
                client.put(1)
            self.rig.run()
            protocol = clients[0].peer.protocol
            assert isinstance(protocol, SespProtocol)
            self.assertIsNotNone(protocol._joint)
            clients[0].peer.send(last)
            self.assertIsNone(protocol._joint)
            clients[1].peer.protocol.drain()
            self.assertFalse(clients[1].peer.closed)
            self.rig.release()
            replies = [client.peer.wire.value().splitlines() for client in clients]
            self.assertEqual(replies[1], [b"+", b"+"])
            self.assertTrue(clients[1].peer.closed)
            self.assertEqual(len(replies[0]), 2 + last.count(b"\n"))
