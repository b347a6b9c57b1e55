"""A Declarative Pipeline of Spark's with streamd as source and sink: the example, started twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
from twisted.internet.defer import Deferred

from streamd.spark.java import java_home
from tests.rigs.daemon import CHECKOUT
from tests.rigs.drivers.case import DriverCase, environment
from tests.rigs.spark.sink.written import written

EXAMPLE = CHECKOUT / "etc" / "pipelines" / "declarative"
STORAGE = "file:///var/lib/streamd-pipeline/big-orders"


class DeclarativeTests(DriverCase):
    def test_example(self) -> Deferred[None]:
        """What comes between two runs is read by the second one, and each message is written once."""
        return self.do(self._example)

    def _example(self) -> None:
        shutil.copytree(EXAMPLE, self.directory / "pipeline")
        spec = self.directory / "pipeline" / "spark-pipeline.yml"
        text = spec.read_text()
        self.assertIn(STORAGE, text)
        spec.write_text(text.replace(STORAGE, f"file://{self.directory}/storage"))
        large = []
        for amount in (999, 2000), (1500, 5):
            orders = [f'{{"order": {number}, "customer": "c", "amount": {number}}}' for number in amount]
            self.publish("orders", *orders)
            large += [order.encode() for order in orders if int(order.rpartition(" ")[2][:-1]) > 1000]
            self.run_once(spec)
            self.assertEqual(written(self.server(), "orders.big"), large)

    def run_once(self, spec: Path) -> None:
        more = {
            "JAVA_HOME": java_home(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "STREAMD_SERVER": self.server(),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        program = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
        ended = subprocess.run(
            [program, "run", "--spec", spec],
            env={**environment(), **more},
            capture_output=True,
            text=True,
            timeout=self.timeout,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
