"""Messages of Pravega, byte by byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamd.wire.client.pravega import (
    AppendSetup,
    DataAppended,
    NoSuchSegment,
    Reply,
    SegmentCreated,
    SegmentExists,
    SegmentIsSealed,
    SegmentIsTruncated,
    SegmentRead,
)
from streamd.wire.pravega.documented import (
    HEADER,
    AppendBlock,
    KeepAlive,
    Name,
    Type,
    append_setup,
    data_appended,
    message,
    named,
    segment_read,
    truncated,
)

WRITER = bytes(range(16))
OTHER = b"w" * 16


def text(name: str) -> bytes:
    """A name as it stands in a message."""
    raw = name.encode()
    return len(raw).to_bytes(2, "big") + raw


def event(data: bytes) -> bytes:
    return message(Type.EVENT, data)


def begin(offset: int, length: int, writer: bytes = WRITER) -> bytes:
    return message(Type.BEGIN_BLOCK, writer + offset.to_bytes(8, "big", signed=True) + length.to_bytes(4, "big"))


def end(offset: int, length: int, writer: bytes = WRITER) -> bytes:
    return message(Type.END_BLOCK, writer + offset.to_bytes(8, "big", signed=True) + length.to_bytes(4, "big"))


def block(offset: int, data: bytes, promised: int | None = None, writer: bytes = WRITER) -> bytes:
    """A block: exact, padded (more was promised), or split (less was)."""
    promised = len(data) if promised is None else promised
    shown = data[:promised] + bytes(max(0, promised - len(data)))
    return begin(offset, promised, writer) + shown + end(offset + len(data), len(data), writer) + data[promised:]


def setup(name: str, writer: bytes = WRITER) -> bytes:
    return message(Type.SETUP_APPEND, writer + text(name))


def read(name: str, offset: int, length: int) -> bytes:
    place = offset.to_bytes(8, "big", signed=True) + length.to_bytes(4, "big", signed=True)
    return message(Type.READ_SEGMENT, text(name) + place)


def partial(part: int, data: bytes) -> bytes:
    return message(Type.PARTIAL, bytes((part,)) + data)


def plain(requests: Iterable[Any]) -> list[object]:
    """Requests with appends taken apart into events: however they were cut or joined, this is the same."""
    found: list[object] = []
    for request in requests:
        if isinstance(request, AppendBlock):
            at = request.offset
            for record in request.batch.records():
                found.append((request.writer, at, bytes(record)))
                at += HEADER.size + len(record)
        else:
            found.append(request)
    return found


INNER = message(Type.KEEP_ALIVE, b"in pieces")
WHOLE = b"".join(
    [
        message(Type.CREATE_SEGMENT, text("scope/stream")),
        setup("scope/stream"),
        block(0, event(b"exact") + event(b"")),
        block(21, event(b"padded"), promised=40),
        block(35, event(b"first") + event(b"goes on behind the end"), promised=20),
        block(78, b""),
        message(Type.KEEP_ALIVE, b""),
        setup("scope/stream", OTHER),
        block(0, event(b"of another writer"), writer=OTHER),
        read("scope/stream", 7, 1 << 20),
        partial(0, INNER[:3]),
        partial(1, INNER[3:10]),
        partial(2, INNER[10:]),
    ]
)
NAME = Name("scope/stream", b"scope/stream")


def sent(reply: Reply) -> bytes:
    """A reply as the daemon sends it."""
    if isinstance(reply, AppendSetup):
        return append_setup(*reply)
    if isinstance(reply, DataAppended):
        return data_appended(*reply)
    if isinstance(reply, SegmentRead):
        return segment_read(reply.name, reply.offset, reply.at_tail, reply.at_end, [reply.data])
    if isinstance(reply, SegmentIsTruncated):
        return truncated(*reply)
    if isinstance(reply, KeepAlive):
        return message(Type.KEEP_ALIVE, reply.data)
    kinds = {
        SegmentCreated: Type.SEGMENT_CREATED,
        SegmentIsSealed: Type.SEGMENT_IS_SEALED,
        SegmentExists: Type.SEGMENT_EXISTS,
        NoSuchSegment: Type.NO_SUCH_SEGMENT,
    }
    return named(kinds[type(reply)], reply.name)
