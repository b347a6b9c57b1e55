"""The footer of a pack: what the pack changed, so that the catalog can be made of packs alone.

Behind the blocks stand sections, each with rows of one table, then a directory of them, then the trailer, which is the
last 64 bytes of the file::

    magic 8s | version u32 | directory crc u32 | directory position u64 | directory length u64 | number u64 |
    store 16s | zero u32 | crc u32

Directory::

    before: pack number u64 | before: directory crc u32 | flags u32 | covered u64 | file u64 | timestamp u64 |
    end of the blocks u64 | blocks u32 | ranges u32 | replaces u32 | adopted u32 | sections u32 | zero u32
    range x ranges:      first u64 | end u64
    pack x replaces:     number u64
    pack x adopted:      number u64 | bytes u64 | blocks u64
    section x sections:  table u32 | crc u32 | position u64 | length u64 | rows u64

A section is compressed (zlib), its checksum is that of the compressed bytes. It holds one column after the other: an
integer takes 8 bytes; a text or blob has its length, 4 bytes, in a list of those, and behind that all bytes end to end.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct, error, pack
from typing import Any, Final, NamedTuple
from zlib import compress, decompress
from zlib import error as zlib_error

from crc32c import crc32c

from streamd.batch import Buffer
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import StoreCorrupt

MAGIC: Final = b"STREAMDF"
VERSION: Final = 3

TRAILER: Final = Struct("<8sIIQQQ16sII")
assert TRAILER.size == 64
_DIRECTORY: Final = Struct("<QIIQQQQIIIIII")
assert _DIRECTORY.size == 72
_RANGE: Final = Struct("<QQ")
_NUMBER: Final = Struct("<Q")
_ADOPTED: Final = Struct("<QQQ")
_SECTION: Final = Struct("<IIQQQ")

_WHOLE: Final = 1
_MERGED: Final = 2

COLUMNS: Final = {
    "segments": "itiiiiiiii",
    "levels": "ibi",
    "groups": "itib",
    "attributes": "ibb",
    "reached": "iii",
    "extents": "iiiiiiiiii",
    "dropped": "i",
    "moves": "iiiiii",
}
"""The tables of which a footer has rows, in the order of their numbers, from 1 on; integer, text or blob each."""

_TABLES: Final = tuple(COLUMNS)
_ROWS_MAX: Final = 1 << 16
_COMPRESSION: Final = 1

Rows = Iterable[tuple[Any, ...]]


class Mark(NamedTuple):
    """A pack, and the checksum of its directory, which covers the mark of the pack before it: so, a whole history."""

    number: int = 0
    crc: int = 0


NO_MARK: Final = Mark(0, 1)
"""In place of the pack before: a catalog that lacks this one must be made again."""


class Adopted(NamedTuple):
    """A pack without a footer, from a store of an earlier format."""

    number: int
    bytes: int
    blocks: int


class Section(NamedTuple):
    """Where rows of a table stand."""

    table: int
    crc: int
    position: int
    length: int
    rows: int


class Told(NamedTuple):
    """What a footer says of its pack, but for the rows."""

    before: Mark
    """The pack that was written before this one."""
    covered: tuple[int, int, int]
    """The sequence number that comes next, the last journal file that is folded, and the last timestamp."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Which sequence numbers it covers, ascending: first and end of each range."""
    replaces: tuple[int, ...] = ()
    adopted: tuple[Adopted, ...] = ()
    is_whole: bool = False
    """It has the state of all segments: what older packs say of that does not count."""
    is_merged: bool = False
    """It says nothing new, only in another place."""


class Footer(NamedTuple):
    """The footer of a pack, as read back."""

    mark: Mark
    told: Told
    blocks: int
    blocks_end: int
    size: int
    """Of the whole file."""
    sections: tuple[Section, ...]

    @property
    def state_bytes(self) -> int:
        """How much of it is the state of segments."""
        return sum([each.length for each in self.sections if _TABLES[each.table - 1] != "extents"])


