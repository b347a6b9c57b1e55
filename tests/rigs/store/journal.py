"""Journal files to the byte."""

from __future__ import annotations

from streamd.batch import Buffer
from streamd.store.journal.frame import (
    FILE_HEADER,
    Entry,
    FileHeader,
    encode_frame,
)
from streamd.store.journal.scan import Scanner
from tests.rigs.store.simulated import SimulatedDisk

HEADER = FileHeader(0xABCD1234, b"s" * 16, 7, 100, 5)


def journal_file(frames: list[list[Entry]], *, header: FileHeader = HEADER, tail: bytes = b"") -> bytes:
    """A journal file with these frames."""
    content: list[Buffer] = [header.encode()]
    position, sequence = FILE_HEADER.size, header.sequence
    for at, entries in enumerate(frames):
        frame = encode_frame(
            entries, mark=header.mark, position=position, sequence=sequence, synced=header.sequence, timestamp=at
        )
        content += frame.buffers
        position += frame.length
        sequence += len(entries)
    return b"".join([*content, tail])


def scan(content: bytes, header: FileHeader = HEADER) -> Scanner:
    """A scanner of a file with this content."""
    disk = SimulatedDisk()
    disk.put("/file", content)
    return Scanner(disk.open("/file", writable=False), header)
