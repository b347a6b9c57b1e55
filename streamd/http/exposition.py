"""``/metrics``: the daemon's counters, under the names and units that Prometheus expects.

The table below is all there is, beside ``process_…``, which `prometheus_client` adds. A label has few values, whatever
people do: protocols, reasons, and of reader groups the hundred that are furthest behind.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import accumulate
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from streamd import __version__
from streamd.connections.core import Core
from streamd.groups import Delayed
from streamd.groups import Groups as ReaderGroups
from streamd.http.health import reason_not_ready, respond
from streamd.http.survey import GROUPS_NAMED, Groups, Survey
from streamd.metrics import CompactionCounts, RetentionCounts, Traffic
from streamd.settings import AccessRule, Limits
from streamd.store.commit.pipeline import UNFOLDED_ENTRIES_MAX
from streamd.store.usage import Usage


class Seen(NamedTuple):
    """The state of the daemon at one moment, as far as metrics show it."""

    core: Core
    usage: Usage
    groups: Groups
    named: Groups
    """Those that who asks may know of, for what is told by name."""

    @property
    def compaction(self) -> CompactionCounts:
        """The counters of the compactor; zeros where there is none."""
        compaction = self.core.store.compaction
        return CompactionCounts() if compaction is None else compaction.counted

    @property
    def retention(self) -> RetentionCounts:
        """The counters of retention; zeros where there is none."""
        retention = self.core.store.retention
        return RetentionCounts() if retention is None else retention.counted


_GAUGES: Final[tuple[tuple[str, str, Callable[[Seen], float]], ...]] = (
    ("ready", "1 where /readyz says so.", lambda seen: reason_not_ready(seen.core) is None),
    ("store_writable", "1 where appends are taken, 0 where the disk is full.", lambda s: not s.core.store.read_only),
    (
        "store_time_ahead_seconds",
        "How far the store's time is ahead of the clock.",
        lambda seen: max(seen.core.store.timestamp / 1e6 - time.time(), 0.0),
    ),
    ("segments", "Segments, hidden ones not counted.", lambda seen: len(seen.core.store)),
    ("hidden_segments", "Hidden segments.", lambda seen: len(seen.core.store.hidden_segments())),
    ("pending_bytes", "Bytes that wait for their commit.", lambda seen: seen.core.store.pending_bytes),
    ("held_bytes", "Bytes buffered for all connections.", lambda seen: seen.core.load.held_bytes),
    (
        "address_connections_worst",
        "Connections from the address that has most.",
        lambda seen: seen.core.load.address_connections,
    ),
    ("journal_files", "Journal files.", lambda seen: seen.usage.journal_files),
    ("journal_bytes", "Bytes allocated for journal files.", lambda seen: seen.usage.journal_bytes),
    ("pack_files", "Packs.", lambda seen: seen.usage.pack_files),
    ("pack_bytes", "Bytes allocated for packs.", lambda seen: seen.usage.pack_bytes),
    ("catalog_bytes", "Bytes allocated for the catalog and small files.", lambda seen: seen.usage.other_bytes),
    ("disk_free_bytes", "Bytes that the daemon may still write on its disk.", lambda seen: seen.usage.free_bytes),
    ("disk_size_bytes", "The size of that disk.", lambda seen: seen.usage.disk_bytes),
    ("unfolded_entries", "Journal entries that no pack has yet.", lambda seen: seen.core.store.unfolded_entries),
    ("unfolded_entries_limit", "Where writers wait for the compactor.", lambda seen: UNFOLDED_ENTRIES_MAX),
    ("unfolded_bytes", "Bytes of these entries.", lambda seen: seen.core.store.unfolded_bytes),
    ("writers_waiting", "1 while writers wait for the compactor.", lambda seen: seen.core.store.waits_for_fold),
    (
        "compactor_running",
        "1 while the compactor's process runs.",
        lambda seen: seen.core.store.compaction is not None and seen.core.store.compaction.running,
    ),
    ("delayed_messages", "Messages that wait for their time.", lambda seen: Delayed.of(seen.core).waiting),
    ("reader_groups", "Reader groups.", lambda seen: seen.groups.total),
    ("reader_group_lag_records", "Records that reader groups have not acknowledged.", lambda s: s.groups.lag_records),
    (
        "reader_group_lag_worst_records",
        "The lag of the reader group that is furthest behind.",
        lambda seen: seen.groups.lag_records_max,
    ),
)

_COUNTERS: Final[tuple[tuple[str, str, Callable[[Seen], float]], ...]] = (
    ("commit_bytes", "Bytes of commits on disk.", lambda seen: seen.core.store.counted.bytes),
    ("commit_entries", "Entries of commits on disk.", lambda seen: seen.core.store.counted.entries),
    ("writer_waits", "Times that writers began to wait for the compactor.", lambda s: s.core.store.counted.waits),
    ("folds", "Folds of journal files into a pack.", lambda seen: seen.compaction.folds),
    ("fold_bytes", "Bytes of packs that folds wrote.", lambda seen: seen.compaction.pack_bytes),
    ("merges", "Merges of packs.", lambda seen: seen.compaction.merges),
    ("compactor_starts", "Starts of the compactor's process.", lambda seen: seen.compaction.starts),
    ("compactor_failures", "Failures of the compactor, its starts included.", lambda seen: seen.compaction.failures),
    ("retention_sweeps", "Sweeps of retention over all segments.", lambda seen: seen.retention.sweeps),
    (
        "retention_truncated_records",
        "Records that retention dropped.",
        lambda seen: seen.retention.truncated_records,
    ),
    ("retention_deleted_segments", "Segments that retention deleted.", lambda seen: seen.retention.deletions),
    (
        "reader_group_redeliveries",
        "Messages that came back to reader groups to be delivered again.",
        lambda seen: ReaderGroups.of(seen.core).counted.redeliveries,
    ),
    (
        "reader_group_dead_letters",
        "Messages that reader groups gave up.",
        lambda seen: ReaderGroups.of(seen.core).counted.dead_letters,
    ),
)

_BY_PROTOCOL: Final[tuple[tuple[str, str, Callable[[Traffic], float]], ...]] = (
    ("connections_opened", "Connections that were made.", lambda traffic: traffic.connected),
    ("appended_records", "Records stored for peers, each counted once.", lambda traffic: traffic.appended_records),
    ("appended_bytes", "Bytes of these records.", lambda traffic: traffic.appended_bytes),
    ("read_records", "Records read for peers.", lambda traffic: traffic.read_records),
    ("read_bytes", "Bytes of these records.", lambda traffic: traffic.read_bytes),
)

_BY_REASON: Final[tuple[tuple[str, str, Callable[[Traffic], Counter[str]]], ...]] = (
    ("connections_refused", "Connections refused on arrival.", lambda traffic: traffic.connections_refused),
    ("connections_cut_off", "Connections that the daemon ended.", lambda traffic: traffic.connections_cut_off),
    (
        "connections_slowed",
        "Times that a connection was not read for a while, by its limit.",
        lambda traffic: traffic.connections_slowed,
    ),
    ("requests_refused", "Requests that were refused.", lambda traffic: traffic.requests_refused),
)

# Every limit of the file under its own name: what is new there is told here.
_LIMITS: Final = tuple((limit.name, limit.metadata["doc"]) for limit in fields(Limits))
_RULE_LIMITS: Final = tuple((limit.name, limit.metadata["doc"]) for limit in fields(AccessRule) if limit.default == 0)


def families(seen: Seen) -> Iterator[Metric]:
    """Every metric with its present value."""
    build = {"version": __version__, "python": platform.python_version()}
    yield InfoMetricFamily("streamd_build", "The version of streamd.", value=build)
    for name, text, value in _GAUGES:
        yield GaugeMetricFamily(f"streamd_{name}", text, value=float(value(seen)))
    for name, text, value in _COUNTERS:
        yield CounterMetricFamily(f"streamd_{name}", text, value=float(value(seen)))
    yield _lags(seen.named)
    yield from _limits(seen.core)
    yield from _commits(seen.core)
    yield _loops(seen.core)
    yield from _traffic(seen.core.load.traffic)


def _lags(groups: Groups) -> Metric:
    family = GaugeMetricFamily(
        "streamd_reader_group_behind_records",
        f"Records that a reader group has not acknowledged, of the {GROUPS_NAMED} that are furthest behind.",
        labels=["topic", "group"],
    )
    for lag in groups.worst:
        family.add_metric([lag.segment.name, lag.group], lag.records)
    return family


def _limits(core: Core) -> Iterator[Metric]:
    for name, text in _LIMITS:
        yield GaugeMetricFamily(f"streamd_limits_{name}", f"{text}.", value=getattr(core.limits, name))
    for name, text in _RULE_LIMITS:
        family = GaugeMetricFamily(f"streamd_access_{name}", f"{text}.", labels=["rule", "who"])
        for number, rule in enumerate(core.access.stated, 1):
            if value := getattr(rule, name):
                family.add_metric([str(number), rule.who], value)
        yield family


def _commits(core: Core) -> Iterator[Metric]:
    counted = core.store.counted
    commits = CounterMetricFamily("streamd_commits", "Commits, by what became of them.", labels=["result"])
    commits.add_metric(["stored"], core.store.commits)
    commits.add_metric(["no_room"], counted.failed)
    yield commits
    sums = list(accumulate(counted.took.counts))
    bounds = [*map(str, counted.took.bounds), "+Inf"]
    yield HistogramMetricFamily(
        "streamd_commit_seconds",
        "From when a commit is given to the disk until it takes effect.",
        buckets=list(zip(bounds, map(float, sums), strict=True)),
        sum_value=counted.took.seconds,
    )


def _loops(core: Core) -> Metric:
    family = CounterMetricFamily("streamd_loop_failures", "Failures of periodic jobs, which go on.", labels=["loop"])
    for name, count in core.loops.failures.items():
        family.add_metric([name], count)
    return family


def _traffic(traffic: dict[str, Traffic]) -> Iterator[Metric]:
    connections = GaugeMetricFamily("streamd_connections", "Connections now.", labels=["protocol"])
    for protocol, counts in traffic.items():
        connections.add_metric([protocol], counts.connections)
    yield connections
    for name, text, value in _BY_PROTOCOL:
        family = CounterMetricFamily(f"streamd_{name}", text, labels=["protocol"])
        for protocol, counts in traffic.items():
            family.add_metric([protocol], value(counts))
        yield family
    for name, text, by_reason in _BY_REASON:
        family = CounterMetricFamily(f"streamd_{name}", text, labels=["protocol", "reason"])
        for protocol, counts in traffic.items():
            for reason, count in by_reason(counts).items():
                family.add_metric([protocol, reason], count)
        yield family


class _Collector(Collector):
    """Gives a registry the metrics of the last scrape."""

    def __init__(self) -> None:
        self.seen: Seen | None = None

    def collect(self) -> Iterator[Metric]:
        """Every metric; none before the first scrape."""
        if self.seen is not None:
            yield from families(self.seen)


class Metrics(Resource):
    """The resource of ``/metrics``. What takes long to find out is found out first, without blocking the reactor."""

    isLeaf = True

    def __init__(self, core: Core, survey: Survey) -> None:
        super().__init__()
        self._core = core
        self._survey = survey
        self._collector = _Collector()
        # Not the library's own registry, which whatever else is in the process shares.
        self._registry = CollectorRegistry()
        self._registry.register(self._collector)
        ProcessCollector(registry=self._registry)

    def render_GET(self, request: Request) -> int:
        """All metrics, in the format that the client asks for."""
        respond(request, Deferred.fromCoroutine(self._rendered(request)))
        return NOT_DONE_YET

    async def _rendered(self, request: Request) -> bytes:
        channel: Any = request.channel
        groups, named = await self._survey.groups(), await self._survey.groups(channel.permits)
        self._collector.seen = Seen(self._core, await self._survey.usage(), groups, named)
        encode, content_type = choose_encoder(request.getHeader("accept") or "")
        request.setHeader(b"content-type", content_type.encode())
        return encode(self._registry)
