"""FastStreamDB from the client's side: requests to packets, and packets to replies."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, pack
from typing import Final, NamedTuple

from streamd.batch import Batch, Buffer
from streamd.wire import WireError
from streamd.wire.faststream import Check, Contents, Create, Delete, Enqueue, EnqueueMany, Packet, Ping, Request
from streamd.wire.frames import FrameCodec

_U32: Final = Struct("<I")
_ONE: Final = Struct("<II")
_SINGLE: Final = Struct("<III")
_STATE: Final = Struct("<IIB3x")
assert _STATE.size == 12

_WITH_STREAM: Final[dict[type, Packet]] = {Create: Packet.CREATE, Delete: Packet.DELETE, Check: Packet.CHECK}


class Pong(NamedTuple):
    """The answer to a ping."""


class StreamContents(NamedTuple):
    """The contents of a stream."""

    data: bytes


class StreamState(NamedTuple):
    """Whether a stream exists."""

    stream: int
    is_valid: bool


Reply = Pong | StreamContents | StreamState


def request_bytes(request: Request) -> bytes:
    """A request as it is sent."""
    if isinstance(request, Enqueue):
        return _enqueue(request.stream, request.batch)
    if isinstance(request, EnqueueMany):
        return _enqueue_many(request)
    if isinstance(request, Ping):
        return _U32.pack(Packet.PING)
    if isinstance(request, Contents):
        return _ONE.pack(Packet.TAKE if request.take else Packet.PEEK, request.stream)
    return _ONE.pack(_WITH_STREAM[type(request)], request.stream)


def _enqueue(stream: int, batch: Batch) -> bytes:
    records = batch.records()
    size = batch.common_size
    if size is not None:
        # The header is the same for all: let `join` put it before each.
        return _SINGLE.pack(Packet.ENQUEUE_SINGLE, stream, size).join([b"", *records])
    return b"".join(_interleaved(stream, records))


def _interleaved(stream: int, records: list[Buffer]) -> Iterator[Buffer]:
    for record in records:
        yield _SINGLE.pack(Packet.ENQUEUE_SINGLE, stream, len(record))
        yield record


def _enqueue_many(request: EnqueueMany) -> bytes:
    if request.all_except:
        packet = Packet.ENQUEUE_ALL_EXCEPT if request.streams else Packet.ENQUEUE_ALL
    else:
        packet = Packet.ENQUEUE_MULTIPLE
    streams = request.streams
    listed = b"" if packet is Packet.ENQUEUE_ALL else pack(f"<I{len(streams)}I", len(streams), *streams)
    return _ONE.pack(packet, len(request.record)) + request.record + listed


class FastStreamReplies(FrameCodec[Reply]):
    """Parses what the daemon sends on one connection."""

    def __init__(self, contents_bytes_max: int) -> None:
        super().__init__(_U32.size)
        self._contents_bytes_max = contents_bytes_max

    def _parse(self, data: bytes | bytearray, replies: list[Reply]) -> int:
        at, end = 0, len(data)
        while end - at >= _U32.size:
            self._wanted = self._frame_bytes(data, at)
            stop = at + self._wanted
            if stop > end:
                return at
            replies.append(_reply(data, at, stop))
            at = stop
        self._wanted = _U32.size
        return at

    def _frame_bytes(self, data: bytes | bytearray, at: int) -> int:
        """The length of the packet that begins here, as far as it is known yet."""
        (packet,) = _U32.unpack_from(data, at)
        if packet == Packet.PONG:
            return _U32.size
        if packet == Packet.STATE:
            return _STATE.size
        if packet != Packet.CONTENTS:
            raise WireError(f"packet {packet} is not a server's")
        if len(data) - at < _ONE.size:
            return _ONE.size
        size: int = _ONE.unpack_from(data, at)[1]
        if size > self._contents_bytes_max:
            raise WireError(f"contents of {size} bytes are over the limit of {self._contents_bytes_max}")
        return _ONE.size + size


def _reply(data: bytes | bytearray, at: int, stop: int) -> Reply:
    (packet,) = _U32.unpack_from(data, at)
    if packet == Packet.PONG:
        return Pong()
    if packet == Packet.CONTENTS:
        return StreamContents(bytes(memoryview(data)[at + _ONE.size : stop]))
    _, stream, is_valid = _STATE.unpack_from(data, at)
    return StreamState(stream, bool(is_valid))
