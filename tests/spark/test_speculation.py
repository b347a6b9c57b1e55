"""A task that Spark does twice at once, on a real cluster: what one of the two has written counts."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.internet.defer import Deferred

from streamd.client import StorageClient
from tests.daemon import CHECKOUT
from tests.spark.cluster import Cluster
from tests.spark.session import SparkCase
from tests.spark.speculating import ROWS


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
        with StorageClient(server) as client:
            runs = client.read(client.segment("t").id, 0)
            written = sorted(int(bytes(record)) for run in runs for record in run.batch.records())
        self.assertEqual(written, list(range(ROWS)))
