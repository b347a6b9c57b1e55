"""Repairing a damaged store: what can be saved is saved, what can't is said, and all that is taken away is kept.

A repair never guesses in silence. `Repair.examine` says what is wrong, what would be done and what would be lost, and
changes nothing; `Repair.apply` does just that. The journal is cut where it is damaged; then one new pack is written, a
checkpoint, in which all is right again: what is left of the journal is folded into it, segments that have lost records
are truncated behind the loss, and what is good in damaged packs is there once more. With its name the repair is done.
Sequence numbers that were ever given are not given again, so no segment gets the id of one that is lost.

Everything that goes is first put into ``repair/`` below the data directory, as files and, where records can still be
read, as JSON lines. Nobody else may have the store open.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Final, Self
from uuid import UUID

from streamd.store.directory import COMPACTOR_LOCK, IDENTITY, JOURNAL, LOCK, PACKS, read_format, read_identity
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import NotAStore, StoreLocked, StoreUnusable, UnknownVersion
from streamd.store.journal.committed import FILE_NAME as COMMITTED_NAME
from streamd.store.journal.frame import FILE_HEADER, VERSION, FileHeader, decode_file_header
from streamd.store.journal.writer import file_name, new_mark
from streamd.store.packs import pack
from streamd.store.packs.catalog import FILE_NAME as CATALOG_NAME
from streamd.store.packs.catalog import Catalog
from streamd.store.packs.database import FORMAT_2, UNREADABLE
from streamd.store.packs.fold import Folder, all_rows, journal_numbers
from streamd.store.packs.footer import COLUMNS, NO_MARK, Adopted, Told
from streamd.store.packs.making import apply_changes
from streamd.store.packs.opening import Opened
from streamd.store.packs.settle import COPY_SUFFIX
from streamd.store.segments.registry import Segments
from streamd.store.upkeep.backup.files import write_file
from streamd.store.upkeep.problems import Progress, Severity
from streamd.store.upkeep.repair.journal import JournalRepair, is_too_new
from streamd.store.upkeep.repair.kept import Kept, Step
from streamd.store.upkeep.repair.known import find_known
from streamd.store.upkeep.repair.packs import Packs, Places, close_holes, find_holes
from streamd.store.upkeep.verify.check import verify

_CATALOG_FILES: Final = (CATALOG_NAME, f"{CATALOG_NAME}-wal", f"{CATALOG_NAME}-shm", f"{CATALOG_NAME}{COPY_SUFFIX}")


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
        self._format = self._find_format()
        if not self._steps and not self._look(progress):
            return []
        self._packs = Packs(self._disk, self._directory)
        packs = os.path.join(self._directory, PACKS)
        known = find_known(self._disk, self._directory, self._store, packs, self._format, self._begin(), self._wounded)
        # The catalog as it will be, in memory: the rest is held against it.
        self._catalog, self._in_force, steps = known
        self._steps += steps
        self._covered = self._catalog.covered
        self._segments = Segments()
        self._segments.load(self._catalog.segments())
        self._journal = JournalRepair(self._disk, self._directory, self._store)
        self._journal.examine(self._covered, self._segments)
        self._steps += self._journal.steps
        self._bad: Places = self._packs.bad(self._catalog)
        self._holes = find_holes(self._catalog, self._bad)
        self._examine_packs()
        if not self._steps:
            raise StoreUnusable(
                f"{self._directory}: damaged in a way that can't be repaired: see 'streamctl verify'. Restore a backup"
            )
        return self._steps

    def _look(self, progress: Callable[[Progress], None] | None) -> bool:
        """Whether anything is damaged; files that do not belong here, and packs with damage, are noted."""
        problems = verify(self._disk, self._directory, progress, is_alone=True)
        found = [each for each in problems if each.severity is Severity.ERROR]
        for each in found:
            folder, name = os.path.basename(os.path.dirname(each.path)), os.path.basename(each.path)
            if name == CATALOG_NAME and self._format > FORMAT_2:
                self._steps.append(Step(each.path, each.reason, "it goes, and the next start makes it again", ""))
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

    def _find_format(self) -> int:
        """The format that counts: where `identity` is lost, that of the packs, or of the catalog."""
        if self._identity is None:
            return read_format(self._disk, self._directory)
        for number in Packs(self._disk, self._directory).numbers:
            head = self._read(PACKS, pack.file_name(number), pack.FILE_HEADER.size)
            if pack.check_file_header(head, self._store, number) is None and pack.has_footer(head):
                return VERSION
        try:
            with closing(Catalog(self._disk, self._directory, self._store, writable=False, immutable=True)) as catalog:
                return VERSION if catalog.mark.number >= 0 else FORMAT_2
        except StoreUnusable:
            return FORMAT_2

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

    def _begin(self) -> int:
        """The sequence number that the journal begins with, as far as its files tell."""
        for number in journal_numbers(self._disk, os.path.join(self._directory, JOURNAL)):
            header = decode_file_header(self._read(JOURNAL, file_name(number), FILE_HEADER.size))
            if isinstance(header, FileHeader) and header.store == self._store:
                return header.sequence
        return 1

    def _read(self, folder: str, name: str, length: int) -> bytes:
        file = self._disk.open(os.path.join(self._directory, folder, name), writable=False)
        try:
            return bytes(file.read(0, length))
        finally:
            file.close()

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
            if self._identity is not None:
                told = {
                    "format": VERSION if self._format > FORMAT_2 else FORMAT_2,
                    "store": str(UUID(bytes=self._identity)),
                }
                write_file(self._disk, os.path.join(self._directory, IDENTITY), json.dumps(told).encode() + b"\n")
            for path in self._strange:
                kept.move(path)
            for number in journal_numbers(self._disk, os.path.join(self._directory, JOURNAL)) if self._holes else ():
                # What they have of the holes could not be placed. Somebody may know better.
                if number <= self._covered[1]:
                    kept.copy(os.path.join(self._directory, JOURNAL, file_name(number)))
            self._journal.apply(kept, self._segments)
            self._remove(os.path.join(self._directory, COMMITTED_NAME))
            self._mend(kept)
        finally:
            kept.close()
        return kept.path

    def _remove(self, path: str) -> None:
        try:
            self._disk.unlink(path)
        except FileNotFoundError:
            pass

    def _mend(self, kept: Kept) -> None:
        """Write the one pack with which all is right, and take away what it replaces."""
        journal, packs = os.path.join(self._directory, JOURNAL), os.path.join(self._directory, PACKS)
        last = self._close_journal(journal)
        catalog, highest = self._catalog, max([self._catalog.next_pack - 1, *self._packs.numbers])
        with catalog:
            catalog.set_mark(self._in_force.mark._replace(number=highest))
        folder = Folder(self._disk, journal, packs, self._store, Opened(catalog, self._in_force))
        writer = folder.writer()
        try:
            with catalog:
                catalog.add_pack(writer.number, 0, 0)
            self._fold(folder, writer, last)
            close_holes(catalog, self._packs, find_holes(catalog, self._bad), kept)
            self._write_again(folder, writer)
            found = self._journal.found
            covered = (max(found.highest, found.sequence), last + 1, max(found.timestamp, catalog.covered[2]))
            others = [each for each in catalog.packs() if each.live and each.number != writer.number]
            adopted = tuple([Adopted(each.number, each.bytes, each.blocks) for each in others])
            rows_of = all_rows(catalog)
            for table in COLUMNS:
                writer.add_rows(table, rows_of(table))
            writer.finish(Told(NO_MARK, covered, ((1, covered[0]),), (), adopted, is_whole=True, is_merged=True))
        except BaseException:
            writer.abandon()
            raise
        self._clear_up(kept, journal)

    def _close_journal(self, directory: str) -> int:
        """Let all that is left of the journal have a successor, so that it can be folded; returns its last file."""
        found = self._journal.found
        last = max([self._covered[1], *[header.number for header in found.good], *found.cut])
        if found.good:
            for number in journal_numbers(self._disk, directory):
                if number > found.good[-1].number:
                    self._disk.unlink(os.path.join(directory, file_name(number)))
            header = FileHeader(new_mark(), self._store, last + 1, found.sequence, found.timestamp)
            write_file(self._disk, os.path.join(directory, file_name(last + 1)), header.encode())
        return last

    def _fold(self, folder: Folder, writer: pack.PackWriter, last: int) -> None:
        touched, covered = folder.replay(last)
        rows = folder.fold_rows(touched, writer)
        with self._catalog:
            apply_changes(self._catalog, rows)
            self._catalog.set_covered(*covered)

    def _write_again(self, folder: Folder, writer: pack.PackWriter) -> None:
        """What can be read of packs with damage is written once more; extents that lead nowhere go."""
        catalog = self._catalog
        known = [each.number for each in catalog.packs()]
        gone = [number for number in known if number not in self._packs.numbers and number != writer.number]
        wounded = sorted(self._wounded & set(self._packs.numbers) & set(known))
        files: dict[int, IDiskFile] = {}
        with catalog:
            for row in list(catalog.extents_of_packs(wounded)):
                if (row.pack, row.position) in self._bad:
                    catalog.drop_extent(row)
        rows = list(folder.merge_rows(wounded, writer, files))
        with catalog:
            catalog.drop_packs([*wounded, *gone])
            catalog.add_extents(rows)
            catalog.count_live()

    def _clear_up(self, kept: Kept, journal: str) -> None:
        """Nobody needs the rest: the journal files are folded, the catalog is made again by the next start."""
        for number in sorted(self._wounded & set(self._packs.numbers)):
            kept.move(self._packs.path(number))
        for number in journal_numbers(self._disk, journal):
            self._disk.unlink(os.path.join(journal, file_name(number)))
        self._disk.sync_directory(journal)
        for each in _CATALOG_FILES:
            self._remove(os.path.join(self._directory, each))
        self._disk.sync_directory(self._directory)
