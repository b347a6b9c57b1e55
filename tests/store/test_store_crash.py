"""The power is cut at every call to the disk of many random histories. What was acknowledged is always there, whole."""

from __future__ import annotations

from tests.rigs.store.sweep import SweepCase


class CrashTests(SweepCase):
    """At any moment the disk holds what was acknowledged, and perhaps the commit in flight; whole, once, in order."""

    def test_every_call(self) -> None:
        """A power cut at any call, whatever it tears, takes nothing that was acknowledged and leaves nothing half."""
        points = sum(sweep.points for sweep in self.sweep(range(40), 60, outcomes=2))
        self.assertGreaterEqual(points, 10_000)

    def test_long_history(self) -> None:
        """The same in one long history."""
        (sweep,) = self.sweep([1000], 600, outcomes=2)
        self.assertGreaterEqual(sweep.points, 1_000)

    def test_not_always(self) -> None:
        """Where commits are synced later, a crash can take some that were acknowledged, but only the latest ones."""
        points = 0
        for sync in ("interval", "never"):
            points += sum(sweep.points for sweep in self.sweep(range(5000, 5015), 60, outcomes=2, sync=sync))
        self.assertGreaterEqual(points, 1_000)

    def test_recovery(self) -> None:
        """A power cut during recovery, at any call, is followed by the same recovery."""
        points = sum(sweep.recovery_points for sweep in self.sweep(range(2000, 2020), 40, recoveries=0.1))
        self.assertGreaterEqual(points, 1_000)

    def test_killed(self) -> None:
        """What a process finds after another was killed at any call, and serves, survives a power cut."""
        kills = sum(sweep.kills for sweep in self.sweep(range(3000, 3010), 60, kills=1))
        self.assertGreaterEqual(kills, 1_000)

    def test_many_lives(self) -> None:
        """A store that is cut off at a random call, again and again, goes on each time from what it served last."""
        self.assertGreaterEqual(self.live(range(4000, 4012)), 100)


class ProofTests(SweepCase):
    """The suite above finds what it looks for."""

    def test_without_sync(self) -> None:
        """On a disk whose syncs do nothing, acknowledged data is lost, and the suite says so."""
        self.assertFinds("file", "directory")

    def test_without_file_sync(self) -> None:
        """The same where only names are synced."""
        self.assertFinds("file")

    def test_without_directory_sync(self) -> None:
        """The same where only the contents of files are synced."""
        self.assertFinds("directory")
