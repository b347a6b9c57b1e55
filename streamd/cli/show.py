"""What people see: tables, sizes, times, progress. Programs get JSON instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamd.as_json import when

if TYPE_CHECKING:
    from streamd.cli.source import Info

Advance = Callable[[int], None]
"""Told how much more is done."""


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns under their names: numbers to the right, all else to the left; nothing is cut."""
    found = list(rows)
    cells = [[each if isinstance(each, str) else f"{each:,}" for each in row] for row in found]
    right = [all(isinstance(row[at], int) for row in found) for at in range(len(head))]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for row in [list(head), *cells]:
        line = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        print("  ".join(line).rstrip())


def amount(size: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def described(info: Info) -> dict[str, Any]:
    """A topic as JSON has it. Offsets count messages, as they do for SESP and in Spark."""
    return {
        "name": info.name,
        "id": info.id,
        "messages": info.records,
        "first_offset": info.first_number,
        "next_offset": info.number,
        "bytes": info.bytes,
        "sealed": info.sealed,
        "created": when(info.created),
        "modified": when(info.modified),
    }


@contextmanager
def progress(what: str, total: int | None, *, is_bytes: bool = True, wanted: bool = True) -> Iterator[Advance]:
    """A progress bar on standard error, where somebody sits there. `total` is None where nobody knows it."""
    if not wanted or not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amounts = [DownloadColumn(binary_units=True), TransferSpeedColumn()] if is_bytes else [MofNCompleteColumn()]
    columns = [TextColumn("{task.description}"), BarColumn(), *amounts, TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


def say(text: str) -> None:
    """What goes on, beside what is printed for others."""
    print(f"streamctl: {text}", file=sys.stderr, flush=True)
