"""The catalog opened for writing, with no doubt left about what it says: no commit that failed can come back, or go.

A commit of SQLite's writes pages into the WAL and syncs it. Where that sync fails, two things can be wrong:

- Those who have the database open, and all who join them, go on without the commit. But its pages are in the WAL, and
  whoever opens the database first after a crash takes them up.
- Whoever opens the database after all others are gone takes them up from the page cache, and the medium may never have
  got them: the next power cut takes the commit back, with all that follow it in the WAL.

So the WAL is written once more, over itself, and synced; and one more commit, which changes nothing, takes the place of
whatever stands behind the last one that counts. A crash while bytes that are needed are written over leaves garbage in
the worst case, so a synced copy of the WAL lies beside it meanwhile; who finds one puts it back.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from typing import Final

from streamd.store.disk import IDisk
from streamd.store.journal.writer import TEMPORARY_SUFFIX
from streamd.store.wal import SUFFIX as WAL_SUFFIX

COPY_SUFFIX: Final = WAL_SUFFIX + ".copy"

_COPY_BYTES: Final = 1 << 20


def open_settled(disk: IDisk, path: str) -> sqlite3.Connection:
    """A database that shows what is on the medium, and what a crash leaves, until a commit of it fails.

    The caller keeps other writers out. Raises OSError or sqlite3.Error where the disk can't do it, also for want of
    room; nothing may be removed on the word of the database then.
    """
    copy = path + COPY_SUFFIX
    restore_wal(disk, path)
    has_pages = bool((disk.stamp(path + WAL_SUFFIX) or (0,))[0])
    database = disk.database(path, writable=True)
    try:
        if has_pages:
            database.execute("BEGIN IMMEDIATE")
            with suppress(FileNotFoundError):
                disk.unlink(copy + TEMPORARY_SUFFIX)
            disk.create(copy + TEMPORARY_SUFFIX).close()
            _copy(disk, path + WAL_SUFFIX, copy + TEMPORARY_SUFFIX)
            disk.rename(copy + TEMPORARY_SUFFIX, copy)
            disk.sync_directory(os.path.dirname(path))
            _put_back(disk, path)
            (version,) = database.execute("PRAGMA user_version").fetchone()
            database.execute(f"PRAGMA user_version = {version}")
            database.commit()
        else:
            # One that was removed could come back otherwise.
            disk.sync_directory(os.path.dirname(path))
    except BaseException:
        database.close()
        raise
    return database


def restore_wal(disk: IDisk, path: str) -> None:
    """Put the copy of a WAL back that a crash has left beside it."""
    if disk.stamp(path + COPY_SUFFIX):
        _put_back(disk, path)


def _put_back(disk: IDisk, path: str) -> None:
    """Write the copy over the WAL, which then needs it no more."""
    _copy(disk, path + COPY_SUFFIX, path + WAL_SUFFIX)
    disk.unlink(path + COPY_SUFFIX)
    disk.sync_directory(os.path.dirname(path))


def _copy(disk: IDisk, source: str, target: str) -> None:
    """Copy a file over another that is there, synced."""
    read = disk.open(source, writable=False)
    try:
        written = disk.open(target, writable=True)
        try:
            for position in range(0, read.size(), _COPY_BYTES):
                written.write(position, [read.read(position, _COPY_BYTES)])
            written.sync(metadata=True)
        finally:
            written.close()
    finally:
        read.close()
