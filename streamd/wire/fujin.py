"""Fujin: commands without delimiters, each with a layout of its own, big endian. Bytes to requests.

Every command is its opcode (one byte) and fields: uint32, bool (one byte), string (uint32 length, bytes). A stream
begins with one of the two CONNECT commands, which decides which others may follow.

A run of writes to one topic becomes one request with one batch, and a run of ACKs one request. Commands of equal
layout, the usual case under load, are recognised column by column; others by a loop. Correlation ids stay bytes, four
for each command: they are only echoed, and are put into a run of replies column by column too.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Sequence
from enum import Enum, IntEnum, auto
from struct import Struct
from typing import Final, NamedTuple

from streamd.batch import LENGTH_TYPE, Batch
from streamd.wire import TooLarge, WireError
from streamd.wire.frames import FrameCodec, R, alike, payloads
from streamd.wire.fujin_replies import ID_BYTES, META, U32, Code, Reply, answers, reader_connected

_HEAD_BYTES: Final = 1 + ID_BYTES

TOPIC_BYTES_MAX: Final = 4096
"""A longer topic ends the stream. One below this and over the limit of names is answered with an error."""
_TOPIC_TOO_LARGE: Final = f"a topic has at most {TOPIC_BYTES_MAX} bytes"


class Opcode(IntEnum):
    """The opcodes of a client; PING is answered with the same."""

    CONNECT_WRITER = 1
    CONNECT_READER = 2
    WRITE = 4
    BEGIN = 5
    COMMIT = 6
    ROLLBACK = 7
    FETCH = 8
    ACK = 9
    NACK = 10
    DISCONNECT = 11
    PING = 12


class Role(Enum):
    """The role of a stream: set by its first command, and never changed."""

    NEW = auto()
    WRITER = auto()
    SUBSCRIBER = auto()  # messages are pushed to it
    CONSUMER = auto()  # it asks for them with FETCH
    GONE = auto()  # it has disconnected


_READER: Final = frozenset({Opcode.ACK, Opcode.NACK, Opcode.DISCONNECT})
_ALLOWED: Final[dict[Role, frozenset[Opcode]]] = {
    Role.NEW: frozenset({Opcode.CONNECT_WRITER, Opcode.CONNECT_READER, Opcode.DISCONNECT}),
    Role.WRITER: frozenset({Opcode.WRITE, Opcode.BEGIN, Opcode.COMMIT, Opcode.ROLLBACK, Opcode.DISCONNECT}),
    Role.SUBSCRIBER: _READER,
    Role.CONSUMER: _READER | {Opcode.FETCH},
    Role.GONE: frozenset(),
}


class Refused(WireError):
    """The peer broke the protocol: the stream is closed with this code, after these last bytes."""

    def __init__(self, code: Code, text: str, last_words: bytes = b"") -> None:
        super().__init__(text)
        self.code = code
        self.last_words = last_words


class RefusedMessage(Refused, TooLarge):
    """A message is too large: the stream is closed with a code."""


class ConnectWriter(NamedTuple):
    """Make the stream a writer's."""

    writer: int
    size: int = 64
    reads: bool = False


class ConnectReader(NamedTuple):
    """Make the stream a reader's: a subscriber's or a consumer's."""

    name: str
    role: Role
    size: int = 64
    reads: bool = True


class Write(NamedTuple):
    """Messages for one topic."""

    ids: bytes
    topic: str
    batch: Batch
    reads: bool = False

    @property
    def size(self) -> int:
        """About how many bytes the request keeps in memory."""
        return len(self.batch.payload) + 8 * len(self.batch.lengths)

    def singles(self) -> list[Write]:
        """The same messages as one request each."""
        pairs = zip(_each(self.ids), self.batch.singles(), strict=True)
        return [Write(id, self.topic, record) for id, record in pairs]


class Begin(NamedTuple):
    """Begin a transaction: what is written from here on becomes visible together."""

    ids: bytes
    size: int = 64
    reads: bool = False


class Commit(NamedTuple):
    """Commit the transaction."""

    ids: bytes
    size: int = 64
    reads: bool = True


class Rollback(NamedTuple):
    """Roll the transaction back."""

    ids: bytes
    size: int = 64
    reads: bool = True


class Fetch(NamedTuple):
    """Ask for so many more messages."""

    messages: int
    size: int = 64
    reads: bool = False


class Acknowledge(NamedTuple):
    """Acknowledge messages, or, `back`, have them delivered again.

    A reader without acknowledgements gives no numbers.
    """

    ids: bytes
    numbers: Sequence[int]
    back: bool
    reads: bool = False

    @property
    def size(self) -> int:
        """About how many bytes the request keeps in memory."""
        return 16 * len(self.ids)

    def singles(self) -> list[Acknowledge]:
        """The same acknowledgements as one request each; only where they have numbers."""
        pairs = zip(_each(self.ids), self.numbers, strict=True)
        return [Acknowledge(id, (number,), self.back) for id, number in pairs]


