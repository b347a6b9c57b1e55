"""Which files of a store nobody needs any more: the one place that decides it.

A journal file that is folded and a pack that the catalog does not know may go, once it is sure that the catalog says so
after a crash too. What a catalog that was opened for reading says is not enough: a commit whose sync failed may have
left more in its WAL than it shows, or it may show what the medium never got. `Catalog` tells when it is.
"""

from __future__ import annotations

from streamd.store.disk import IDisk
from streamd.store.journal.writer import FILE_NAME
from streamd.store.packs import pack
from streamd.store.packs.catalog import Catalog


def spare_packs(disk: IDisk, directory: str, catalog: Catalog) -> list[int]:
    """The packs in a directory that the catalog does not know.

    What they hold is still in the journal, or in the pack that they were merged into.
    """
    if not catalog.writable:
        return []
    known = {each.number for each in catalog.packs()}
    names = map(pack.FILE_NAME.fullmatch, disk.list_directory(directory))
    return [number for name in names if name and (number := int(name[1])) not in known]


def spare_journal(disk: IDisk, directory: str, catalog: Catalog) -> list[int]:
    """The journal files in a directory that are folded: the catalog has all that they say."""
    if not catalog.writable:
        return []
    _, folded, _ = catalog.covered
    names = map(FILE_NAME.fullmatch, disk.list_directory(directory))
    return [number for name in names if name and (number := int(name[1])) <= folded]
