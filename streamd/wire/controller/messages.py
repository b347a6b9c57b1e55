"""The messages of Pravega's controller, by the numbers of their fields, and the calls that have them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from streamd.wire.controller.protobuf import (
    Message,
    double,
    integer,
    integers,
    message,
    messages,
    text,
    texts,
)

SERVICE: Final = "io.pravega.controller.stream.api.grpc.v1.ControllerService"


class TxnState(IntEnum):
    """What became of a transaction."""

    UNKNOWN = 0
    OPEN = 1
    COMMITTED = 3
    ABORTED = 5


class PingStatus(IntEnum):
    """What a ping of a transaction finds."""

    OK = 0
    LEASE_TOO_LARGE = 1
    MAX_EXECUTION_TIME_EXCEEDED = 2
    COMMITTED = 5
    ABORTED = 6
    UNKNOWN = 7


@dataclass(frozen=True)
class ScopeInfo(Message):
    """A scope."""

    scope: str = text(1)


@dataclass(frozen=True)
class StreamInfo(Message):
    """A stream."""

    scope: str = text(1)
    stream: str = text(2)
    access: int = integer(3)


_NO_STREAM: Final = StreamInfo()


@dataclass(frozen=True)
class Token(Message):
    """Where a list goes on."""

    token: str = text(1)


@dataclass(frozen=True)
class ScalingPolicy(Message):
    """Into how many segments a stream is split; rates and factors are kept and have no effect."""

    type: int = integer(1)
    rate: int = integer(2)
    factor: int = integer(3)
    segments: int = integer(4)


@dataclass(frozen=True)
class RetentionPolicy(Message):
    """How long a stream keeps its events: kept and told, and without effect."""

    type: int = integer(1)
    least: int = integer(2)
    most: int = integer(3)


@dataclass(frozen=True)
class Tags(Message):
    """The tags of a stream."""

    tag: tuple[str, ...] = texts(1)


@dataclass(frozen=True)
class StreamConfig(Message):
    """A stream and how it is configured."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    scaling: ScalingPolicy | None = message(2, ScalingPolicy)
    retention: RetentionPolicy | None = message(3, RetentionPolicy)
    tags: Tags = message(4, Tags, Tags())


@dataclass(frozen=True)
class Offset(Message):
    """One entry of a stream cut: a segment and an offset in it."""

    segment: int = integer(1)
    offset: int = integer(2)


@dataclass(frozen=True)
class StreamCut(Message):
    """A place in each segment of a stream."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    cut: tuple[Offset, ...] = messages(2, Offset)


@dataclass(frozen=True)
class StreamCutRange(Message):
    """What lies between two stream cuts."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    begin: tuple[Offset, ...] = messages(2, Offset)
    end: tuple[Offset, ...] = messages(3, Offset)


@dataclass(frozen=True)
class SegmentId(Message):
    """A segment of a stream."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    id: int = integer(2)


@dataclass(frozen=True)
class SegmentIds(Message):
    """Segments of a stream: the answer to getSegmentsBetween."""

    segments: tuple[SegmentId, ...] = messages(1, SegmentId)
    token: str = text(2)


@dataclass(frozen=True)
class SegmentRange(Message):
    """A segment, and the part of the keys that is its."""

    segment: SegmentId = message(1, SegmentId)
    least: float = double(2)
    most: float = double(3)


@dataclass(frozen=True)
class SegmentRanges(Message):
    """The segments of a stream."""

    ranges: tuple[SegmentRange, ...] = messages(1, SegmentRange)
    token: str = text(2)


@dataclass(frozen=True)
class NodeUri(Message):
    """Where segments are served."""

    endpoint: str = text(1)
    port: int = integer(2)


@dataclass(frozen=True)
class NodeUris(Message):
    """Where controllers are."""

    nodes: tuple[NodeUri, ...] = messages(1, NodeUri)


@dataclass(frozen=True)
class GetSegments(Message):
    """Where the segments of a stream were at a time, in milliseconds since 1970."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    timestamp: int = integer(2)


@dataclass(frozen=True)
class SegmentLocation(Message):
    """A segment, and an offset in it."""

    segment: SegmentId = message(1, SegmentId)
    offset: int = integer(2)


@dataclass(frozen=True)
class SegmentsAtTime(Message):
    """The answer to GetSegments."""

    segments: tuple[SegmentLocation, ...] = messages(1, SegmentLocation)
    token: str = text(2)


