"""Where to begin and where to end in a topic: ``first``, ``end``, an offset, a time, or so long ago."""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from streamd.cli.messages.source import Info, Source

_AGO: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}

PLACE_HELP: Final = "first, end, an offset (1000), a time (2026-11-16T18:00, UTC), or so long ago: 90s, 10m, 2h, 1d"


class Place(NamedTuple):
    """An offset, or a time in microseconds since 1970."""

    number: int | None = None
    timestamp: int | None = None
    """Where both are None, the end."""
    is_first: bool = False

    def of(self, source: Source, info: Info) -> int:
        """The record that is meant, in a topic."""
        if self.is_first:
            return info.first_number
        if self.timestamp is not None:
            return source.number_at(info.id, self.timestamp)
        return info.number if self.number is None else self.number


FIRST: Final = Place(is_first=True)
END: Final = Place()


def place(text: str) -> Place:
    """A place on the command line."""
    if text in ("first", "earliest"):
        return FIRST
    if text in ("end", "latest"):
        return END
    if text.isascii() and text.isdecimal():
        return Place(int(text))
    if found := _AGO.fullmatch(text):
        return Place(timestamp=int((time.time() - float(found[1]) * _SECONDS[found[2]]) * 1_000_000))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no place in a topic: {PLACE_HELP}")
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Place(timestamp=int(moment.timestamp()) * 1_000_000 + moment.microsecond)
