"""Alerts, the Grafana dashboard and docs/monitoring.md speak of exactly the metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import fields
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from streamd.http.site import HttpSettings
from streamd.settings import AccessRule
from tests.rigs.daemon import CHECKOUT
from tests.rigs.http.case import SiteCase

RULES = CHECKOUT / "etc" / "prometheus" / "streamd.rules.yml"
DASHBOARD = CHECKOUT / "etc" / "grafana" / "streamd.json"
PAGE = CHECKOUT / "docs" / "monitoring.md"

_NAME = re.compile(r"\b(?:streamd|process)_[a-z_]+")


# What Prometheus adds to each sample.
_ADDED = {"instance", "job"}


class MonitoringCase(SiteCase):
    def setUp(self) -> None:
        super().setUp()
        # One of each kind of label, so that nothing is missing for want of a value.
        peer = self.rig.connect()
        peer.ask(b"#a\n#a\n>" + b"x" * self.rig.limits.line_bytes_max + b"\n")
        limits: dict[str, Any] = {each.name: 1 for each in fields(AccessRule) if each.default == 0}
        self.rig.core.access.replace([AccessRule(who="anyone", allow=("read",), **limits)], 0.0)
        self.families = list(text_string_to_metric_families(self.ask("/metrics").text))
        self.samples: dict[str, list[dict[str, str]]] = {}
        for family in self.families:
            for sample in family.samples:
                self.samples.setdefault(sample.name, []).append(sample.labels)

    def rules(self) -> list[dict[str, Any]]:
        document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
        return [rule for group in document["groups"] for rule in group["rules"]]

    def check(self, expression: str) -> None:
        """Every metric in an expression is one that there is, with these labels, and from the start."""
        named = set(_NAME.findall(expression))
        self.assertTrue(named or "up{" in expression, expression)
        self.assertEqual(named - set(self.samples), set(), expression)
        known = {label for name in named for labels in self.samples[name] for label in labels} | _ADDED
        for names in re.findall(r"\b(?:by|on) \(([\w, ]+)\)", expression):
            self.assertEqual(set(names.split(", ")) - known, set(), expression)
        for name, selector in re.findall(r"(\w+)\{([^}]*)\}", expression):
            for label, operator, value in re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', selector):
                if label in _ADDED:
                    continue
                # Also where nothing has happened yet: `increase` sees no rise to a first value.
                there = {labels[label] for labels in self.samples[name]}
                self.assertEqual(set(value.split("|") if operator == "=~" else [value]) - there, set(), expression)


class RulesTests(MonitoringCase):
    def test_names(self) -> None:
        """Each alert is about metrics that exist, and says what is wrong and what to do."""
        rules = self.rules()
        self.assertGreater(len(rules), 10)
        self.assertEqual(len({rule["alert"] for rule in rules}), len(rules))
        for rule in rules:
            self.check(rule["expr"])
            for word in re.findall(r'(?:reason|result)="(\w+)"', rule["expr"]):
                self.assertIn(f"`{word}`", PAGE.read_text(encoding="utf-8"))
            self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
            self.assertTrue(rule["annotations"]["summary"] and rule["annotations"]["description"])

    def test_promtool(self) -> None:
        """Prometheus takes the file, and its own unit test of it; where promtool is not there, the file is YAML."""
        promtool = shutil.which("promtool")
        if promtool is None:
            self.assertTrue(self.rules())
            return
        for command in (["check", "rules", str(RULES)], ["test", "rules", str(RULES.with_name("streamd.test.yml"))]):
            ended = subprocess.run([promtool, *command], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


class DashboardTests(MonitoringCase):
    def test_names(self) -> None:
        """Each panel asks for metrics that exist, has its own place and one data source that can be chosen."""
        board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        places: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")
            for target in panel["targets"]:
                self.check(target["expr"])
            grid = panel["gridPos"]
            cells = {
                (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
            }
            self.assertEqual(cells & places, set(), panel["title"])
            self.assertLessEqual(grid["x"] + grid["w"], 24)
            places |= cells
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                self.check(variable["query"])


class PageTests(MonitoringCase):
    def setUp(self) -> None:
        super().setUp()
        self.text = PAGE.read_text(encoding="utf-8")

    def test_metrics(self) -> None:
        """The page has a row for each metric of ours with its type, and for no other."""
        rows = dict(re.findall(r"^\| `(streamd_\w+)(?:\{[\w, ]+\})?` \| (\w+) \|", self.text, re.MULTILINE))
        kinds = {
            family.name + ("_total" if family.type == "counter" else ""): family.type
            for family in self.families
            if family.name.startswith("streamd_")
        }
        self.assertEqual(rows, kinds)

    def test_labels(self) -> None:
        """Each row has the labels that the metric has."""
        for family in self.families:
            labels = {name for sample in family.samples for name in sample.labels} - {"le"}
            if labels and family.name.startswith("streamd_"):
                found = re.search(rf"`{family.name}(?:_total)?\{{([\w, ]+)\}}`", self.text)
                assert found is not None, family.name
                self.assertEqual(set(found[1].split(", ")), labels, family.name)

    def test_alerts(self) -> None:
        """Each alert has a row."""
        rows = re.findall(r"^\| (Streamd\w+) \|", self.text, re.MULTILINE)
        self.assertEqual(rows, [rule["alert"] for rule in self.rules()])

    def test_settings(self) -> None:
        """Its settings are named."""
        for name in HttpSettings.__dataclass_fields__:
            self.assertIn(f"`{name}`", self.text)

    def test_links(self) -> None:
        """What it points to is there."""
        for target in re.findall(r"\]\(([^)#]+)\)", self.text):
            if "://" not in target:
                self.assertTrue((PAGE.parent / target).exists(), target)