@dataclass(frozen=True)
class EpochSegments(Message):
    """The segments of a stream in an epoch; there is one, 0."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    epoch: int = integer(2)


@dataclass(frozen=True)
class Successors(Message):
    """What follows a segment that is sealed: nothing, since segments are not split or merged."""

    segments: tuple[Message, ...] = messages(1, Message)
    token: str = text(2)


@dataclass(frozen=True)
class TxnId(Message):
    """The id of a transaction, in two halves."""

    high: int = integer(1)
    low: int = integer(2)


@dataclass(frozen=True)
class CreateTxn(Message):
    """Begin a transaction, with a lease in milliseconds."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    lease: int = integer(2)


@dataclass(frozen=True)
class TxnCreated(Message):
    """The answer to CreateTxn."""

    txn: TxnId = message(1, TxnId)
    ranges: tuple[SegmentRange, ...] = messages(2, SegmentRange)
    token: str = text(3)


@dataclass(frozen=True)
class TxnRequest(Message):
    """Commit or abort a transaction, or ask for its state."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    txn: TxnId = message(2, TxnId, TxnId())
    writer: str = text(3)
    timestamp: int = integer(4)


@dataclass(frozen=True)
class PingTxn(Message):
    """Give a transaction another lease, in milliseconds."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    txn: TxnId = message(2, TxnId, TxnId())
    lease: int = integer(3)


@dataclass(frozen=True)
class Status(Message):
    """The answer to most calls: 0 is success."""

    status: int = integer(1)


@dataclass(frozen=True)
class DelegationToken(Message):
    """What the segment store is shown: here nothing, since it asks the connection who the peer is."""

    token: str = text(1)


@dataclass(frozen=True)
class StreamsRequest(Message):
    """The streams of a scope."""

    scope: ScopeInfo = message(1, ScopeInfo, ScopeInfo())
    token: Token = message(2, Token, Token())


@dataclass(frozen=True)
class TaggedStreamsRequest(Message):
    """The streams of a scope that have a tag."""

    scope: ScopeInfo = message(1, ScopeInfo, ScopeInfo())
    tag: str = text(2)
    token: Token = message(3, Token, Token())


@dataclass(frozen=True)
class Streams(Message):
    """Some streams of a scope."""

    streams: tuple[StreamInfo, ...] = messages(1, StreamInfo)
    token: Token = message(2, Token, Token())
    status: int = integer(3)


@dataclass(frozen=True)
class ScopesRequest(Message):
    """All scopes."""

    token: Token = message(1, Token, Token())


@dataclass(frozen=True)
class Scopes(Message):
    """Some scopes."""

    scopes: tuple[str, ...] = texts(1)
    token: Token = message(2, Token, Token())


@dataclass(frozen=True)
class Scale(Message):
    """Split or merge segments."""

    stream: StreamInfo = message(1, StreamInfo, _NO_STREAM)
    sealed: tuple[int, ...] = integers(2)


CALLS: Final[dict[str, type[Message]]] = {
    "getControllerServerList": Message,
    "createStream": StreamConfig,
    "updateStream": StreamConfig,
    "truncateStream": StreamCut,
    "sealStream": StreamInfo,
    "deleteStream": StreamInfo,
    "getStreamConfiguration": StreamInfo,
    "getCurrentSegments": StreamInfo,
    "getEpochSegments": EpochSegments,
    "getSegments": GetSegments,
    # Pravega has the name twice, once as it was misspelled at first.
    "getSegmentsImmediatlyFollowing": SegmentId,
    "getSegmentsImmediatelyFollowing": SegmentId,
    "getSegmentsBetween": StreamCutRange,
    "scale": Scale,
    "checkScale": EpochSegments,
    "getURI": SegmentId,
    "isSegmentValid": SegmentId,
    "isStreamCutValid": StreamCut,
    "createTransaction": CreateTxn,
    "commitTransaction": TxnRequest,
    "abortTransaction": TxnRequest,
    "pingTransaction": PingTxn,
    "checkTransactionState": TxnRequest,
    "createScope": ScopeInfo,
    "deleteScope": ScopeInfo,
    "checkScopeExists": ScopeInfo,
    "listScopes": ScopesRequest,
    "checkStreamExists": StreamInfo,
    "listStreamsInScope": StreamsRequest,
    "listStreamsInScopeForTag": TaggedStreamsRequest,
    "getDelegationToken": StreamInfo,
}
"""The message that each call comes with."""
