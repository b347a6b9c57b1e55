"""Repairing a damaged store: what can be saved is saved, what can't is said, and all that is taken away is kept.

A repair never guesses in silence. `Repair.examine` says what is wrong, what would be done and what would be lost, and
changes nothing; `Repair.apply` does just that. The order: the catalog is made readable, the journal is cut where it is
damaged, all of it is folded, segments that have lost records are truncated behind the loss, packs with damage are
written again. Sequence numbers that were ever given are not given again, so no segment gets the id of one that is lost.

Everything that goes is first put into ``repair/`` below the data directory, as files and, where records can still be
read, as JSON lines. Nobody else may have the store open.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Final, Self
from uuid import UUID

from streamd.store import wal
from streamd.store.directory import COMPACTOR_LOCK, IDENTITY, JOURNAL, LOCK, PACKS, read_identity
from streamd.store.disk import Disk, IDisk, IDiskFile
from streamd.store.errors import NotAStore, StoreLocked, StoreUnusable, UnknownVersion
from streamd.store.journal.committed import FILE_NAME as COMMITTED_NAME
from streamd.store.journal.frame import FILE_HEADER, VERSION, FileHeader, decode_file_header
from streamd.store.journal.writer import TEMPORARY_SUFFIX, file_name, new_mark
from streamd.store.packs import pack
from streamd.store.packs.catalog import FILE_NAME as CATALOG_NAME
from streamd.store.packs.catalog import Catalog
from streamd.store.packs.fold import Folder, journal_numbers
from streamd.store.packs.rowsum import UNREADABLE
from streamd.store.segments.registry import Segments
from streamd.store.upkeep.backup.files import write_file
from streamd.store.upkeep.problems import Problem, Progress, Severity
from streamd.store.upkeep.repair.catalog import Rows, lost_commits, read_rows
from streamd.store.upkeep.repair.clues import Clues
from streamd.store.upkeep.repair.journal import JournalRepair, is_too_new
from streamd.store.upkeep.repair.kept import Kept, Step, was_cut_off
from streamd.store.upkeep.repair.packs import Hole, Packs, Places, close_holes, find_holes
from streamd.store.upkeep.repair.refill import Refill, Refilled, planned_rows, take_up
from streamd.store.upkeep.verify.check import verify

_CATALOG_FILES: Final = (CATALOG_NAME, f"{CATALOG_NAME}-wal", f"{CATALOG_NAME}-shm")


class Repair:
    """A store that nobody else has, for as long as the ``with`` block lasts."""

    def __init__(self, disk: IDisk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._locks: list[IDiskFile] = []
        self._steps: list[Step] = []
        self._identity: bytes | None = None
        self._strange: list[str] = []
        self._wounded: set[int] = set()

    def __enter__(self) -> Self:
        try:
            self._disk.list_directory(os.path.join(self._directory, JOURNAL))
        except OSError as error:
            raise NotAStore(f"{self._directory}: there is no store here: {error.strerror}") from error
        for name in (LOCK, COMPACTOR_LOCK):
            lock = self._disk.lock(os.path.join(self._directory, name))
            if lock is None:
                self.__exit__()
                raise StoreLocked(f"{self._directory}: a daemon has this store. Stop it first")
            self._locks.append(lock)
        return self

    def __exit__(self, *_: object) -> None:
        for lock in self._locks:
            lock.close()
        self._locks = []

    # -- looking -------------------------------------------------------------------------------------------------------

    def examine(self, progress: Callable[[Progress], None] | None = None) -> list[Step]:
        """What is wrong, and what `apply` would do about it. Nothing is changed. None: the store is sound."""
        self._steps = []
        self._store = self._find_identity()
        if not self._steps and not self._look(progress):
            return []
        self._packs = Packs(self._disk, self._directory)
        clues = Clues(self._disk, self._directory, self._store)
        self._rows: Rows = read_rows(self._disk, self._directory, self._store, self._packs, clues)
        self._steps += self._rows.steps
        # The catalog as it will be, in memory: the rest is held against it, and the new file is a copy of it.
        self._catalog = self._in_memory()
        self._segments = Segments()
        self._segments.load(self._catalog.segments())
        self._journal = JournalRepair(self._disk, self._directory, self._store)
        self._journal.examine(self._rows.covered, self._segments)
        self._steps += self._journal.steps
        self._bad: Places = self._packs.bad(self._catalog)
        self._holes = self._examine_refill()
        self._examine_packs()
        if not self._steps:
            raise StoreUnusable(
                f"{self._directory}: damaged in a way that can't be repaired: see 'streamctl verify'. Restore a backup"
            )
        return self._steps

    def _check_wal(self, problems: list[Problem]) -> None:
        """Refuse a store whose catalog has lost commits that other files rely on: they can't be told from elsewhere.

        What SQLite ignores of a WAL may as well be the end of a commit that was cut off by a crash. Then the catalog
        before it fits the other files.
        """
        path = os.path.join(self._directory, CATALOG_NAME)
        is_lacking = any(
            each.path == path or not self._disk.stamp(each.path) or "begins at sequence" in each.reason
            for each in problems
        )
        if not is_lacking or not self._disk.stamp(path + wal.SUFFIX) or was_cut_off(self._disk, self._directory):
            # The end of a WAL that a repair was cut off at is its own: it has looked before it began.
            return
        file = self._disk.open(path + wal.SUFFIX, writable=False)
        try:
            ignored = wal.ignored_from(file.read)
        finally:
            file.close()
        if ignored is not None:
            raise lost_commits(path, f"damaged: SQLite reads nothing of it from byte {ignored} on")

    def _in_memory(self) -> Catalog:
        """A catalog with the rows that are right, on no disk."""
        catalog = Catalog(_Memory(), self._directory, self._store, writable=True)
        with catalog:
            catalog.fill(self._rows.tables, self._rows.covered, self._rows.pack)
        return catalog

    def _look(self, progress: Callable[[Progress], None] | None) -> bool:
        """Whether anything is damaged; files that do not belong here, and packs with damage, are noted."""
        problems = verify(self._disk, self._directory, progress, is_alone=True)
        found = [each for each in problems if each.severity is Severity.ERROR]
        self._check_wal(found)
        for each in found:
            folder, name = os.path.basename(os.path.dirname(each.path)), os.path.basename(each.path)
            if folder == PACKS and (number := pack.FILE_NAME.fullmatch(name)):
                self._wounded.add(int(number[1]))
            elif folder in (JOURNAL, PACKS) and "not part of the store" in each.reason:
                self._strange.append(each.path)
                self._steps.append(Step(each.path, "not part of the store", "it is taken out and kept", ""))
        return bool(found)

    def _find_identity(self) -> bytes:
        path = os.path.join(self._directory, IDENTITY)
        store, refused = None, None
        try:
            store, damage = read_identity(self._disk, self._directory), "it names a store that no other file knows"
        except FileNotFoundError:
            damage = "the file is missing"
        except StoreUnusable as error:
            refused, damage = error, "the file is damaged"
        stores = set(self._stores())
        if store is not None and (store in stores or not stores):
            return store
        if isinstance(refused, UnknownVersion) and not stores:
            raise refused
        if len(stores) != 1:
            raise StoreUnusable(f"{path}: {damage}, and the other files do not agree on one. Restore it from a backup")
        self._identity = stores.pop()
        self._steps.append(Step(path, damage, "it is made again: the other files tell which store this is", ""))
        return self._identity

    def _stores(self) -> Iterator[bytes]:
        """Which stores the catalog, journal files and packs say they belong to; UnknownVersion where one is too new."""
        with suppress(*UNREADABLE):
            path = os.path.join(self._directory, CATALOG_NAME)
            with closing(self._disk.database(path, writable=False, immutable=True)) as database:
                for (value,) in database.execute("SELECT value FROM meta WHERE key = 'store'"):
                    yield bytes(value)
        for number in journal_numbers(self._disk, os.path.join(self._directory, JOURNAL)):
            name = file_name(number)
            head = self._read(JOURNAL, name, FILE_HEADER.size)
            header = decode_file_header(head)
            if isinstance(header, FileHeader):
                yield header.store
            elif is_too_new(head):
                path = os.path.join(self._directory, JOURNAL, name)
                raise UnknownVersion(f"{path}: the file has format {header}, which this streamd does not read")
        for number in Packs(self._disk, self._directory).numbers:
            head = self._read(PACKS, pack.file_name(number), pack.FILE_HEADER.size)
            if len(head) == pack.FILE_HEADER.size:
                of = pack.FILE_HEADER.unpack(head)[3]
                if pack.check_file_header(head, of, number) is None:
                    yield of

    def _read(self, folder: str, name: str, length: int) -> bytes:
        file = self._disk.open(os.path.join(self._directory, folder, name), writable=False)
        try:
            return bytes(file.read(0, length))
        finally:
            file.close()

    def _examine_refill(self) -> list[Hole]:
        """Find out what the journal still has of records that packs have lost; what nobody has."""
        self._refilled: list[Refilled] = []
        catalog = self._in_memory()
        # The broadcast segment first: those who follow it lose nothing where it does not.
        for is_broadcast in (True, False):
            holes = find_holes(catalog, self._bad)
            segments = {hole.segment for hole in holes if hole.is_broadcast or not is_broadcast}
            with Refill(self._disk, self._directory, self._store, self._rows.covered) as refill:
                refilled = refill.plan(catalog, segments, self._bad)
            with catalog:
                take_up(catalog, refilled, planned_rows(refilled, catalog.next_pack), self._bad)
                catalog.add_pack(catalog.next_pack, 0, 0)
            self._refilled += refilled
        if self._refilled:
            records = sum(each.records for each in self._refilled)
            segments = {each.segment for each in self._refilled}
            self._steps.append(
                Step(
                    os.path.join(self._directory, JOURNAL),
                    f"{records} records of {len(segments)} segments are in no pack that can be read",
                    "they are taken from journal files that are still there, though they are folded",
                    "",
                )
            )
        return find_holes(catalog, self._bad)

    def _examine_packs(self) -> None:
        known = [each.number for each in self._catalog.packs()]
        lost = "see the segments" if self._holes else ""
        for number in known:
            if number not in self._packs.numbers:
                action = "what was only there is given up"
                self._steps.append(Step(self._packs.path(number), "the file is missing", action, lost))
            elif number in self._wounded:
                bad = sum(each == number for each, _ in self._bad)
                self._steps.append(
                    Step(
                        self._packs.path(number),
                        f"{bad} blocks that are needed can't be read" if bad else "no block that is needed is damaged",
                        "it is written again without what is damaged, and kept",
                        lost if bad else "",
                    )
                )
        for hole in self._holes:
            self._steps.append(
                Step(
                    os.path.join(self._directory, CATALOG_NAME),
                    f"segment {hole.segment}, {hole.name!r}: records {hole.where} can't be read",
                    f"it is truncated: record {hole.first_number} is its first from then on",
                    f"records {hole.where}; {sum(row.records for row in hole.rows)} others before record "
                    f"{hole.first_number} are kept in records.jsonl",
                )
            )

    # -- doing ---------------------------------------------------------------------------------------------------------

    def apply(self, name: str) -> str:
        """Do what `examine` has told; returns the folder where everything is kept that was taken away."""
        kept = Kept(self._disk, self._directory, name)
        try:
            for each in (*_CATALOG_FILES, COMMITTED_NAME, IDENTITY):
                kept.copy(os.path.join(self._directory, each))
            kept.begin()
            if self._identity is not None:
                body = json.dumps({"format": VERSION, "store": str(UUID(bytes=self._identity))}).encode() + b"\n"
                write_file(self._disk, os.path.join(self._directory, IDENTITY), body)
            for path in self._strange:
                kept.move(path)
            if self._rows.steps:
                self._replace_catalog()
            for number in journal_numbers(self._disk, os.path.join(self._directory, JOURNAL)) if self._holes else ():
                # What they have of the holes could not be placed. Somebody may know better.
                if number <= self._rows.covered[1]:
                    kept.copy(os.path.join(self._directory, JOURNAL, file_name(number)))
            self._journal.apply(kept, self._segments)
            self._remove(os.path.join(self._directory, COMMITTED_NAME))
            catalog = Catalog(self._disk, self._directory, self._store, writable=True)
            try:
                with Refill(self._disk, self._directory, self._store, self._rows.covered) as refill:
                    # Before the fold, which removes journal files, and moves what is published.
                    refill.apply(catalog, self._refilled, self._bad)
                self._fold(catalog)
                self._mend_packs(catalog, kept)
            finally:
                catalog.close()
            kept.finish()
        finally:
            kept.close()
        return kept.path

    def _remove(self, path: str) -> None:
        try:
            self._disk.unlink(path)
        except FileNotFoundError:
            pass

    def _replace_catalog(self) -> None:
        """A copy of the catalog in memory takes the place of the damaged one, which is kept."""
        path = os.path.join(self._directory, CATALOG_NAME)
        for suffix in ("", "-wal", "-shm"):
            self._remove(path + TEMPORARY_SUFFIX + suffix)
        database = self._disk.database(path + TEMPORARY_SUFFIX, writable=True)
        try:
            self._catalog.copy_to(database)
        finally:
            database.close()
        file = self._disk.open(path + TEMPORARY_SUFFIX, writable=True)
        file.sync(metadata=True)
        file.close()
        # Before the new one has its name: it must never meet the old one's WAL.
        for each in _CATALOG_FILES[1:]:
            self._remove(os.path.join(self._directory, each))
        self._disk.rename(path + TEMPORARY_SUFFIX, path)
        self._disk.sync_directory(self._directory)

    def _fold(self, catalog: Catalog) -> None:
        """Fold what is left of the journal, and see that no sequence number is given twice."""
        directory = os.path.join(self._directory, JOURNAL)
        found = self._journal.found
        last = max([self._rows.covered[1], *[header.number for header in found.good], *found.cut])
        if found.good:
            # A file is folded when it has a successor.
            header = FileHeader(new_mark(), self._store, last + 1, found.sequence, found.timestamp)
            for number in journal_numbers(self._disk, directory):
                if number > found.good[-1].number:
                    self._disk.unlink(os.path.join(directory, file_name(number)))
            write_file(self._disk, os.path.join(directory, file_name(last + 1)), header.encode())
            packs = os.path.join(self._directory, PACKS)
            Folder(self._disk, directory, packs, self._store, catalog).fold(found.good[-1].number)
        with catalog:
            catalog.set_covered(max(found.highest, found.sequence), last + 1, found.timestamp)
        for number in journal_numbers(self._disk, directory):
            self._disk.unlink(os.path.join(directory, file_name(number)))
        self._disk.sync_directory(directory)

    def _mend_packs(self, catalog: Catalog, kept: Kept) -> None:
        packs = Packs(self._disk, self._directory)
        gone = [each.number for each in catalog.packs() if each.number not in packs.numbers]
        # Looked for again: what was published is the target's since the fold.
        close_holes(catalog, packs, find_holes(catalog, self._bad), gone, kept)
        folder = Folder(
            *(self._disk, os.path.join(self._directory, JOURNAL), os.path.join(self._directory, PACKS)),
            *(self._store, catalog),
        )
        for number in sorted(self._wounded & set(packs.numbers)):
            if number in {each.number for each in catalog.packs()}:
                folder.merge([number])
            kept.move(packs.path(number))


class _Memory(Disk):
    """A disk on which a catalog leaves no trace."""

    def database(self, path: str, *, writable: bool, immutable: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None)

    def stamp(self, path: str) -> tuple[int, ...]:
        return ()

    def sync_directory(self, path: str) -> None:
        pass
