"""SESP over a stream: publish, read, and the administrator's telnet prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from streamd import __version__
from streamd.access.permits import ADMIN, READ, VISIBLE, NotAllowed, TooManyTopics, TopicFull
from streamd.config import fill
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.groups import Groups
from streamd.settings import RetentionRule
from streamd.store import (
    BadName,
    NoSuchSegment,
    ReadFailed,
    RecordsTruncated,
    Run,
    Segment,
    SegmentExists,
    SegmentSealed,
    StoreError,
    StoreReadOnly,
)
from streamd.store.names import NAME_BYTES_MAX, check_name
from streamd.wire import WireError, sesp
from streamd.wire.sesp import OK, error_line, message_lines

_ERRORS: Final[dict[type[StoreError], str]] = {
    SegmentExists: "AlreadyExists",
    NoSuchSegment: "NoSuchTopicExists",
    SegmentSealed: "TopicSealed",
    RecordsTruncated: "OffsetTruncated",
    BadName: "InvalidData",
    StoreReadOnly: "ReadOnly",
    ReadFailed: "IOError",
    NotAllowed: "NotAllowed",
    TopicFull: "NotAllowed",
    TooManyTopics: "NotAllowed",
}

# Messages read in one go, where they are small.
_RECORDS_AT_ONCE: Final = 8192

# Names told in one go: a list of a million must not hold everybody else up.
_NAMES_AT_ONCE: Final = 2000
_ARRAY_END: Final = "]\n"


class SespProtocol(StreamProtocol):
    """One SESP connection: at most one selected topic, and an offset to read from."""

    name = "sesp"

    def __init__(self, core: Core) -> None:
        limits = core.limits
        # A message is a line without its first byte. The name of a topic fits, however small messages are to be.
        longest = 1 + max(limits.message_bytes_max, NAME_BYTES_MAX)
        super().__init__(core, sesp.SespCodec(min(limits.line_bytes_max, longest)))
        self._topic: Segment | None = None
        self._offset = 0

    def perform(self, request: sesp.Command) -> Reply:
        return _ACTIONS[type(request)](self, request)

    def refused(self, request: sesp.Command, error: StoreError) -> bytes:
        name = _ERRORS.get(type(error), "IOError")
        if isinstance(error, ReadFailed):
            self.log.error("a message of {topic} can't be read: {error}", topic=self._topic, error=str(error))
        return error_line(name) * request.count

    def broken(self, error: WireError) -> bytes:
        return error_line("TooLong")

    # -- publish and read ----------------------------------------------------------------------------------------------

    def _publish(self, request: sesp.Publish) -> Reply:
        if self._topic is None:
            return self._invalid("NoTopicSelected", request.count)
        try:
            self.allow_write(self._topic, request.batch)
        except TopicFull:
            if request.count == 1:
                raise
            return self.one_by_one([sesp.Publish(each) for each in request.batch.singles()])
        stored = self.promise(OK * request.count, request.batch)
        self.core.store.append_for(stored, self._topic, request.batch)
        return stored

    def _read(self, request: sesp.Read) -> Reply:
        if self._topic is None:
            return self._invalid("NoTopicSelected", request.count)
        self.allow(READ, self._topic.name)
        run = self.recent(self._topic, self._offset, request.count)
        if run is not None:
            return self._told([run], request.count)
        runs = self.read(self._topic, self._offset, records_max=min(request.count, _RECORDS_AT_ONCE))
        return runs.addCallback(self._told, request.count)

    def _told(self, runs: list[Run], count: int) -> bytes:
        """The messages that were found; the rest of a long answer comes when this is on its way."""
        if not runs:
            return error_line("None") * count
        found = sum([run.batch.count for run in runs])
        self._offset += found
        self.count_read(runs)
        if count > found:
            self.again(sesp.Read(count - found))
        return message_lines(list(chain.from_iterable([run.batch.records() for run in runs])))

    def _seek(self, request: sesp.Seek) -> Reply:
        if request.offset < 0:
            return self._invalid("ReadOffsetCanNotBeNegative")
        self._offset = request.offset
        return OK

    # -- topics --------------------------------------------------------------------------------------------------------

    def _select(self, request: sesp.Select) -> Reply:
        if self._topic is not None:
            return self._invalid("TopicAlreadySelected")
        self.allow(VISIBLE, request.name)
        self._topic = self._find(request.name)
        return OK

    def _find(self, name: str) -> Segment:
        check_name(name)
        return self.core.store.find(name)

    def _create(self, request: sesp.Create) -> Reply:
        self.allow_create(request.name)
        return self.core.store.create(request.name), OK

    def _delete(self, request: sesp.Delete) -> Reply:
        self.allow(ADMIN, request.name)
        return self.core.store.delete(self._find(request.name)), OK

    def _seal(self, request: sesp.Seal) -> Reply:
        self.allow(ADMIN, request.name)
        return self.core.store.seal(self._find(request.name)), OK

    def _truncate(self, request: sesp.Truncate) -> Reply:
        if self._topic is None:
            return self._invalid("NoTopicSelected")
        if request.offset < 0:
            return self._invalid("ReadOffsetCanNotBeNegative")
        self.allow(ADMIN, self._topic.name)
        return self.core.store.truncate(self._topic, request.offset), OK

    # -- what an administrator asks ------------------------------------------------------------------------------------

    def _list(self, request: sesp.List) -> Reply:
        """A JSON array on one line, in pieces: the topics that the peer is an administrator of."""
        if request.names is None:
            self._allow_somewhere(request)
        names = self.core.store.names() if request.names is None else request.names
        told = request.told + _NAMES_AT_ONCE
        permits = self.permits
        shown = [name for name in names[request.told : told] if permits.is_open or permits.rights(name) & ADMIN]
        text = json.dumps(shown, ensure_ascii=False)[1:-1]
        more = told < len(names)
        begun = request.begun or bool(shown)
        if more:
            self.again(sesp.List(names, told, begun))
        before = "+[" if not request.told else ", " if request.begun and shown else ""
        return f"{before}{text}{'' if more else _ARRAY_END}".encode()

    def _allow_somewhere(self, request: sesp.List | sesp.Status) -> None:
        """What is about no topic in particular is for who is the administrator of any."""
        if not self.permits.anywhere(ADMIN):
            raise NotAllowed(type(request).__name__)

    def _describe(self, request: sesp.Describe) -> Reply:
        self.allow(ADMIN, request.name)
        retention = self.core.store.retention
        segment, groups = self._find(request.name), Groups.of(self.core)
        return _json_line(describe(segment, retention.rule(request.name) if retention else None, groups))

    def _status(self, request: sesp.Status) -> Reply:
        self._allow_somewhere(request)
        store, load = self.core.store, self.core.load
        return _json_line(
            {
                "version": __version__,
                "uptime": round(self.core.clock.seconds() - self.core.started, 3),
                "connections": load.connections,
                "store": {
                    "topics": len(store),
                    "commits": store.commits,
                    "pending_bytes": store.pending_bytes,
                    "buffered_bytes": load.held_bytes,
                    "read_only": store.read_only,
                },
                "sync": store.sync,
                "refusals": load.refusals,
                "slowed": load.slowed,
            }
        )

    def _refuse(self, request: sesp.Refused) -> Reply:
        return self._invalid(request.error)

    def _invalid(self, error: str, count: int = 1) -> bytes:
        self.count_invalid()
        return error_line(error) * count


def describe(segment: Segment, rule: RetentionRule | None, groups: Groups) -> dict[str, object]:
    """What the administrator sees of a topic."""
    return {
        "messages": segment.number - segment.first_number,
        "first_offset": segment.first_number,
        "next_offset": segment.number,
        "bytes": segment.offset - segment.first_offset,
        "sealed": segment.sealed,
        "created": datetime.fromtimestamp(segment.created / 1e6, UTC).isoformat(),
        "writers": len(segment.levels or ()),
        "groups": groups.describe(segment),
        "retention": None if rule is None else asdict(rule),
    }


def _json_line(value: object) -> bytes:
    return f"+{json.dumps(value, ensure_ascii=False)}\n".encode()


_ACTIONS: Final[dict[type[sesp.Command], Callable[[SespProtocol, Any], Reply]]] = {
    sesp.Publish: SespProtocol._publish,
    sesp.Read: SespProtocol._read,
    sesp.Seek: SespProtocol._seek,
    sesp.Select: SespProtocol._select,
    sesp.Create: SespProtocol._create,
    sesp.Delete: SespProtocol._delete,
    sesp.Seal: SespProtocol._seal,
    sesp.Truncate: SespProtocol._truncate,
    sesp.List: SespProtocol._list,
    sesp.Describe: SespProtocol._describe,
    sesp.Status: SespProtocol._status,
    sesp.Refused: SespProtocol._refuse,
}


class SespFactory(StreamFactory):
    """Makes SESP connections."""

    def build(self) -> SespProtocol:
        return SespProtocol(self.core)


@dataclass(frozen=True)
class SespSettings:
    """SESP has no settings beside its endpoint."""


def configure(table: Mapping[str, object]) -> SespSettings:
    """The settings of one ``[sesp]`` table."""
    return fill(SespSettings, table)


def factory(core: Core, settings: object) -> SespFactory:
    """The factory for one SESP endpoint."""
    return SespFactory(core)
