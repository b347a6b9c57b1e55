"""Medians, ratios, and the Markdown table of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.case import Case, Figure, Goal, Sample

SUBJECT = "streamd"
_ABSENT = "-"


@dataclass
class Report:
    """All that was measured in one run: for each case and server one sample a round, None where it failed."""

    cases: Sequence[Case]
    versions: dict[str, str | None]
    facts: dict[str, str]
    quick: bool = False
    samples: dict[tuple[str, str], list[Sample | None]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, case: Case, server: str, sample: Sample | None) -> None:
        """Note one round; rounds of the servers of a case are added in step."""
        self.samples.setdefault((case.name, server), []).append(sample)

    def values(self, case: Case, server: str, figure: str) -> list[float | None]:
        """A figure, round by round."""
        return [each[figure] if each else None for each in self.samples.get((case.name, server), [])]

    def median(self, case: Case, server: str, figure: str) -> float | None:
        """The median over the rounds that went through."""
        values = [each for each in self.values(case, server, figure) if each is not None]
        return statistics.median(values) if values else None

    def ratio(self, case: Case, figure: str, against: str) -> float | None:
        """The median of the ratios of the rounds.

        Not the ratio of the medians: the two halves of one round were measured next to each other, so what the
        machine did to one it mostly did to the other.
        """
        ours, theirs = self.values(case, SUBJECT, figure), self.values(case, against, figure)
        ratios = [one / other for one, other in zip(ours, theirs, strict=False) if one is not None and other]
        return statistics.median(ratios) if ratios else None

    def markdown(self) -> str:
        """The whole report."""
        parts = ["\n".join(self._facts()), "\n".join(self._table())]
        if self.quick:
            parts.insert(
                0, "A quick run, with less data than the titles say. It shows that all works; quote none of it."
            )
        goals = [] if self.quick else list(self._goals())
        if goals:
            parts.append("\n".join(["| goal | measured | |", "|---|---:|---|", *goals]))
        busiest = self._busiest_load()
        if busiest:
            parts.append(busiest)
        if self.failures:
            parts.append("\n".join(["Failed:", *(f"- {each}" for each in self.failures)]))
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> dict[str, object]:
        """Everything, for programs: each sample, not only the medians."""
        return {
            "facts": self.facts,
            "quick": self.quick,
            "versions": self.versions,
            "samples": {
                case.name: {server: self.samples.get((case.name, server), []) for server in case.servers}
                for case in self.cases
            },
            "ratios": {
                case.name: {
                    f"{figure.name}/{other}": self.ratio(case, figure.name, other)
                    for figure in case.figures
                    for other in case.servers
                    if other != SUBJECT
                }
                for case in self.cases
            },
            "failures": self.failures,
        }

    def _facts(self) -> Iterator[str]:
        for name, value in self.facts.items():
            yield f"- {name}: {value}"
        disk = [each["disk_mb"] for samples in self.samples.values() for each in samples if each]
        if disk:
            between = f"{min(disk):,.0f} to {max(disk):,.0f} in the course of the run"
            yield f"- 1 MiB writes with fdatasync: {statistics.median(disk):,.0f} MB/s ({between})"
        for name, version in self.versions.items():
            yield f"- {name}: {version or 'not installed'}"

    def _table(self) -> Iterator[str]:
        others = [name for name in self.versions if name != SUBJECT] if SUBJECT in self.versions else []
        head = ["case", "figure", *self.versions, *(f"{SUBJECT}/{name}" for name in others)]
        yield f"| {' | '.join(head)} |"
        yield f"|---|---|{'---:|' * (len(head) - 2)}"
        for case in self.cases:
            for figure in case.figures:
                cells = [self._cell(case, server, figure) for server in self.versions]
                ratios = [_ratio(self.ratio(case, figure.name, other)) for other in others]
                title = case.title if figure is case.figures[0] else ""
                yield f"| {' | '.join([title, figure.title, *cells, *ratios])} |"

    def _cell(self, case: Case, server: str, figure: Figure) -> str:
        if server not in case.servers:
            return _ABSENT
        if self.versions[server] is None:
            return "not installed"
        value = self.median(case, server, figure.name)
        if value is None:
            return "failed" if self.samples.get((case.name, server)) else _ABSENT
        return figure.text(value)

    def _goals(self) -> Iterator[str]:
        for case in self.cases:
            for goal in case.goals:
                if goal.against is None:
                    value = self.median(case, SUBJECT, goal.figure)
                else:
                    value = self.ratio(case, goal.figure, goal.against)
                if value is not None:
                    reached = value >= goal.bound if goal.at_least else value <= goal.bound
                    measured = case.figure(goal.figure).text(value) if goal.against is None else _ratio(value)
                    yield f"| {_wanted(case, goal)} | {measured} | {'reached' if reached else '**missed**'} |"

    def _busiest_load(self) -> str | None:
        """Says where the load generator worked hardest: there the server may have been faster than the table says."""
        shares = [
            (each["load_cpu_share"], case, server)
            for (case, server), samples in self.samples.items()
            for each in samples
            if each and "load_cpu_share" in each
        ]
        if not shares:
            return None
        share, case, server = max(shares)
        return f"The load generator used at most {share:.0%} of one core ({case}, {server})."


def _wanted(case: Case, goal: Goal) -> str:
    figure = case.figure(goal.figure)
    side = "at least" if goal.at_least else "at most"
    amount = f"{goal.bound:g} times {goal.against}"
    if goal.against is None:
        amount = f"{goal.bound:,.{figure.decimals}f} {figure.unit}".strip()
    return f"{case.title}: {figure.title} {side} {amount}"


def _ratio(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:.2f}"
