"""What is tried with every command of a protocol. Import the module: trial would take the case for a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.settings import RIGHTS
from tests.protocols.laws.held import contents
from tests.rigs.access.rules import NOBODY, RuledCase, rule
from tests.rigs.protocols.rig import Peer, Rig


class Command(NamedTuple):
    """Something that a peer asks for."""

    kind: type
    asked: bytes
    told: bytes
    """What is answered where it is not allowed."""
    rights: str
    """The words that allow it, each alone."""
    topic: str
    """What it is about."""


class DenyCase(RuledCase):
    """One protocol; the topic ``t`` holds something before rules are in force."""

    actions: ClassVar[dict[type, object]]
    open: ClassVar[dict[type, tuple[bytes, bytes]]]
    """Commands that touch no topic and need no right: what is asked, and told."""
    commands: ClassVar[Sequence[Command]]
    internal: ClassVar[frozenset[type]] = frozenset()
    """The rest of something that was allowed, and no command."""
    prepare: ClassVar[bytes]

    def factory(self, core: Core) -> StreamFactory:
        """What makes its connections."""
        raise NotImplementedError

    def start(self) -> tuple[Rig, Peer]:
        """A connection that has been there before there were rules, and a store that is not empty."""
        rig = self.make(self.factory)
        peer = rig.connect()
        peer.ask(self.prepare)
        return rig, peer

    def test_every(self) -> None:
        """No command is left out."""
        named = {command.kind for command in self.commands} | set(self.open) | self.internal
        self.assertEqual(named, set(self.actions))

    def test_denied(self) -> None:
        """Who no rule fits is refused everything, and told so as the protocol can; the connection goes on."""
        for command in self.commands:
            rig, peer = self.start()
            before = contents(rig.store)
            self.put(rig, NOBODY)
            self.assertEqual(peer.ask(command.asked), command.told, command)
            self.assertEqual(contents(rig.store), before, command)
            self.assertEqual(rig.load.refusals["not_allowed"], 1, command)
            self.assertFalse(peer.closed)
            for asked, told in self.open.values():
                self.assertEqual(peer.ask(asked), told)
            self.assertEqual(sum(rig.load.refusals.values()) - rig.load.refusals["invalid"], 1)
            rig.close()

    def test_other_rights(self) -> None:
        """All rights but those that allow it, and all on another topic, are not enough."""
        for command in self.commands:
            others = [word for word in RIGHTS if word not in command.rights.split()]
            rig, peer = self.start()
            self.put(rig, rule(*others), rule(*RIGHTS, topics=("other",)))
            if command.topic:
                self.assertEqual(peer.ask(command.asked), command.told, command)
                self.assertEqual(rig.load.refusals["not_allowed"], 1, command)
            rig.close()

    def test_allowed(self) -> None:
        """Each of the rights that allow it is enough, on its topic alone."""
        for command in self.commands:
            for word in command.rights.split():
                rig, peer = self.start()
                before = contents(rig.store)
                self.put(rig, NOBODY, rule(word, topics=(command.topic or "*",)))
                told = peer.ask(command.asked)
                self.assertEqual(sum(rig.load.refusals.values()), 0, command)
                self.assertTrue(told != command.told or contents(rig.store) != before, (command, told))
                rig.close()
