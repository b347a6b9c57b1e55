"""Latencies for people: percentiles, and a histogram."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
_PER_DOUBLING: Final = 2
_WIDTH: Final = 50
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


def percentiles(latencies: Sequence[float]) -> dict[str, float]:
    """The minimum, some percentiles, and the maximum, in seconds."""
    if not latencies:
        return {}
    ordered = sorted(latencies)
    figures = {"min": ordered[0]}
    for name, percent in PERCENTILES.items():
        # The smallest one that so many are not above: one that was really measured.
        figures[name] = ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]
    return {**figures, "max": ordered[-1]}


def plot(latencies: Sequence[float]) -> list[str]:
    """The lines of a histogram: two ranges for each doubling."""
    if not latencies:
        return []
    counts = Counter(math.floor(math.log2(max(latency, 1e-9)) * _PER_DOUBLING) for latency in latencies)
    most = max(counts.values())
    lines = []
    for step in range(min(counts), max(counts) + 1):
        count = counts[step]
        begin = 2.0 ** (step / _PER_DOUBLING) * 1000
        lines.append(f"{begin:>10.3f} ms {_bar(count / most):{_WIDTH}} {count:,}".rstrip())
    return lines


def _bar(share: float) -> str:
    """A bar in eighths of a character; a count above 0 is always visible."""
    eighths = max(round(share * _WIDTH * 8), 1 if share else 0)
    return _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
