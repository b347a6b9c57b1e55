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
"""The name of each shell's completion: shells find it by its name."""

TOPICS: Final = {
    "bash": "_streamctl_topics",
    "zsh": "_streamctl_topics",
    "fish": "(_streamctl_topics)",
    "preamble": {
        "bash": r"""
_streamctl_topics() {
  local name typed="${1//\\/}"
  [[ "${COMP_WORDS[*]}" == *\ --@(server|context|tls|ca|path)* ]] && return
  timeout 1 streamctl topics --names 2>/dev/null | while IFS= read -r name; do
    if [[ "$name" == "${typed#[\'\"]}"* ]]; then
      [[ "$typed" == [\'\"]* ]] && printf '%s\n' "$name" || printf '%q\n' "$name"
    fi
  done
}""",
        "zsh": r"""
_streamctl_topics() {
  local -a names
  (( ${words[(I)--(server|context|tls|ca|path)*]} )) && return 1
  names=("${(@f)$(timeout 1 streamctl topics --names 2>/dev/null)}")
  [[ -n "$names" ]] && compadd -a names
}""",
        "fish": r"""
function _streamctl_topics
  string match -qr -- '^--(server|context|tls|ca|path)' (commandline -opc); and return
  timeout 1 streamctl topics --names 2>/dev/null
end""",
    },
}
"""How each shell completes names of topics: it asks the daemon at the default address, if there is one.

It waits a second at most, which is enough but for tens of thousands of topics.
"""

_HEAD: Final = "# Generated from the parser of streamctl by shtab: make completion"


def completion(shell: str) -> str:
    """The completion for a shell."""
    import shtab

    made = parser()
    known = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY, "BACKUP": shtab.DIRECTORY, "TOPIC": TOPICS}
    for command, action in _actions(made):
        # What is made has a name that is new.
        if (
            isinstance(action.metavar, str)
            and action.metavar in known
            and (command, action.metavar) != ("create", "TOPIC")
        ):
            # An attribute of shtab's own, which argparse knows nothing of.
            vars(action)["complete"] = known[action.metavar]
    # Without its comments, which speak of another way of installing it.
    lines = [line.rstrip() for line in shtab.complete(made, shell).splitlines() if not line.lstrip().startswith("# ")]
    # zsh looks at the first line.
    lines.insert(1 if lines[0].startswith("#compdef") else 0, _HEAD)
    return "\n".join(lines) + "\n"


def _actions(made: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """Every option and argument of every command, with the command's last word."""
    for action in made._actions:
        yield made.prog.split()[-1], action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)


def main(directory: str) -> None:
    """Write all completions."""
    for shell, name in FILES.items():
        (Path(directory) / name).write_text(completion(shell), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
