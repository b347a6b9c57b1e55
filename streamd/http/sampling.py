"""Samples of the daemon's rates for each of the last seconds: the lines that the dashboard draws."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import pairwise
from typing import Final, NamedTuple

from streamd.connections.core import Core
from streamd.loop import Loop
from streamd.metrics import quantile
from streamd.store import Segment

SAMPLE_SECONDS: Final = 1.0
SAMPLES_MAX: Final = 300
"""Five minutes. A page that was just opened shows them at once."""


class Sample(NamedTuple):
    """The rates of one second, and how long commits took in it."""

    number: int
    """The number of the sample, from 1."""
    appended_records: float
    appended_bytes: float
    read_records: float
    read_bytes: float
    commits: float
    commit_p50_seconds: float | None
    commit_p99_seconds: float | None


class _Totals(NamedTuple):
    seconds: float
    appended_records: int
    appended_bytes: int
    read_records: int
    read_bytes: int
    durations: tuple[int, ...]


TOPICS_MAX: Final = 1000
"""Topics whose history is kept: those that were looked at last. All of it takes some megabytes."""


class History:
    """How many messages a second each topic got that somebody looks at, or did in the last five minutes."""

    def __init__(self) -> None:
        self._topics: OrderedDict[Segment, deque[int]] = OrderedDict()
        self._looked_at: dict[Segment, int] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._topics)

    def rates(self, segment: Segment, count: int = SAMPLES_MAX) -> list[int]:
        """The rates of the last seconds, oldest first. Whoever asks keeps the history going."""
        self._looked_at[segment] = self._turn
        if segment not in self._topics:
            while len(self._topics) >= TOPICS_MAX:
                self._forget(next(iter(self._topics)))
            self._topics[segment] = deque([segment.number], SAMPLES_MAX + 1)
        self._topics.move_to_end(segment)
        numbers = list(self._topics[segment])[-count - 1 :]
        return [after - before for before, after in pairwise(numbers)]

    def sample(self) -> None:
        """Note where each topic is now, and forget those that nobody looks at any more."""
        self._turn += 1
        for segment, numbers in list(self._topics.items()):
            if segment.deleted or self._turn - self._looked_at[segment] > SAMPLES_MAX:
                self._forget(segment)
            else:
                numbers.append(segment.number)

    def _forget(self, segment: Segment) -> None:
        del self._topics[segment], self._looked_at[segment]


class Sampler:
    """Takes a sample each second, while an endpoint could show it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._users = 0
        self._before = self._totals()
        self._loop = Loop("sampling", self.sample, core.clock, core.loops)
        self.taken: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self.history = History()

    def start(self) -> None:
        """Start sampling for one more endpoint."""
        self._users += 1
        if self._users == 1:
            self._before = self._totals()
            self._loop.start(SAMPLE_SECONDS, now=False)

    def stop(self) -> None:
        """Stop sampling for an endpoint."""
        self._users -= 1
        if not self._users:
            self._loop.stop()

    def since(self, number: int) -> list[Sample]:
        """The samples after this number, as far as they are kept."""
        return [sample for sample in self.taken if sample.number > number]

    def sample(self) -> None:
        """Take a sample: what has changed since the last one."""
        before, now = self._before, self._totals()
        seconds = now.seconds - before.seconds
        if seconds <= 0:
            return
        self._before = now
        self.history.sample()
        bounds = self._core.store.counted.took.bounds
        counts = [after - earlier for after, earlier in zip(now.durations, before.durations, strict=True)]
        self.taken.append(
            Sample(
                self.taken[-1].number + 1 if self.taken else 1,
                (now.appended_records - before.appended_records) / seconds,
                (now.appended_bytes - before.appended_bytes) / seconds,
                (now.read_records - before.read_records) / seconds,
                (now.read_bytes - before.read_bytes) / seconds,
                sum(counts) / seconds,
                quantile(bounds, counts, 0.5),
                quantile(bounds, counts, 0.99),
            )
        )

    def _totals(self) -> _Totals:
        traffic = self._core.load.traffic.values()
        return _Totals(
            self._core.clock.seconds(),
            sum(counts.appended_records for counts in traffic),
            sum(counts.appended_bytes for counts in traffic),
            sum(counts.read_records for counts in traffic),
            sum(counts.read_bytes for counts in traffic),
            tuple(self._core.store.counted.took.counts),
        )
