"""The catalog for those who may not write there: asked in short transactions, opened in whichever way works.

A SQLite database in WAL mode has three files. While a daemon runs all of them are there, and whoever may read them can
open the database read-only (since SQLite 3.22, also where the ``-shm`` file can't be written). The same holds after a
daemon was killed. Where the last connection was closed in order, ``-wal`` and ``-shm`` are gone, all is in the main
file, and somebody who can't create them is refused (who can, leaves them there); then, and only then, ``immutable=1``
is right, for as long as the file is not touched: that is looked at before and after each question.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import Final, TypeVar

from streamd.store.disk import IDisk
from streamd.store.errors import SAVE, StoreUnusable
from streamd.store.packs.catalog import FILE_NAME, Catalog, Row
from streamd.store.packs.rowsum import UNREADABLE

T = TypeVar("T")

# A reader that can't write to the -shm file depends on marks that others set there. They do so with their next
# question; a compactor that was killed is started again after a second.
_SECONDS_MAX: Final = 10.0
_PAUSE_SECONDS: Final = 0.005


class ReadOnlyCatalog:
    """Answers questions about what is folded. One thread at a time."""

    def __init__(self, disk: IDisk, directory: str, store: bytes, *, is_alone: bool = False) -> None:
        """`is_alone`: the caller keeps all writers out, and nothing is changed, not even what SQLite has for itself."""
        self._disk = disk
        self._is_alone = is_alone
        self._directory = directory
        self._store = store
        self._path = os.path.join(directory, FILE_NAME)
        self._catalog: Catalog | None = None
        self._untouched: tuple[object, object] | None = None
        """For an immutable one, what its files were like when it was opened."""

    def ask(self, question: Callable[[Catalog], T]) -> T:
        """The answer, from one state of the catalog where the question is one transaction. StoreUnusable."""
        end = time.monotonic() + _SECONDS_MAX
        while True:
            try:
                answer = question(self._opened())
                if self._untouched in (None, self._touched()):
                    return answer
                reason = "the catalog changes all the time"
            except sqlite3.OperationalError as error:
                reason = str(error)
            except UNREADABLE as error:
                raise StoreUnusable(f"{self._path}: {error}. {SAVE}") from error
            self.close()
            if time.monotonic() > end:
                raise StoreUnusable(f"{self._path}: can't be read: {reason}")
            time.sleep(_PAUSE_SECONDS)

    def _opened(self) -> Catalog:
        if self._untouched is not None and self._untouched != self._touched():
            self.close()
        if self._catalog is None:
            touched = self._touched()
            immutable = self._is_alone or not touched[1]
            try:
                self._catalog = Catalog(self._disk, self._directory, self._store, writable=False, immutable=immutable)
            except StoreUnusable as error:
                if isinstance(error.__cause__, sqlite3.OperationalError):
                    # What failed may pass: somebody closes or opens it just now.
                    raise error.__cause__ from None
                raise
            self._untouched = touched if immutable else None
        return self._catalog

    def _touched(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self._disk.stamp(self._path), self._disk.stamp(self._path + "-wal")

    def close(self) -> None:
        """Let go of it. The next question opens it again."""
        if self._catalog is not None:
            self._catalog.close()
        self._catalog = None
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
