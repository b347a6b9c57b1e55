"""The committed position: how far readers outside the daemon may read, in a small mapped file.

``DIR/committed``, 64 bytes, made anew by each run of the daemon::

    magic 8s | version u32 | crc u32 | store 16s | run u64 | committed u64 | synced u64 | inverse u64

``crc`` covers everything up to ``run`` but itself. ``run`` is random: another one means another run of the daemon,
which may have moved frames. Every entry below the sequence number ``committed`` may be shown to readers; every one
below ``synced`` is on the medium, and ``inverse`` is that with all bits turned. Both only rise while a run lasts.

Nothing depends on this file reaching the medium. It is behind the journal at any time, also after a power cut, since a
number is stored when what it speaks of is done.
"""

from __future__ import annotations

import os
from contextlib import suppress
from secrets import randbits
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from streamd.store.disk import IDisk
from streamd.store.journal.writer import TEMPORARY_SUFFIX

FILE_NAME: Final = "committed"
VERSION: Final = 1
MAGIC: Final = b"STREAMDC"

_HEAD: Final = Struct("<8sII16sQ")
_FILE: Final = Struct("<8sII16sQQQQ")
assert (_HEAD.size, _FILE.size) == (40, 64)
SIZE: Final = _FILE.size

# Which of the file's eight-byte words: stored one by one, whole, in the byte order of the machine (little endian).
_RUN: Final = 4
_COMMITTED: Final = 5
_SYNCED: Final = 6
_INVERSE: Final = 7
_ONES: Final = (1 << 64) - 1


class Position(NamedTuple):
    """What the file says."""

    run: int
    committed: int
    synced: int
    """0 where the two copies differ: it was being stored when the power went."""


class Committed:
    """The file of this run, or nothing where there was no room for one. The writer thread stores numbers here."""

    def __init__(self, words: memoryview | None) -> None:
        self._words = words

    def set_committed(self, sequence: int) -> None:
        """Everything below may be read."""
        if self._words is not None:
            # One aligned store of eight bytes: nobody sees half of it. `struct` would store byte after byte.
            self._words[_COMMITTED] = sequence

    def set_synced(self, sequence: int) -> None:
        """Everything below is on the medium."""
        if self._words is not None:
            self._words[_SYNCED] = sequence
            self._words[_INVERSE] = sequence ^ _ONES

    def close(self) -> None:
        """Let go of the file. What it says stays true."""
        self._words = None


def begin_committed(disk: IDisk, directory: str, store: bytes, sequence: int) -> Committed:
    """Begin the file of a new run, in which everything below `sequence` is committed and synced.

    A new file, not the old one changed: who reads it never meets the numbers of one run under the name of another.
    """
    path = os.path.join(directory, FILE_NAME)
    temporary = path + TEMPORARY_SUFFIX
    try:
        with suppress(FileNotFoundError):
            disk.unlink(temporary)
        file = disk.create(temporary)
        try:
            file.write(0, [_encode(store, randbits(64), sequence)])
            # Not for the numbers, but so that a power cut leaves no empty file under the name.
            file.sync(metadata=True)
        finally:
            file.close()
        disk.rename(temporary, path)
        return Committed(disk.map(path, SIZE, writable=True).cast("Q"))
    except OSError:
        # A full disk. Readers outside then see what the journal itself says is synced, so long as no old file tells
        # them of a run that is over.
        for each in (temporary, path):
            with suppress(OSError):
                disk.unlink(each)
        return Committed(None)


def read_committed(disk: IDisk, directory: str, store: bytes) -> Position | None:
    """What the file says; None where there is none that is whole and of this store."""
    try:
        words = disk.map(os.path.join(directory, FILE_NAME), SIZE, writable=False)
    except (OSError, ValueError):
        # ValueError: it is shorter than that.
        return None
    head = bytes(words[: _HEAD.size])
    magic, version, crc, of, run = _HEAD.unpack(head)
    if magic != MAGIC or version != VERSION or of != store or crc != _crc(head):
        return None
    numbers = words.cast("Q")
    committed, synced, inverse = numbers[_COMMITTED], numbers[_SYNCED], numbers[_INVERSE]
    return Position(run, committed, synced if synced ^ inverse == _ONES else 0)


def _encode(store: bytes, run: int, sequence: int) -> bytes:
    head = _HEAD.pack(MAGIC, VERSION, 0, store, run)
    return _FILE.pack(MAGIC, VERSION, _crc(head), store, run, sequence, sequence, sequence ^ _ONES)


def _crc(head: bytes) -> int:
    return crc32c(head[16:], crc32c(head[:12]))
