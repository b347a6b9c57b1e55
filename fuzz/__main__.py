"""``python -m fuzz``: look for inputs that break a law, for some seconds a target; or try one that did."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from fuzz.engine import MISSING
from fuzz.targets import TARGETS, Target

_ROOT = Path(__file__).resolve().parent.parent
_INPUT_BYTES_MAX = 4096
# By the clock on the wall, on a machine that may have other things to do.
_INPUT_SECONDS_MAX = 60
_MEMORY_MB_MAX = 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, or replay where files are given. The exit code is 1 where a law is broken."""
    options = _parser().parse_args(arguments)
    if options.target is not None and options.target not in TARGETS:
        raise SystemExit(f"fuzz: no such target: {options.target}; there are {', '.join(TARGETS)}")
    if options.files:
        return max(replay(options.target, TARGETS[options.target], path) for path in options.files)
    names = list(TARGETS) if options.target is None else [options.target]
    return max(fuzz(name, options.seconds, options.dir / name) for name in names)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description="Coverage-guided fuzzing of the codecs and of what reads the store's files.",
        epilog=f"targets: {', '.join(TARGETS)}",
    )
    parser.add_argument("target", nargs="?", metavar="TARGET", help="what to fuzz; all, one by one, by default")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="inputs to try, instead of fuzzing")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: %(default)s)")
    parser.add_argument(
        "--dir", type=Path, default=_ROOT / "build" / "fuzz", help="where inputs are kept (default: build/fuzz)"
    )
    return parser


def replay(name: str, target: Target, path: Path) -> int:
    """Try one input, and say what it does."""
    try:
        target.check(path.read_bytes())
    except Exception:
        traceback.print_exc()
        print(f"{name}: {path} breaks it")
        return 1
    print(f"{name}: {path} is fine")
    return 0


def fuzz(name: str, seconds: int, directory: Path) -> int:
    """Fuzz one target in a process of its own. What it learns stays in the directory, for the next time."""
    corpus, seeds = directory / "corpus", directory / "seeds"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds.mkdir(exist_ok=True)
    for seed in TARGETS[name].seeds():
        (seeds / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
    before = _crashes(directory)
    command = [sys.executable, "-m", "fuzz.engine", name, str(corpus), str(seeds)]
    command += [f"-max_total_time={seconds}", f"-artifact_prefix={directory}/", f"-max_len={_INPUT_BYTES_MAX}"]
    command += [
        f"-timeout={_INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={_MEMORY_MB_MAX}",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    print(f"{name}: {seconds} s", flush=True)
    status = subprocess.run(command, cwd=_ROOT, check=False).returncode
    found = sorted(_crashes(directory) - before)
    for path in found:
        print(f"{name}: an input breaks it. Try it again with: python -m fuzz {name} {path}", flush=True)
    if status == MISSING or (status and not found):
        raise SystemExit(f"fuzz: {name}: the fuzzer ended with status {status}")
    return int(bool(found))


def _crashes(directory: Path) -> set[Path]:
    """Inputs that the fuzzer left: what raised, took too long or too much memory. What was only slow is no crash."""
    return {path for path in directory.iterdir() if path.is_file() and not path.name.startswith("slow-unit")}


if __name__ == "__main__":
    sys.exit(main())
