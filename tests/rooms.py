"""The rooms of the house and the doors between them, read from the imports.

``python -m tests.rooms`` writes the picture in ``docs/architecture.md`` anew.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "architecture.md"
_PICTURE: Final = re.compile(r"(?<=<!-- rooms -->\n).*(?=<!-- end of rooms -->)", re.DOTALL)

ORDER: Final[tuple[str, ...]] = (
    *("batch", "views", "settings", "toml_lines", "as_json", "metrics", "loop", "patterns", "interfaces"),
    *("tables", "endpoints", "wire", "store.errors", "store.names", "store.wal", "store.disk", "store.usage"),
    *("store.room", "store.believed"),
    *("store.records", "store.journal", "store.directory", "store.segments", "store.commit", "store.packs"),
    *("store.reading", "store.recovery", "store", "access", "tls", "quic", "config", "connections", "groups"),
    *("protocols", "controller", "http", "client", "store.upkeep", "plugin", "daemon", "service"),
    *("tap", "spark", "cli"),
)
"""Every room and every module that stands alone. Each imports only from those before it."""


def room_of(module: str) -> str:
    """The room that a module of ours is in."""
    parts = module.split(".")[1:]
    inner = ".".join(parts[:2])
    return inner if parts[:1] == ["store"] and inner in ORDER else "".join(parts[:1])


def modules() -> dict[str, Path]:
    """All modules of the package."""
    paths = sorted((ROOT / "streamd").rglob("*.py"))
    names = {path: path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in paths}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of ours that one imports when it runs: what is imported for its types alone opens no door."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in _executed(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "streamd":
            inner = {f"{node.module}.{name.name}" for name in node.names}
            found |= (inner & known.keys()) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.split(".")[0] == "streamd"}
    return found


def _executed(tree: ast.AST) -> list[ast.AST]:
    nodes: list[ast.AST] = []
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        nodes += [child, *_executed(child)]
    return nodes


def doors() -> dict[str, dict[str, set[str]]]:
    """For each room the rooms that it imports from, and which modules do."""
    known = modules()
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, path in known.items():
        for imported in imports(path, known):
            here, there = room_of(name), room_of(imported)
            if here and there and here != there:
                found[here][there].add(f"{name} imports {imported}")
    return found


def picture() -> str:
    """The packages and the doors between them, as a Mermaid diagram: the rooms of the store, and those above it."""
    drawn = {room for room in ORDER if (ROOT / "streamd" / room.replace(".", "/")).is_dir()}
    lines = ["```mermaid", "flowchart TD"]
    lines += [f'    {room.replace(".", "_")}["{room.replace(".", "/")}/"]' for room in ORDER if room in drawn]
    open_doors = doors()
    # Only what leads back: a door that leads the other way is an error of its own.
    reached = {room: drawn & open_doors[room].keys() & set(ORDER[: ORDER.index(room)]) for room in drawn}
    for room in ORDER:
        # What is behind another door of the same room is not drawn again.
        near = reached.get(room, set())
        far = {beyond for there in near for beyond in _beyond(there, reached)}
        lines += [f"    {room.replace('.', '_')} --> {there.replace('.', '_')}" for there in sorted(near - far)]
    return "\n".join([*lines, "```", ""])


def _beyond(room: str, reached: dict[str, set[str]]) -> set[str]:
    return reached.get(room, set()) | {far for near in reached.get(room, set()) for far in _beyond(near, reached)}


def page() -> str:
    """The page with the picture as it should be."""
    return _PICTURE.sub(lambda _: picture(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
