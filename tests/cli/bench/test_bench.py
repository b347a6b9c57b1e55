"""`streamctl bench`: it counts what happened, and leaves nothing behind."""

from __future__ import annotations

import os

from streamd.cli.bench.plot import percentiles, plot
from tests.rigs.cli.case import DaemonCase
from tests.rigs.cli.run import environment


class BenchTests(DaemonCase):
    def test_percentiles(self) -> None:
        """Each is one that was measured, with so many at or below it."""
        found = percentiles([number / 1000 for number in range(1000, 0, -1)])
        self.assertEqual(found, {"min": 0.001, "p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0})
        self.assertEqual(set(percentiles([0.5]).values()), {0.5})
        self.assertEqual((percentiles([]), plot([])), ({}, []))

    def test_plot(self) -> None:
        """A line for each range, also for one with nothing in it; the longest bar for the most."""
        lines = plot([0.001] * 80 + [0.004] * 20)
        bars = [line.split("ms")[1] for line in lines]
        self.assertEqual([int(bar.split()[-1]) for bar in bars], [80, 0, 0, 0, 20])
        self.assertEqual([bar.count("█") for bar in bars], [50, 0, 0, 0, 12])

    def test_daemon(self) -> None:
        """On a daemon that is given: it is measured, and nothing is left there."""
        env = environment(self.daemon)
        given = ("--server", env["STREAMD_SERVER"], "--seconds", "0.2")
        told = self.ctl("bench", *given, "--size", "1k", "--json").json
        latency = told["latency_us"]
        self.assertEqual(told["read"]["records"], told["publish"]["records"] + latency["count"])
        self.assertLessEqual(latency["min"], latency["p50"])
        self.assertLessEqual(latency["p50"], latency["max"])
        self.assertIn("p99.9", self.ctl("bench", *given).text)
        self.assertEqual(self.ctl("topics", "streamctl-bench-*", "--json").json, [])

    def test_own(self) -> None:
        """On a daemon of its own, of which nothing is left either."""
        home = self.path()
        os.mkdir(home)
        ended = self.run_ctl("bench", "--seconds", "0.2", "--dir", home, "--json")
        self.assertEqual(ended.status, 0, ended.err)
        self.assertGreater(ended.json["publish"]["records_per_second"], 0)
        self.assertEqual(os.listdir(home), [])
        ended = self.run_ctl("bench", "--dir", "/nowhere")
        self.assertEqual((ended.status, "give another --dir" in ended.err), (1, True))
