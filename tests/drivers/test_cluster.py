"""A real cluster: a master and two workers, drivers and the daemon, all in processes of their own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from twisted.internet.defer import Deferred

from tests.rigs.drivers.case import DriverCase
from tests.rigs.drivers.cluster import shared_cluster
from tests.rigs.drivers.job import SETTINGS, TOPIC
from tests.rigs.drivers.speculating import ROWS
from tests.rigs.spark.pipeline import EXAMPLES
from tests.rigs.spark.sink.written import written

COUNT = 20_000


class ClusterTests(DriverCase):
    def test_everything(self) -> Deferred[None]:
        """Tasks on both workers read, from files and from the daemon, write once, archive, and read the archive."""
        return self.do(self._everything)

    def _everything(self) -> None:
        messages = [str(number) for number in range(COUNT)]
        for first in range(0, COUNT, COUNT // 4):
            self.publish(TOPIC, *messages[first : first + COUNT // 4])
        places = (str(self.directory), str(self.daemon.data_dir), self.server())
        found = json.loads(self.said("tests.rigs.drivers.job", shared_cluster().url, *places))
        wanted = [COUNT, sum(range(COUNT)), sum(map(len, messages))]
        for where in ("path", "server"):
            self.assertEqual(found[where], {"batch": wanted, "stream": wanted, "workers": 2})
        self.assertEqual((found["archive"]["end"], found["archive"]["table"]), (COUNT, wanted))
        self.assertGreater(found["archive"]["files"], 3)
        for topic in ("written", "streamed"):
            self.assertEqual(sorted(map(int, written(self.server(), topic))), list(range(COUNT)), topic)

    def test_pipeline(self) -> Deferred[None]:
        """``streamctl pipeline run`` with the cluster as its master, until it is told to stop."""
        return self.do(self._pipeline)

    def _pipeline(self) -> None:
        good = [json.dumps({"order": number, "customer": "c", "amount": 1.5}) for number in range(100)]
        self.publish("orders", *good, "no JSON")
        on_cluster = ["--master", shared_cluster().url, "--json"]
        for key, value in SETTINGS.items():
            on_cluster += ["--conf", f"{key}={value}"]
        text = (EXAMPLES / "dead-letters.toml").read_text(encoding="utf-8")
        file = Path(self.directory, "orders.toml")
        file.write_text(text.replace("127.0.0.1:12345", self.server()))
        with self.running("streamd.cli", "pipeline", "run", str(file), *on_cluster) as process:
            self.wait_for_rows(process, {"good": 101, "dead": 101})
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(self.timeout), 0)
        self.assertEqual(len(written(self.server(), "orders.good")), 100)
        self.assertEqual(len(written(self.server(), "orders.dead")), 1)

    def test_twice(self) -> Deferred[None]:
        """Spark does a task twice at once, and both attempts write everything; each row is in the topic once."""
        return self.do(self._twice)

    def _twice(self) -> None:
        places = (self.server(), "t", str(self.directory))
        self.said("tests.rigs.drivers.speculating", shared_cluster().url, *places)
        attempts = [each.name for each in self.directory.glob("attempt *")]
        self.assertEqual(sorted(attempts), ["attempt 0", "attempt 1"])
        self.assertEqual(sorted(map(int, written(self.server(), "t"))), list(range(ROWS)))
