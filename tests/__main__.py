"""Runs the tests under trial and ends with one plain line: ``N passed, N failed``.

``python -m tests [module or class …]``. The figures are trial's own, from its last line; where trial ends without
one (it crashed), there is no such line and the exit status is not 0. The line before it says what was not tried for
want of a browser.
"""

from __future__ import annotations

import re
import subprocess
import sys

from tests.http.browser import find_browser

_SUMMARY = re.compile(r"^(PASSED|FAILED)(?: \((.*)\))?$")


def summary(line: str) -> str | None:
    """``12 passed, 1 failed`` for trial's last line, None for any other line."""
    found = _SUMMARY.match(line)
    if found is None:
        return None
    counts = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", found[2] or "")}
    failed = counts.get("failures", 0) + counts.get("errors", 0) + counts.get("unexpectedSuccesses", 0)
    text = f"{counts.get('successes', 0)} passed, {failed} failed"
    skipped = counts.get("skips", 0)
    return f"{text}, {skipped} skipped" if skipped else text


def main(arguments: list[str]) -> int:
    """Run trial, show what it says as it says it, and add the line."""
    command = [sys.executable, "-m", "twisted.trial", "--temp-directory=.trial", *(arguments or ["tests"])]
    last = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="backslashreplace") as trial:
        assert trial.stdout is not None
        for line in trial.stdout:
            print(line, end="", flush=True)
            last = summary(line.rstrip("\n")) or last
    if not arguments and find_browser() is None:
        print("The dashboard was not tried in a browser: there is no chromium with its chromedriver.", flush=True)
    if last is not None:
        print(last, flush=True)
    return trial.returncode or (last is None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
