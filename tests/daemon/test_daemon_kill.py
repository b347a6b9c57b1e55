"""A real daemon, killed under load again and again: everything acknowledged is there, once, in order."""

from __future__ import annotations

import random
import signal

from tests.rigs.publishers import LoadCase


class KillTests(LoadCase):
    """Nothing that was acknowledged is lost with the process."""

    def test_kill(self) -> None:
        """Fifteen rounds with SIGKILL, at moments that differ, on one data directory."""
        chance = random.Random(2)
        self.daemon.start()
        self.create_topics()
        for round_ in range(15):
            self.load(chance.choice((1, 20, 300, 2000, 5000)))
            self.assertEqual(self.daemon.kill(), -signal.SIGKILL)
            self.join()
            self.daemon.start()
            if round_ % 5 == 2:
                # Killed again before anybody wrote: what recovery kept is not lost by the next one.
                self.daemon.kill()
                self.daemon.start()
            self.check_new()
        self.check_all()
        # What is folded into packs is gone by now, but numbers are never used again.
        files = sorted((self.directory / "data" / "journal").glob("*.journal"))
        self.assertGreater(int(files[-1].stem), 3)
        self.assertGreater(sum(map(len, self.read.values())), 10_000)

    def test_terminate(self) -> None:
        """With SIGTERM in the middle: the same, and it ends with status 0."""
        chance = random.Random(3)
        self.daemon.start()
        self.create_topics()
        for _ in range(4):
            self.load(chance.choice((1, 100, 3000)))
            self.assertEqual(self.daemon.terminate(), 0, self.daemon.output)
            self.join()
            self.daemon.start()
            self.check_new()
        self.check_all()
        self.assertNotIn("torn", self.daemon.output)
