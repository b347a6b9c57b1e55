"""What a Fujin server sends: replies and messages to bytes.

The correlation ids of a run of commands are bytes, four for each, and are put into a run of replies column by column.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from struct import Struct
from sys import byteorder
from typing import Final

from streamd.batch import Batch
from streamd.wire.frames import cut

U32: Final = Struct(">I")
META: Final = Struct(">Q")
"""The meta that a reader acknowledges by: the record's number. A reader without acknowledgements gets none."""
ID_BYTES: Final = U32.size
_MESSAGE_HEAD: Final = Struct(">BI")
assert _MESSAGE_HEAD.size == 5
_NUMBERED_HEAD: Final = Struct(">BQI")
assert _NUMBERED_HEAD.size == 13
_NUMBER_TYPE: Final = "Q"
assert array(_NUMBER_TYPE).itemsize == META.size

# Larger records are not copied once more to be cut faster.
_LARGE_BYTES: Final = 1024

TEXT_BYTES_MAX: Final = 1024
"""The maximum length of an error's text; the rest is cut off."""


class Reply(IntEnum):
    """The opcodes of a server."""

    READER_CONNECTED = 1
    WRITTEN = 2
    MESSAGE = 3
    ACKNOWLEDGED = 4
    GIVEN_BACK = 5
    BEGUN = 6
    COMMITTED = 7
    ROLLED_BACK = 8
    DISCONNECTED = 9
    PING = 12
    STOP = 13


class Code(IntEnum):
    """The reasons for refusals, sent in the reply where that has room for one, else as an application error code."""

    NONE = 0
    BAD_TOPIC = 1
    NO_SUCH_TOPIC = 2
    TOPIC_SEALED = 3
    TOO_LARGE = 4
    READ_ONLY = 5
    STORE_FAILED = 6
    NOT_DELIVERED = 7
    TRANSACTION_FAILED = 8
    BAD_READER_TYPE = 9
    NOT_ALLOWED = 10
    UNKNOWN_OPCODE = 16
    OUT_OF_PLACE = 17
    IN_TRANSACTION = 18
    NO_TRANSACTION = 19
    COMMIT_FAILED = 20
    CUT_OFF = 21
    NO_PONG = 22


DISCONNECTED: Final = bytes((Reply.DISCONNECTED,))
PING: Final = bytes((Reply.PING,))
STOP: Final = bytes((Reply.STOP,))


def reader_connected(auto_commit: bool, meta_bytes: int, code: int = Code.NONE, text: str = "") -> bytes:
    """The reply to CONNECT READER."""
    return bytes((Reply.READER_CONNECTED, auto_commit, meta_bytes)) + _error(code, text)


def answers(reply: Reply, ids: bytes, code: int = Code.NONE, text: str = "") -> bytes:
    """The same reply to each of these commands: WRITTEN, ACKNOWLEDGED or GIVEN_BACK."""
    return _with_ids(reply, ids, _error(code, text))


def transaction(reply: Reply, ids: bytes) -> bytes:
    """The reply to BEGIN, COMMIT or ROLLBACK, which has no room for an error."""
    return _with_ids(reply, ids, b"")


def messages(batch: Batch, first: int | None) -> bytes:
    """Records as they are sent to a reader: with numbers, from `first` on, where it has to acknowledge them."""
    size = batch.common_size
    if size is not None:
        return _same_size(batch, size, first)
    records = batch.records()
    if first is None:
        pack = _MESSAGE_HEAD.pack
        return b"".join([part for record in records for part in (pack(Reply.MESSAGE, len(record)), record)])
    numbered = _NUMBERED_HEAD.pack
    return b"".join(
        [
            part
            for number, record in enumerate(records, first)
            for part in (numbered(Reply.MESSAGE, number, len(record)), record)
        ]
    )


def _same_size(batch: Batch, size: int, first: int | None) -> bytes:
    """Messages of one size: `join` puts their common head before each, and the numbers are written column by column."""
    head = _MESSAGE_HEAD.pack(Reply.MESSAGE, size) if first is None else _NUMBERED_HEAD.pack(Reply.MESSAGE, 0, size)
    some = cut(batch.payload, 0, size) if 0 < size < _LARGE_BYTES else (batch.records(),)
    data = b"".join([head.join([b"", *records]) for records in some])
    if first is None:
        return data
    numbers = array(_NUMBER_TYPE, range(first, first + batch.count))
    if byteorder == "little":
        numbers.byteswap()
    return _with_columns(data, len(head) + size, numbers.tobytes(), META.size)


def _error(code: int, text: str) -> bytes:
    """An error code, and its text where there is an error."""
    if code == Code.NONE:
        return b"\0"
    data = text.encode("utf-8", "backslashreplace")[:TEXT_BYTES_MAX].decode("utf-8", "ignore").encode()
    return bytes((code,)) + U32.pack(len(data)) + data


def _with_ids(reply: Reply, ids: bytes, rest: bytes) -> bytes:
    head = bytes((reply,))
    count = len(ids) // ID_BYTES
    if count == 1:
        return head + ids + rest
    frame = head + bytes(ID_BYTES) + rest
    return _with_columns(frame * count, len(frame), ids, ID_BYTES)


def _with_columns(frames: bytes, frame_bytes: int, values: bytes, value_bytes: int) -> bytes:
    """Frames of one size with one of the values behind the first byte of each."""
    result = bytearray(frames)
    for byte in range(value_bytes):
        result[1 + byte :: frame_bytes] = values[byte::value_bytes]
    return bytes(result)
