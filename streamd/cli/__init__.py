"""``streamctl``: streamd's command line for operators.

One module for each family of commands, named in `FAMILIES`. A family's ``add`` puts its commands on the parser; a
command's ``run`` takes the parsed arguments and returns the exit status. What a command needs beyond the standard
library it imports when it runs: ``streamctl --help`` is quick, and works without Spark.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from streamd import __version__
from streamd.cli.command import FAILED, INTERRUPTED, CommandError, explained

FAMILIES: Final = (
    "streamd.cli.topics",
    "streamd.cli.groups",
    "streamd.cli.messages.publish",
    "streamd.cli.messages.tail",
    "streamd.cli.messages.export",
    "streamd.cli.messages.transfer",
    "streamd.cli.top",
    "streamd.cli.bench.run",
    "streamd.cli.files",
    "streamd.cli.config",
    "streamd.cli.contexts",
    "streamd.cli.spark.archive",
    "streamd.cli.spark.pipeline",
)

_EPILOG: Final = "streamctl COMMAND --help describes a command. See streamctl(1)."


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    made = argparse.ArgumentParser("streamctl", description="Work with streamd.", epilog=_EPILOG)
    made.add_argument("--version", action="version", version=f"streamctl {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for family in FAMILIES:
        import_module(family).add(commands)
    return made


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line, also where positional arguments stand behind an option, which argparse refuses.

    A command that allows that names its list of arguments as ``more``.
    """
    made = parser()
    chosen, rest = made.parse_known_args(arguments)
    if rest and (not hasattr(chosen, "more") or any(word.startswith("-") and word != "-" for word in rest)):
        made.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        getattr(chosen, chosen.more).extend(rest)
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. An error is one line."""
    chosen = _parsed(arguments)
    try:
        status: int = chosen.run(chosen)
        # Whoever reads it may have left; that shows only now.
        sys.stdout.flush()
        return status
    except CommandError as error:
        print(f"streamctl: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return FAILED
    except OSError as error:
        print(f"streamctl: {explained(error)}", file=sys.stderr)
        _forget_output()
        return FAILED


def _forget_output() -> None:
    """Redirect the output to nowhere: a closed pipe would fail once more when Python ends, with its own message."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
