"""The bytes of a pack: an immutable file of blocks, each with records of one segment or shared by several; a footer.

File header, 64 bytes at position 0::

    magic 8s | version u32 | zero u32 | store 16s | number u64 | zero 20s | crc u32

Block, at a multiple of 8::

    crc u32 | length u32 | segment u64 | number u64 | offset u64 | count u32 | runs u32
    run x runs:  count u32 | tag u16 | zero u16 | timestamp u64
    lengths: u32 x count
    payload: the records end to end

``crc`` covers the block from ``length`` on; ``length`` counts the whole block, without the zeros up to the next one.
``number`` and ``offset`` are those of its first record. ``segment`` is 0 where several segments share the block; then
the footer alone says what its place in each of them is, and ``number`` and ``offset`` are 0. A run is a number of
records with the same tag and timestamp. `streamd.store.packs.footer` has what follows the blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct, pack
from typing import Final, NamedTuple

from crc32c import crc32c

from streamd.batch import Buffer
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.journal.writer import TEMPORARY_SUFFIX
from streamd.store.packs.footer import (
    TRAILER,
    Footer,
    Mark,
    Rows,
    Section,
    Told,
    encode_directory,
    encode_trailer,
    sections,
)
from streamd.store.records.blocks import BLOCK_HEADER, RUN, Piece
from streamd.store.records.offsets import span

VERSION: Final = 3
WITHOUT_FOOTER: Final = 1
"""The version of packs of earlier formats: their catalog alone knows what is in them."""
MAGIC: Final = b"STREAMDP"
FILE_HEADER: Final = Struct("<8sII16sQ20sI")
assert FILE_HEADER.size == 64

BLOCK_BYTES: Final = 256 << 10
"""Blocks are filled up to about this size."""

SHARED: Final = 0
"""In place of a segment's id: more than one has this block."""

FILE_NAME: Final = re.compile(r"(\d{20})\.pack")

# Written in pieces of this size: large enough for the disk, small enough to stay out of the way.
_WRITE_BYTES: Final = 4 << 20


def file_name(number: int) -> str:
    """The name of a pack."""
    return f"{number:020}.pack"


class Block(NamedTuple):
    """Where a block went, as the catalog notes it."""

    position: int
    length: int
    crc: int
    records: int
    timestamp: int
    """Of its first record."""
    last_timestamp: int
    span: int
    """How many offsets its records take."""


class PackWriter:
    """A pack in the making. Nothing of it has its name before `finish`."""

    def __init__(self, disk: IDisk, directory: str, number: int, store: bytes) -> None:
        self._disk = disk
        self._directory = directory
        self._path = os.path.join(directory, file_name(number))
        with suppress(FileNotFoundError):
            # A compactor that died left it.
            disk.unlink(self._path + TEMPORARY_SUFFIX)
        self._file: IDiskFile = disk.create(self._path + TEMPORARY_SUFFIX)
        header = FILE_HEADER.pack(MAGIC, VERSION, 0, store, number, bytes(20), 0)[:-4]
        self._buffers: list[Buffer] = [header, pack("<I", crc32c(header))]
        self._written = 0
        self._buffered = FILE_HEADER.size
        self._store = store
        self._blocks_end = FILE_HEADER.size
        self._sections: list[Section] = []
        self.number = number
        self.blocks = 0

    @property
    def size(self) -> int:
        """The bytes so far."""
        return self._written + self._buffered

    def add(self, segment: int, number: int, offset: int, pieces: Sequence[Piece]) -> Block:
        """Write one block with the records of these pieces."""
        runs = _runs(pieces)
        lengths = b"".join([piece.batch.lengths for piece in pieces])
        payload = [piece.batch.payload for piece in pieces]
        count = len(lengths) // 4
        length = BLOCK_HEADER.size + RUN.size * len(runs) + len(lengths) + sum(map(len, payload))
        rest = BLOCK_HEADER.pack(0, length, segment, number, offset, count, len(runs))[4:]
        rest += b"".join([RUN.pack(records, tag, 0, timestamp) for records, tag, timestamp in runs]) + lengths
        crc = crc32c(rest)
        for part in payload:
            crc = crc32c(part, crc)
        position = self.size
        pad = -length % 8
        self._buffers += [pack("<I", crc), rest, *payload, bytes(pad)]
        self._buffered += length + pad
        self.blocks += 1
        self._blocks_end = self.size
        if self._buffered >= _WRITE_BYTES:
            self._flush()
        taken = sum([span(piece.tag, piece.batch.count, piece.batch.size) for piece in pieces])
        return Block(position, length, crc, count, pieces[0].timestamp, pieces[-1].timestamp, taken)

    def _flush(self) -> None:
        self._file.write(self._written, self._buffers)
        # Little by little: one sync of the whole file would hold those of the journal up for as long as it takes.
        self._file.sync(metadata=False)
        self._written += self._buffered
        self._buffers = []
        self._buffered = 0

    def add_rows(self, table: str, rows: Rows) -> None:
        """Write rows of the footer. No block may follow."""
        for kind, count, data in sections(table, rows):
            self._sections.append(Section(kind, crc32c(data), self.size, len(data), count))
            self._buffers.append(data)
            self._buffered += len(data)
            if self._buffered >= _WRITE_BYTES:
                self._flush()

    def finish(self, told: Told) -> Footer:
        """Everything is written: sync it, give it its name, and sync that. With its name the pack is in force."""
        directory = encode_directory(told, self.blocks, self._blocks_end, self._sections)
        self._buffers += [directory, trailer := encode_trailer(directory, self.size, self.number, self._store)]
        self._buffered += len(directory) + TRAILER.size
        mark = Mark(self.number, int.from_bytes(trailer[12:16], "little"))
        footer = Footer(mark, told, self.blocks, self._blocks_end, self.size, tuple(self._sections))
        self._flush()
        self._file.sync(metadata=True)
        self._file.close()
        self._disk.rename(self._path + TEMPORARY_SUFFIX, self._path)
        self._disk.sync_directory(self._directory)
        return footer

    def abandon(self) -> None:
        """It is not wanted after all."""
        self._file.close()
        with suppress(OSError):
            self._disk.unlink(self._path + TEMPORARY_SUFFIX)


def _runs(pieces: Sequence[Piece]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for piece in pieces:
        if runs and runs[-1][1:] == (piece.tag, piece.timestamp):
            runs[-1] = (runs[-1][0] + piece.batch.count, piece.tag, piece.timestamp)
        else:
            runs.append((piece.batch.count, piece.tag, piece.timestamp))
    return runs


def check_file_header(data: Buffer, store: bytes, number: int) -> str | None:
    """What is wrong with the header of a pack; None where nothing is."""
    if len(data) < FILE_HEADER.size:
        return "the file is too short"
    magic, version, _, of, own, _, crc = FILE_HEADER.unpack_from(data)
    if magic != MAGIC or crc != crc32c(bytes(data[: FILE_HEADER.size - 4])):
        return "the file header is damaged"
    if version not in (WITHOUT_FOOTER, VERSION):
        return f"the file has format {version}, which this streamd does not read"
    if of != store:
        return "the file belongs to another store"
    return None if own == number else f"this is a copy of {file_name(own)} under another name"


def has_footer(data: Buffer) -> bool:
    """Whether this is the header of a pack that has a footer."""
    return int(FILE_HEADER.unpack_from(data)[1]) != WITHOUT_FOOTER
