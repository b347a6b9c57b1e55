"""SESP over a stream: publish, read, and the administrator's telnet prompt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

from streamd import __version__
from streamd.access.permits import ADMIN, READ, VISIBLE, WRITE, NotAllowed, TooManyTopics, TopicFull
from streamd.batch import Batch
from streamd.connections.base import Reply, StreamProtocol
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.groups import Delayed, Groups
from streamd.interfaces import RequestError
from streamd.settings import RetentionRule
from streamd.store import (
    BadName,
    LevelGap,
    NoSuchSegment,
    ReadFailed,
    RecordsTruncated,
    Run,
    Segment,
    SegmentExists,
    SegmentSealed,
    StoreReadOnly,
)
from streamd.store.names import NAME_BYTES_MAX, check_name
from streamd.tables import fill
from streamd.wire import Request, WireError, sesp
from streamd.wire.sesp import OK, error_line, message_lines

_ERRORS: Final[dict[type[RequestError], str]] = {
    SegmentExists: "AlreadyExists",
    NoSuchSegment: "NoSuchTopicExists",
    SegmentSealed: "TopicSealed",
    RecordsTruncated: "OffsetTruncated",
    BadName: "InvalidData",
    StoreReadOnly: "ReadOnly",
    ReadFailed: "IOError",
    LevelGap: "SequenceGap",
    NotAllowed: "NotAllowed",
    TopicFull: "NotAllowed",
    TooManyTopics: "NotAllowed",
}

# Messages read in one go, where they are small.
_RECORDS_AT_ONCE: Final = 8192

# Names told in one go: a list of a million must not hold everybody else up.
_NAMES_AT_ONCE: Final = 2000
_ARRAY_END: Final = "]\n"

_READ_ONE: Final = b"<\n"


class SespProtocol(StreamProtocol):
    """One SESP connection: at most one selected topic, and an offset to read from."""

    name = "sesp"
    codec: sesp.SespCodec

    def __init__(self, core: Core) -> None:
        limits = core.limits
        # A message is a line without its first byte. The name of a topic fits, however small messages are to be.
        longest = 1 + max(limits.message_bytes_max, NAME_BYTES_MAX)
        super().__init__(core, sesp.SespCodec(min(limits.line_bytes_max, longest)))
        self._topic: Segment | None = None
        self._offset = 0

    def perform(self, request: sesp.Command) -> Reply:
        return _ACTIONS[type(request)](self, request)

    def refused(self, request: sesp.Command, error: RequestError) -> bytes:
        name = _ERRORS.get(type(error), "IOError")
        if isinstance(error, ReadFailed):
            self.log.error("a message of {topic} can't be read: {error}", topic=self._topic, error=str(error))
        return error_line(name) * request.count

    def broken(self, error: WireError) -> bytes:
        return error_line("TooLong")

    def express(self, data: bytes) -> bytes | None:
        topic = self._topic
        if topic is None or not self._permits.is_open:
            return None
        record = self.codec.single(data)
        if record is not None:
            return self.join(topic, record, OK)
        if data == _READ_ONE and (read := self.recent_one(topic, self._offset)) is not None:
            self._offset += 1
            return message_lines([read[1]])
        return None

    def joint_requests(self, segment: Segment, record: bytes, tag: int) -> list[Request]:
        return [sesp.Publish(Batch.single(record))]

    # -- publish and read ----------------------------------------------------------------------------------------------

    def _publish(self, request: sesp.Publish) -> Reply:
        if self._topic is None:
            return self._invalid("NoTopicSelected", request.count)
        if not self._permits.is_open:
            try:
                self.allow_write(self._topic, request.batch)
            except TopicFull:
                if request.count == 1:
                    raise
                return self.one_by_one([sesp.Publish(message) for message in request.batch.singles()])
        stored = self.promise(OK * request.count, request.batch)
        self.core.store.append_for(stored, self._topic, request.batch)
        return stored

    def _publish_once(self, request: sesp.PublishOnce) -> Reply:
        if self._topic is None:
            return self._invalid("NoTopicSelected")
        self.allow(WRITE, self._topic.name)
        writer, level = _writer_of(request.writer), request.sequence + 1
        if (self._topic.claimed_level(writer) or 0) >= level:
            # It was stored before, and takes no more room.
            return self.core.store.append(self._topic, request.batch, writer=writer, level=level), OK
        self.allow_write(self._topic, request.batch)
        stored = self.promise(OK, request.batch)
        self.core.store.append_for(
            stored, self._topic, request.batch, writer=writer, expected=request.sequence, level=level
        )
        return stored

    def _ask_sequence(self, request: sesp.AskSequence) -> Reply:
        if self._topic is None:
            return self._invalid("NoTopicSelected")
        self.allow(WRITE, self._topic.name)
        return b"+%d\n" % ((self._topic.levels or {}).get(_writer_of(request.writer), 0))

    def _publish_later(self, request: sesp.PublishLater) -> Reply:
        if self._topic is None:
            return self._invalid("NoTopicSelected")
        self.allow_write(self._topic, request.batch)
        now = 1000 * time.time() if request.is_relative else 0.0
        due = int(1000 * (now + request.milliseconds))
        return Delayed.of(self.core).put(self._topic, request.batch, due).addCallback(self._kept, request.batch)

    def _kept(self, _: object, batch: Batch) -> bytes:
        self.traffic.published(batch.count, batch.size)
        return OK

    def _read(self, request: sesp.Read) -> Reply:
        if self._topic is None:
            return self._invalid("NoTopicSelected", request.count)
        self.allow(READ, self._topic.name)
        run = self.recent(self._topic, self._offset, request.count)
        if run is not None:
            return self._reply_with([run], request.count)
        runs = self.read(self._topic, self._offset, records_max=min(request.count, _RECORDS_AT_ONCE))
        return runs.addCallback(self._reply_with, request.count)

    def _reply_with(self, runs: list[Run], count: int) -> bytes:
        """The reply with the messages that were read; the rest of a long answer follows when this is sent."""
        if not runs:
            return error_line("None") * count
        read = sum([run.batch.count for run in runs])
        self._offset += read
        self.count_read(runs)
        if count > read:
            self.again(sesp.Read(count - read))
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
        done = request.done + _NAMES_AT_ONCE
        permits = self.permits
        shown = [name for name in names[request.done : done] if permits.is_open or permits.rights(name) & ADMIN]
        text = json.dumps(shown, ensure_ascii=False)[1:-1]
        more = done < len(names)
        begun = request.begun or bool(shown)
        if more:
            self.again(sesp.List(names, done, begun))
        before = "+[" if not request.done else ", " if request.begun and shown else ""
        return f"{before}{text}{'' if more else _ARRAY_END}".encode()

    def _allow_somewhere(self, request: sesp.List | sesp.Status) -> None:
        """A command without a topic needs admin rights on at least one topic."""
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


def _writer_of(name: str) -> bytes:
    """The id of a writer that goes by a name."""
    return blake2b(name.encode(), digest_size=16, person=b"sesp").digest()


def describe(segment: Segment, rule: RetentionRule | None, groups: Groups) -> dict[str, object]:
    """The description of a topic for an administrator."""
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
    sesp.PublishOnce: SespProtocol._publish_once,
    sesp.AskSequence: SespProtocol._ask_sequence,
    sesp.PublishLater: SespProtocol._publish_later,
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

    name = SespProtocol.name

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
