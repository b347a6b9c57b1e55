"""Runs the tests under trial and ends with one plain line: ``N passed, N failed``.

``python -m tests [module or class …]``. Without arguments all of them run, those of Spark (in one session, and with
drivers in processes of their own) and of the store beside the others: the first wait for Java most of the time, the
last do nothing but compute. The figures are trial's own, from its last lines; where trial ends without one (it
crashed), there is no such line and the exit status is not 0. The line before it says what was not tried for want of a
browser.
"""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from tempfile import TemporaryFile

import tests
from tests.http.browser import find_browser

_SUMMARY = re.compile(r"^(PASSED|FAILED)(?: \((.*)\))?$")
_BESIDE = ("spark", "drivers", "store")


def counts(line: str) -> Counter[str] | None:
    """What trial's last line counts; None for any other line."""
    found = _SUMMARY.match(line)
    if found is None:
        return None
    return Counter({name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", found[2] or "")})


def summary(counted: Counter[str]) -> str:
    """``12 passed, 1 failed``."""
    failed = counted["failures"] + counted["errors"] + counted["unexpectedSuccesses"]
    text = f"{counted['successes']} passed, {failed} failed"
    return f"{text}, {counted['skips']} skipped" if counted["skips"] else text


def modules() -> list[str]:
    """All tests but those that run beside the others."""
    names = [each.name for each in pkgutil.iter_modules(tests.__path__) if each.ispkg or each.name.startswith("test_")]
    return [f"tests.{name}" for name in names if name not in _BESIDE]


def trial(where: str, names: list[str]) -> list[str]:
    """The command that runs these."""
    return [sys.executable, "-m", "twisted.trial", f"--temp-directory={where}", *names]


def main(arguments: list[str]) -> int:
    """Run trial, show what it says as it says it, what those beside said behind it, and add the line."""
    ended: list[Counter[str] | None] = []
    status = 0
    with ExitStack() as stack:
        beside = []
        for name in () if arguments else _BESIDE:
            said = stack.enter_context(TemporaryFile("w+", errors="backslashreplace"))
            command = trial(f".trial-{name}", [f"tests.{name}"])
            beside.append((subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT), said))
        command = trial(".trial", arguments or modules())
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="backslashreplace") as first:
            assert first.stdout is not None
            ended.append(show(first.stdout))
        status |= first.returncode
        for process, said in beside:
            status |= process.wait()
            said.seek(0)
            ended.append(show(said))
    if not arguments and find_browser() is None:
        print("The dashboard was not tried in a browser: there is no chromium with its chromedriver.", flush=True)
    if None in ended:
        return status or 1
    print(summary(sum((each for each in ended if each), Counter())), flush=True)
    return status


def show(lines: Iterable[str]) -> Counter[str] | None:
    """Print what trial says; returns what it counted."""
    counted = None
    for line in lines:
        print(line, end="", flush=True)
        counted = counts(line.rstrip("\n")) or counted
    return counted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
