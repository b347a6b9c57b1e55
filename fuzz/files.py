"""The laws of what reads the store's files: bytes that pass for a file, with checksums that fit or do not.

Checksums keep damage out, and the fuzzer too. So the first byte of an input says whether they are to be mended: then
only the decoders themselves stand between what the file claims and the rest of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from struct import pack_into
from typing import Final

from crc32c import crc32c

from fuzz.law import bounded_memory, hold
from streamd.store.disk import IDiskFile
from streamd.store.errors import ReadFailed, StoreError, StoreUnusable
from streamd.store.journal.frame import CRC_BEGIN, ENTRY_HEADER, FILE_HEADER, FRAME_HEADER, VERSION, FileHeader
from streamd.store.journal.replay import Replay, check_header
from streamd.store.journal.scan import Frame, Scanner
from streamd.store.packs import pack
from streamd.store.reading.plan import plan
from streamd.store.records import blocks
from streamd.store.records.extent import PACKS, Extent
from streamd.store.records.fetch import Want, decode, fetch
from streamd.store.segments.registry import Segments
from tests.rigs.store.inline import JOURNAL, SMALL, open_inline
from tests.rigs.store.simulated import SimulatedDisk
from tests.store.golden import make

_STORE: Final = b"s" * 16
_HEADER: Final = FileHeader(0xABCD1234, _STORE, 1, 1, 0)
_PATH: Final = "/file"
_EVERYTHING: Final = Want(None, 0, 1 << 30, 1 << 30)
_MEND: Final = 1
_SMALL_WINDOW_BYTES: Final = 96


# -- journal -----------------------------------------------------------------------------------------------------------


def check_journal(data: bytes, is_traced: bool = True) -> None:
    """A journal file is scanned, replayed and read; whatever is wrong with it is told as an error of the store."""
    mended, content = bool(data) and bool(data[0] & _MEND), bytearray(data[1:])
    if mended:
        _mend_journal(content)
    with bounded_memory(len(content), is_traced):
        try:
            header = check_header(_PATH, bytes(content[: FILE_HEADER.size]), _HEADER.number, _STORE)
        except StoreUnusable:
            return
        disk = SimulatedDisk()
        disk.put(_PATH, bytes(content))
        scanner = Scanner(disk.open(_PATH, writable=False), header)
        frames = list(scanner.frames())
        hold(FILE_HEADER.size <= scanner.position <= max(len(content), FILE_HEADER.size), "it went beyond the file")
        narrow = Scanner(disk.open(_PATH, writable=False), header, _SMALL_WINDOW_BYTES)
        hold(list(narrow.frames()) == frames, "through a smaller window it sees other frames")
        hold(scanner.synced_behind() == narrow.synced_behind(), "through a smaller window other frames are synced")
        hold(len(scanner.rest(100)) <= 100, "more is kept of what is torn than was asked for")
        _replay(disk, frames)


def _replay(disk: SimulatedDisk, frames: Sequence[Frame]) -> None:
    replay = Replay(disk, "/", _STORE, Segments())
    try:
        for frame in frames:
            replay.apply(_PATH, frame, _HEADER.number)
    except StoreUnusable:
        return
    files: dict[int, IDiskFile] = {_HEADER.number: disk.open(_PATH, writable=False)}
    for segment in replay.segments.by_id.values():
        try:
            want = _EVERYTHING._replace(offset=segment.first_offset)
            extents = [each for each in plan(segment, want) or () if not each.is_reference]
            bodies = fetch(extents, files, lambda file, position, length: file.read(position, length))
            for run in decode(extents, bodies or (), want):
                hold(sum(run.batch.lengths) == run.batch.size, "lengths and payload do not add up")
        except StoreError:
            pass


def _mend_journal(content: bytearray) -> None:
    """Make every frame that the lengths lead to one with its mark, place and checksums."""
    if len(content) < FILE_HEADER.size:
        return
    content[: FILE_HEADER.size] = _HEADER.encode()
    position = FILE_HEADER.size
    while position + FRAME_HEADER.size <= len(content):
        *_, length, _, _, _, count, _ = FRAME_HEADER.unpack_from(content, position)
        table = position + FRAME_HEADER.size
        bodies = table + ENTRY_HEADER.size * count
        if length < FRAME_HEADER.size or bodies > len(content):
            return
        at = bodies
        for entry in range(table, bodies, ENTRY_HEADER.size):
            (size, _) = ENTRY_HEADER.unpack_from(content, entry)[-2:]
            pack_into("<I", content, entry + 4, crc32c(bytes(content[at : at + size])))
            at += size
        pack_into("<I", content, position, _HEADER.mark)
        pack_into("<Q", content, position + CRC_BEGIN, position)
        pack_into("<I", content, position + 4, crc32c(bytes(content[position + CRC_BEGIN : bodies])))
        position += length


# -- pack --------------------------------------------------------------------------------------------------------------


def check_pack(data: bytes, is_traced: bool = True) -> None:
    """A pack's header and one of its blocks, which a row of the catalog leads to, are read or refused."""
    mended, content = bool(data) and bool(data[0] & _MEND), bytearray(data[1:])
    header, block = bytes(content[: pack.FILE_HEADER.size]), content[pack.FILE_HEADER.size :]
    if mended and len(block) >= blocks.BLOCK_HEADER.size:
        pack_into("<I", block, 0, blocks.block_crc(block))
    with bounded_memory(len(content), is_traced):
        wrong = pack.check_file_header(header, _STORE, 1)
        hold(wrong is not None or len(header) == pack.FILE_HEADER.size, "half a header passes for one")
        crc = int.from_bytes(block[:4], "little")
        count = int.from_bytes(block[32:36], "little")
        extent = Extent(0, 0, 0, PACKS + 1, 0, len(block), count, crc, 0)
        try:
            runs = decode([extent], [bytes(block)], _EVERYTHING)
        except ReadFailed:
            return
    for run in runs:
        hold(sum(run.batch.lengths) == run.batch.size, "lengths and payload do not add up")


# -- where the fuzzer begins -------------------------------------------------------------------------------------------


def journal_seeds() -> list[bytes]:
    """Journals of stores that lived through what the golden one did, from their first entry on, and its own files."""
    files = [path.read_bytes() for path in _golden("journal")]
    for lives in (
        [make.first_life],
        [make.first_life, make.hide],
        [make.first_life, make.second_life],
        [make.broadcast],
    ):
        disk = SimulatedDisk()
        store, writer = open_inline(disk, replace(SMALL, journal_file_bytes=1 << 20))
        for live in lives:
            live(store, writer)
        files += [bytes(disk.content(f"{JOURNAL}/{name}")) for name in disk.list_directory(JOURNAL)]
    return [bytes((mend,)) + content.rstrip(b"\0") for content in files for mend in (0, _MEND)]


def pack_seeds() -> list[bytes]:
    """The header of each golden pack with each of its blocks."""
    seeds = []
    for path in _golden("packs"):
        content, at = path.read_bytes(), pack.FILE_HEADER.size
        while at + blocks.BLOCK_HEADER.size <= len(content):
            length = blocks.BLOCK_HEADER.unpack_from(content, at)[1]
            seeds += [
                bytes((mend,)) + content[: pack.FILE_HEADER.size] + content[at : at + length] for mend in (0, _MEND)
            ]
            at += length + -length % 8
    return seeds


def _golden(folder: str) -> list[Path]:
    return sorted((Path(make.HERE) / f"v{VERSION}" / "store" / folder).iterdir())
