"""A compactor whose catalog can't be synced: ``python -m tests.store.failing DIRECTORY fold FILE`` or ``merge``.

Every fdatasync of the catalog's WAL fails with an input/output error, and of nothing else: the kernel says so, SQLite
is the real one. What was written stays in the page cache, and may or may not be on the medium. Prints the error.
"""

from __future__ import annotations

import os
import sqlite3
import sys

from streamd.store.directory import read_identity
from streamd.store.disk import Disk
from streamd.store.packs.catalog import Catalog
from streamd.store.packs.fold import Folder
from tests.confined import fail


def main(directory: str, command: str, *numbers: str) -> None:
    """Do it, and end as a process that is killed does: nothing is closed in order."""
    disk = Disk()
    store = read_identity(disk, directory)
    catalog = Catalog(disk, directory, store, writable=True)
    folder = Folder(disk, os.path.join(directory, "journal"), os.path.join(directory, "packs"), store, catalog)
    wal = os.path.realpath(catalog.path + "-wal")
    (descriptor,) = [int(each) for each in os.listdir("/proc/self/fd") if _leads_to(each, wal)]
    fail("fdatasync", descriptor)
    try:
        if command == "fold":
            folder.fold(int(numbers[0]))
        else:
            folder.merge([each.number for each in catalog.packs()])
    except sqlite3.OperationalError as error:
        print(error, flush=True)
    os._exit(0)


def _leads_to(descriptor: str, path: str) -> bool:
    try:
        return os.path.realpath(f"/proc/self/fd/{descriptor}") == path
    except OSError:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
