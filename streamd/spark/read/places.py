"""From words, offsets and times to record numbers: which records of which topics are read, and which are gone."""

from __future__ import annotations

import logging
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from streamd.spark.options import LATEST, OnDataLoss, OptionError, Place, ReadOptions

if TYPE_CHECKING:
    from streamd.spark.daemon import Info, Storage
    from streamd.spark.read.filters import Bounds

_log: Final = logging.getLogger("streamd.spark")


class DataLost(Exception):
    """Records that were to be read are not there any more. The text names them, and says what to do."""


class Range(NamedTuple):
    """Records of one topic, from `first` to `end`, which is not part of it."""

    id: int
    topic: str
    first: int
    end: int
    bytes: int
    """About how many."""

    @property
    def records(self) -> int:
        """How many there are."""
        return self.end - self.first


class Losses:
    """What is to be read and is gone: an error that names it, or a line in the log and a count."""

    def __init__(self, on_data_loss: OnDataLoss) -> None:
        self._skip = on_data_loss == "skip"
        self.records = 0

    def retained(self, info: Info, first: int, end: int) -> int:
        """The first record of a range that is still there; its end where none is."""
        begin = max(first, min(info.first_number, end))
        if begin > first:
            self.truncated(info.name, first, begin)
        return begin

    def truncated(self, topic: str, first: int, end: int) -> None:
        """These were truncated, or have expired."""
        if not self._skip:
            raise DataLost(
                f"offsets {first} to {end - 1} of topic {topic!r} are gone: they were truncated, or have expired. "
                "Read from later on (startingOffsets, startingTimestamp), or go on behind them with onDataLoss=skip"
            )
        self.records += end - first
        _log.warning("topic %r: offsets %d to %d are gone and skipped: %d records", topic, first, end - 1, end - first)

    def deleted(self, topic: str, first: int, again: bool) -> None:
        """The topic is deleted, perhaps made again under its name; nobody knows how many records went with it."""
        what = "deleted and created again" if again else "deleted"
        if not self._skip:
            raise DataLost(
                f"topic {topic!r} was {what}: what it had from offset {first} on is gone. Begin with a new "
                "checkpoint, or go on without it with onDataLoss=skip"
            )
        _log.warning("topic %r was %s: what it had from offset %d on is skipped", topic, what, first)


def chosen(storage: Storage, options: ReadOptions) -> list[Info]:
    """The topics to read, as they are now. One that is named has to be there."""
    if options.pattern is not None:
        found = sorted([info for info in storage.segments() if options.selects(info.name)], key=_name)
        for option, place in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
            for name in place.numbers.keys() - set(map(_name, found)):
                raise OptionError(f"{option} names {name!r}, which is no topic that is read: leave it out")
        return found
    known = {info.name: info for info in storage.named(options.topics)}
    for name in options.topics:
        if name not in known:
            near = get_close_matches(name, map(_name, storage.segments()), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ": create it first, by streamctl create or by publishing"
            raise OptionError(f"there is no topic {name!r}{hint}")
    return [known[name] for name in options.topics]


def _name(info: Info) -> str:
    return info.name


def batch_ranges(storage: Storage, options: ReadOptions, bounds: Bounds, losses: Losses) -> list[Range]:
    """What a batch reads. `bounds` come from the query's filters: what they leave out is not missed."""
    ranges = []
    for info in chosen(storage, options):
        if not bounds.may_have(info.name):
            continue
        first = number_of(storage, info, options.starting, "startingOffsets")
        end = number_of(storage, info, options.ending, "endingOffsets")
        if first > end and options.starting.numbers and options.ending.numbers:
            raise OptionError(f"topic {info.name!r}: startingOffsets, {first}, is behind endingOffsets, {end}")
        first, end = bounds.numbers(storage, info, first, end)
        first = losses.retained(info, first, end)
        if first < end:
            ranges.append(range_of(info, first, end))
    return ranges


def number_of(storage: Storage, info: Info, place: Place, option: str) -> int:
    """The record number of a place in a topic. It may lie below the first retained one, never behind the end."""
    if place.timestamp is not None:
        return min(storage.number_at(info.id, place.timestamp), info.number)
    wanted = place.numbers.get(info.name, place.word)
    if isinstance(wanted, int):
        if wanted > info.number:
            raise OptionError(f"{option} of topic {info.name!r} is {wanted}, but its next offset is {info.number}")
        return wanted
    return info.number if wanted == LATEST else info.first_number


def range_of(info: Info, first: int, end: int) -> Range:
    """These records, and about how many bytes they are."""
    return Range(info.id, info.name, first, end, info.bytes * (end - first) // max(info.records, 1))
