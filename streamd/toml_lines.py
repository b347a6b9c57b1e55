"""On which line of a TOML file each key stands. Python's own reader tells the values, and not where they were."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cached_property

Path = tuple[str | int, ...]
"""The way to a value: keys, and numbers in arrays of tables, from 0."""


class Lines:
    """The lines of a file that tomllib has read, and found to be TOML.

    They are looked for when somebody asks, which is when something is wrong with the file: then the beginning of the
    file is read again and again, a line longer each time. What is new each time that it can be read stands there.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")

    def line(self, *path: str | int) -> int:
        """Where a key stands; where it does not stand at all, the table that it would be in."""
        while path and path not in self._keys:
            path = path[:-1]
        return self._keys.get(path, 1)

    def text(self, *path: str | int) -> int:
        """Where the text of a string begins, which is one line below the quotes if these stand alone."""
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
    """The way to a value, and to all that is in it."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths((*path, key), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths((*path, number), inner)
