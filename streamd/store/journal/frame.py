"""The bytes of a journal file: its header, and the frames behind it. All numbers are little endian.

File header, 64 bytes at position 0::

    magic 8s | version u32 | mark u32 | store 16s | number u64 | sequence u64 | timestamp u64 | zero u32 | crc u32

``mark`` is random for each file and begins every frame of it, so that no payload, not even a copied journal file, can
pass for a frame. ``sequence`` is that of the first entry, ``timestamp`` the last one used before it. ``crc`` covers
what stands before it.

Frame, at a multiple of 8: one commit, atomic::

    mark u32 | crc u32 | position u64 | length u64 | sequence u64 | synced u64 | timestamp u64 | entries u32 | zero u32
    entry header x entries (64 bytes each)
    entry body x entries, end to end
    zeros up to the next multiple of 8

``crc`` covers the frame header from ``position`` on and all entry headers. Entry i has the sequence number
``sequence`` + i. Everything below the sequence ``synced`` was known to be on the medium when this was written.

Entry header::

    kind u8 | flags u8 | tag u16 | crc u32 | segment u64 | number u64 | offset u64 | writer 16s | level i64 |
    length u32 | count u32

``crc`` covers the body, which has ``length`` bytes. What the other fields and the body hold is in `Kind`. All CRCs are
CRC32C. ``docs/format.md`` argues the crash cases.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct, pack
from typing import Final, NamedTuple

from crc32c import crc32c

from streamd.batch import Batch, Buffer

VERSION: Final = 3
READABLE: Final = (1, 2, VERSION)
"""Versions that are read: 2 is 1 with broadcasts; journal files of 3 are those of 2."""
MAGIC: Final = b"STREAMDJ"

FILE_HEADER: Final = Struct("<8sII16sQQQII")
assert FILE_HEADER.size == 64

FRAME_HEADER: Final = Struct("<IIQQQQQII")
assert FRAME_HEADER.size == 56
CRC_BEGIN: Final = 8
"""What stands before this in a frame's header is not covered by its checksum."""
_FRAME_REST = Struct("<QQQQQII")
assert _FRAME_REST.size == FRAME_HEADER.size - CRC_BEGIN

ENTRY_HEADER: Final = Struct("<BBHIQQQ16sqII")
assert ENTRY_HEADER.size == 64

ENTRY_BYTES_MAX: Final = 256 << 10
"""An append entry holds at most this many bytes, or one record: the most that is read to serve one record."""

FRAME_BYTES_MAX: Final = 1 << 31
"""No frame is larger; a header that says so is damaged."""

NO_WRITER: Final = bytes(16)

RANGE: Final = Struct("<QQ")
"""One of the ranges of a GROUP_ACK entry: first, end."""


class Kind(IntEnum):
    """What an entry does. Fields that a kind does not name are zero."""

    CREATE = 1  # segment: its own sequence number; count: 1 hidden, 2 the broadcast segment; body: the name
    DELETE = 2  # segment
    SEAL = 3  # segment
    TRUNCATE = 4  # segment; number, offset: of the first retained record
    APPEND = 5  # segment; tag; number, offset: of the first record; count; body: lengths, payload
    PAYLOAD = 6  # tag; count; body as in APPEND; for the FANOUT entries that follow it in its frame
    FANOUT = 7  # count; body: as many segment ids (u64), each of which receives the latest PAYLOAD
    LEVEL = 8  # segment; writer; level: how far this writer's data is stored
    GROUP_SET = 9  # segment; number: everything below is acknowledged, nothing above; body: the group's name
    GROUP_ACK = 10  # segment; count; body: name length u16, name, as many (first u64, end u64) acknowledged
    GROUP_DROP = 11  # segment; body: the group's name
    ATTRIBUTE = 12  # segment; count: 1 to set, 0 to remove; body: key length u16, key, value
    PUBLISH = (
        13  # segment; number, offset: of the first record; body: id u64 of the hidden segment that becomes part of it
    )
    LEFT_OUT = 14  # number, offset: records and span of the broadcast before it; count; body: ids of who has it not


REMOVALS: Final = frozenset({Kind.DELETE, Kind.TRUNCATE, Kind.GROUP_SET, Kind.GROUP_ACK, Kind.GROUP_DROP})
"""Kinds that only take away, and may use the reserve of a full disk."""


class Header(NamedTuple):
    """An entry's header, as it stands in the file."""

    kind: int
    flags: int
    tag: int
    crc: int
    segment: int
    number: int
    offset: int
    writer: bytes
    level: int
    length: int
    count: int  # type: ignore[assignment]  # hides a method of tuple that nobody calls


