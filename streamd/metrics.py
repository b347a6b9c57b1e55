"""The daemon's counters, in one place: plain numbers, raised where something happens and read by whoever wants to know.

They are raised for a batch, a commit or a connection, never for a single record, and on the reactor's thread alone, so
that counting costs next to nothing. `streamd.http.exposition` gives them the names that Prometheus sees.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

from streamd.batch import Batch

COMMIT_SECONDS: Final = (
    *(0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005),
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
)
"""The bounds of the histogram of commits: from a page cache to a disk that is about to fail."""

CONNECTIONS_REFUSED: Final = (
    "connections",  # there were limits.connections_max
    "address_connections",  # and limits.address_connections_max from this address
)
REQUESTS_REFUSED: Final = (
    "not_allowed",  # no rule of access allows it
    "topic_bytes",  # a rule's topic_bytes_max
    "topics",  # a rule's topics_max
    "invalid",  # the protocol says what it may look like, and this is not it
    "read_failed",  # what is stored can't be read
)
CONNECTIONS_CUT_OFF: Final = (
    "message_bytes",  # limits.message_bytes_max
    "line_bytes",  # limits.line_bytes_max
    "overdue",  # the peer did not end within limits.frame_seconds_max what it began
    "broken",  # it broke the protocol
    "http",  # it spoke HTTP to a stream protocol
    "tls",  # its handshake failed: it showed no certificate, say, or one that is not welcome
    "unanswerable",  # the protocol has no word for the answer
    "idle",  # it asked nothing for long, or somebody else needed its place
    "failed",  # a bug
)
CONNECTIONS_SLOWED: Final = (
    "connection_messages_per_second",
    "connection_bytes_per_second",
    "messages_per_second",  # of a rule
    "bytes_per_second",
    "connection_buffered_bytes",
    "buffered_bytes",
)
"""Known reasons, by counter: each is exported as 0 before it first occurs.

The reason for a limit is its name without ``_max``; for an error of the store it is the name of the error.
"""

LOOPS: Final = ("events", "ping", "retention", "room", "sampling", "transactions", "watchdog", "writers")
"""The names of the periodic jobs: each is exported as 0 before it first fails."""


class Durations:
    """A histogram of durations."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        """Upper bounds in seconds, ascending. A duration equal to a bound belongs to the count below it."""
        self.counts = [0] * (len(self.bounds) + 1)
        """How many durations lie between each bound and the one before it; the last count is for those above all."""
        self.seconds = 0.0
        """The sum of all durations."""

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """An estimate of a quantile of durations from their counts; None where there are none.

    Durations between two bounds are taken to be spread evenly. Those above the last bound count as that bound.
    """
    wanted = sum(counts) * share
    if not wanted:
        return None
    seen = 0
    for at, count in enumerate(counts[:-1]):
        if count and seen + count >= wanted:
            below = bounds[at - 1] if at else 0.0
            return below + (bounds[at] - below) * (wanted - seen) / count
        seen += count
    return bounds[-1]


class Traffic:
    """Counters of one protocol, over all its connections, also those that are closed."""

    __slots__ = (
        "appended_bytes",
        "appended_records",
        "connected",
        "connections",
        "connections_cut_off",
        "connections_refused",
        "connections_slowed",
        "read_bytes",
        "read_records",
        "requests_refused",
    )

    def __init__(self) -> None:
        self.connections = 0
        """Connections that are open."""
        self.connected = 0
        """Connections ever."""
        self.appended_records = 0
        self.appended_bytes = 0
        """Bytes of records that are on disk, each counted once, however many segments it went to."""
        self.read_records = 0
        self.read_bytes = 0
        self.connections_refused = Counter(dict.fromkeys(CONNECTIONS_REFUSED, 0))
        """Connections that were refused on arrival, by reason."""
        self.connections_cut_off = Counter(dict.fromkeys(CONNECTIONS_CUT_OFF, 0))
        """Connections that the daemon ended, by reason."""
        self.connections_slowed = Counter(dict.fromkeys(CONNECTIONS_SLOWED, 0))
        """How often a connection was not read for a while, by the limit that it exceeded."""
        self.requests_refused = Counter(dict.fromkeys(REQUESTS_REFUSED, 0))
        """Requests that were refused, by reason."""

    def appended(self, batch: Batch) -> None:
        """Count records that are on disk."""
        self.appended_records += len(batch.lengths)
        self.appended_bytes += len(batch.payload)

    def published(self, records: int, bytes: int) -> None:
        """Count records of hidden segments that are published: they can be read from now on."""
        self.appended_records += records
        self.appended_bytes += bytes

    def read(self, records: int, bytes: int) -> None:
        """Count records that were read for a peer."""
        self.read_records += records
        self.read_bytes += bytes


class CommitCounts:
    """Counters of commits."""

    __slots__ = ("bytes", "entries", "failed", "took", "waits")

    def __init__(self) -> None:
        self.took = Durations(COMMIT_SECONDS)
        """Durations from when the writer got a commit until it took effect."""
        self.bytes = 0
        self.entries = 0
        self.failed = 0
        """Commits that failed since the disk was full."""
        self.waits = 0
        """How often writers had to wait for the compactor."""

    def landed(self, bytes: int, entries: int, seconds: float) -> None:
        """Count a commit that is on disk."""
        took = self.took
        # What `Durations.add` does, without the call: with one writer, each of its records is a commit.
        took.counts[bisect_left(took.bounds, seconds)] += 1
        took.seconds += seconds
        self.bytes += bytes
        self.entries += entries


class CompactionCounts:
    """Counters of the compactor's processes."""

    __slots__ = ("failures", "folds", "merges", "pack_bytes", "starts")

    def __init__(self) -> None:
        self.starts = 0
        self.folds = 0
        self.merges = 0
        self.failures = 0
        self.pack_bytes = 0
        """Bytes that folds have written."""


class LoopCounts:
    """Counters of periodic jobs."""

    __slots__ = ("failures",)

    def __init__(self) -> None:
        self.failures = Counter(dict.fromkeys(LOOPS, 0))
        """How often a call of each loop failed, by the loop's name."""


class RetentionCounts:
    """Counters of retention."""

    __slots__ = ("deletions", "sweeps", "truncated_records")

    def __init__(self) -> None:
        self.sweeps = 0
        self.truncated_records = 0
        self.deletions = 0


class GroupCounts:
    """What became of messages that were delivered in reader groups and not acknowledged."""

    __slots__ = ("dead_letters", "redeliveries")

    def __init__(self) -> None:
        self.redeliveries = 0
        self.dead_letters = 0


_words: dict[type[Exception], str] = {}


def reason_of(error: Exception) -> str:
    """The reason that an error is counted under: its `reason`, else its class name in snake case."""
    kind = type(error)
    word = _words.get(kind)
    if word is None:
        word = getattr(kind, "reason", None) or re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
        _words[kind] = word
    return word
