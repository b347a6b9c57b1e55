"""Compile the C programs of this folder: `limit`, and the load generator `load`."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCES = Path(__file__).parent


@dataclass(frozen=True)
class Programs:
    """The paths of the compiled programs."""

    limit: Path
    load: Path


def build(directory: Path) -> Programs:
    """Compile both into the directory, which takes about a second, so nothing is kept between runs."""
    return Programs(
        limit=_compile(directory / "limit", "limit.c"),
        load=_compile(directory / "load", "load.c", "wires.c", "frames.c"),
    )


def _compile(program: Path, *sources: str) -> Path:
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-O2", "-pthread", "-o", str(program), *(str(_SOURCES / each) for each in sources)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except FileNotFoundError:
        raise SystemExit(f"benchmarks: no C compiler: {compiler} (set CC)")
    if done.returncode:
        raise SystemExit(f"benchmarks: {' '.join(command)} failed:\n{done.stderr}")
    return program
