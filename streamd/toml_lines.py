"""The line of each key in a TOML file: Python's own reader returns the values, but not where they were."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cached_property

Path = tuple[str | int, ...]
"""The path of a value: keys, and indexes in arrays of tables, from 0."""


class Lines:
    """The lines of the keys in a valid TOML file.

    They are computed on the first question, which comes only when something is wrong with the file: the beginning of
    the file is parsed again and again, one line longer each time, and the keys that are new then stand on the last
    line.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")

    def line(self, *path: str | int) -> int:
        """The line of a key; where the file does not have it, the line of the table that it would be in."""
        while path and path not in self._keys:
            path = path[:-1]
        return self._keys.get(path, 1)

    def text(self, *path: str | int) -> int:
        """The line where the text of a string begins: the line below the quotes where these stand alone."""
        line = self.line(*path)
        quotes = self._lines[line - 1].rstrip("\r").partition("=")[2].strip()
        return line + (quotes in ('"""', "'''"))

    @cached_property
    def _keys(self) -> dict[Path, int]:
        keys: dict[Path, int] = {}
        begun = 1
        for number in range(1, len(self._lines) + 1):
            try:
                document = tomllib.loads("\n".join(self._lines[:number]) + "\n")
            except tomllib.TOMLDecodeError:
                # In the middle of a value: it stands where it has begun.
                continue
            for path in _paths((), document):
                keys.setdefault(path, begun)
            begun = number + 1
        return keys


def _paths(path: Path, value: object) -> Iterator[Path]:
    """The path of a value, and those of all values in it."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths((*path, key), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths((*path, number), inner)
