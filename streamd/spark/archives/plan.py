"""What an archive run writes: records cut by day and size, small young files put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from streamd.spark.archives.manifest import File, Manifest, Output, file_for
from streamd.spark.read.places import Range

if TYPE_CHECKING:
    from streamd.spark.daemon import Storage

_MICROSECONDS: Final = 1_000_000

_YOUNG_MAX: Final = 8
"""So many young files of a day are put together into one, also where they are still too small."""


@dataclass(frozen=True)
class Shape:
    """How files are made."""

    file_bytes: int
    """What a file in place has about, in bytes of its records."""
    wait: bool
    """Whether what is smaller waits for more, until its day is over."""


def plan(storage: Storage, manifest: Manifest, new: Range | None, shape: Shape, today: str) -> tuple[Output, ...]:
    """What to write so that `new` is archived, and young files are put where they belong."""
    days = dict[str, Range]()
    if new is not None:
        days = dict(_days(storage, new))
    young: dict[str, list[File]] = {}
    for file in manifest.young:
        young.setdefault(file.date, []).append(file)
    last = max([today, *days])
    outputs: list[Output] = []
    for date in sorted({*days, *young}):
        outputs += _day(storage, manifest.topic, date, young.get(date, []), days.get(date), shape, date < last)
    return tuple(outputs)


def _days(storage: Storage, whole: Range) -> Iterator[tuple[str, Range]]:
    """Records by the day when they were stored, in UTC. Their times never go back."""
    first = whole.first
    while first < whole.end:
        run = next(storage.read(whole.id, first, first + 1))
        day = datetime.fromtimestamp(run.timestamp // _MICROSECONDS, UTC).date()
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
        end = storage.number_at(whole.id, int(midnight.timestamp()) * _MICROSECONDS)
        end = max(first + 1, min(end, whole.end))
        yield day.isoformat(), _part(whole, first, end)
        first = end


def _day(
    storage: Storage, topic: str, date: str, young: list[File], new: Range | None, shape: Shape, over: bool
) -> Iterator[Output]:
    """The files for what has come of a day, and for what has waited."""
    waiting = sum(file.bytes for file in young)
    size = waiting + (new.bytes if new is not None else 0)
    if shape.wait and not over and size < shape.file_bytes:
        if new is not None:
            together = tuple(young) if len(young) >= _YOUNG_MAX else ()
            yield _output(topic, date, together, new, young=True)
    elif new is None:
        yield _output(topic, date, tuple(young), None, young=False)
    else:
        parts = -(-size // shape.file_bytes)
        points = storage.split_points(new.id, new.first, new.end, parts) if parts > 1 else []
        for number, (first, end) in enumerate(pairwise([new.first, *points, new.end])):
            yield _output(topic, date, tuple(young) if not number else (), _part(new, first, end), young=False)


def _output(topic: str, date: str, before: tuple[File, ...], new: Range | None, *, young: bool) -> Output:
    """A file of what is in some young files, and of what is new."""
    rows = sum(file.rows for file in before) + (new.records if new is not None else 0)
    size = sum(file.bytes for file in before) + (new.bytes if new is not None else 0)
    end = new.end if new is not None else before[-1].end
    live = new.first if new is not None else end
    first = before[0].first if before else live
    return Output(file_for(topic, date, first, end, rows, size, young=young), before, live)


def _part(whole: Range, first: int, end: int) -> Range:
    return whole._replace(first=first, end=end, bytes=whole.bytes * (end - first) // whole.records)
