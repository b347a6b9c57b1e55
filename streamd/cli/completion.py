"""Writes the completions of streamctl for bash, zsh and fish: ``python -m streamd.cli.completion DIRECTORY``.

They are generated from the parser, by shtab, and kept in ``etc/completion``; a test holds the two together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streamd.cli import parser

FILES: Final = {"bash": "streamctl.bash", "zsh": "_streamctl", "fish": "streamctl.fish"}
"""What each shell's completion is called: where these shells look, the name counts."""

_HEAD: Final = "# Generated from the parser of streamctl by shtab: make completion"


def completion(shell: str) -> str:
    """The completion for a shell."""
    import shtab

    made = parser()
    for each in _actions(made):
        if each.metavar in ("FILE", "DIR", "BACKUP"):
            # An attribute of shtab's own, which argparse knows nothing of.
            vars(each)["complete"] = shtab.FILE if each.metavar == "FILE" else shtab.DIRECTORY
    # Without its comments, which speak of another way of installing it.
    lines = [line.rstrip() for line in shtab.complete(made, shell).splitlines() if not line.lstrip().startswith("# ")]
    # zsh looks at the first line.
    lines.insert(1 if lines[0].startswith("#compdef") else 0, _HEAD)
    return "\n".join(lines) + "\n"


def _actions(made: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every option and argument, of every command."""
    for each in made._actions:
        yield each
        if isinstance(each, argparse._SubParsersAction):
            for command in each.choices.values():
                yield from _actions(command)


def main(directory: str) -> None:
    """Write them all."""
    for shell, name in FILES.items():
        (Path(directory) / name).write_text(completion(shell), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
