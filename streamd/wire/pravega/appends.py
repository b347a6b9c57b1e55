"""Appends of Pravega as it is spoken today, and what turns the messages of a connection into requests.

The stored bytes of a block are those of its whole events, then the part of an event that it ends with, then the data of
its end. The end may stand alone. The server never looks into byte streams; what is a run of events becomes records, so
that other protocols read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from streamd.batch import Batch, Buffer
from streamd.wire import TooLarge, WireError
from streamd.wire.pravega.events import EVENT, HEADER, events
from streamd.wire.pravega.today import COUNT, DATA, ID, LONG, TodayMessage, decode

PADDING: Final = -1
PARTIAL_EVENT: Final = -2
KEEP_ALIVE: Final = 100

RAW_BYTES: Final = 128 << 10
"""Bytes of a byte stream are stored as records of at most so many: what is read to serve one byte."""


class Append(NamedTuple):
    """Bytes to append for a writer, and the number of its last event in them; where `offset` is set, only there."""

    id: int
    writer: bytes
    number: int
    batch: Batch
    is_raw: bool
    offset: int | None = None
    reads: bool = False

    @property
    def size(self) -> int:
        """Bytes that it keeps."""
        return len(self.batch.payload) + 4 * len(self.batch.lengths)


class KeepAlive(NamedTuple):
    """To be echoed."""

    data: bytes
    reads: bool = False

    @property
    def size(self) -> int:
        """Bytes that it keeps."""
        return len(self.data)


@dataclass(frozen=True)
class _BlockEnd(TodayMessage):
    """The end of a block, or a whole one."""

    type = 4
    fields = (ID, COUNT, DATA, COUNT, LONG, LONG)

    writer: bytes
    whole: int
    data: Buffer
    events: int
    number: int
    id: int


@dataclass(frozen=True)
class _ConditionalBlockEnd(TodayMessage):
    """Bytes of a byte stream."""

    type = 89
    fields = (ID, LONG, LONG, DATA, LONG)

    writer: bytes
    number: int
    offset: int
    data: Buffer
    id: int


class TodayMessages:
    """Turns the messages of one connection into requests. Framing is left to who owns this."""

    def __init__(self, event_bytes_max: int, requests: dict[int, type[TodayMessage]]) -> None:
        self._event_bytes_max = event_bytes_max
        self._requests = requests
        self.block: tuple[bytes, memoryview] | None = None
        """The writer and the bytes of a block whose end has not come."""

    @property
    def buffered(self) -> int:
        """Bytes of a block that has begun and not ended."""
        return 0 if self.block is None else 1 + len(self.block[1])

    def message(self, kind: int, payload: bytes) -> TodayMessage | Append | KeepAlive | None:
        """The request of a message; None where it only begins one."""
        if self.block is not None and kind != _BlockEnd.type:
            raise WireError("a block was begun and not ended")
        if kind == _BlockEnd.type:
            return self._block_end(decode(_BlockEnd, payload))
        if kind == 3:
            if len(payload) < 16:
                raise WireError("a block without its writer")
            self.block = (payload[:16], memoryview(payload)[16:])
            return None
        if kind == _ConditionalBlockEnd.type:
            end = decode(_ConditionalBlockEnd, payload)
            assert isinstance(end, _ConditionalBlockEnd)
            return Append(end.id, end.writer, end.number, raw_batch(end.data), True, end.offset)
        if kind == 5:
            return self._conditional(payload)
        if kind == KEEP_ALIVE:
            return KeepAlive(payload)
        if kind not in self._requests:
            raise WireError(f"a message of type {kind} has no place here")
        return decode(self._requests[kind], payload)

    def _block_end(self, end: TodayMessage) -> Append:
        assert isinstance(end, _BlockEnd)
        data = end.data
        if self.block is not None:
            writer, block = self.block
            self.block = None
            if writer != end.writer or end.whole > len(block):
                raise WireError("the end of a block does not fit its beginning")
            data = b"".join([block[: end.whole], _partial(block[end.whole :], len(data)), data])
        return Append(end.id, end.writer, end.number, *self._stored(data))

    def _conditional(self, payload: bytes) -> Append:
        """Writer, event number, expected offset, one event with its header, request id."""
        if len(payload) < 48:
            raise WireError("a conditional append is too short")
        kind, length = HEADER.unpack_from(payload, 32)
        if kind != EVENT or length != len(payload) - 48:
            raise WireError("a conditional append does not hold one event")
        number, offset, id = (int.from_bytes(payload[at : at + 8], signed=True) for at in (16, 24, len(payload) - 8))
        return Append(id, payload[:16], number, *self._stored(memoryview(payload)[32:-8]), offset)

    def _stored(self, data: Buffer) -> tuple[Batch, bool]:
        """The records of bytes that a writer sends, and whether they are raw: what is no run of events is."""
        try:
            return events(bytes(data), self._event_bytes_max), False
        except TooLarge:
            raise
        except WireError:
            return raw_batch(data), True


def _partial(rest: memoryview, more: int) -> Buffer:
    """The beginning of an event at the end of a block, or nothing where that is padding."""
    if not rest:
        return rest
    kind, length = HEADER.unpack_from(rest) if len(rest) >= HEADER.size else (0, -1)
    if length != len(rest) - HEADER.size or kind not in (PADDING, PARTIAL_EVENT) or (kind == PADDING and more):
        raise WireError("a block ends with neither padding nor a part of an event")
    return rest[HEADER.size :] if kind == PARTIAL_EVENT else b""


def raw_batch(data: Buffer) -> Batch:
    """Bytes as records of no particular meaning, none of them large."""
    view = memoryview(data)
    return Batch.of([view[at : at + RAW_BYTES] for at in range(0, len(view), RAW_BYTES)])
