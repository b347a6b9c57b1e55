"""What the daemon counts, in one place: plain numbers, raised where something happens, read by who wants to know.

They are raised for a batch, a commit or a connection, never for a single record, and on the reactor's thread alone, so
that counting costs nothing worth measuring. `streamd.http.exposition` gives them the names that Prometheus sees.
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
"""The bounds by which commits are sorted: from a page cache to a disk that is about to fail."""

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
"""Reasons, by what they are given for: these are told also where nothing was refused yet. A limit's is its name without
``_max``; what the store refuses has the name of its error."""

LOOPS: Final = ("events", "ping", "retention", "room", "sampling", "watchdog")
"""The periodic jobs, by name: each is told of also where it never failed."""


class Durations:
    """How often something took how long."""

    __slots__ = ("bounds", "counts", "seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        """In seconds, ascending. Each belongs to the count below it."""
        self.counts = [0] * (len(self.bounds) + 1)
        """How many were up to each bound and above the one before; the last ones were above all."""
        self.seconds = 0.0
        """All together."""

    def add(self, seconds: float) -> None:
        """It took so long once more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Below what so large a share of the durations lies, as well as their counts can tell; None where there are none.

    Within two bounds they are taken to be spread evenly. What is above the last one is told as that.
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
    """What the connections of one protocol do, those that are gone included."""

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
        """There now."""
        self.connected = 0
        """There ever."""
        self.appended_records = 0
        self.appended_bytes = 0
        """Of records that are on disk, each counted once, to however many segments it went."""
        self.read_records = 0
        self.read_bytes = 0
        self.connections_refused = Counter(dict.fromkeys(CONNECTIONS_REFUSED, 0))
        """Connections that were closed as soon as they came, by the reason."""
        self.connections_cut_off = Counter(dict.fromkeys(CONNECTIONS_CUT_OFF, 0))
        """Connections that were ended by us, by the reason."""
        self.connections_slowed = Counter(dict.fromkeys(CONNECTIONS_SLOWED, 0))
        """How often one was not read for a while, by the limit that it was over."""
        self.requests_refused = Counter(dict.fromkeys(REQUESTS_REFUSED, 0))
        """Requests that were refused, by the reason."""

    def appended(self, batch: Batch) -> None:
        """These records are on disk."""
        self.appended_records += len(batch.lengths)
        self.appended_bytes += len(batch.payload)

    def published(self, records: int, bytes: int) -> None:
        """So much that was stored before, where nobody saw it, can be read from now on."""
        self.appended_records += records
        self.appended_bytes += bytes

    def read(self, records: int, bytes: int) -> None:
        """So much was read for a peer."""
        self.read_records += records
        self.read_bytes += bytes


class CommitCounts:
    """What becomes of commits."""

    __slots__ = ("bytes", "entries", "failed", "took", "waits")

    def __init__(self) -> None:
        self.took = Durations(COMMIT_SECONDS)
        """From when the writer got a commit until it took effect."""
        self.bytes = 0
        self.entries = 0
        self.failed = 0
        """For want of room."""
        self.waits = 0
        """How often writers had to wait for the compactor."""

    def landed(self, bytes: int, entries: int, seconds: float) -> None:
        """One more is on disk."""
        took = self.took
        # What `Durations.add` does, without the call: with one writer, each of its records is a commit.
        took.counts[bisect_left(took.bounds, seconds)] += 1
        took.seconds += seconds
        self.bytes += bytes
        self.entries += entries


class CompactionCounts:
    """What the compactor's processes have done."""

    __slots__ = ("failures", "folds", "merges", "pack_bytes", "starts")

    def __init__(self) -> None:
        self.starts = 0
        self.folds = 0
        self.merges = 0
        self.failures = 0
        self.pack_bytes = 0
        """Written by folds."""


class LoopCounts:
    """What became of periodic jobs."""

    __slots__ = ("failures",)

    def __init__(self) -> None:
        self.failures = Counter(dict.fromkeys(LOOPS, 0))
        """How often a call of each failed, by the name of the loop."""


class RetentionCounts:
    """What retention has done."""

    __slots__ = ("deletions", "sweeps", "truncated_records")

    def __init__(self) -> None:
        self.sweeps = 0
        self.truncated_records = 0
        self.deletions = 0


_words: dict[type[Exception], str] = {}


def reason_of(error: Exception) -> str:
    """The reason that an error stands for: one that it names itself, else NoSuchSegment is ``no_such_segment``."""
    kind = type(error)
    word = _words.get(kind)
    if word is None:
        word = getattr(kind, "reason", None) or re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
        _words[kind] = word
    return word