class Entry:
    """An entry on its way to the journal. APPEND and PAYLOAD entries grow while their commit is gathered."""

    __slots__ = ("body", "count", "kind", "length", "level", "lengths", "number", "offset", "segment", "tag", "writer")

    def __init__(
        self,
        kind: Kind,
        segment: int = 0,
        *,
        tag: int = 0,
        number: int = 0,
        offset: int = 0,
        writer: bytes = NO_WRITER,
        level: int = 0,
        count: int = 0,
        body: bytes = b"",
    ) -> None:
        self.kind = kind
        self.segment = segment
        self.tag = tag
        self.number = number
        self.offset = offset
        self.writer = writer
        self.level = level
        self.count = count
        self.length = len(body)
        self.lengths: list[array[int]] = []
        self.body: list[Buffer] = [body] if body else []

    def add(self, batch: Batch) -> None:
        """Take the records of `batch` up behind those that are here."""
        self.lengths.append(batch.lengths)
        self.body.append(batch.payload)
        self.count += len(batch.lengths)
        self.length += 4 * len(batch.lengths) + len(batch.payload)

    def buffers(self) -> list[Buffer]:
        """The body in pieces: few, since each costs a call of the checksum and a slot of the write."""
        if not self.lengths:
            return self.body
        if self.length < 4096 * len(self.body):
            # Up to here a copy is cheaper than one more buffer.
            return [b"".join([*self.lengths, *self.body])]
        return [b"".join(self.lengths), *self.body]


class EncodedFrame(NamedTuple):
    """A frame ready to be written, and where its bodies will be."""

    buffers: list[Buffer]
    length: int
    headers: list[Header]
    bodies: list[int]
    """Position of each entry's body in the file."""
    timestamp: int


def frame_length(entries: Sequence[Entry]) -> int:
    """The bytes that the frame of these entries takes."""
    length = FRAME_HEADER.size + ENTRY_HEADER.size * len(entries) + sum([entry.length for entry in entries])
    return (length + 7) & ~7


def encode_frame(
    entries: Sequence[Entry], *, mark: int, position: int, sequence: int, synced: int, timestamp: int
) -> EncodedFrame:
    """The frame of one commit. Runs on the writer thread: checksums of large bodies let go of the GIL."""
    headers: list[Header] = []
    bodies: list[int] = []
    payload: list[Buffer] = []
    at = position + FRAME_HEADER.size + ENTRY_HEADER.size * len(entries)
    for entry in entries:
        crc = 0
        for part in entry.buffers():
            crc = crc32c(part, crc)
            payload.append(part)
        headers.append(
            Header(
                entry.kind,
                0,
                entry.tag,
                crc,
                entry.segment,
                entry.number,
                entry.offset,
                entry.writer,
                entry.level,
                entry.length,
                entry.count,
            )
        )
        bodies.append(at)
        at += entry.length
    length = (at - position + 7) & ~7
    pad = position + length - at
    table = b"".join([ENTRY_HEADER.pack(*header) for header in headers])
    head = frame_head(table, mark, position, length, sequence, synced, timestamp, len(entries))
    buffers: list[Buffer] = [head, table, *payload]
    if pad:
        buffers.append(bytes(pad))
    return EncodedFrame(buffers, length, headers, bodies, timestamp)


def frame_head(
    table: Buffer, mark: int, position: int, length: int, sequence: int, synced: int, timestamp: int, entries: int
) -> bytes:
    """A frame's header, with the checksum over it and `table`, the entry headers."""
    rest = _FRAME_REST.pack(position, length, sequence, synced, timestamp, entries, 0)
    return pack("<II", mark, crc32c(table, crc32c(rest))) + rest


class FileHeader(NamedTuple):
    """The first 64 bytes of a journal file."""

    mark: int
    store: bytes
    number: int
    sequence: int
    timestamp: int

    def encode(self) -> bytes:
        """The header as bytes."""
        body = FILE_HEADER.pack(MAGIC, VERSION, *self, 0, 0)[:-4]
        return body + pack("<I", crc32c(body))


def decode_file_header(data: Buffer) -> FileHeader | int | None:
    """The header of a journal file; its version where that is not read; None where it is damaged."""
    if len(data) < FILE_HEADER.size:
        return None
    magic, version, mark, store, number, sequence, timestamp, _, crc = FILE_HEADER.unpack_from(data)
    if magic != MAGIC:
        return None
    if version not in READABLE:
        return int(version)
    if crc != crc32c(bytes(data[: FILE_HEADER.size - 4])):
        return None
    return FileHeader(mark, store, number, sequence, timestamp)


_KEY_LENGTH = Struct("<H")


def encode_keyed(key: bytes, rest: bytes) -> bytes:
    """The body of GROUP_ACK and ATTRIBUTE: a short name, then something."""
    return _KEY_LENGTH.pack(len(key)) + key + rest


def decode_keyed(body: Buffer) -> tuple[bytes, bytes]:
    """The name and what follows it."""
    (length,) = _KEY_LENGTH.unpack_from(body)
    return bytes(body[2 : 2 + length]), bytes(body[2 + length :])
