"""The last line of ``make test`` says what trial said."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.__main__ import summary


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
            self.assertEqual(summary(line), expected)
