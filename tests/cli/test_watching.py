"""Rates and measurements: that they count what happened."""

from __future__ import annotations

import json
import os

from streamd.cli.bench.plot import percentiles, plot
from streamd.cli.top import rates
from streamd.wire.tools import SegmentInfo
from tests.cli.case import DaemonCase
from tests.cli.run import environment, on_terminal


def info(id: int, number: int, offset: int) -> SegmentInfo:
    return SegmentInfo(id, f"topic {id}", 0, number, 0, offset, 0, 0, False)


class TopTests(DaemonCase):
    def test_rates(self) -> None:
        """What came, in a second; the busiest first; one that is new had nothing, one that is gone is not shown."""
        before = {1: info(1, 10, 100), 2: info(2, 0, 0), 4: info(4, 5, 50)}
        now = {1: info(1, 30, 500), 2: info(2, 100, 4000), 3: info(3, 4, 40)}
        found = rates(before, now, 2.0)
        self.assertEqual(
            [(each.name, each.records, each.bytes, each.held) for each in found],
            [("topic 2", 50.0, 2000.0, 100), ("topic 1", 10.0, 200.0, 30), ("topic 3", 2.0, 20.0, 4)],
        )

    def test_looks(self) -> None:
        """So many looks, as JSON or as tables, at a daemon or at its files."""
        self.publish("quiet", b"one")
        quick = ("--interval", "0.05", "--looks", "2")
        for path in ((), ("--path", self.data)):
            looks = [json.loads(line) for line in self.ctl("top", *quick, "--json", *path).text.splitlines()]
            self.assertEqual(len(looks), 2)
            self.assertEqual(looks[0]["topics"][0]["records"], 1)
            self.assertEqual(looks[0]["records_per_second"], 0)
        self.assertEqual(self.ctl("top", *quick).text.count("topic"), 2)

    def test_terminal(self) -> None:
        """On a terminal it is a screen that is drawn again, and left as it was."""
        ended, seen = on_terminal(self, "top", "--interval", "0.05", "--looks", "2")
        self.assertEqual(ended, 0)
        self.assertIn("records/s", seen)
        self.assertIn("\x1b[?1049l", seen)

    def test_progress(self) -> None:
        """Whoever sits at a terminal sees a bar; what is printed is the same."""
        path = self.path()
        with open(path, "wb") as file:
            file.write(b"a line\n" * 1000)
        ended, seen = on_terminal(self, "publish", "shown", "--create", path)
        self.assertEqual(ended, 0)
        self.assertIn("━", seen)
        self.assertIn("1,000 records published", seen)
        _, seen = on_terminal(self, "publish", "shown", "--no-progress", path)
        self.assertEqual(seen, "shown: 1,000 records published\r\n")


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
