"""On which line of a TOML file each key stands. Python's own reader tells the values, and not where they were."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, Final

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

Path = tuple[str | int, ...]
"""The way to a value: keys, and numbers in arrays of tables."""

_HEADERS: Final = ("table", "table_array_element")


class Lines:
    """The lines of a file that tomllib has read, and found to be TOML."""

    def __init__(self, text: str) -> None:
        root = Parser(Language(tree_sitter_toml.language())).parse(text.encode()).root_node
        self._keys: dict[Path, int] = {}
        self._values: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        for node in root.children:
            if node.type in _HEADERS:
                self._keys[table := self._table(node)] = _line(node)
                self._take(table, node)
        self._take((), root)

    def line(self, *path: str | int) -> int:
        """Where a key stands; where it does not stand at all, the table that it would be in."""
        while path and path not in self._keys:
            path = path[:-1]
        return self._keys.get(path, 1)

    def text(self, *path: str | int) -> int:
        """Where the text of a string begins, which is one line below the quotes if these stand alone."""
        return self._values.get(path, self.line(*path))

    def _table(self, node: Node) -> Path:
        """The way to a table, from its header. What is below an array of tables is below its last one."""
        path: Path = ()
        keys = _keys(node.children[1])
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            if number == len(keys) and node.type == "table_array_element":
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _take(self, table: Path, node: Node) -> None:
        for pair in _pairs(node):
            key, value = pair.children[0], pair.children[-1]
            path = (*table, *_keys(key))
            self._keys[path] = _line(pair)
            quotes = (value.text or b"")[:4]
            alone = quotes[:3] in (b'"""', b"'''") and quotes[3:] in (b"\n", b"\r")
            self._values[path] = _line(value) + alone
            if value.type == "inline_table":
                self._take(path, value)


def _pairs(node: Node) -> Iterator[Node]:
    return (child for child in node.children if child.type == "pair")


def _keys(node: Node) -> list[str]:
    """The parts of a key, unquoted by who knows how."""
    found: Any = tomllib.loads(f"{(node.text or b'').decode()} = 0")
    keys: list[str] = []
    while isinstance(found, dict):
        ((key, found),) = found.items()
        keys.append(key)
    return keys


def _line(node: Node) -> int:
    return node.start_point.row + 1
