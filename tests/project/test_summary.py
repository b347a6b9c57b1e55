"""The last line of ``make test`` says what trial said, of all tests."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.__main__ import counts, modules, summary
from tests.rigs.daemon import CHECKOUT


class SummaryTests(SynchronousTestCase):
    def test_lines(self) -> None:
        """Trial's last line, in whatever shape it comes, is counted in full; no other line is taken for it."""
        for line, expected in {
            "PASSED (successes=3)": "3 passed, 0 failed",
            "PASSED": "0 passed, 0 failed",
            "PASSED (skips=2, successes=3)": "3 passed, 0 failed, 2 skipped",
            "FAILED (failures=1, errors=2, successes=9)": "9 passed, 3 failed",
            "FAILED (unexpectedSuccesses=1)": "0 passed, 1 failed",
            "Ran 3 tests in 1.0s": None,
            "    test_x ... PASSED (successes=3)": None,
        }.items():
            counted = counts(line)
            self.assertEqual(None if counted is None else summary(counted), expected)

    def test_nothing_is_left_out(self) -> None:
        """Every module and package of tests is run, some in processes of their own."""
        here = CHECKOUT / "tests"
        packages = {path.parent.name for path in here.glob("*/__init__.py")}
        names = packages | {path.stem for path in here.glob("test_*.py")}
        self.assertEqual({f"tests.{name}" for name in names - {"spark", "drivers", "store", "rigs"}}, set(modules()))
