r"""Simple Message Queue: framed, typed messages. Bytes to requests, and records to replies. Big endian.

Request and response begin with 9 bytes: action (0 push, 1 pull; in a response the status) and the size of the body,
u64. A message is code and type (4 bits each), count u32, data.

A run of like requests in what arrived becomes one request with one batch. Frames that all look the same, the usual case
under load, are recognised column by column and cut by `struct`; others by a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from struct import Struct
from typing import Final, NamedTuple

from streamd.batch import Batch, Buffer
from streamd.wire import TooLarge, WireError
from streamd.wire.frames import alike, repeated

HEADER: Final = Struct(">BQ")
assert HEADER.size == 9
MESSAGE: Final = Struct(">BI")
assert MESSAGE.size == 5
_PUSH_HEADER: Final = Struct(">BQBI")
assert _PUSH_HEADER.size == 14

PUSH: Final = 0
PULL: Final = 1
GOODBYE: Final = 0xFF
"""The action that the public client sends before it disconnects, with a size of 0."""
SUCCESS: Final = 0
EMPTY_QUEUE: Final = 2

PUSHED: Final = HEADER.pack(0, 0)
REFUSED: Final = HEADER.pack(1, 0)
EMPTY: Final = HEADER.pack(0, MESSAGE.size) + MESSAGE.pack(EMPTY_QUEUE << 4, 0)
PULL_REQUEST: Final = HEADER.pack(PULL, 0)

# Bytes of one element, by type: U8, U16, U32, U64, I8, I16, I32, I64, F32, F64.
_SIZES: Final = (1, 2, 4, 8, 1, 2, 4, 8, 4, 8)
U8: Final = 0
STR: Final = 10

# On push the code may say SUCCESS or EMPTY_QUEUE, and means nothing. Without the latter, a good byte is a type alone.
_NOT_EMPTY_QUEUE: Final = 0xFF ^ (EMPTY_QUEUE << 4)

# A record's tag is 0 where another protocol stored it, else one more than its type.
_TAG_FIRST: Final = 1


class Push(NamedTuple):
    """Valid messages of one type."""

    tag: int
    batch: Batch
    reads: bool = False

    @property
    def size(self) -> int:
        """About how many bytes the request keeps in memory."""
        return len(self.batch.payload) + 4 * len(self.batch.lengths)

    @property
    def messages(self) -> int:
        """How many messages there are, and so how many replies."""
        return len(self.batch.lengths)


class BadPush(NamedTuple):
    """Messages whose data does not fit their type and count; the connection goes on."""

    messages: int
    size: int = 64
    reads: bool = False


class Pull(NamedTuple):
    """So many pulls in a row."""

    messages: int
    size: int = 64
    reads: bool = True


class Goodbye(NamedTuple):
    """The peer disconnects: nothing that follows counts."""

    size: int = 64
    reads: bool = True


Request = Push | BadPush | Pull | Goodbye


class SmqCodec:
    """Parses the input of one connection."""

    def __init__(self, message_bytes_max: int) -> None:
        self._body_bytes_max = message_bytes_max + MESSAGE.size
        self._rest = bytearray()
        self._skip = 0
        self._wanted = HEADER.size
        self._gone = False
        self.error: WireError | None = None

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._rest) or int(self._skip > 0)

    def single(self, data: bytes) -> tuple[int, bytes] | None:
        """The tag and the message, where `data` is one good push and nothing else; only while nothing is buffered."""
        if len(data) < _PUSH_HEADER.size or self._gone:
            return None
        action, size, kind, count = _PUSH_HEADER.unpack_from(data)
        message = data[_PUSH_HEADER.size :]
        kind &= _NOT_EMPTY_QUEUE
        if action != PUSH or size != len(data) - HEADER.size or size > self._body_bytes_max:
            return None
        return (kind + _TAG_FIRST, message) if fits(kind, count, message) else None

    def receive(self, data: bytes) -> list[Request]:
        """The requests that `data` completes."""
        if self.error is not None:
            raise self.error
        if self._gone:
            return []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                # A large frame in many pieces: look at it again when it can be whole.
                return []
            data = bytes(self._rest)
            self._rest = bytearray()
        return self._merge(self._parse(data))

    def _parse(self, data: bytes) -> Iterator[Request]:
        at = 0
        end = len(data)
        if self._skip:
            at = min(self._skip, end)
            self._skip -= at
            if not self._skip:
                yield Pull(1)
        self._wanted = HEADER.size
        while at + HEADER.size <= end:
            action, size = HEADER.unpack_from(data, at)
            if action > PULL:
                yield from self._end(action)
                return
            if size > self._body_bytes_max:
                self.error = TooLarge(f"a body of {size} bytes is over the limit of {self._body_bytes_max}")
                return
            if action == PULL:
                if size == 0:
                    count = repeated(data, at, PULL_REQUEST)
                    yield Pull(count)
                    at += HEADER.size * count
                    continue
                at += HEADER.size
                got = min(size, end - at)
                at += got
                # Its body is of no use: let it pass, and answer when it has.
                self._skip = size - got
                if self._skip:
                    return
                yield Pull(1)
                continue
            frame = HEADER.size + size
            if at + frame > end:
                self._wanted = frame
                break
            same = alike(data, at, frame, _PUSH_HEADER.size)
            if same > 1 or size < MESSAGE.size:
                yield from _same_pushes(data, at, size, same)
                at += frame * same
            else:
                request, at = self._pushes(data, at)
                yield request
        if at < end:
            if data[at] > PULL:
                # Its first byte says it all.
                yield from self._end(data[at])
                return
            self._rest += data[at:]

    def _end(self, action: int) -> Iterator[Request]:
        """Handle a byte that begins no request: the peer disconnects, or breaks the protocol."""
        if action == GOODBYE:
            self._gone = True
            yield Goodbye()
        else:
            self.error = WireError(f"action {action} is neither push nor pull")

    def _pushes(self, data: bytes, at: int) -> tuple[Request, int]:
        """Parse the complete pushes of one type from here on, in a tight loop; returns where they end."""
        end = len(data) - _PUSH_HEADER.size
        unpack = _PUSH_HEADER.unpack_from
        bytes_max = self._body_bytes_max
        run_kind = -1
        messages: list[bytes] = []
        while at <= end:
            action, size, kind, count = unpack(data, at)
            stop = at + HEADER.size + size
            if action or stop > len(data) or not MESSAGE.size <= size <= bytes_max:
                break
            kind &= _NOT_EMPTY_QUEUE
            message = data[at + _PUSH_HEADER.size : stop]
            # As in `fits`, without a call for each message.
            if kind < STR:
                good = count * _SIZES[kind] == len(message)
            else:
                good = kind == STR and _is_strings(message, count)
            if not good:
                return (BadPush(1), stop) if run_kind < 0 else (_pushed(run_kind, messages), at)
            if kind != run_kind:
                if run_kind >= 0:
                    break
                run_kind = kind
            messages.append(message)
            at = stop
        return _pushed(run_kind, messages), at

    def _merge(self, requests: Iterator[Request]) -> list[Request]:
        """Merge adjacent requests of one kind."""
        merged: list[Request] = []
        batches: list[Batch] = []
        for request in requests:
            last = merged[-1] if merged else None
            if isinstance(request, Push) and isinstance(last, Push) and last.tag == request.tag:
                batches.append(request.batch)
                continue
            if len(batches) > 1 and isinstance(last, Push):
                merged[-1] = Push(last.tag, Batch.joined(batches))
            if isinstance(request, Pull) and isinstance(last, Pull):
                merged[-1] = Pull(last.messages + request.messages)
                continue
            if isinstance(request, BadPush) and isinstance(last, BadPush):
                merged[-1] = BadPush(last.messages + request.messages)
                continue
            batches = [request.batch] if isinstance(request, Push) else []
            merged.append(request)
        if len(batches) > 1 and isinstance(last := merged[-1], Push):
            merged[-1] = Push(last.tag, Batch.joined(batches))
        return merged


def _same_pushes(data: bytes, at: int, size: int, frames: int) -> Iterator[Request]:
    """The messages of frames with the same header."""
    length = size - MESSAGE.size
    if length < 0:
        yield BadPush(frames)
        return
    kind, count = MESSAGE.unpack_from(data, at + HEADER.size)
    kind &= _NOT_EMPTY_QUEUE
    view = memoryview(data)[at : at + (HEADER.size + size) * frames]
    messages = [message for (message,) in Struct(f"{_PUSH_HEADER.size}x{length}s").iter_unpack(view)]
    if kind < STR:
        yield _pushed(kind, messages) if count * _SIZES[kind] == length else BadPush(frames)
    elif kind != STR:
        yield BadPush(frames)
    else:
        for good, run in groupby(messages, key=lambda message: _is_strings(message, count)):
            several = list(run)
            yield _pushed(kind, several) if good else BadPush(len(several))


def _pushed(kind: int, messages: list[bytes]) -> Push:
    return Push(tag_of(kind), Batch.of(messages))


def _is_strings(message: bytes, count: int) -> bool:
    """Whether a message is exactly `count` elements that end with a NUL.

    The public library sends the low byte of their number: that is accepted too.
    """
    elements = message.count(b"\0")
    return count in (elements, elements & 0xFF) and (message.endswith(b"\0") if elements else not message)


def fits(kind: int, count: int, data: bytes) -> bool:
    """Whether this is the data of `count` elements of a type."""
    if kind < STR:
        return count * _SIZES[kind] == len(data)
    return kind == STR and _is_strings(data, count)


def tag_of(kind: int) -> int:
    """The tag of a record that is a message of this type."""
    return kind + _TAG_FIRST


def replies(tag: int, records: Sequence[Buffer]) -> bytes:
    """The responses that carry these records of one tag."""
    if _TAG_FIRST <= tag <= _TAG_FIRST + STR:
        kind = tag - _TAG_FIRST
        sizes = set(map(len, records))
        if len(sizes) == 1 and kind != STR:
            (size,) = sizes
            # The header is the same for all: let `join` put it before each.
            return _header(kind, size // _SIZES[kind], size).join([b"", *records])
        return b"".join([_reply(kind, bytes(record)) for record in records])
    return b"".join([_foreign(bytes(record)) for record in records])


def whole_replies(data: bytes, end: int) -> int:
    """How many of the responses in `data` end at or before `end`."""
    count = at = 0
    while at + HEADER.size <= end:
        at += HEADER.size + HEADER.unpack_from(data, at)[1]
        count += at <= end
    return count


def _header(kind: int, count: int, size: int) -> bytes:
    return HEADER.pack(0, MESSAGE.size + size) + MESSAGE.pack(SUCCESS << 4 | kind, count)


def _reply(kind: int, data: bytes) -> bytes:
    count = data.count(b"\0") if kind == STR else len(data) // _SIZES[kind]
    return _header(kind, count, len(data)) + data


def _foreign(data: bytes) -> bytes:
    """A record that another protocol stored: a string where it can be one, else bytes."""
    if b"\0" not in data:
        try:
            data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return _reply(STR, data + b"\0")
    return _reply(U8, data)
