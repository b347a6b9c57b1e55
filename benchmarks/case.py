"""The words of the benchmarks: what a case is, which figures it gives, and what is wanted of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict, Unpack

from benchmarks.load import Load
from benchmarks.servers import Running

MIB = 1 << 20
# The roll size that streamd and limit have by default, and a small one for the runs that write little: with it these
# too roll their files at least three times, so that no figure leaves the cost of rolling out.
FILE_BYTES = 64 * MIB
SMALL_FILE_BYTES = 1 * MIB

Sample = dict[str, float]


@dataclass(frozen=True)
class Bench:
    """What a case works with."""

    load: Load
    quick: bool

    def count(self, full: int) -> int:
        """So many; an eighth of them when it has to be quick."""
        return full // (8 if self.quick else 1)

    def messages(self, total_bytes: int, size: int) -> int:
        """How many messages make that many bytes; fewer when it has to be quick."""
        return self.count(total_bytes // size)

    def seconds(self, full: float) -> float:
        """How long a run that is bounded by time takes; a fifth when it has to be quick."""
        return full / 5 if self.quick else full


Measure = Callable[[Bench, Running], Sample]
"""Loads a freshly started server, and gives the figures by name."""


@dataclass(frozen=True)
class Figure:
    """One number of a case."""

    name: str
    title: str
    unit: str
    decimals: int = 0

    def text(self, value: float) -> str:
        """A value as the table shows it."""
        number = f"{value:,.{self.decimals}f}"
        return number if self.unit == "/s" else f"{number} {self.unit}".strip()


@dataclass(frozen=True)
class Goal:
    """What streamd has to reach: a value by itself, or as a ratio to another server's in the same round."""

    figure: str
    bound: float
    at_least: bool
    against: str | None = None


def at_least(figure: str, bound: float, against: str | None = None) -> Goal:
    """The goal to reach this value, or so many times that of another server."""
    return Goal(figure, bound, True, against)


def at_most(figure: str, bound: float, against: str | None = None) -> Goal:
    """The goal to stay at or below this value, or so many times that of another server."""
    return Goal(figure, bound, False, against)


class _More(TypedDict, total=False):
    """The fields of a case that have defaults."""

    goals: tuple[Goal, ...]
    settings: str
    rounds_max: int
    service: str
    file_bytes: int


@dataclass(frozen=True)
class Case:
    """One thing to measure on some servers."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    measure: Measure
    servers: tuple[str, ...] = ("limit", "streamd", "redis", "nats")
    goals: tuple[Goal, ...] = ()
    file_bytes: int = FILE_BYTES
    settings: str = ""
    """More of streamd's configuration file."""
    rounds_max: int = 1_000
    service: str = "sesp"
    """Which of its protocols streamd speaks; its peers know one."""

    def figure(self, name: str) -> Figure:
        """The figure of that name."""
        return next(each for each in self.figures if each.name == name)

    @property
    def kind(self) -> str:
        """The part of the name before the hyphen."""
        return self.name.partition("-")[0]


def alone(name: str, title: str, measure: Measure, *figures: Figure, **more: Unpack[_More]) -> Case:
    """A case of streamd alone; the rest of its fields by name."""
    return Case(name, title, figures, measure, servers=("streamd",), **more)


RATE = Figure("rate", "messages/s", "/s")
P50 = Figure("p50_us", "p50", "µs")
P99 = Figure("p99_us", "p99", "µs")
