"""What SQLite takes up of a WAL, and whether it leaves something: the end of a commit that was cut off, or damage.

A WAL is a header of 32 bytes and frames, each a header of 24 bytes and a page. A frame counts where its salt is that of
the header and its checksum, which goes on from that of the frame before it, is right, up to the last one that ends a
commit. https://www.sqlite.org/fileformat2.html#the_write_ahead_log tells the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct, unpack
from typing import Final

SUFFIX: Final = "-wal"

_HEADER: Final = Struct(">8I")  # magic, version, page size, checkpoints, salt, salt, checksum, checksum
_FRAME: Final = Struct(">6I")  # page, size of the database where it ends a commit, salt, salt, checksum, checksum
_MAGIC: Final = 0x377F0682
_MASK: Final = 0xFFFFFFFF

Read = Callable[[int, int], bytes | bytearray | memoryview]
"""Up to so many bytes of the WAL from a place on; fewer at its end."""
_Sums = tuple[int, int]


def has_commit(read: Read) -> bool:
    """Whether SQLite takes up anything."""
    return next(_commits(read), None) is not None


def ignored_from(read: Read) -> int | None:
    """The byte from which on SQLite ignores what belongs to the WAL; None where it ignores nothing."""
    end = max(_commits(read), default=0)
    head = bytes(read(0, _HEADER.size))
    if not end:
        return 0 if any(head) else None
    step, salt = _FRAME.size + _HEADER.unpack(head)[2], _HEADER.unpack(head)[4:6]
    at = end
    while frame := bytes(read(at, _FRAME.size)):
        # What stands there with another salt is left from before the WAL was begun anew.
        if len(frame) < _FRAME.size or _FRAME.unpack(frame)[2:4] == salt:
            return end
        at += step
    return None


def _commits(read: Read) -> Iterator[int]:
    """Where each commit that SQLite takes up ends."""
    head = bytes(read(0, _HEADER.size))
    if len(head) < _HEADER.size:
        return
    magic, _, page_bytes, _, *salt, first, second = _HEADER.unpack(head)
    sums = _sum((0, 0), head[:24], magic)
    if magic & ~1 != _MAGIC or sums != (first, second):
        return
    at, step = _HEADER.size, _FRAME.size + page_bytes
    while len(frame := bytes(read(at, step))) == step:
        _, is_commit, *own, first, second = _FRAME.unpack_from(frame)
        sums = _sum(_sum(sums, frame[:8], magic), frame[_FRAME.size :], magic)
        if own != salt or sums != (first, second):
            return
        at += step
        if is_commit:
            yield at


def _sum(sums: _Sums, data: bytes, magic: int) -> _Sums:
    """The checksum of these bytes behind others. The last bit of the magic number tells the order of bytes."""
    first, second = sums
    words = unpack(f"{'>' if magic & 1 else '<'}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & _MASK
        second = (second + other + first) & _MASK
    return first, second
