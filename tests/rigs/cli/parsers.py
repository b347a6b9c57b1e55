"""All commands and options of streamctl."""

from __future__ import annotations

import argparse
from collections.abc import Iterator


def commands(of: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command, with the parser of what stands behind it."""
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from commands(command, (*words, word))
            return
    yield " ".join(words), of


def options(command: argparse.ArgumentParser) -> set[str]:
    """Its options, the long ones."""
    return {text for action in command._actions for text in action.option_strings if text.startswith("--")}
