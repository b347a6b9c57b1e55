"""A store's packs and its catalog, opened for writing: whatever the catalog is like, it fits the packs afterwards."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final, NamedTuple

from twisted.logger import Logger

from streamd.store.directory import PACKS, read_format
from streamd.store.disk import IDisk
from streamd.store.errors import StoreCorrupt, StoreUnusable
from streamd.store.packs.catalog import FILE_NAME, Catalog, CatalogFull
from streamd.store.packs.database import FORMAT_2, UNREADABLE
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.making import catch_up, make_catalog
from streamd.store.packs.settle import COPY_SUFFIX
from streamd.store.wal import SUFFIX as WAL_SUFFIX

_log = Logger()

# How often it is told how far a catalog is made.
_TELL_SECONDS: Final = 5.0


class Opened(NamedTuple):
    """What belongs together."""

    catalog: Catalog
    packs: PackSet

    @property
    def is_old(self) -> bool:
        """Whether the catalog is the only one who knows what is in packs: it is of an earlier format."""
        return self.catalog.is_settled


def is_old(disk: IDisk, directory: str, packs: PackSet) -> bool:
    """Whether a store is of an earlier format, and was not brought over yet."""
    return not packs.footers and read_format(disk, directory) <= FORMAT_2


def open_packs(disk: IDisk, directory: str, store: bytes, *, is_alone: bool) -> Opened:
    """The packs in force and the catalog of them, which is brought up to date, or made again.

    `is_alone`: nobody else has the catalog open, so a file that SQLite can't read is removed. CatalogFull for want of
    room; then it can be read, where it fits.
    """
    packs = PackSet(disk, os.path.join(directory, PACKS), store).read()
    if is_old(disk, directory, packs):
        return Opened(Catalog(disk, directory, store, writable=True, is_settled=True), packs)
    catalog = None
    try:
        catalog = Catalog(disk, directory, store, writable=True)
        fit(catalog, packs)
        return Opened(catalog, packs)
    except (CatalogFull, StoreCorrupt):
        # The second one is about a pack.
        raise
    except (StoreUnusable, *UNREADABLE) as error:
        if catalog is not None:
            catalog.close()
        if not is_alone:
            raise
        _log.warn("the catalog can't be used: {error}", error=str(error))
    return Opened(make_again(disk, directory, store, packs), packs)


def make_again(disk: IDisk, directory: str, store: bytes, packs: PackSet) -> Catalog:
    """A new catalog in place of one that nobody can use, and nobody has open."""
    path = os.path.join(directory, FILE_NAME)
    # The file first: without it a WAL is nothing, but a WAL of another file is a danger.
    for suffix in ("", WAL_SUFFIX, "-shm", COPY_SUFFIX):
        with suppress(FileNotFoundError):
            disk.unlink(path + suffix)
    catalog = Catalog(disk, directory, store, writable=True)
    try:
        fit(catalog, packs)
    except BaseException:
        catalog.close()
        raise
    return catalog


def fit(catalog: Catalog, packs: PackSet) -> None:
    """Bring a catalog up to date with the packs."""
    if catalog.mark == packs.mark or catch_up(catalog, packs):
        return
    _log.info("the catalog does not fit the packs: it is made again of {packs} packs", packs=len(packs.footers))
    begin = told = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() > told + _TELL_SECONDS:
            told = time.monotonic()
            _log.info("{done} of {total} packs are in the catalog", done=done, total=total)

    make_catalog(catalog, packs, progress)
    _log.info("the catalog is made again, in {seconds} s", seconds=round(time.monotonic() - begin, 1))
