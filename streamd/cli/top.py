"""``streamctl top``: who writes how much, now."""

from __future__ import annotations

import argparse
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from streamd.cli.command import print_json
from streamd.cli.messages.source import add_source_options, reconnecting
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
        description="Show the busiest topics, and what comes to them in a second, until q or Ctrl-C.",
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
    with ExitStack() as stack:
        live = None
        keys = stack.enter_context(_Keys())
        looked = 0
        for rates in reconnecting(options, lambda found: _looks(found, options, keys)):
            if rates is None:
                continue
            if live is None and sys.stdout.isatty() and not options.json:
                from rich.live import Live

                live = stack.enter_context(Live(auto_refresh=False, screen=True))
            if live is not None:
                # So many as there is room for below and above the lines of the table.
                rows = min(options.rows, max(live.console.height - _LINES, 1))
                live.update(_shown(rates, rows), refresh=True)
            else:
                _print(rates, options)
            looked += 1
            if looked == options.looks:
                break
    return 0


class _Keys:
    """The keyboard, where somebody sits at it: a key is read when it is pressed."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if sys.stdin.isatty() and sys.stdout.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> bool:
        """Wait so long; whether somebody has pressed q meanwhile."""
        until = time.monotonic() + seconds
        while self._before is not None and (left := until - time.monotonic()) > 0:
            if select.select([sys.stdin], [], [], left)[0] and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b""):
                return True
        time.sleep(max(until - time.monotonic(), 0))
        return False


def _looks(found: Source, options: argparse.Namespace, keys: _Keys) -> Iterator[list[Rate] | None]:
    """Yield rates again and again, until q; first nothing, which says that the connection works."""
    before, at = _held(found), time.monotonic()
    yield None
    while not keys.wait(options.interval):
        found.refresh()
        now, then = _held(found), time.monotonic()
        yield rates(before, now, then - at)
        before, at = now, then


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
        print_table(("topic", "messages/s", "bytes/s", "messages"), rows)
        print()
    sys.stdout.flush()


def _shown(found: list[Rate], rows: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    records, size = _total(found)
    title = f"{records:,.0f} messages/s, {amount(size)}/s, {counted(len(found), 'topic')}"
    more = f"{counted(len(found) - rows, 'other')} not shown. q ends" if len(found) > rows else "q ends"
    table = Table(title=title, title_justify="left", caption=more, caption_justify="left")
    table.add_column("topic", no_wrap=True)
    for name in ("messages/s", "bytes/s", "messages"):
        table.add_column(name, justify="right")
    for each in found[:rows]:
        # Not as rich's markup: a name may hold brackets.
        table.add_row(Text(each.name), f"{each.records:,.0f}", amount(each.bytes), f"{each.held:,}")
    return table
