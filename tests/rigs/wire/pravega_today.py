"""Pravega's messages of today for tests, put together here from their layouts and not by what is tested."""

from __future__ import annotations

from struct import pack

from streamd.wire.pravega.events import HEADER

NEVER = -(1 << 63)
WRITER = bytes(range(16))
HELLO = HEADER.pack(-127, 8) + pack(">ii", 15, 5)
WELCOME = HEADER.pack(-127, 8) + pack(">ii", 17, 5)


def text(value: str) -> bytes:
    """A string."""
    return pack(">H", len(value.encode())) + value.encode()


def data(value: bytes) -> bytes:
    """Bytes with their length."""
    return pack(">i", len(value)) + value


def message(kind: int, *parts: bytes) -> bytes:
    """A message with its header."""
    whole = b"".join(parts)
    return HEADER.pack(kind, len(whole)) + whole


def event(value: bytes) -> bytes:
    """An event."""
    return message(0, value)


def long(*values: int) -> bytes:
    """Numbers of eight bytes."""
    return pack(f">{len(values)}q", *values)


def create(name: str, id: int = 1) -> bytes:
    return message(20, long(id), text(name), pack(">iB", 0, 0), text(""))


def created(name: str, id: int = 1) -> bytes:
    return message(21, long(id), text(name))


def setup(name: str, writer: bytes = WRITER, id: int = 2) -> bytes:
    return message(1, long(id), writer, text(name), text("token"))


def ready(name: str, number: int = NEVER, writer: bytes = WRITER, id: int = 2) -> bytes:
    return message(2, long(id), text(name), writer, long(number))


def append(number: int, value: bytes, writer: bytes = WRITER, id: int = 3) -> bytes:
    """AppendBlockEnd alone."""
    return message(4, writer, pack(">i", len(value)), data(value), pack(">i", 1), long(number, id))


def block(number: int, whole: bytes, rest: bytes, end: bytes, writer: bytes = WRITER) -> bytes:
    """AppendBlock and its end: whole events, what else is in the block, and the data of the end."""
    close = message(4, writer, pack(">i", len(whole)), data(end), pack(">i", 1), long(number, 3))
    return message(3, writer, whole + rest) + close


def conditional(number: int, offset: int, value: bytes, writer: bytes = WRITER, id: int = 3) -> bytes:
    """ConditionalBlockEnd."""
    return message(89, writer, long(number, offset), data(value), long(id))


def appended(number: int, previous: int, length: int, writer: bytes = WRITER, id: int = 3) -> bytes:
    return message(7, writer, long(number, previous, id, length))


def read(name: str, offset: int, length: int, id: int = 4) -> bytes:
    return message(9, text(name), long(offset), pack(">i", length), text(""), long(id))


def segment_read(name: str, offset: int, value: bytes, *, tail: bool = True, end: bool = False, id: int = 4) -> bytes:
    return message(10, text(name), long(offset), bytes([tail, end]), data(value), long(id))


def named(kind: int, name: str, id: int = 5) -> bytes:
    """A request about one segment: 11 info, 28 seal, 30 delete, 68 table info."""
    return message(kind, long(id), text(name), text(""))


def truncate(name: str, offset: int, id: int = 5) -> bytes:
    return message(38, long(id), text(name), long(offset), text(""))


def info(name: str, modified: int, end: int, start: int = 0, *, is_sealed: bool = False, id: int = 5) -> bytes:
    return message(12, long(id), text(name), bytes([1, is_sealed, 0]), long(modified, end, start))


def error(kind: int, name: str, *rest: int, id: int) -> bytes:
    """51 and 53 with an offset, 52 without."""
    return message(kind, long(id), text(name), text(""), *([long(*rest)] if rest else []))


def key(value: bytes, version: int = NEVER) -> bytes:
    return pack(">ii", 12 + len(value), len(value)) + value + long(version)


def value(content: bytes) -> bytes:
    return pack(">ii", 4 + len(content), len(content)) + content


def many(*parts: bytes, each: int = 1) -> bytes:
    """So many of something, each in as many parts."""
    return pack(">i", len(parts) // each) + b"".join(parts)


def update(name: str, *entries: tuple[bytes, int, bytes], offset: int = -1, id: int = 6) -> bytes:
    parts = [part for data, version, content in entries for part in (key(data, version), value(content))]
    return message(74, long(id), text(name), text(""), many(*parts, each=2), long(offset))


def updated(*versions: int, id: int = 6) -> bytes:
    return message(75, long(id), pack(">i", len(versions)), long(*versions))
