"""A connection that writes much is read no faster than the disk takes it, so that others do not wait long behind it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.protocols.rig import Rig

LINE = b">" + b"x" * 999 + b"\n"


class PaceTests(SynchronousTestCase):
    """The store says how much may be on its way."""

    def setUp(self) -> None:
        self.rig = Rig(self.mktemp())
        self.addCleanup(self.rig.close)
        self.rig.store.create("topic")
        self.rig.run()

    def test_slowed_down(self) -> None:
        """It is no longer read while so much is on its way; others are; all of it is stored in the end."""
        bulk, other = self.rig.connect(), self.rig.connect()
        self.rig.store.pace.bytes = 10_000
        self.rig.held = True
        bulk.send(b"@topic\n")
        for _ in range(20):
            bulk.send(LINE * 10)
        other.send(b"@topic\n>modest\n")
        self.rig.run()
        self.assertLess(self.rig.store.pending_bytes, 40_000)
        self.assertGreater(bulk.waiting_bytes, 150_000)
        self.assertEqual(other.waiting_bytes, 0)
        self.rig.release()
        self.assertEqual(self.rig.store.find("topic").number, 201)
        self.assertEqual(other.take_all(), b"+\n+\n")
        self.assertEqual(bulk.take_all(), b"+\n" * 201)
