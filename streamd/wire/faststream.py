"""FastStreamDB: thirteen packets of fixed layout, little endian. Bytes to requests, and replies to bytes.

A run of enqueues to one stream becomes one request with one batch. Equal packets, the usual case under load, are
recognised column by column and cut by `struct`; others by a loop.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from streamd.batch import LENGTH_TYPE, Batch, Buffer
from streamd.wire import TooLarge, WireError
from streamd.wire.frames import FrameCodec, alike, payloads

_U32: Final = Struct("<I")
_ONE: Final = Struct("<II")
_SINGLE: Final = Struct("<III")
assert _SINGLE.size == 12
_STATE: Final = Struct("<IIB3x")
assert _STATE.size == 12

STREAM_END: Final = 1 << 32
"""Stream ids are below this."""


class Packet(IntEnum):
    """The type of a packet."""

    PING = 0
    CREATE = 1
    DELETE = 2
    ENQUEUE_SINGLE = 3
    ENQUEUE_MULTIPLE = 4
    ENQUEUE_ALL = 5
    ENQUEUE_ALL_EXCEPT = 6
    TAKE = 7
    PEEK = 8
    CHECK = 9
    PONG = 10
    CONTENTS = 11
    STATE = 12


PONG: Final = _U32.pack(Packet.PONG)


class Ping(NamedTuple):
    """A ping, answered with a pong."""

    size: int = 64
    reads: bool = False


class Create(NamedTuple):
    """Create a stream, unless it exists."""

    stream: int
    size: int = 64
    reads: bool = False


class Delete(NamedTuple):
    """Delete a stream, if it exists."""

    stream: int
    size: int = 64
    reads: bool = False


class Enqueue(NamedTuple):
    """Records for one stream."""

    stream: int
    batch: Batch
    reads: bool = False

    @property
    def size(self) -> int:
        """About how many bytes the request keeps in memory."""
        return len(self.batch.payload) + 4 * len(self.batch.lengths)


class EnqueueMany(NamedTuple):
    """One record for several streams: for those that are named, or for all but those."""

    streams: Sequence[int]
    all_except: bool
    record: bytes
    reads: bool = False

    @property
    def size(self) -> int:
        """About how many bytes the request keeps in memory."""
        return len(self.record) + 4 * len(self.streams)


class Contents(NamedTuple):
    """Read the contents of a stream; `take` removes them."""

    stream: int
    take: bool
    size: int = 64
    reads: bool = True


class Check(NamedTuple):
    """Ask whether a stream exists."""

    stream: int
    size: int = 64
    reads: bool = True


Request = Ping | Create | Delete | Enqueue | EnqueueMany | Contents | Check


# As plain numbers: to compare with a member of an enumeration takes several times as long.
_PING: Final = int(Packet.PING)
_ENQUEUE_SINGLE: Final = int(Packet.ENQUEUE_SINGLE)
_ONE_PING: Final = Ping()
_PING_BYTES: Final = _U32.pack(_PING)


class FastStreamCodec(FrameCodec[Request]):
    """Parses the input of one connection."""

    def __init__(self, message_bytes_max: int) -> None:
        super().__init__(_U32.size)
        self._message_bytes_max = message_bytes_max

    def confirmed(self, data: bytes) -> tuple[int, bytes] | None:
        """The stream and the message, where `data` is one enqueue with a ping behind it and nothing else.

        Only while nothing is buffered.
        """
        if len(data) < _SINGLE.size + _U32.size or not data.endswith(_PING_BYTES):
            return None
        packet, stream, size = _SINGLE.unpack_from(data)
        if packet != _ENQUEUE_SINGLE or size != len(data) - _SINGLE.size - _U32.size or size > self._message_bytes_max:
            return None
        return stream, data[_SINGLE.size : -_U32.size]

    def _parse(self, data: bytes | bytearray, requests: list[Request]) -> int:
        at, end = 0, len(data)
        while end - at >= _U32.size:
            (packet,) = _U32.unpack_from(data, at)
            if packet == _ENQUEUE_SINGLE:
                stop = self._single(data, at, requests)
            elif packet == _PING:
                requests.append(_ONE_PING)
                stop = at + _U32.size
            elif packet in (Packet.ENQUEUE_MULTIPLE, Packet.ENQUEUE_ALL, Packet.ENQUEUE_ALL_EXCEPT):
                stop = self._many(packet, data, at, requests)
            elif packet in _WITH_STREAM:
                stop = at + _ONE.size
                self._wanted = _ONE.size
                if stop <= end:
                    requests.append(_with_stream(packet, _ONE.unpack_from(data, at)[1]))
            else:
                raise WireError(f"packet {packet} is not a client's")
            if stop > end:
                return at
            at = stop
        self._wanted = _U32.size
        return at

    def _check(self, size: int) -> None:
        if size > self._message_bytes_max:
            raise TooLarge(f"{size} bytes to enqueue, {self._message_bytes_max} at most")

    def _single(self, data: bytes | bytearray, at: int, requests: list[Request]) -> int:
        """Parse enqueues to single streams; returns the end of all, or of the first where that is incomplete."""
        end = len(data)
        stream: int
        size: int
        if end - at < _SINGLE.size:
            self._wanted = _SINGLE.size
            return end + 1
        _, stream, size = _SINGLE.unpack_from(data, at)
        self._check(size)
        frame = _SINGLE.size + size
        if at + frame > end:
            self._wanted = frame
            return end + 1
        same = alike(data, at, frame, _SINGLE.size)
        if same > 1:
            frames = memoryview(data)[at : at + frame * same]
            records = payloads(frames, _SINGLE.size, size)
            requests.append(Enqueue(stream, Batch(array(LENGTH_TYPE, (size,)) * same, records)))
            return at + frame * same
        several: list[Buffer] = []
        unpack, limit = _SINGLE.unpack_from, end - _SINGLE.size
        while at <= limit:
            packet, to, size = unpack(data, at)
            stop = at + _SINGLE.size + size
            if packet != _ENQUEUE_SINGLE or to != stream or stop > end or size > self._message_bytes_max:
                break
            several.append(data[at + _SINGLE.size : stop])
            at = stop
        requests.append(Enqueue(stream, Batch.of(several)))
        return at

    def _many(self, packet: int, data: bytes | bytearray, at: int, requests: list[Request]) -> int:
        """Parse one record for many streams. Its size and the number of streams are checked before it is awaited."""
        end = len(data)
        begin = at + _ONE.size
        if begin > end:
            self._wanted = _ONE.size
            return end + 1
        size: int = _ONE.unpack_from(data, at)[1]
        self._check(size)
        stop = begin + size
        streams = array(LENGTH_TYPE)
        if packet != Packet.ENQUEUE_ALL:
            if stop + _U32.size > end:
                self._wanted = stop + _U32.size - at
                return end + 1
            count: int = _U32.unpack_from(data, stop)[0]
            self._check(4 * count)
            ids = stop + _U32.size
            stop = ids + 4 * count
            if stop <= end:
                # A copy, and no loop: there may be millions.
                with memoryview(data) as view:
                    streams.frombytes(view[ids:stop])
                if sys.byteorder == "big":
                    streams.byteswap()
        if stop > end:
            self._wanted = stop - at
            return end + 1
        requests.append(EnqueueMany(streams, packet != Packet.ENQUEUE_MULTIPLE, bytes(data[begin : begin + size])))
        return stop

    def _merged(self, requests: list[Request]) -> list[Request]:
        """Merge adjacent enqueues to the same stream."""
        if len(requests) < 2:
            return requests
        merged: list[Request] = []
        for stream, run in _runs(requests):
            if stream is None or len(run) == 1:
                merged += run
            else:
                merged.append(
                    Enqueue(stream, Batch.joined([request.batch for request in run if isinstance(request, Enqueue)]))
                )
        return merged


_WITH_STREAM: Final = frozenset({Packet.CREATE, Packet.DELETE, Packet.TAKE, Packet.PEEK, Packet.CHECK})


def _with_stream(packet: int, stream: int) -> Request:
    if packet == Packet.CREATE:
        return Create(stream)
    if packet == Packet.DELETE:
        return Delete(stream)
    if packet == Packet.CHECK:
        return Check(stream)
    return Contents(stream, packet == Packet.TAKE)


def _runs(requests: list[Request]) -> Iterator[tuple[int | None, list[Request]]]:
    run: list[Request] = []
    current: int | None = None
    for request in requests:
        stream = request.stream if isinstance(request, Enqueue) else None
        if run and stream != current:
            yield current, run
            run = []
        current = stream
        run.append(request)
    if run:
        yield current, run


def contents_header(size: int) -> bytes:
    """The header of the contents of a stream."""
    return _ONE.pack(Packet.CONTENTS, size)


def state(stream: int, is_valid: bool) -> bytes:
    """The reply that says whether a stream exists."""
    return _STATE.pack(Packet.STATE, stream, is_valid)
