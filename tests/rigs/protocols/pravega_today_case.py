"""A rig for Pravega as it is spoken today: a store, and a connection that has said Hello."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from tests.rigs.protocols.rig import Peer, Rig
from tests.rigs.wire.pravega_today import HELLO, WELCOME


class TodayCase(SynchronousTestCase):
    """A connection to a store that can be closed and opened again."""

    settings = PravegaSettings()

    def setUp(self) -> None:
        self.rig = Rig(self.mktemp(), make_factory=lambda core: PravegaFactory(core, self.settings))
        self.addCleanup(self.rig.close)
        self.peer = self.connect()

    def connect(self) -> Peer:
        peer = self.rig.connect()
        self.assertEqual(peer.ask(HELLO), WELCOME)
        return peer

    def restart(self) -> None:
        self.rig.close()
        self.rig = Rig(self.rig.directory, make_factory=lambda core: PravegaFactory(core, self.settings))
        self.addCleanup(self.rig.close)
        self.peer = self.connect()
