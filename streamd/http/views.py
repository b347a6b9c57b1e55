"""The content of the pages of the console: the daemon as a whole, and one topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from twisted.web.server import Request

from streamd import __version__
from streamd.access.peer import address_text
from streamd.access.permits import READ, VISIBLE, NotAllowed, Permits
from streamd.connections.core import Core
from streamd.groups import Groups as ReaderGroups
from streamd.http import records
from streamd.http.guard import NAME, allow_something
from streamd.http.health import reason_not_ready
from streamd.http.sampling import Sampler
from streamd.http.survey import SORTS, Found, Groups, Query, Survey, lag_of, lags_of
from streamd.store import NoSuchSegment, ReadFailed, Segment
from streamd.store.usage import Usage

_SEARCH_CHARACTERS_MAX: Final = 200

# Shown of one segment; a segment may have thousands.
_GROUPS_SHOWN: Final = 100

# The seconds that the small curve in a list shows.
_SPARK_SECONDS: Final = 60

# Of all topics, those that are furthest behind.
_WORST_SHOWN: Final = 10


class BadQuestion(Exception):
    """A page asked for something that makes no sense; the text says what."""


def query_of(arguments: Mapping[str, str]) -> Query:
    """The query for segments in the arguments of an overview."""
    query = Query(
        arguments.get("search", "")[:_SEARCH_CHARACTERS_MAX],
        arguments.get("sort", "name"),
        number_of(arguments, "page", 1),
    )
    if query.sort.removeprefix("-") not in SORTS:
        raise BadQuestion(f"sort: expected one of {', '.join(SORTS)}, with or without a minus")
    return query._replace(page=max(query.page, 1))


def number_of(arguments: Mapping[str, str], name: str, default: int) -> int:
    """A number among the arguments."""
    text = arguments.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise BadQuestion(f"{name}: expected a number")
    return int(text)


def arguments_of(request: Request) -> dict[str, str]:
    """The arguments of a request; of two with one name, the first."""
    arguments: dict[bytes, list[bytes]] = request.args or {}
    try:
        return {name.decode(): values[0].decode() for name, values in arguments.items()}
    except UnicodeDecodeError:
        raise BadQuestion("not UTF-8")


class Overview:
    """The daemon as a whole, and one page of its segments."""

    def __init__(self, core: Core, sampler: Sampler, survey: Survey, query: Query) -> None:
        self._core = core
        self._sampler = sampler
        self._survey = survey
        self._query = query
        self._sample = self._sent = 0

    def allow(self, permits: Permits) -> None:
        """Allow every peer that has some right on any topic."""
        allow_something(permits)

    async def event(self, permits: Permits) -> Mapping[str, Any]:
        """The content of the page, with the samples that it has not got yet."""
        usage = await self._survey.usage()
        groups = await self._survey.groups(permits)
        page = await self._survey.segments(self._query, permits)
        samples = self._sampler.since(self._sent)
        if samples:
            self._sample = samples[-1].number
        return {
            "state": state(self._core, usage),
            "samples": samples,
            "protocols": _protocols(self._core),
            "addresses": _addresses(self._core),
            "limits": asdict(self._core.limits),
            "store": _store(self._core, usage),
            "groups": _groups(groups),
            "segments": {**self._segments(page), "all": permits.sight() is None},
        }

    def sent(self) -> None:
        """Note that the page has these samples."""
        self._sent = self._sample

    def _segments(self, page: Found) -> dict[str, Any]:
        return {
            "total": page.total,
            "page": self._query.page,
            "pages": page.pages,
            "rows": [
                {**row(segment), "lag": lag_of(segment), "rates": self._sampler.history.rates(segment, _SPARK_SECONDS)}
                for segment in page.segments
                if not segment.deleted
            ],
        }


class SegmentView:
    """One segment and some of its records: the last ones, or those from a number on."""

    def __init__(self, core: Core, sampler: Sampler, survey: Survey, name: str, first: int | None) -> None:
        self._core = core
        self._sampler = sampler
        self._survey = survey
        self._name = name
        self._first = first
        self._place: tuple[Segment, int, int] | None = None
        self._sent: tuple[Segment, int, int] | None = None
        self._withheld = False

    def allow(self, permits: Permits) -> None:
        """Decide by the name alone, so that a peer does not learn whether the segment exists."""
        allow_something(permits)
        if not permits.rights(self._name) & VISIBLE:
            raise NotAllowed("no rule of access gives you a right on a topic of this name")

    async def event(self, permits: Permits) -> Mapping[str, Any]:
        """The segment as it is now, with records where they have changed."""
        content: dict[str, Any] = {"state": state(self._core, await self._survey.usage()), "segment": None}
        try:
            segment = self._core.store.find(self._name)
            content["segment"] = self._described(segment)
            content["withheld"] = not permits.rights(self._name) & READ
            if content["withheld"]:
                self._withhold()
            else:
                self._withheld = False
                await self._read(segment, content)
        except NoSuchSegment:
            # Also where it was deleted between two of our steps.
            content["segment"] = self._place = None
        except ReadFailed as error:
            content["error"] = str(error)
        return content

    async def _read(self, segment: Segment, content: dict[str, Any]) -> None:
        store = self._core.store
        place = (segment, segment.first_number, segment.number)
        if place != self._sent:
            content["records"] = await (
                records.latest(store, segment)
                if self._first is None
                else records.following(store, segment, self._first)
            )
        self._place = place

    def sent(self) -> None:
        """Note that the page has these records."""
        self._sent = self._place

    def _withhold(self) -> None:
        """Show no records. That is a refusal, which is counted once and not each second."""
        self._place = None
        if not self._withheld:
            self._withheld = True
            self._core.load.traffic_of(NAME).requests_refused[NotAllowed.reason] += 1

    def _described(self, segment: Segment) -> dict[str, Any]:
        retention = self._core.store.retention
        rule = retention.rule(segment.name) if retention is not None else None
        lags = sorted(lags_of(segment), key=lambda lag: -lag.records)
        groups = ReaderGroups.of(self._core)
        return {
            **row(segment),
            "rates": self._sampler.history.rates(segment),
            "writers": len(segment.levels or ()),
            "retention": None if rule is None else asdict(rule),
            "groups_total": len(lags),
            "groups": [
                {"group": lag.group, **groups.describe_one(segment, lag.group), "lag": lag.records}
                for lag in lags[:_GROUPS_SHOWN]
            ],
        }


def state(core: Core, usage: Usage | None) -> dict[str, Any]:
    """The state of the daemon, for the top of each page."""
    return {
        "version": __version__,
        "uptime_seconds": core.clock.seconds() - core.started,
        "now": time.time(),
        "not_ready": reason_not_ready(core),
        "alarms": alarms(core),
    }


def alarms(core: Core) -> list[str]:
    """What somebody has to see to now, each in a sentence."""
    store = core.store
    found = []
    if store.read_only and not store.closing:
        found.append("The disk is full: writes are refused until there is room. Reads and deletes go on.")
    if store.compaction is not None and not store.compaction.running and core.serving():
        found.append("The compactor does not run: the journal grows, and in the end writers wait for it.")
    if store.waits_for_fold:
        found.append("Writers wait for the compactor.")
    return found


def _addresses(core: Core) -> dict[str, list[str]]:
    return {name: [address_text(each) for each in addresses] for name, addresses in sorted(core.addresses.items())}


def row(segment: Segment) -> dict[str, Any]:
    """A segment for a table. Its numbers only rise: a page computes rates from two of them."""
    return {
        "id": segment.id,
        "name": segment.name,
        "first_number": segment.first_number,
        "number": segment.number,
        "first_offset": segment.first_offset,
        "offset": segment.offset,
        "sealed": segment.sealed,
        "modified": segment.modified / 1e6,
        "created": segment.created / 1e6,
    }


def _protocols(core: Core) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "connections": traffic.connections,
            "connected": traffic.connected,
            "appended_records": traffic.appended_records,
            "appended_bytes": traffic.appended_bytes,
            "read_records": traffic.read_records,
            "read_bytes": traffic.read_bytes,
            "refused": traffic.requests_refused.total() + traffic.connections_refused.total(),
            "cut_off": traffic.connections_cut_off.total(),
        }
        for name, traffic in sorted(core.load.traffic.items())
    ]


def _store(core: Core, usage: Usage) -> dict[str, Any]:
    store = core.store
    return {
        "sync": store.sync,
        "commits": store.commits,
        "pending_bytes": store.pending_bytes,
        "held_bytes": core.load.held_bytes,
        "unfolded_entries": store.unfolded_entries,
        "unfolded_bytes": store.unfolded_bytes,
        "writers_waiting": store.waits_for_fold,
        "compactor_running": store.compaction is not None and store.compaction.running,
        **usage._asdict(),
    }


def _groups(groups: Groups) -> dict[str, Any]:
    return {
        "total": groups.total,
        "lag_records": groups.lag_records,
        "worst": [
            {"segment": lag.segment.name, "group": lag.group, "position": lag.position, "lag": lag.records}
            for lag in groups.worst[:_WORST_SHOWN]
        ],
    }