def encode_rows(table: str, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """The bytes of a section, not compressed."""
    parts: list[Buffer] = []
    for kind, column in zip(COLUMNS[table], zip(*rows, strict=True), strict=True):
        if kind == "i":
            parts.append(array("q", column).tobytes())
        else:
            values = [value.encode() for value in column] if kind == "t" else column
            parts.append(array("I", map(len, values)).tobytes())
            parts += values
    return b"".join(parts)


def decode_rows(table: str, data: bytes, rows: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a section. ValueError where it does not hold so many, and nothing else."""
    columns: list[Sequence[Any]] = []
    at = 0
    for kind in COLUMNS[table]:
        numbers = array("q" if kind == "i" else "I")
        end = at + numbers.itemsize * rows
        numbers.frombytes(data[at:end])
        at = end
        if kind == "i":
            columns.append(numbers)
            continue
        values = []
        for length in numbers:
            values.append(data[at : at + length])
            at += length
        columns.append([str(value, "utf-8") for value in values] if kind == "t" else values)
    if at != len(data) or any(len(column) != rows for column in columns):
        raise ValueError(f"the section has {len(data)} bytes, not {at}")
    return zip(*columns, strict=True)


def sections(table: str, rows: Rows) -> Iterator[tuple[int, int, bytes]]:
    """Rows as sections: the table's number, how many rows, and the compressed bytes of each."""
    every = iter(rows)
    while some := list(islice(every, _ROWS_MAX)):
        yield _TABLES.index(table) + 1, len(some), compress(encode_rows(table, some), _COMPRESSION)


def encode_directory(told: Told, blocks: int, blocks_end: int, sections: Sequence[Section]) -> bytes:
    """The directory of a footer."""
    flags = _WHOLE * told.is_whole | _MERGED * told.is_merged
    counts = (blocks, len(told.ranges), len(told.replaces), len(told.adopted), len(sections), 0)
    return b"".join(
        [
            _DIRECTORY.pack(*told.before, flags, *told.covered, blocks_end, *counts),
            *[_RANGE.pack(*each) for each in told.ranges],
            *[_NUMBER.pack(each) for each in told.replaces],
            *[_ADOPTED.pack(*each) for each in told.adopted],
            *[_SECTION.pack(*each) for each in sections],
        ]
    )


def encode_trailer(directory: bytes, position: int, number: int, store: bytes) -> bytes:
    """The last bytes of a pack."""
    body = TRAILER.pack(MAGIC, VERSION, crc32c(directory), position, len(directory), number, store, 0, 0)[:-4]
    return body + pack("<I", crc32c(body))


def read_footer(path: str, file: IDiskFile, number: int, store: bytes) -> Footer:
    """The footer of a pack, but for its rows. StoreCorrupt where it is damaged."""
    size = file.size()
    try:
        data = bytes(file.read(max(size - TRAILER.size, 0), TRAILER.size))
        magic, version, crc, position, length, own, of, _, own_crc = TRAILER.unpack(data)
        if magic != MAGIC or version != VERSION or own_crc != crc32c(data[:-4]) or own != number or of != store:
            raise StoreCorrupt(path, max(size - TRAILER.size, 0), "the end of the file is damaged, or missing")
        directory = bytes(file.read(position, length))
        if position + length + TRAILER.size != size or crc32c(directory) != crc:
            raise StoreCorrupt(path, position, "the directory of the footer does not match its checksum")
        return _decode_directory(directory, Mark(number, crc), size)
    except (error, ValueError) as reason:
        raise StoreCorrupt(path, max(size - TRAILER.size, 0), f"the footer makes no sense: {reason}") from reason
    except OSError as reason:
        raise StoreCorrupt(path, max(size - TRAILER.size, 0), f"the disk can't read it: {reason}") from reason


def _decode_directory(data: bytes, mark: Mark, size: int) -> Footer:
    number, crc, flags, *covered, blocks_end, blocks, ranges, replaces, adopted, sections, _ = _DIRECTORY.unpack_from(
        data
    )
    at = _DIRECTORY.size
    lists: list[list[tuple[int, ...]]] = []
    for row, count in ((_RANGE, ranges), (_NUMBER, replaces), (_ADOPTED, adopted), (_SECTION, sections)):
        lists.append(list(row.iter_unpack(data[at : at + row.size * count])))
        at += row.size * count
    if at != len(data):
        raise ValueError(f"the directory has {len(data)} bytes, not {at}")
    told = Told(
        Mark(number, crc),
        (covered[0], covered[1], covered[2]),
        tuple([(first, end) for first, end in lists[0]]),
        tuple([each for (each,) in lists[1]]),
        tuple(map(Adopted._make, lists[2])),
        bool(flags & _WHOLE),
        bool(flags & _MERGED),
    )
    return Footer(mark, told, blocks, blocks_end, size, tuple(map(Section._make, lists[3])))


def read_rows(path: str, file: IDiskFile, footer: Footer, *tables: str) -> Iterator[tuple[Any, ...]]:
    """The rows of some tables. StoreCorrupt where they are damaged."""
    for section in footer.sections:
        table = _TABLES[section.table - 1]
        if table not in tables:
            continue
        try:
            data = bytes(file.read(section.position, section.length))
            if len(data) != section.length or crc32c(data) != section.crc:
                raise StoreCorrupt(path, section.position, f"rows of {table} do not match their checksum")
            yield from decode_rows(table, decompress(data), section.rows)
        except (ValueError, zlib_error) as reason:
            raise StoreCorrupt(path, section.position, f"rows of {table} make no sense: {reason}") from reason
        except OSError as reason:
            raise StoreCorrupt(path, section.position, f"the disk can't read it: {reason}") from reason


class PackRows:
    """The rows in the footer of one pack, table by table."""

    def __init__(self, disk: IDisk, path: str, footer: Footer) -> None:
        self._disk = disk
        self._path = path
        self.footer = footer

    def rows(self, *tables: str) -> Iterator[tuple[Any, ...]]:
        """All rows of these tables. StoreCorrupt where they are damaged."""
        file = self._disk.open(self._path, writable=False)
        try:
            yield from read_rows(self._path, file, self.footer, *tables)
        finally:
            file.close()

    def __repr__(self) -> str:
        return f"<PackRows of {os.path.basename(self._path)}>"
