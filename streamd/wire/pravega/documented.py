"""Pravega's append blocks, as documented: framed messages, big endian. Bytes to requests, and records to events.

A connection that opens with Hello speaks today's protocol instead (`streamd.wire.pravega.today`), in the same frames.

A message is type i32, length i32, payload. Block data between BeginAppendBlock and EndAppendBlock is a run of Event
messages; a block is parsed when its end has told how long it really is. The offsets of a segment count those bytes: a
record of n bytes is an event of 8 + n.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum, auto
from itertools import accumulate
from struct import Struct
from typing import Any, Final, NamedTuple

from streamd.batch import Batch, Buffer
from streamd.wire import WireError
from streamd.wire import tools as storage
from streamd.wire.frames import FrameCodec
from streamd.wire.pravega.appends import Append, TodayMessages
from streamd.wire.pravega.appends import KeepAlive as KeepAlive
from streamd.wire.pravega.events import HEADER as HEADER
from streamd.wire.pravega.events import event_parts as event_parts
from streamd.wire.pravega.events import events as events
from streamd.wire.pravega.tables import REQUESTS as TABLES
from streamd.wire.pravega.today import HELLO, REQUESTS, Hello, TodayMessage, decode

_BLOCK: Final = Struct(">16sqi")
assert _BLOCK.size == 28
_END_BYTES: Final = HEADER.size + _BLOCK.size
_LENGTH: Final = Struct(">H")
_READ: Final = Struct(">qi")
_LEVEL: Final = Struct(">16sq")
_READ_REPLY: Final = Struct(">qBB")
_OFFSET: Final = Struct(">q")

MESSAGE_BYTES_MAX: Final = (1 << 24) - 1
"""What a message may be long, without its header."""

BLOCK_BYTES_MAX: Final = 16 << 20
"""What a block may be long, by its beginning and by its end."""

# Blocks of up to so many bytes become one append, where one follows on the other.
_JOINED_BYTES_MAX: Final = 64 << 10

_PART_BYTES: Final = 8 << 20


class Type(IntEnum):
    """The messages of the document, with Pravega's own numbers."""

    PARTIAL = -2
    EVENT = 0
    SETUP_APPEND = 1
    APPEND_SETUP = 2
    BEGIN_BLOCK = 3
    END_BLOCK = 4
    DATA_APPENDED = 7
    READ_SEGMENT = 9
    SEGMENT_READ = 10
    CREATE_SEGMENT = 20
    SEGMENT_CREATED = 21
    SEGMENT_IS_SEALED = 51
    SEGMENT_EXISTS = 52
    NO_SUCH_SEGMENT = 53
    SEGMENT_IS_TRUNCATED = 56
    KEEP_ALIVE = 100


class Name(NamedTuple):
    """A segment's name: as text, and as it came."""

    text: str
    raw: bytes


class SetupAppend(NamedTuple):
    """A writer wants to append to a segment, and to know how far it came."""

    writer: bytes
    name: Name
    size: int = 64
    reads: bool = True


class AppendBlock(NamedTuple):
    """A whole block: what the writer had written before it, and its events."""

    writer: bytes
    offset: int
    batch: Batch
    reads: bool = False

    @property
    def size(self) -> int:
        """Bytes that it keeps."""
        return len(self.batch.payload) + 4 * len(self.batch.lengths)

    @property
    def end(self) -> int:
        """What the writer has written with it."""
        return self.offset + len(self.batch.payload) + HEADER.size * len(self.batch.lengths)

    def above(self, level: int) -> AppendBlock | None:
        """The part that begins at this level; None where no event does."""
        ends = list(accumulate(map(HEADER.size.__add__, self.batch.lengths), initial=self.offset))
        try:
            first = ends.index(level)
        except ValueError:
            return None
        return AppendBlock(self.writer, level, self.batch.part(first, len(self.batch.lengths)))


class ReadSegment(NamedTuple):
    """Read from an offset on, and where there is nothing yet, wait for it."""

    name: Name
    offset: int
    length: int
    size: int = 64
    reads: bool = True


class CreateSegment(NamedTuple):
    """Make a segment. The document has no message for it."""

    name: Name
    size: int = 64
    reads: bool = False


Request = SetupAppend | AppendBlock | ReadSegment | CreateSegment | KeepAlive
Incoming = Request | storage.Request | TodayMessage | Append


class _Part(Enum):
    BEGIN = 0
    MIDDLE = 1
    END = 2


class _Expecting(Enum):
    MESSAGE = auto()
    BLOCK = auto()  # the data that a beginning promised, and the end behind it
    REST = auto()  # what goes on behind the end


