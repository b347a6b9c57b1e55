"""Every command of every protocol is refused in that protocol's own words where no rule allows it, and nothing is done.

And the other way round: the one right that it needs is enough.
"""

from __future__ import annotations

from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols import sesp as sesp_protocol
from streamd.protocols import smq as smq_protocol
from streamd.protocols.faststream import protocol as faststream_protocol
from streamd.protocols.pravega import protocol as pravega_protocol
from streamd.wire import faststream, sesp, smq
from streamd.wire.pravega import documented as pravega
from streamd.wire.pravega.documented import Type, message
from tests.protocols.laws.pravega import create
from tests.rigs.access import denied
from tests.rigs.access.denied import Command
from tests.rigs.access.rules import NOBODY, rule
from tests.rigs.wire.faststream import PING, all_except, multiple, one, single, to_all
from tests.rigs.wire.pravega import block, event, read, setup, text
from tests.rigs.wire.smq import pull, push

_DENIED = b"-NotAllowed\n"


class SespTests(denied.DenyCase):
    actions = {**sesp_protocol._ACTIONS}
    open = {sesp.Seek: (b"$0\n", b"+\n"), sesp.Refused: (b"nonsense\n", b"-InvalidCommand\n")}
    prepare = b"#t\n@t\n>hello\n"
    commands = [
        Command(sesp.Publish, b">x\n", _DENIED, "write", "t"),
        Command(sesp.Publish, b">x\n>y\n>z\n", _DENIED * 3, "write", "t"),
        Command(sesp.PublishOnce, b"^writer 0 x\n", _DENIED, "write", "t"),
        Command(sesp.AskSequence, b"^writer\n", _DENIED, "write", "t"),
        Command(sesp.PublishLater, b"~+1000 x\n", _DENIED, "write", "t"),
        Command(sesp.Read, b"<\n", _DENIED, "read", "t"),
        Command(sesp.Read, b"<\n<\n", _DENIED * 2, "read", "t"),
        Command(sesp.Create, b"#new\n", _DENIED, "create admin", "new"),
        Command(sesp.Delete, b"!t\n", _DENIED, "admin", "t"),
        Command(sesp.Seal, b"=t\n", _DENIED, "admin", "t"),
        Command(sesp.Truncate, b"%1\n", _DENIED, "admin", "t"),
        Command(sesp.Describe, b"?t\n", _DENIED, "admin", "t"),
        Command(sesp.List, b"?\n", _DENIED, "admin", ""),
        Command(sesp.Status, b"&\n", _DENIED, "admin", ""),
    ]

    def factory(self, core: Core) -> StreamFactory:
        return sesp_protocol.SespFactory(core)

    def test_every(self) -> None:
        """No command is left out; to select a topic has a test of its own, since it can be done once."""
        self.assertEqual(
            {command.kind for command in self.commands} | set(self.open) | {sesp.Select}, set(self.actions)
        )

    def test_select(self) -> None:
        """To select a topic takes any right on it but to create; a refusal is not the one selection."""
        for word in ("read", "write", "admin"):
            rig, _ = self.start()
            peer = rig.connect()
            self.put(rig, NOBODY)
            self.assertEqual(peer.ask(b"@t\n@none\n"), _DENIED * 2)
            self.put(rig, rule("create"))
            self.assertEqual(peer.ask(b"@t\n"), _DENIED)
            self.put(rig, rule(word, topics=("t",)))
            self.assertEqual(peer.ask(b"@t\n"), b"+\n")
            rig.close()

    def test_secret(self) -> None:
        """Whether a topic is there is not told to who may not know."""
        rig, _ = self.start()
        self.put(rig, rule("create", topics=("mine.*",)))
        peer = rig.connect()
        for line in (b"@", b"#", b"!", b"=", b"?"):
            self.assertEqual(peer.ask(line + b"t\n" + line + b"none\n"), _DENIED * 2)

    def test_list(self) -> None:
        """An administrator of some topics sees these, also where they are few among many."""
        rig, peer = self.start()
        peer.ask(b"".join(b"#n%d\n" % number for number in range(5000)) + b"#mine\n#mine.too\n")
        self.put(rig, rule("admin", topics=("mine*", "n4000")), rule("read"))
        self.assertEqual(peer.ask(b"?\n"), b'+["n4000", "mine", "mine.too"]\n')
        self.put(rig, rule("admin", topics=("nothing",)))
        self.assertEqual(peer.ask(b"?\n$1\n"), b"+[]\n+\n")


