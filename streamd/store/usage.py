"""How much room a store takes, and how much there is: figures for people, so nothing of the store depends on them."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

# What a block is in st_blocks, whatever the file system's own are.
_BLOCK_BYTES: Final = 512


class Usage(NamedTuple):
    """Files and the bytes that are allocated for them, which may be more than they hold."""

    journal_files: int
    journal_bytes: int
    pack_files: int
    pack_bytes: int
    other_bytes: int
    """The catalog, and what else lies in the data directory."""
    free_bytes: int
    """What this user may still write."""
    disk_bytes: int


def usage(journal: str, packs: str) -> Usage:
    """Look at a store's directories. Slow: for a thread."""
    home = os.path.dirname(journal)
    disk = os.statvfs(home)
    return Usage(
        *_allocated(journal),
        *_allocated(packs),
        _allocated(home)[1],
        disk.f_bavail * disk.f_frsize,
        disk.f_blocks * disk.f_frsize,
    )


def _allocated(directory: str) -> tuple[int, int]:
    """The files right in a directory, and what they take."""
    files = blocks = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                if entry.is_file(follow_symlinks=False):
                    blocks += entry.stat(follow_symlinks=False).st_blocks
                    files += 1
            except FileNotFoundError:
                pass  # the compactor was faster
    return files, blocks * _BLOCK_BYTES