class PravegaCodec(FrameCodec[Incoming]):
    """One connection's input."""

    def __init__(self, message_bytes_max: int) -> None:
        super().__init__(HEADER.size)
        self._event_bytes_max = message_bytes_max
        self._expecting = _Expecting.MESSAGE
        self._begin: tuple[bytes, int, int] = (b"", 0, 0)
        self._writers: set[bytes] = set()
        """Who was set up. Whoever was not is refused before its block has come, which may be large."""
        self._block: bytes | bytearray = b""
        self._parts: bytearray | None = None
        self._is_new = True
        """Whether no message has come yet: the first one tells which of the two protocols is spoken."""
        self._today: TodayMessages | None = None

    @property
    def buffered(self) -> int:
        """Bytes of something that has begun and not ended."""
        held = len(self._rest) + len(self._block) + (0 if self._parts is None else 1 + len(self._parts))
        if self._today is not None:
            held += self._today.buffered
        return held or int(self._expecting is not _Expecting.MESSAGE)

    def _break(self) -> None:
        self._expecting = _Expecting.MESSAGE
        self._block = b""
        self._parts = None
        if self._today is not None:
            self._today.block = None

    def _merged(self, requests: list[Incoming]) -> list[Incoming]:
        return _merged(requests)

    def _parse(self, data: bytes | bytearray, found: list[Incoming]) -> int:
        """Parse all that is whole; returns where it ends."""
        at = 0
        view = memoryview(data)
        while True:
            if self._expecting is _Expecting.MESSAGE:
                if len(data) - at < HEADER.size:
                    self._wanted = HEADER.size
                    return at
                kind, length = HEADER.unpack_from(data, at)
                if not 0 <= length <= MESSAGE_BYTES_MAX:
                    raise WireError(f"a message of {length} bytes is over the limit of {MESSAGE_BYTES_MAX}")
                end = at + HEADER.size + length
                if end > len(data):
                    self._wanted = end - at
                    return at
                self._message(kind, bytes(view[at + HEADER.size : end]), found)
                at = end
            elif self._expecting is _Expecting.BLOCK:
                promised = self._begin[2]
                if len(data) - at < promised + _END_BYTES:
                    self._wanted = promised + _END_BYTES
                    return at
                self._end_block(data, at, found)
                at += promised + _END_BYTES
            else:
                length = self._begin[2]
                if len(data) - at < length:
                    self._wanted = length
                    return at
                self._finish_block(self._block + view[at : at + length], found)
                at += length

    def _message(self, kind: int, payload: bytes, found: list[Incoming]) -> None:
        is_first, self._is_new = self._is_new, False
        if self._today is not None:
            request = self._today.message(kind, payload)
            if request is not None:
                found.append(request)
        elif is_first and kind == HELLO:
            self._today = TodayMessages(self._event_bytes_max, REQUESTS | TABLES)
            found.append(decode(Hello, payload))
        elif kind == Type.PARTIAL:
            self._partial(payload, found)
        elif self._parts is not None:
            raise WireError("a partial message was begun and not ended")
        elif kind == Type.BEGIN_BLOCK:
            writer, offset, length = _unpack(_BLOCK, payload)
            if not 0 <= length <= BLOCK_BYTES_MAX or offset < 0:
                raise WireError(f"a block of {length} bytes at {offset}")
            if writer not in self._writers:
                raise WireError("an append without a setup")
            self._begin = (writer, offset, length)
            self._expecting = _Expecting.BLOCK
        elif kind == Type.SETUP_APPEND:
            if len(payload) < 16:
                raise WireError("a setup without its connection id")
            self._writers.add(payload[:16])
            found.append(SetupAppend(payload[:16], _name(payload, 16, 0)))
        elif kind == Type.READ_SEGMENT:
            name = _name(payload, 0, _READ.size)
            offset, length = _READ.unpack_from(payload, len(payload) - _READ.size)
            if offset < 0 or length < 0:
                raise WireError(f"a read of {length} bytes at {offset}")
            found.append(ReadSegment(name, offset, length))
        elif kind == Type.CREATE_SEGMENT:
            found.append(CreateSegment(_name(payload, 0, 0)))
        elif kind == Type.KEEP_ALIVE:
            found.append(KeepAlive(payload))
        else:
            found.append(storage.request(kind, payload))

    def _partial(self, payload: bytes, found: list[Incoming]) -> None:
        if not payload or payload[0] > _Part.END.value:
            raise WireError("a partial message that is neither begin, middle nor end")
        part = _Part(payload[0])
        if (self._parts is None) is not (part is _Part.BEGIN):
            raise WireError("partial messages out of order")
        if self._parts is None:
            self._parts = bytearray()
        self._parts += payload[1:]
        if len(self._parts) > MESSAGE_BYTES_MAX:
            raise WireError(f"partial messages join to more than {MESSAGE_BYTES_MAX} bytes")
        if part is not _Part.END:
            return
        whole, self._parts = bytes(self._parts), None
        kind, length = _unpack(HEADER, whole[: HEADER.size])
        if length != len(whole) - HEADER.size or kind == Type.PARTIAL:
            raise WireError("partial messages do not join to a whole one")
        self._message(kind, whole[HEADER.size :], found)

    def _end_block(self, data: bytes | bytearray, at: int, found: list[Incoming]) -> None:
        writer, offset, promised = self._begin
        end = at + promised
        kind, length = HEADER.unpack_from(data, end)
        if kind != Type.END_BLOCK or length != _BLOCK.size:
            raise WireError("a block does not end where its beginning said")
        of, reached, size = _BLOCK.unpack_from(data, end + HEADER.size)
        if of != writer or not 0 <= size <= BLOCK_BYTES_MAX or reached != offset + size:
            raise WireError(f"a block of {size} bytes from {offset} ends at {reached}")
        if size <= promised:
            self._finish_block(data[at : at + size], found)
        else:
            self._block = data[at:end]
            self._begin = (writer, offset, size - promised)
            self._expecting = _Expecting.REST

    def _finish_block(self, block: bytes | bytearray, found: list[Incoming]) -> None:
        writer, offset, _ = self._begin
        self._block = b""
        self._expecting = _Expecting.MESSAGE
        found.append(AppendBlock(writer, offset, events(block, self._event_bytes_max)))


