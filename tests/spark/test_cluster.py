"""A real cluster: a master and two workers, a driver and the daemon, all in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from twisted.internet.defer import Deferred

from tests.daemon import CHECKOUT
from tests.spark.cluster import Cluster
from tests.spark.session import SparkCase

COUNT = 20_000


class ClusterTests(SparkCase):
    """One cluster for both ways to read: it takes long to start."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster = Cluster(self.directory)
        self.addCleanup(self.cluster.stop)

    def run_job(self, *options: dict[str, str]) -> Any:
        """What a driver finds that knows nothing but the address of the cluster."""
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "tests.spark.job", self.cluster.url, str(self.directory)),
                *map(json.dumps, options),
            ],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=self.timeout,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return json.loads(ended.stdout)

    def test_cluster(self) -> Deferred[None]:
        """Tasks on both workers read everything, from files and from the daemon, as a table and as a stream."""
        return self.do(self._cluster)

    def _cluster(self) -> None:
        self.cluster.start()
        messages = [str(number) for number in range(COUNT)]
        self.publish("a", *messages)
        wanted = [COUNT, sum(range(COUNT)), sum(map(len, messages))]
        places = {"path": str(self.daemon.data_dir)}, {"server": f"127.0.0.1:{self.daemon.port('pravega')}"}
        found = self.run_job(*({**where, "topic": "a"} for where in places))
        self.assertEqual(found, [{"batch": wanted, "stream": wanted, "workers": 2}] * 2)
