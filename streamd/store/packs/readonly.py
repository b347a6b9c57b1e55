"""The catalog for those who may not write there: asked in short transactions, opened in whichever way works.

A SQLite database in WAL mode has three files. While a daemon runs all of them are there, and whoever may read them can
open the database read-only (since SQLite 3.22, also where the ``-shm`` file can't be written). The same holds after a
daemon was killed. Where the last connection was closed in order, ``-wal`` and ``-shm`` are gone, all is in the main
file, and somebody who can't create them is refused (who can, leaves them there); then, and only then, ``immutable=1``
is right, for as long as the file is not touched: that is looked at before and after each question.

Where the catalog does not fit the packs, or can't be read, one is made of the packs, in memory.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import Final, TypeVar

from streamd.store.directory import PACKS
from streamd.store.disk import Disk, IDisk
from streamd.store.errors import SAVE, StoreCorrupt, StoreUnusable
from streamd.store.packs.catalog import FILE_NAME, Catalog, Row
from streamd.store.packs.database import UNREADABLE, CatalogDamaged
from streamd.store.packs.footer import Mark
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.making import make_catalog
from streamd.store.packs.opening import is_old

T = TypeVar("T")

# A reader that can't write to the -shm file depends on marks that others set there. They do so with their next
# question; a compactor that was killed is started again after a second.
_SECONDS_MAX: Final = 10.0
_PAUSE_SECONDS: Final = 0.005


class Memory(Disk):
    """A disk on which a catalog leaves no trace."""

    def database(
        self, path: str, *, writable: bool, immutable: bool = False, is_index: bool = False
    ) -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


class ReadOnlyCatalog:
    """Answers questions about what is folded. One thread at a time."""

    def __init__(
        self, disk: IDisk, directory: str, store: bytes, *, is_alone: bool = False, is_judged: bool = False
    ) -> None:
        """`is_alone`: the caller keeps all writers out, and nothing is changed, not even what SQLite has for itself.

        `is_judged`: the caller wants to know what is wrong with the catalog: none is made in its place.
        """
        self._disk = disk
        self._is_alone = is_alone
        self._is_judged = is_judged
        self._directory = directory
        self._packs = os.path.join(directory, PACKS)
        self._store = store
        self._path = os.path.join(directory, FILE_NAME)
        self._catalog: Catalog | None = None
        self._is_made = False
        self._untouched: tuple[object, ...] | None = None
        """For one that is immutable or made, what the files were like that it was made of."""

    def ask(self, question: Callable[[Catalog], T]) -> T:
        """The answer, from one state of the catalog where the question is one transaction. StoreUnusable."""
        end = time.monotonic() + _SECONDS_MAX
        while True:
            try:
                answer = question(self._opened())
                if self._untouched in (None, self._touched()):
                    return answer
                reason = "the catalog changes all the time"
            except (sqlite3.OperationalError, FileNotFoundError) as error:
                reason = str(error)
            except (CatalogDamaged, *UNREADABLE) as error:
                if self._is_judged or self._is_made:
                    raise StoreUnusable(f"{self._path}: {error}. {SAVE}") from error
                self.make()
                continue
            self.close()
            if time.monotonic() > end:
                raise StoreUnusable(f"{self._path}: can't be read: {reason}")
            time.sleep(_PAUSE_SECONDS)

    def _opened(self) -> Catalog:
        if self._untouched is not None and self._untouched != self._touched():
            self.close()
        if self._catalog is None:
            self._open()
        assert self._catalog is not None
        return self._catalog

    def _open(self) -> None:
        newest = None if self._is_judged else self._newest()
        touched = self._touched()
        immutable = self._is_alone or not touched[1]
        try:
            catalog = Catalog(self._disk, self._directory, self._store, writable=False, immutable=immutable)
        except StoreUnusable as error:
            if isinstance(error.__cause__, sqlite3.OperationalError) and self._disk.stamp(self._path):
                # What failed may pass: somebody closes or opens it just now.
                raise error.__cause__ from None
            if newest is None:
                raise
            self.make()
            return
        if newest is not None and catalog.mark not in newest and catalog.mark.number <= newest[0].number:
            catalog.close()
            self.make()
            return
        self._catalog = catalog
        self._untouched = touched if immutable else None

    def _newest(self) -> tuple[Mark, Mark] | None:
        """The newest pack and the one before it: a catalog that fits has one of these marks, or a later one.

        None where packs do not tell it: the catalog is of an earlier format, or a pack is damaged.
        """
        try:
            packs = PackSet(self._disk, self._packs, self._store).read()
        except StoreCorrupt:
            return None
        if not packs.footers:
            return None if is_old(self._disk, self._directory, packs) else (packs.mark, packs.mark)
        return packs.mark, packs.footers[packs.mark.number].told.before

    def make(self) -> None:
        """Take a catalog that is made of the packs as they are now."""
        self.close()
        self._is_made = True
        self._untouched = self._touched()
        catalog = Catalog(Memory(), self._directory, self._store, writable=True)
        make_catalog(catalog, PackSet(self._disk, self._packs, self._store).read())
        self._catalog = catalog

    def _touched(self) -> tuple[object, ...]:
        if self._is_made:
            return tuple(self._disk.list_directory(self._packs))
        return self._disk.stamp(self._path), self._disk.stamp(self._path + "-wal")

    def close(self) -> None:
        """Let go of it. The next question opens it again."""
        if self._catalog is not None:
            self._catalog.close()
        self._catalog = None
        self._is_made = False
        self._untouched = None

    # -- what `PackedIndex` asks ---------------------------------------------------------------------------------------

    def extents_from_number(self, segment: int, number: int, limit: int) -> list[Row]:
        """As `Catalog` has it."""
        return self.ask(lambda catalog: catalog.extents_from_number(segment, number, limit))

    def extents_from_offset(self, segment: int, offset: int, limit: int) -> list[Row]:
        """As `Catalog` has it."""
        return self.ask(lambda catalog: catalog.extents_from_offset(segment, offset, limit))

    def number_at(self, segment: int, timestamp: int) -> int | None:
        """As `Catalog` has it."""
        return self.ask(lambda catalog: catalog.number_at(segment, timestamp))

    def needed_broadcast(self) -> int | None:
        """As `Catalog` has it."""
        return self.ask(lambda catalog: catalog.needed_broadcast())
