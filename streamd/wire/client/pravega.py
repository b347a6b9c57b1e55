"""Pravega's append blocks from the client's side: requests to bytes, bytes to replies, and to events."""

from __future__ import annotations

from abc import abstractmethod
from itertools import chain
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from streamd.wire import WireError
from streamd.wire.frames import FrameCodec, alike, cut
from streamd.wire.pravega.documented import (
    BLOCK_BYTES_MAX,
    HEADER,
    MESSAGE_BYTES_MAX,
    AppendBlock,
    CreateSegment,
    KeepAlive,
    Name,
    ReadSegment,
    Request,
    SetupAppend,
    Type,
    event_parts,
    message,
    named,
)

R = TypeVar("R")

_BLOCK: Final = Struct(">16sqi")
_READ: Final = Struct(">qi")
_LENGTH: Final = Struct(">H")
_LEVEL: Final = Struct(">16sq")
_READ_REPLY: Final = Struct(">qBB")
_OFFSET: Final = Struct(">q")


class AppendSetup(NamedTuple):
    """A writer can append, and has stored so much."""

    name: Name
    writer: bytes
    level: int


class DataAppended(NamedTuple):
    """How far a writer's data is stored."""

    writer: bytes
    level: int


class SegmentRead(NamedTuple):
    """Bytes of a segment, from an offset on."""

    name: Name
    offset: int
    at_tail: bool
    at_end: bool
    data: bytes


class SegmentCreated(NamedTuple):
    """It was made."""

    name: Name


class SegmentIsSealed(NamedTuple):
    """It takes no more."""

    name: Name


class SegmentExists(NamedTuple):
    """It was there already."""

    name: Name


class NoSuchSegment(NamedTuple):
    """It is not there."""

    name: Name


class SegmentIsTruncated(NamedTuple):
    """What was asked for is gone; from `first_offset` on there is more."""

    name: Name
    first_offset: int


Reply = (
    AppendSetup
    | DataAppended
    | SegmentRead
    | SegmentCreated
    | SegmentIsSealed
    | SegmentExists
    | NoSuchSegment
    | SegmentIsTruncated
    | KeepAlive
)


def name_of(text: str) -> Name:
    """A segment's name as it is sent."""
    raw = text.encode()
    if not 0 < len(raw) < 1 << 16:
        raise ValueError(f"a name of {len(raw)} bytes")
    return Name(text, raw)


def request_bytes(request: Request) -> bytes:
    """A request as it is sent."""
    if isinstance(request, AppendBlock):
        return _append_block(request)
    if isinstance(request, SetupAppend):
        return message(Type.SETUP_APPEND, request.writer + _LENGTH.pack(len(request.name.raw)) + request.name.raw)
    if isinstance(request, ReadSegment):
        return named(Type.READ_SEGMENT, request.name, _READ.pack(request.offset, request.length))
    if isinstance(request, CreateSegment):
        return named(Type.CREATE_SEGMENT, request.name)
    return message(Type.KEEP_ALIVE, request.data)


def _append_block(block: AppendBlock) -> bytes:
    """An exact block: its end tells what its beginning promised."""
    size = block.end - block.offset
    if size > BLOCK_BYTES_MAX:
        raise ValueError(f"a block of {size} bytes is over the limit of {BLOCK_BYTES_MAX}")
    begin = message(Type.BEGIN_BLOCK, _BLOCK.pack(block.writer, block.offset, size))
    end = message(Type.END_BLOCK, _BLOCK.pack(block.writer, block.end, size))
    return b"".join([begin, *event_parts(block.batch), end])


class MessageReplies(FrameCodec[R]):
    """Messages that the daemon sends on one connection."""

    def __init__(self) -> None:
        super().__init__(HEADER.size)

    def _parse(self, data: bytes | bytearray, found: list[R]) -> int:
        at, end = 0, len(data)
        while end - at >= HEADER.size:
            kind, length = HEADER.unpack_from(data, at)
            if not 0 <= length <= MESSAGE_BYTES_MAX:
                raise WireError(f"a message of {length} bytes is over the limit of {MESSAGE_BYTES_MAX}")
            stop = at + HEADER.size + length
            if stop > end:
                self._wanted = stop - at
                return at
            self._message(kind, bytes(memoryview(data)[at + HEADER.size : stop]), found)
            at = stop
        self._wanted = HEADER.size
        return at

    @abstractmethod
    def _message(self, kind: int, payload: bytes, found: list[R]) -> None:
        """Add the reply in a message, if it is the end of one."""


class PravegaReplies(MessageReplies[Reply]):
    """The replies to Pravega's own requests. They are never sent in parts."""

    def _message(self, kind: int, payload: bytes, found: list[Reply]) -> None:
        found.append(_reply(kind, payload))


_NAMED: Final[dict[int, Any]] = {
    Type.SEGMENT_CREATED: SegmentCreated,
    Type.SEGMENT_IS_SEALED: SegmentIsSealed,
    Type.SEGMENT_EXISTS: SegmentExists,
    Type.NO_SUCH_SEGMENT: NoSuchSegment,
}


def _reply(kind: int, payload: bytes) -> Reply:
    if kind == Type.KEEP_ALIVE:
        return KeepAlive(payload)
    if kind == Type.DATA_APPENDED:
        return DataAppended(*_unpack(_LEVEL, payload))
    name, rest = _name(payload)
    if kind == Type.SEGMENT_READ:
        offset, at_tail, at_end = _unpack(_READ_REPLY, rest[: _READ_REPLY.size])
        return SegmentRead(name, offset, bool(at_tail), bool(at_end), rest[_READ_REPLY.size :])
    if kind == Type.APPEND_SETUP:
        return AppendSetup(name, *_unpack(_LEVEL, rest))
    if kind == Type.SEGMENT_IS_TRUNCATED:
        return SegmentIsTruncated(name, *_unpack(_OFFSET, rest))
    if kind not in _NAMED or rest:
        raise WireError(f"a message of type {kind} and {len(payload)} bytes is no reply")
    found: Reply = _NAMED[kind](name)
    return found


def _unpack(form: Struct, payload: bytes) -> tuple[Any, ...]:
    if len(payload) != form.size:
        raise WireError(f"{len(payload)} bytes where {form.size} are due")
    return form.unpack(payload)


def _name(payload: bytes) -> tuple[Name, bytes]:
    """A name, and what stands behind it."""
    if len(payload) < _LENGTH.size:
        raise WireError("a message is too short for a name")
    end = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
    raw = payload[_LENGTH.size : end]
    if len(payload) < end:
        raise WireError("a message is too short for its name")
    return Name(raw.decode("utf-8", "surrogateescape"), raw), payload[end:]


def whole_events(data: bytes, event_bytes_max: int) -> tuple[list[bytes], int]:
    """The events that are whole in these bytes of a segment, and where they end. An event must begin where they do."""
    found: list[bytes] = []
    at, end = 0, len(data)
    while end - at >= HEADER.size:
        kind, length = HEADER.unpack_from(data, at)
        if kind != Type.EVENT or not 0 <= length <= event_bytes_max:
            raise WireError("no event begins at this offset of the segment, or it is too large")
        frame = HEADER.size + length
        if at + frame > end:
            break
        same = alike(data, at, frame, HEADER.size)
        if same > 1:
            frames = memoryview(data)[at : at + frame * same]
            found += chain.from_iterable(cut(frames, HEADER.size, length))
        else:
            found.append(data[at + HEADER.size : at + frame])
        at += frame * same
    return found, at
