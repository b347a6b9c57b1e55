"""Reader groups: who may move one, and that nobody moves the archive's by reading."""

from __future__ import annotations

from streamd.connections.core import Core
from streamd.protocols import smq
from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.settings import configure
from streamd.settings import AccessRule, RetentionRule
from streamd.store.retention import Retention
from streamd.wire import tools as storage
from streamd.wire.client import fujin
from streamd.wire.tools import Code
from tests.rigs.access.rules import rule
from tests.rigs.protocols.fujin_case import ack
from tests.rigs.protocols.pravega_case import StorageCase
from tests.rigs.wire.smq import pull

GROUPS = ("archive", "smq", "fujin", "reports", "g", "new")
ARCHIVE = "archive"


class MoveTests(StorageCase):
    """SetGroup."""

    def setUp(self) -> None:
        super().setUp()
        self.rig.publish("s", *[b"x"] * 10)
        for group in GROUPS[:-1]:
            self.rig.store.set_group(self.store_segment, group, 3)
        self.rig.run()

    def put(self, *rules: AccessRule) -> None:
        self.rig.core.access.replace(rules, 0.0)

    def positions(self) -> dict[str, int]:
        return {name: group.position for name, group in (self.store_segment.groups or {}).items()}

    def moved(self) -> set[str]:
        """The groups that the peer can move, each tried; they are put back then."""
        before = self.positions()
        for group in GROUPS:
            for position in (0, 9):
                self.ask(storage.SetGroup, self.segment, group, position)
        moved = {group for group in GROUPS if self.positions().get(group) != before.get(group)}
        for group in moved:
            self.rig.store.set_group(self.store_segment, group, 3)
        self.rig.store.drop_group(self.store_segment, "new")
        self.rig.run()
        return moved

    def test_rights(self) -> None:
        """To read is not enough to move any group, nor is any other right but that of an administrator."""
        self.assertEqual(self.moved(), set(GROUPS), "without rules")
        self.put(rule("read", "write", "create"))
        self.assertEqual(self.moved(), set())
        self.refused(Code.NOT_ALLOWED, storage.SetGroup, self.segment, ARCHIVE, 9)
        self.put(rule("admin"))
        self.assertEqual(self.moved(), set(GROUPS))

    def test_own(self) -> None:
        """With the right to read, those can be moved that a rule names, letter by letter, in its topics alone."""
        for topics, groups, expected in (
            (("*",), ("reports",), {"reports"}),
            (("s",), ("g", "new"), {"g", "new"}),
            (("*",), (ARCHIVE,), {ARCHIVE}),
            (("*",), ("*", "?", "arch*"), set()),
            (("other",), GROUPS, set()),
        ):
            self.put(rule("read"), rule("read", topics=topics, groups=groups))
            self.assertEqual(self.moved(), expected, (topics, groups))
        self.put(rule("write", "create", groups=GROUPS))
        self.assertEqual(self.moved(), set())


class ArchiveTests(StorageCase):
    """What is not archived is not dropped, whatever a peer does that may only read."""

    def setUp(self) -> None:
        super().setUp()
        self.rig.publish("s", *[b"x"] * 10)
        self.retention = Retention(
            self.rig.store,
            [RetentionRule(records_max=1, archived_only=True)],
            interval_seconds=10.0,
            hidden_seconds_max=0.0,
            clock=self.rig.clock,
            now=self.rig.clock.seconds,
        )
        self.rig.store.set_group(self.store_segment, ARCHIVE, 2)
        self.rig.run()

    def sweep(self) -> int:
        """The first record that is kept."""
        self.retention.sweep()
        self.rig.run()
        return self.store_segment.first_number

    def read_all_over(self, core: Core) -> None:
        """All that moves a reader group by reading."""
        for reader in ("s", "archive", "slow"):
            readers = {"slow": {"topic": "s", "group": "g", "auto_commit": False}, "archive": {"topic": "s"}}
            peer = self.rig.connect(FujinFactory(core, configure({"readers": readers})))
            peer.ask(fujin.connect_reader(reader, consumer=True) + fujin.fetch(10))
            peer.ask(b"".join(ack(number, number) for number in range(10)) if reader == "slow" else b"")
        queue = self.rig.connect(smq.factory(core, smq.configure({"queue": "s"})))
        self.assertNotIn(b"\x20", queue.ask(pull())[9:10])
        for group in GROUPS:
            self.ask(storage.SetGroup, self.segment, group, 10)

    def test_reader(self) -> None:
        """A peer with the right to read alone, over every protocol that has reader groups."""
        self.rig.core.access.replace([rule("read")], 0.0)
        self.assertEqual(self.sweep(), 2)
        self.read_all_over(self.rig.core)
        self.assertEqual((self.store_segment.groups or {})[ARCHIVE].position, 2)
        # One was pulled, which takes it from the queue, now or a little later.
        self.assertIn(self.sweep(), (2, 3))

    def test_archive(self) -> None:
        """The archive itself needs to read, and its group in a rule."""
        self.rig.core.access.replace([rule("read", groups=(ARCHIVE,))], 0.0)
        self.assertEqual(self.ask(storage.SetGroup, self.segment, ARCHIVE, 8).position, 8)
        self.assertEqual(self.sweep(), 8)
