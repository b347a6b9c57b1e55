"""Output for people: tables, sizes, times, progress. Programs get JSON instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from streamd.as_json import when

if TYPE_CHECKING:
    from streamd.cli.messages.source import Info

Advance = Callable[[int], None]
"""Called with how much more is done."""


class Size(int):
    """A number of bytes in a table."""


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns under their names: numbers to the right, all else to the left; nothing is cut."""
    listed = list(rows)
    cells = [[_cell(value) for value in row] for row in listed]
    right = [bool(listed) and all(isinstance(row[at], int) for row in listed) for at in range(len(head))]
    widths = [max(map(width, column)) for column in zip(head, *cells, strict=True)]
    for row in [list(head), *cells]:
        line = [
            " " * (room - width(cell)) + cell if to_right else cell + " " * (room - width(cell))
            for cell, room, to_right in zip(row, widths, right, strict=True)
        ]
        print("  ".join(line).rstrip())


def _cell(value: object) -> str:
    return value if isinstance(value, str) else amount(value) if isinstance(value, Size) else f"{value:,}"


def width(text: str) -> int:
    """How many columns of a terminal a text takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1 for character in text)


def amount(size: float) -> str:
    """A number of bytes with its unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def counted(count: int, what: str) -> str:
    """A count with its noun, in the singular or the plural."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def described(info: Info) -> dict[str, Any]:
    """A topic as a JSON object. Offsets count records, as they do for SESP and in Spark."""
    return {
        "name": info.name,
        "id": info.id,
        "records": info.records,
        "first_offset": info.first_number,
        "next_offset": info.number,
        "bytes": info.bytes,
        "sealed": info.sealed,
        "created": when(info.created),
        "modified": when(info.modified),
    }


@contextmanager
def progress(
    what: str, total: int | None, *, shown: Callable[[float], str] = amount, rate: bool = True, wanted: bool = True
) -> Iterator[Advance]:
    """A progress bar on standard error, where that is a terminal. `total` is None where it is not known.

    `shown` formats amounts; with `rate` the amount per second is shown too.
    """
    if not wanted or not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Done(ProgressColumn):
        """The column with how much is done, of how much, and how fast."""

        def render(self, task: Task) -> Text:
            of = "" if task.total is None else f" of {shown(task.total)}"
            speed = f", {shown(task.speed)}/s" if rate and task.speed else ""
            return Text(f"{shown(task.completed)}{of}{speed}")

    # Less than 80 columns in all: in a full line the ^C that a terminal shows would go to the next one, and stay.
    done = Done(Column(no_wrap=True))
    columns = [TextColumn("{task.description}", markup=False), BarColumn(20), done, TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


def numbers(count: float) -> str:
    """A number with separators."""
    return f"{count:,.0f}"


def say(text: str) -> None:
    """Print a line on standard error, beside the data on standard output."""
    print(f"streamctl: {text}", file=sys.stderr, flush=True)
