"""The table of the benchmarks: it is whole, its help and its page name all of it, and a report shows it."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.__main__ import _parser
from benchmarks.case import Bench
from benchmarks.cases import CASES, chosen
from benchmarks.load import Load
from benchmarks.report import Report
from benchmarks.servers import Streamd, known_servers
from tests.rigs.daemon import CHECKOUT

PAGE = CHECKOUT / "benchmarks" / "README.md"


class CaseTests(SynchronousTestCase):
    def test_names(self) -> None:
        """Each case has a name of its own; a kind stands for all of its cases."""
        names = [case.name for case in CASES]
        self.assertEqual(len(set(names)), len(names))
        for case in CASES:
            self.assertEqual(chosen([case.name]), [case])
            self.assertIn(case, chosen([case.kind]))
        self.assertEqual(chosen([]), list(CASES))
        self.assertRaises(KeyError, chosen, ["nonsense"])

    def test_parts(self) -> None:
        """Servers, services and the figures of goals are ones that there are."""
        servers = {each.name for each in known_servers(Path("limit"))}
        for case in CASES:
            self.assertLessEqual(set(case.servers), servers, case.name)
            self.assertIn("streamd", case.servers)
            self.assertIn(case.service, Streamd().services)
            figures = {figure.name for figure in case.figures}
            for goal in case.goals:
                self.assertIn(goal.figure, figures, case.name)
                self.assertIn(goal.against, (None, *case.servers), case.name)

    def test_help(self) -> None:
        """`--help` and the page name every case; those that differ by their end alone share their beginning there."""
        told = _parser().format_help()
        page = PAGE.read_text(encoding="utf-8")
        for case in CASES:
            self.assertIn(case.name, re.split(r"[\s,]+", told))
            head, _, tail = case.name.rpartition("-")
            self.assertTrue(f"`{case.name}`" in page or (f"`{head}-" in page and f"`-{tail}`" in page), case.name)

    def test_quick(self) -> None:
        """A quick run has an eighth of the messages, and a fifth of the time."""
        full, quick = (Bench(Load(Path("load")), is_quick) for is_quick in (False, True))
        self.assertEqual((full.messages(8000, 10), full.count(80), full.seconds(5)), (800, 80, 5))
        self.assertEqual((quick.messages(8000, 10), quick.count(80), quick.seconds(5)), (100, 10, 1))


class ReportTests(SynchronousTestCase):
    def test_goals(self) -> None:
        """A goal is reached or missed by its median, or by the ratio of the rounds."""
        (case,) = chosen(["pravega-large"])
        report = Report([case], {"limit": "x", "streamd": "y"}, {})
        for limit, ours in ((100.0, 90.0), (200.0, 100.0), (100.0, 85.0)):
            report.add(case, "limit", {"off": limit, "on": limit, "disk_mb": 1.0})
            report.add(case, "streamd", {"off": ours, "on": ours / 3, "disk_mb": 1.0})
        text = report.markdown()
        self.assertIn("MB/s, compaction off at least 0.8 times limit | 0.85 | reached", text)
        self.assertIn("MB/s, compaction on at least 0.4 times limit | 0.28 | **missed**", text)
