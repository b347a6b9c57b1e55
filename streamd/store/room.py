"""How the store shares the disk with its compactor, which has to write before it can give anything back.

No file is large beside the disk, and appends leave room for the largest one to be written again. So a disk that the
store itself has filled is never too full to be cleared: what is deleted can be folded, and packs that are mostly dead
can be written again, one at a time.
"""

from __future__ import annotations

import os
from errno import EDQUOT, ENOSPC
from typing import Final

from streamd.store.disk import IDisk

PACK_BYTES_MAX: Final = 1 << 30
"""No pack is made larger than this by a merge."""

# The largest file is so small a part of the disk, where that is not less than the other one.
_DISK_PART: Final = 32
_FILE_BYTES_LEAST: Final = 1 << 20


def is_full(error: OSError) -> bool:
    """Whether an error of the disk means that there is no room."""
    return error.errno in (ENOSPC, EDQUOT)


def file_bytes_max(disk: IDisk, directory: str) -> int:
    """How large a file of the store may be on this disk."""
    return min(PACK_BYTES_MAX, max(disk.size_bytes(directory) // _DISK_PART, _FILE_BYTES_LEAST))


def largest_file_bytes(disk: IDisk, journal: str) -> int:
    """The size of the largest file that a compactor may have to write again: a journal file, or a pack."""
    packs = os.path.join(os.path.dirname(journal), "packs")
    stamps = [disk.stamp(os.path.join(each, name)) for each in (journal, packs) for name in disk.list_directory(each)]
    return max((stamp[0] for stamp in stamps if stamp), default=0)