def _merged(requests: list[Incoming]) -> list[Incoming]:
    """Blocks of one writer that follow on each other are one append."""
    merged: list[Incoming] = []
    run: list[AppendBlock] = []
    for request in [*requests, None]:
        if isinstance(request, AppendBlock):
            if run and not _follows(run[-1], request):
                merged.append(_joined(run))
                run = []
            run.append(request)
            continue
        if run:
            merged.append(_joined(run))
            run = []
        if request is not None:
            merged.append(request)
    return merged


def _follows(before: AppendBlock, block: AppendBlock) -> bool:
    """Whether two blocks can be one. To join large ones would cost more than it saves."""
    if block.size > _JOINED_BYTES_MAX or before.size > _JOINED_BYTES_MAX:
        return False
    return before.writer == block.writer and before.end == block.offset


def _joined(run: list[AppendBlock]) -> AppendBlock:
    if len(run) == 1:
        return run[0]
    return AppendBlock(run[0].writer, run[0].offset, Batch.joined([each.batch for each in run]))


def _unpack(form: Struct, payload: bytes) -> tuple[Any, ...]:
    if len(payload) != form.size:
        raise WireError(f"{len(payload)} bytes where {form.size} are due")
    return form.unpack(payload)


def _name(payload: bytes, at: int, behind: int) -> Name:
    """A string with its length before it, which fills the payload up to the last `behind` bytes."""
    if len(payload) < at + _LENGTH.size + behind:
        raise WireError("a message is too short for a name")
    (length,) = _LENGTH.unpack_from(payload, at)
    raw = payload[at + _LENGTH.size : len(payload) - behind]
    if len(raw) != length:
        raise WireError(f"a name of {length} bytes in {len(raw)}")
    try:
        return Name(raw.decode(), raw)
    except UnicodeDecodeError:
        pass
    try:
        # Java's own UTF-8: beyond U+FFFF two surrogates of three bytes each, and a zero in two bytes.
        text = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return Name(text.encode("utf-16", "surrogatepass").decode("utf-16"), raw)
    except UnicodeError:
        raise WireError("a name that is no UTF-8") from None


# -- replies -----------------------------------------------------------------------------------------------------------


def message(kind: Type, payload: bytes) -> bytes:
    """A message with its header."""
    return HEADER.pack(kind, len(payload)) + payload


def in_parts(whole: bytes) -> bytes:
    """A message, as partial ones where it is too long for one: its last record may be as large as the limits allow."""
    if len(whole) <= HEADER.size + MESSAGE_BYTES_MAX:
        return whole
    pieces = [whole[at : at + _PART_BYTES] for at in range(0, len(whole), _PART_BYTES)]
    parts = [_Part.BEGIN, *[_Part.MIDDLE] * (len(pieces) - 2), _Part.END]
    return b"".join(
        message(Type.PARTIAL, part.value.to_bytes(1) + piece) for part, piece in zip(parts, pieces, strict=True)
    )


def named(kind: Type, name: Name, rest: bytes = b"") -> bytes:
    """A message that begins with a segment's name."""
    return message(kind, _LENGTH.pack(len(name.raw)) + name.raw + rest)


def append_setup(name: Name, writer: bytes, level: int) -> bytes:
    """The answer to SetupAppend."""
    return named(Type.APPEND_SETUP, name, _LEVEL.pack(writer, level))


def data_appended(writer: bytes, level: int) -> bytes:
    """How far a writer's data is stored."""
    return message(Type.DATA_APPENDED, _LEVEL.pack(writer, level))


def segment_read(name: Name, offset: int, at_tail: bool, at_end: bool, data: Sequence[Buffer]) -> bytes:
    """The answer to ReadSegment. Its data, which may be megabytes, comes in parts and is copied once."""
    place = _LENGTH.pack(len(name.raw)) + name.raw + _READ_REPLY.pack(offset, at_tail, at_end)
    header = HEADER.pack(Type.SEGMENT_READ, len(place) + sum(map(len, data)))
    return b"".join([header, place, *data])


def truncated(name: Name, first_offset: int) -> bytes:
    """What was asked for is gone."""
    return named(Type.SEGMENT_IS_TRUNCATED, name, _OFFSET.pack(first_offset))
