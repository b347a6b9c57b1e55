"""A task that Spark does twice at once, on a real cluster: what one of the two has written counts."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.internet.defer import Deferred

from tests.daemon import CHECKOUT
from tests.spark.cluster import Cluster
from tests.spark.session import SparkCase
from tests.spark.speculating import ROWS
from tests.spark.written import written


class SpeculationTests(SparkCase):
    def test_twice(self) -> Deferred[None]:
        """Both attempts write everything; each row is in the topic once."""
        cluster = Cluster(self.directory)
        self.addCleanup(cluster.stop)
        return self.do(self._twice, cluster)

    def _twice(self, cluster: Cluster) -> None:
        cluster.start()
        server = f"127.0.0.1:{self.daemon.port('pravega')}"
        ended = subprocess.run(
            [sys.executable, "-m", "tests.spark.speculating", cluster.url, server, "t", str(self.directory)],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=self.timeout,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        attempts = [each.name for each in self.directory.glob("attempt *")]
        self.assertEqual(sorted(attempts), ["attempt 0", "attempt 1"])
        self.assertEqual(sorted(map(int, written(server, "t"))), list(range(ROWS)))