class Disconnect(NamedTuple):
    """End this stream in order."""

    size: int = 64
    reads: bool = True


Request = ConnectWriter | ConnectReader | Write | Begin | Commit | Rollback | Fetch | Acknowledge | Disconnect


class OpcodeCodec(FrameCodec[R]):
    """Parses input in which each item begins with its opcode."""

    def __init__(self) -> None:
        super().__init__(1)

    def _parse(self, data: bytes | bytearray, requests: list[R]) -> int:
        # Parts of it are kept, compared and looked up: as bytes.
        whole = bytes(data)
        at, end = 0, len(whole)
        while at < end:
            stop = self._parse_one(whole, at, requests)
            if stop > end:
                self._wanted = stop - at
                return at
            at = stop
        self._wanted = 1
        return at

    @abstractmethod
    def _parse_one(self, data: bytes, at: int, requests: list[R]) -> int:
        """Add the item that begins here to `found`, or a run of like items, and return where it ends.

        Where that is beyond the data nothing was added, and it says how many bytes are needed.
        """


class FujinCodec(OpcodeCodec[Request]):
    """Parses the input of one stream. `meta_bytes` gives the length of the metas for the name of a reader."""

    def __init__(self, message_bytes_max: int, meta_bytes: Callable[[str], int]) -> None:
        super().__init__()
        self._message_bytes_max = message_bytes_max
        self._meta_bytes_of = meta_bytes
        self._meta_bytes = 0
        self.role = Role.NEW

    def _parse_one(self, data: bytes, at: int, requests: list[Request]) -> int:
        opcode = data[at]
        if opcode not in _ALLOWED[self.role]:
            raise _misplaced(opcode, self.role)
        return _PARSERS[opcode](self, data, at, requests)

    def _connect_writer(self, data: bytes, at: int, requests: list[Request]) -> int:
        stop = at + _HEAD_BYTES
        if stop <= len(data):
            self.role = Role.WRITER
            requests.append(ConnectWriter(U32.unpack_from(data, at + 1)[0]))
        return stop

    def _connect_reader(self, data: bytes, at: int, requests: list[Request]) -> int:
        begin = at + 1 + U32.size
        if begin > len(data):
            return begin
        size: int = U32.unpack_from(data, at + 1)[0]
        if size > TOPIC_BYTES_MAX:
            text = _TOPIC_TOO_LARGE
            raise Refused(Code.TOO_LARGE, text, reader_connected(False, 0, Code.TOO_LARGE, text))
        stop = begin + size + 1
        if stop > len(data):
            return stop
        kind = data[stop - 1]
        if kind > 1:
            text = f"reader type {kind} is neither 0, subscriber, nor 1, consumer"
            raise Refused(Code.BAD_READER_TYPE, text, reader_connected(False, 0, Code.BAD_READER_TYPE, text))
        name = _text(data[begin : stop - 1])
        self.role = Role.CONSUMER if kind else Role.SUBSCRIBER
        self._meta_bytes = self._meta_bytes_of(name)
        requests.append(ConnectReader(name, self.role))
        return stop

    def _write(self, data: bytes, at: int, requests: list[Request]) -> int:
        place = at + _HEAD_BYTES + U32.size
        if place > len(data):
            return place
        size: int = U32.unpack_from(data, at + _HEAD_BYTES)[0]
        if size > TOPIC_BYTES_MAX:
            raise Refused(Code.TOO_LARGE, _TOPIC_TOO_LARGE, self._not_written(data, at, _TOPIC_TOO_LARGE))
        begin = place + size + U32.size
        if begin > len(data):
            return begin
        length: int = U32.unpack_from(data, place + size)[0]
        if length > self._message_bytes_max:
            text = f"a message has at most {self._message_bytes_max} bytes"
            raise RefusedMessage(Code.TOO_LARGE, text, self._not_written(data, at, text))
        if begin + length > len(data):
            return begin + length
        ids: list[bytes] = []
        lengths = array(LENGTH_TYPE)
        payload: list[bytes] = []
        stop = self._writes(data, at, data[at + _HEAD_BYTES : place + size], ids, lengths, payload)
        requests.append(Write(b"".join(ids), _text(data[place : place + size]), Batch(lengths, b"".join(payload))))
        return stop

    def _not_written(self, data: bytes, at: int, text: str) -> bytes:
        return answers(Reply.WRITTEN, data[at + 1 : at + _HEAD_BYTES], Code.TOO_LARGE, text)

    def _writes(
        self, data: bytes, at: int, topic: bytes, ids: list[bytes], lengths: array[int], payload: list[bytes]
    ) -> int:
        """Parse the complete writes to one topic, given with its length, from here on; returns where they end."""
        end = len(data)
        skip = _HEAD_BYTES + len(topic)
        head = skip + U32.size
        while at + head <= end and data[at] == Opcode.WRITE and data.startswith(topic, at + _HEAD_BYTES):
            (length,) = U32.unpack_from(data, at + skip)
            frame = head + length
            if length > self._message_bytes_max or at + frame > end:
                break
            second = at + frame
            count = 1
            if data.startswith(data[at + _HEAD_BYTES : at + head], second + _HEAD_BYTES):
                # All but the correlation id is the same: perhaps in those behind it too.
                count = min(alike(data, at, frame, 1), alike(data, at + _HEAD_BYTES, frame, head - _HEAD_BYTES))
            if count > 1:
                view = memoryview(data)[at : at + frame * count]
                ids.append(_column(data, at + 1, frame, count))
                lengths.extend(array(LENGTH_TYPE, (length,)) * count)
                payload.append(payloads(view, head, length))
                at += frame * count
            else:
                ids.append(data[at + 1 : at + _HEAD_BYTES])
                lengths.append(length)
                payload.append(data[at + head : second])
                at = second
        return at

    def _transaction(self, data: bytes, at: int, requests: list[Request]) -> int:
        stop = at + _HEAD_BYTES
        if stop <= len(data):
            requests.append(_TRANSACTION[data[at]](data[at + 1 : stop]))
        return stop

    def _fetch(self, data: bytes, at: int, requests: list[Request]) -> int:
        stop = at + 1 + U32.size
        if stop <= len(data):
            requests.append(Fetch(U32.unpack_from(data, at + 1)[0]))
        return stop

    def _acknowledge(self, data: bytes, at: int, requests: list[Request]) -> int:
        opcode, frame = data[at], _HEAD_BYTES + self._meta_bytes
        end = len(data)
        if at + frame > end:
            return at + frame
        ids: list[bytes] = []
        numbers: list[int] = []
        while at + frame <= end and data[at] == opcode:
            count = alike(data, at, frame, 1)
            ids.append(_column(data, at + 1, frame, count))
            if self._meta_bytes:
                view = memoryview(data)[at : at + frame * count]
                numbers += [number for (number,) in _ACKNOWLEDGE.iter_unpack(view)]
            at += frame * count
        requests.append(Acknowledge(b"".join(ids), numbers, opcode == Opcode.NACK))
        return at

    def _disconnect(self, data: bytes, at: int, requests: list[Request]) -> int:
        self.role = Role.GONE
        requests.append(Disconnect())
        return at + 1


