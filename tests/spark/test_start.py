"""The session: a Python for its tasks that knows streamd, or a sentence that says what to set."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.spark.start import check_python


class PythonTests(SynchronousTestCase):
    def session(self, python: str, master: str = "local[2]") -> Any:
        return SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=python, master=master))

    def test_another_one(self) -> None:
        """A Python without streamd is told of with PYSPARK_PYTHON; one that has it, or is elsewhere, is not."""
        bare = Path(self.mktemp()).resolve()
        bare.write_text("#!/bin/sh\nexit 1\n")
        bare.chmod(0o755)
        for python in (str(bare), "no-such-python"):
            error = self.assertRaises(RuntimeError, check_python, self.session(python))
            self.assertIn("PYSPARK_PYTHON", str(error))
        check_python(self.session(str(bare), "spark://elsewhere:7077"))
        good = Path(self.mktemp()).resolve()
        good.write_text("#!/bin/sh\nexit 0\n")
        good.chmod(0o755)
        check_python(self.session(str(good)))
