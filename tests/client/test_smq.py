"""Simple Message Queue for clients: every command, and what is refused."""

from __future__ import annotations

from streamd.client.asynchronous import SmqClient
from streamd.client.errors import ProtocolBroken, Refused
from streamd.client.values import Message, Value
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols.smq import SmqFactory, SmqSettings
from streamd.wire.smq import EMPTY, PUSHED, REFUSED
from tests.rigs.client.rig import ClientCase


class SmqTests(ClientCase):
    def make_factory(self, core: Core) -> StreamFactory:
        return SmqFactory(core, SmqSettings())

    def test_queue(self) -> None:
        """First in, first out, with types and values, however the replies are cut; then it is empty."""
        values: list[Value] = [1, 2, "a", ["b", "c"], b"raw", b"", 2.5, [1, 2], *[b"same"] * 20]
        for driven in self.each_size(SmqClient):
            driven.run(driven.client.push(values))
            found = []
            while (message := driven.run(driven.client.pull())) is not None:
                found.append(message.value)
            self.assertEqual(found, values)

    def test_pull_many(self) -> None:
        """As many as are asked for, or as many as there are."""
        driven = self.drive(SmqClient)
        driven.run(driven.client.push(range(3000)))
        self.assertEqual([each.value for each in driven.run(driven.client.pull_many(10))], list(range(10)))
        self.assertEqual([each.value for each in driven.run(driven.client.pull_many(9999))], list(range(10, 3000)))
        self.assertEqual(driven.run(driven.client.pull_many(5)), [])

    def test_refused(self) -> None:
        """A queue that is sealed takes nothing, which is told with how many that were; pulls go on."""
        driven = self.drive(SmqClient)
        driven.run(driven.client.push([1]))
        self.rig.store.seal(self.rig.store.find("smq"))
        self.rig.run()
        error = self.assertRaises(Refused, driven.run, driven.client.push([2, 3]))
        self.assertEqual(error.count, 2)
        self.assertEqual(driven.run(driven.client.pull()), Message.of(1))

    def test_one(self) -> None:
        """One message is not several."""
        driven = self.drive(SmqClient)
        for value in (b"abc", "abc", Message.of(1)):
            self.assertRaises(TypeError, driven.run, driven.client.push(value))
        self.assertEqual(driven.sent, b"")

    def test_nonsense(self) -> None:
        """A push that is answered with a message, and a pull that is not, end the connection."""
        for value, reply in (("push", EMPTY), ("push", b"x" * 20), ("pull", PUSHED)):
            driven = self.drive(SmqClient)
            driven.run(driven.client.connect())
            begun = driven.begin(driven.client.push([1]) if value == "push" else driven.client.pull())
            driven.wire.protocol.dataReceived(reply)
            self.failureResultOf(begun, ProtocolBroken)
            self.assertTrue(driven.client.is_closed)

    def test_refused_pull(self) -> None:
        """A pull can be refused: its size was over the limit of somebody's daemon."""
        driven = self.drive(SmqClient)
        driven.run(driven.client.connect())
        pulling = driven.begin(driven.client.pull())
        driven.wire.protocol.dataReceived(REFUSED)
        self.failureResultOf(pulling, Refused)