_ACKNOWLEDGE: Final = Struct(f">{_HEAD_BYTES}xQ")
assert _ACKNOWLEDGE.size == _HEAD_BYTES + META.size

_TRANSACTION: Final[dict[int, Callable[[bytes], Request]]] = {
    Opcode.BEGIN: Begin,
    Opcode.COMMIT: Commit,
    Opcode.ROLLBACK: Rollback,
}

_PARSERS: Final[dict[int, Callable[[FujinCodec, bytes, int, list[Request]], int]]] = {
    Opcode.CONNECT_WRITER: FujinCodec._connect_writer,
    Opcode.CONNECT_READER: FujinCodec._connect_reader,
    Opcode.WRITE: FujinCodec._write,
    Opcode.BEGIN: FujinCodec._transaction,
    Opcode.COMMIT: FujinCodec._transaction,
    Opcode.ROLLBACK: FujinCodec._transaction,
    Opcode.FETCH: FujinCodec._fetch,
    Opcode.ACK: FujinCodec._acknowledge,
    Opcode.NACK: FujinCodec._acknowledge,
    Opcode.DISCONNECT: FujinCodec._disconnect,
}


def _misplaced(opcode: int, role: Role) -> Refused:
    if opcode not in _PARSERS:
        return Refused(Code.UNKNOWN_OPCODE, f"opcode {opcode} is not a client's")
    return Refused(Code.OUT_OF_PLACE, f"{Opcode(opcode).name} in a stream that is {role.name}")


def _each(ids: bytes) -> list[bytes]:
    """Correlation ids one by one."""
    return [ids[at : at + ID_BYTES] for at in range(0, len(ids), ID_BYTES)]


def _text(data: bytes) -> str:
    """A name; bytes that are not UTF-8 stay recognisable, and no name can have them."""
    return data.decode("utf-8", "surrogateescape")


def _column(data: bytes, at: int, frame: int, count: int) -> bytes:
    """The four bytes at the same place of each of `count` frames."""
    if count == 1:
        return data[at : at + ID_BYTES]
    column = bytearray(ID_BYTES * count)
    for byte in range(ID_BYTES):
        column[byte::ID_BYTES] = data[at + byte : at + frame * count : frame][:count]
    return bytes(column)
