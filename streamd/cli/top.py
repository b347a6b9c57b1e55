"""``streamctl top``: who writes how much, now."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamd.cli.command import print_json
from streamd.cli.messages.source import add_source_options, source
from streamd.cli.show import Size, amount, counted, print_table
from streamd.cli.values import positive, seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from streamd.cli.messages.source import Info, Source

_INTERVAL_SECONDS: Final = 1.0
_ROWS: Final = 20
# The title, the frame, the names of the columns and the line below all.
_LINES: Final = 6


class Rate(NamedTuple):
    """What came to a topic between two looks."""

    name: str
    records: float
    """In a second, as the bytes."""
    bytes: float
    held: int
    """How many records it has."""


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "top",
        help="show the busiest topics, as it goes",
        description="Show the busiest topics, and what comes to them in a second, until Ctrl-C.",
    )
    parser.add_argument(
        "--interval", type=seconds, default=_INTERVAL_SECONDS, metavar="SECONDS", help="(default: %(default)s)"
    )
    parser.add_argument("--looks", type=positive, metavar="N", help="end after N looks")
    parser.add_argument("--rows", type=positive, default=_ROWS, metavar="N", help="topics shown (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each look, one a line")
    add_source_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look again and again."""
    with source(options) as found, ExitStack() as stack:
        live = None
        if sys.stdout.isatty() and not options.json:
            from rich.live import Live

            live = stack.enter_context(Live(auto_refresh=False, screen=True))
        for rates in _looks(found, options):
            if live is not None:
                # So many as there is room for below and above the lines of the table.
                rows = min(options.rows, max(live.console.height - _LINES, 1))
                live.update(_shown(rates, rows), refresh=True)
            else:
                _print(rates, options)
    return 0


def _looks(found: Source, options: argparse.Namespace) -> Iterator[list[Rate]]:
    before, at = _held(found), time.monotonic()
    looked = 0
    while options.looks is None or looked < options.looks:
        time.sleep(options.interval)
        found.refresh()
        now, then = _held(found), time.monotonic()
        yield rates(before, now, then - at)
        before, at = now, then
        looked += 1


def _held(found: Source) -> dict[int, Info]:
    return {info.id: info for info in found.segments()}


def rates(before: Mapping[int, Info], now: Mapping[int, Info], seconds: float) -> list[Rate]:
    """What came in so many seconds, the busiest first. A topic that is new had nothing before."""
    found = []
    for id, info in now.items():
        earlier = before.get(id)
        records = info.number - (earlier.number if earlier is not None else 0)
        size = info.offset - (earlier.offset if earlier is not None else 0)
        found.append(Rate(info.name, records / seconds, size / seconds, info.records))
    return sorted(found, key=lambda rate: (-rate.bytes, -rate.records, rate.name))


def _total(found: list[Rate]) -> tuple[float, float]:
    return sum(each.records for each in found), sum(each.bytes for each in found)


def _told(records: float, size: float) -> dict[str, float]:
    return {"records_per_second": round(records, 1), "bytes_per_second": round(size, 1)}


def _print(found: list[Rate], options: argparse.Namespace) -> None:
    records, size = _total(found)
    if options.json:
        topics = [
            {"name": each.name, **_told(each.records, each.bytes), "records": each.held}
            for each in found[: options.rows]
        ]
        print_json({**_told(records, size), "topics": topics})
    else:
        rows = [(each.name, round(each.records), Size(each.bytes), each.held) for each in found[: options.rows]]
        print_table(("topic", "records/s", "bytes/s", "records"), rows)
        print()
    sys.stdout.flush()


def _shown(found: list[Rate], rows: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    records, size = _total(found)
    title = f"{records:,.0f} records/s, {amount(size)}/s, {counted(len(found), 'topic')}"
    more = f"{counted(len(found) - rows, 'other')} not shown. Ctrl-C ends" if len(found) > rows else "Ctrl-C ends"
    table = Table(title=title, title_justify="left", caption=more, caption_justify="left")
    table.add_column("topic", no_wrap=True)
    for name in ("records/s", "bytes/s", "records"):
        table.add_column(name, justify="right")
    for each in found[:rows]:
        # Not as rich's markup: a name may hold brackets.
        table.add_row(Text(each.name), f"{each.records:,.0f}", amount(each.bytes), f"{each.held:,}")
    return table
