"""Latencies as people look at them: percentiles, and how many there were of each length."""

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
    """The shortest, those below which so many of a hundred lie, and the longest, in seconds."""
    if not latencies:
        return {}
    ordered = sorted(latencies)
    found = {"min": ordered[0]}
    for name, percent in PERCENTILES.items():
        # The smallest one that so many are not above: one that was really measured.
        found[name] = ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]
    return {**found, "max": ordered[-1]}


def plot(latencies: Sequence[float]) -> list[str]:
    """A bar for each range of lengths; two ranges for each doubling, and bars as long as there were many."""
    if not latencies:
        return []
    counts = Counter(math.floor(math.log2(max(each, 1e-9)) * _PER_DOUBLING) for each in latencies)
    most = max(counts.values())
    lines = []
    for step in range(min(counts), max(counts) + 1):
        count = counts[step]
        begin = 2.0 ** (step / _PER_DOUBLING) * 1000
        lines.append(f"{begin:>10.3f} ms {_bar(count / most):{_WIDTH}} {count:,}".rstrip())
    return lines


def _bar(share: float) -> str:
    """A bar in eighths of a character; anything at all shows."""
    eighths = max(round(share * _WIDTH * 8), 1 if share else 0)
    return _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
