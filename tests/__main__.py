"""Runs the tests under trial and ends with one plain line: ``N passed, N failed``.

``python -m tests [module or class …]``. Without arguments all of them run, two processes at a time: those of Spark in
one session beside those with drivers in processes of their own, then all others beside those of the store. The figures
are trial's own, from its last lines; where trial ends without one (it crashed), there is no such line and the exit
status is not 0. The lines before it say what was not tried, for want of a browser or of Pravega's public client.
"""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from importlib.util import find_spec
from tempfile import TemporaryFile

import tests
from tests.rigs.http.browser import find_browser

_SUMMARY = re.compile(r"^(PASSED|FAILED)(?: \((.*)\))?$")
_PACKAGES = ("spark", "drivers", "store")


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
    """All modules and packages of tests but those that have a process of their own."""
    names = [module.name for module in pkgutil.iter_modules(tests.__path__)]
    return [f"tests.{name}" for name in names if name not in (*_PACKAGES, "rigs", "rooms", "__main__")]


def trial(where: str, names: list[str]) -> list[str]:
    """The command that runs these."""
    return [sys.executable, "-m", "twisted.trial", f"--temp-directory={where}", *names]


def main(arguments: list[str]) -> int:
    """Run trial, show what it says, and add the line."""
    if arguments:
        ended = run(trial(".trial", arguments))
    else:
        spark, drivers, store = (trial(f".trial-{name}", [f"tests.{name}"]) for name in _PACKAGES)
        ended = [*run(spark, drivers), *run(trial(".trial", modules()), store)]
        if find_spec("pravega_client") is None:
            print("Pravega's public client was not tried: it has no wheel for this Python.", flush=True)
        if find_browser() is None:
            print("The dashboard was not tried in a browser: there is no chromium with its chromedriver.", flush=True)
    status = max(code for code, _ in ended)
    if any(counted is None for _, counted in ended):
        return status or 1
    print(summary(sum((counted for _, counted in ended if counted), Counter())), flush=True)
    return status


def run(first: list[str], *beside: list[str]) -> list[tuple[int, Counter[str] | None]]:
    """Run these at once; show what the first says as it says it, and what the others said behind it."""
    with ExitStack() as stack:
        others = []
        for command in beside:
            said = stack.enter_context(TemporaryFile("w+", errors="backslashreplace"))
            others.append((subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT), said))
        with subprocess.Popen(first, stdout=subprocess.PIPE, text=True, errors="backslashreplace") as process:
            assert process.stdout is not None
            counted = show(process.stdout)
        ended = [(abs(process.returncode), counted)]
        for other, said in others:
            code = abs(other.wait())
            said.seek(0)
            ended.append((code, show(said)))
    return ended


def show(lines: Iterable[str]) -> Counter[str] | None:
    """Print what trial says; returns what it counted."""
    counted = None
    for line in lines:
        print(line, end="", flush=True)
        counted = counts(line.rstrip("\n")) or counted
    return counted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
