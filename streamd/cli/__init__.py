"""``streamctl``: what an operator does with streamd from the command line.

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
from streamd.cli.command import FAILED, INTERRUPTED, CommandError

FAMILIES: Final = ("streamd.cli.archive", "streamd.cli.pipeline")

_EPILOG: Final = "streamctl COMMAND --help tells of one of them. See streamctl(1)."


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    made = argparse.ArgumentParser("streamctl", description="Work with streamd.", epilog=_EPILOG)
    made.add_argument("--version", action="version", version=f"streamctl {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for family in FAMILIES:
        import_module(family).add(commands)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status. What is wrong is said in one line."""
    chosen = parser().parse_args(arguments)
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
        # Python would complain of it once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