class SmqTests(denied.DenyCase):
    actions = {**smq_protocol._ACTIONS}
    open = {smq.BadPush: (push(11, 0), smq.REFUSED)}
    internal = frozenset({smq.Goodbye})
    prepare = push(0, 3, b"abc")
    commands = [
        Command(smq.Push, push(0, 1, b"x"), smq.REFUSED, "write", "t"),
        Command(smq.Push, push(0, 1, b"x") * 3, smq.REFUSED * 3, "write", "t"),
        Command(smq.Pull, pull(), smq.EMPTY, "read", "t"),
        Command(smq.Pull, pull() * 2, smq.EMPTY * 2, "read", "t"),
    ]

    def factory(self, core: Core) -> StreamFactory:
        return smq_protocol.SmqFactory(core, smq_protocol.SmqSettings(queue="t"))

    def test_first(self) -> None:
        """Who may push may be the first, and make the queue; who may not does not."""
        for word, told in (("write", smq.PUSHED), ("create", smq.REFUSED)):
            rig = self.make(self.factory)
            self.put(rig, rule(word))
            self.assertEqual(rig.connect().ask(push(0, 1, b"x")), told)
            self.assertEqual(rig.store.names(), ["t"] if word == "write" else [])
            rig.close()


class FastStreamTests(denied.DenyCase):
    actions = {**faststream_protocol._ACTIONS}
    open = {faststream.Ping: (PING, faststream.PONG)}
    prepare = one(1, 7) + single(7, b"data")
    commands = [
        Command(faststream.Create, one(1, 8), b"", "create admin", "faststream/8"),
        Command(faststream.Delete, one(2, 7), b"", "admin", "faststream/7"),
        Command(faststream.Enqueue, single(7, b"x"), b"", "write", "faststream/7"),
        Command(faststream.EnqueueMany, multiple(b"x", 7, 99), b"", "write", "faststream/7"),
        Command(faststream.EnqueueMany, to_all(b"x"), b"", "write", "faststream/*"),
        Command(faststream.EnqueueMany, all_except(b"x", 99), b"", "write", "faststream/*"),
        Command(faststream.Contents, one(7, 7), faststream.contents_header(0), "read", "faststream/7"),
        Command(faststream.Contents, one(8, 7), faststream.contents_header(0), "read", "faststream/7"),
        Command(faststream.Check, one(9, 7), faststream.state(7, False), "read", "faststream/7"),
    ]

    def factory(self, core: Core) -> StreamFactory:
        return faststream_protocol.FastStreamFactory(core)

    def test_some_of_many(self) -> None:
        """Of many streams those receive that the peer may write to; all of them means all, or none."""
        rig, peer = self.start()
        peer.send(one(1, 8))
        self.put(rig, rule("write", topics=("faststream/7",)))
        before = rig.store.find("faststream/7").number
        peer.send(multiple(b"x", 7, 8) + to_all(b"y") + all_except(b"z", 8))
        numbers = [rig.store.find(f"faststream/{stream}").number for stream in (7, 8)]
        self.assertEqual(numbers, [before + 1, 0])
        self.assertEqual(rig.load.refusals["not_allowed"], 3)


def _none(name: str) -> bytes:
    return message(Type.NO_SUCH_SEGMENT, text(name))


class PravegaTests(denied.DenyCase):
    actions = {**pravega_protocol._ACTIONS}
    open = {pravega.KeepAlive: (message(Type.KEEP_ALIVE, b"?"), message(Type.KEEP_ALIVE, b"?"))}
    prepare = create("t") + setup("t") + block(0, event(b"one"))
    commands = [
        Command(pravega.SetupAppend, setup("t"), _none("t"), "write", "t"),
        Command(pravega.AppendBlock, block(11, event(b"two")), _none("t"), "write", "t"),
        Command(pravega.ReadSegment, read("t", 0, 100), _none("t"), "read", "t"),
        Command(pravega.CreateSegment, create("new"), _none("new"), "create admin", "new"),
    ]

    def factory(self, core: Core) -> StreamFactory:
        return pravega_protocol.PravegaFactory(core, pravega_protocol.PravegaSettings(tail_seconds_max=0.0))

    def test_waiting(self) -> None:
        """A read that waits at the tail is not answered with what came after the right was taken away."""
        settings = pravega_protocol.PravegaSettings(tail_seconds_max=10.0)
        rig = self.make(lambda core: pravega_protocol.PravegaFactory(core, settings))
        peer = rig.connect()
        peer.ask(self.prepare)
        self.assertEqual(peer.ask(read("t", 11, 100)), b"")
        self.put(rig, NOBODY)
        rig.publish("t", b"secret")
        self.assertEqual(peer.take(), _none("t"))
