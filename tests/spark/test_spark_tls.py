"""Spark and a daemon that wants to see a certificate: all that goes over the network is encrypted, and ruled."""

from __future__ import annotations

from pyspark.errors import PySparkException
from twisted.internet.defer import Deferred

import streamd.spark
from tests.rigs.access.authority import Authority, tlsfile
from tests.rigs.daemon import Daemon
from tests.rigs.spark.session import SparkCase, spark

RULES = """
data_dir = "{directory}/data"
[sesp]
endpoint = "tcp:0:interface=127.0.0.1"
[pravega]
endpoint = "{endpoint}"
[[access]]
who = "net:127.0.0.1"
allow = ["write", "create"]
topics = ["in"]
[[access]]
who = "cert:engineer"
allow = ["read", "write", "create"]
topics = ["in", "out", "spark/*"]
groups = ["archive"]
"""


class TlsTests(SparkCase):
    def setUp(self) -> None:
        super().setUp()
        self.daemon.close()
        self.authority = Authority(self.directory)
        endpoint = tlsfile(self.authority.issue("server"), self.authority.file)
        (self.directory / "streamd.toml").write_text(RULES.format(directory=self.directory, endpoint=endpoint))
        self.daemon = Daemon(str(self.directory), "--config", "streamd.toml")
        self.addCleanup(self.daemon.close)
        self.daemon.start()

    def server(self, name: str) -> str:
        """The daemon, for the holder of a certificate."""
        files = f"ca={self.authority.file}:cert={self.authority.issue(name)}"
        return f"tls:127.0.0.1:{self.daemon.port('pravega')}:{files}"

    def test_all(self) -> Deferred[None]:
        """Read, write, archive and look, with a certificate that rules know; with another one nothing is done."""
        return self.do(self._all)

    def _all(self) -> None:
        self.publish("in", *map(str, range(100)))
        server = self.server("engineer")
        frame = spark().read.format("streamd").options(server=server, topic="in").load()
        writer = frame.select("value").write.format("streamd").mode("append")
        writer.options(server=server, topic="out").save()
        (done,) = streamd.spark.archive(spark(), "out", str(self.directory / "archive"), server=server)
        self.assertEqual(done.end, 100)
        table = streamd.spark.table(spark(), "out", str(self.directory / "archive"), server=server)
        values = [row.number for row in table.selectExpr("int(string(value)) AS number").collect()]
        self.assertEqual(sorted(values), list(range(100)))
        frame = spark().read.format("streamd").options(server=self.server("somebody"), topic="in").load()
        error = self.assertRaises(PySparkException, frame.count)
        self.assertIn("NotAllowed", str(error))
        relative = spark().read.format("streamd").options(server="tls:127.0.0.1:1:ca=here.pem", topic="in").load
        self.assertIn("give a path from / on", str(self.assertRaises(PySparkException, relative().count)))
