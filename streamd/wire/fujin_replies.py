"""What a Fujin server sends: replies and messages to bytes.

The correlation ids of a run of commands are bytes, four for each, and are put into a run of replies column by column.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final

from streamd.batch import Buffer

U32: Final = Struct(">I")
META: Final = Struct(">Q")
"""What a reader acknowledges by: the record's number. Where it need not acknowledge there is none."""
ID_BYTES: Final = U32.size
_MESSAGE_HEAD: Final = Struct(">BI")
assert _MESSAGE_HEAD.size == 5
_NUMBERED_HEAD: Final = Struct(">BQI")
assert _NUMBERED_HEAD.size == 13

TEXT_BYTES_MAX: Final = 1024
"""The text of an error is cut here."""


class Reply(IntEnum):
    """What the server sends."""

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
    """Why something is refused: in the reply where that has room for it, else as the application error code of QUIC."""

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


def messages(records: Sequence[Buffer], first: int | None) -> bytes:
    """Records as they are sent to a reader: with numbers, from `first` on, where it has to acknowledge them."""
    if first is None:
        sizes = set(map(len, records))
        if len(sizes) == 1:
            # The head is the same for all: let `join` put it before each.
            return _MESSAGE_HEAD.pack(Reply.MESSAGE, sizes.pop()).join([b"", *records])
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


def _error(code: int, text: str) -> bytes:
    """An error code, and the text that is there exactly when there is an error."""
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
    found = bytearray(frame * count)
    for byte in range(ID_BYTES):
        found[1 + byte :: len(frame)] = ids[byte::ID_BYTES]
    return bytes(found)
