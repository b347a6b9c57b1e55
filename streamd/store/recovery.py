"""Opening a store: make the catalog fit the packs, replay what is whole of the journal, refuse what is damaged.

Damage below the highest synced position that any frame names is corruption, and so is any damage in a file that
has a successor: that was on the medium, and somebody relies on it. Damage at or above that position is a torn tail:
nobody was told that it is stored. It is cut, and kept beside the journal.

What stands above the synced position is written again into a new file, and synced, before anything is served: after a
failed sync the page cache can show what the medium never got.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from streamd.batch import Buffer
from streamd.settings import StoreSettings
from streamd.store.directory import DataDirectory
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import SAVE, StoreCorrupt, StoreUnusable
from streamd.store.journal.committed import FILE_NAME as COMMITTED_NAME
from streamd.store.journal.committed import begin_committed, read_committed
from streamd.store.journal.frame import ENTRY_HEADER, FILE_HEADER, FRAME_HEADER, FileHeader, frame_head
from streamd.store.journal.replay import Replay, read_bytes
from streamd.store.journal.scan import Scanner
from streamd.store.journal.writer import (
    FILE_NAME,
    TEMPORARY_NAME,
    TEMPORARY_SUFFIX,
    TORN_SUFFIX,
    JournalWriter,
    NoRoom,
    file_name,
    new_mark,
)
from streamd.store.packs.catalog import FILE_NAME as CATALOG_NAME
from streamd.store.packs.catalog import Catalog, CatalogFull, NoCatalog, Pack
from streamd.store.packs.database import UNREADABLE, CatalogDamaged
from streamd.store.packs.fold import journal_numbers
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.opening import Opened, is_old, make_again, open_packs
from streamd.store.packs.settle import restore_wal
from streamd.store.segments.registry import Segments


@dataclass
class Recovery:
    """What was found, for the log."""

    files: int = 0
    frames: int = 0
    entries: int = 0
    torn_file: str | None = None
    torn_position: int = 0
    torn_reason: str | None = None
    kept: str | None = None


def recover(disk: IDisk, directory: DataDirectory, settings: StoreSettings) -> tuple[Segments, JournalWriter, Recovery]:
    """Take up what packs say, and replay the journal above it. What it returns is on the medium, ready to be served."""
    return _Recoverer(disk, directory, settings).run()


class _Recoverer:
    def __init__(self, disk: IDisk, directory: DataDirectory, settings: StoreSettings) -> None:
        self._disk = disk
        self._home = directory
        self._directory = directory.journal
        self._settings = settings
        self._store = directory.store
        self._replay = Replay(disk, directory.journal, directory.store, Segments())
        self._writer = JournalWriter(disk, self._directory, settings, self._store)
        self._report = Recovery()
        self._spare: list[str] = []
        """Files that nobody needs."""
        position = read_committed(disk, directory.path, directory.store)
        self._synced = 0 if position is None else position.synced
        """Everything below this sequence is on the medium, says the last run."""

    def run(self) -> tuple[Segments, JournalWriter, Recovery]:
        packs = PackSet(self._disk, self._home.packs, self._store).read()
        if is_old(self._disk, self._home.path, packs):
            self._look(packs)
        covered = self._read_catalog()
        headers = self._headers(covered)
        self._check_begin(headers)
        if not headers and self._replay.sequence < self._synced:
            raise self._missing(os.path.join(self._directory, file_name(covered + 1)), 0, self._replay.sequence)
        if self._spare:
            # What takes their place may be seen, and yet not be on the medium: its maker was killed before it knew.
            self._disk.sync_directory(self._home.packs)
        # Not before the journal goes on where the packs end: if the newest pack is missing, these are needed.
        for path in self._spare:
            self._disk.unlink(path)
        self._report.files = len(headers)
        for header, successor in pairwise(headers):
            self._replay.closed(header, successor)
        if headers:
            self._remove_spent(headers, self._replay_last(headers[-1]))
        else:
            self._go_on()
            self._begin(covered + 1, self._replay.sequence, [], new_mark())
        self._writer.synced = self._writer.sequence
        self._writer.committed = begin_committed(self._disk, self._home.path, self._store, self._writer.sequence)
        self._report.frames = self._replay.frames_applied
        self._report.entries = self._replay.entries_applied
        return self._replay.segments, self._writer, self._report

    # -- what is folded ------------------------------------------------------------------------------------------------

    def _look(self, packs: PackSet) -> None:
        """Refuse a catalog of an earlier format that does not fit the other files, before it is opened for writing.

        SQLite takes a WAL up to the first damage, and removes it with all that stands behind that when it is closed.
        """
        restore_wal(self._disk, os.path.join(self._home.path, CATALOG_NAME))
        try:
            catalog = Catalog(self._disk, self._home.path, self._store, writable=False, immutable=True)
        except NoCatalog:
            return
        except StoreUnusable:
            if self._disk.stamp(os.path.join(self._home.path, CATALOG_NAME)):
                raise
            return
        try:
            self._replay.sequence, covered, _ = catalog.covered
            self._check_packs(packs, catalog.packs())
        except UNREADABLE as error:
            raise StoreUnusable(f"{catalog.path}: {error}. {SAVE}") from error
        finally:
            catalog.close()
        numbers = [number for number in journal_numbers(self._disk, self._directory) if number > covered]
        if numbers and not self._never_written(numbers[0]):
            self._check_begin([self._replay.header(numbers[0])])

    def _check_begin(self, headers: Sequence[FileHeader]) -> None:
        """The journal goes on where the packs end."""
        if headers and headers[0].sequence != self._replay.sequence:
            raise StoreCorrupt(
                self._replay.path(headers[0].number),
                0,
                f"it begins at sequence {headers[0].sequence}: the files before it, from sequence "
                f"{self._replay.sequence} on, are missing, or the packs that they were folded into",
            )

    def _read_catalog(self) -> int:
        """Take up all that is in packs; returns the last journal file that is."""
        opened, can_remove = self._open()
        catalog, packs = opened
        try:
            if opened.is_old:
                self._load(catalog)
                self._check_packs(packs, catalog.packs())
                known = {each.number for each in catalog.packs()}
                packs.spare = [number for number in packs.without if number not in known]
            else:
                try:
                    self._load(catalog)
                except (CatalogDamaged, *UNREADABLE):
                    catalog.close()
                    catalog = make_again(self._disk, self._home.path, self._store, packs)
                    self._load(catalog)
            _, file, _ = catalog.covered
            if can_remove:
                self._find_spare(packs, file)
        except UNREADABLE as error:
            raise StoreUnusable(f"{catalog.path}: {error}. {SAVE}") from error
        finally:
            catalog.close()
        return file

    def _open(self) -> tuple[Opened, bool]:
        """What is in packs, and whether files may go that nobody needs."""
        try:
            return open_packs(self._disk, self._home.path, self._store, is_alone=True), True
        except CatalogFull:
            # It can be read, and nothing is removed then.
            packs = PackSet(self._disk, self._home.packs, self._store).read()
            catalog = Catalog(self._disk, self._home.path, self._store, writable=False)
            if packs.footers and catalog.mark != packs.mark:
                catalog.close()
                raise
            return Opened(catalog, packs), False

    def _load(self, catalog: Catalog) -> None:
        self._replay.segments = Segments()
        self._replay.sequence, _, self._replay.timestamp = catalog.covered
        self._replay.segments.load(catalog.segments())

    def _find_spare(self, packs: PackSet, folded: int) -> None:
        made = [name for name in self._disk.list_directory(self._home.packs) if name.endswith(TEMPORARY_SUFFIX)]
        self._spare += [os.path.join(self._home.packs, name) for name in made]
        self._spare += map(packs.path, packs.spare)
        numbers = journal_numbers(self._disk, self._directory)
        self._spare += [self._replay.path(number) for number in numbers if number <= folded]

    def _check_packs(self, packs: PackSet, known: Sequence[Pack]) -> None:
        for each in known:
            if each.number not in packs.without:
                raise StoreCorrupt(packs.path(each.number), 0, "the file is missing")

    # -- which journal files there are ---------------------------------------------------------------------------------

    def _headers(self, covered: int) -> list[FileHeader]:
        numbers = []
        for name in self._disk.list_directory(self._directory):
            path = os.path.join(self._directory, name)
            if match := FILE_NAME.fullmatch(name):
                if int(match[1]) > covered:
                    numbers.append(int(match[1]))
            elif TEMPORARY_NAME.fullmatch(name):
                self._disk.unlink(path)
            elif not name.endswith(TORN_SUFFIX):
                raise StoreUnusable(f"{path}: this file is not part of the store. Move it elsewhere")
        if numbers and self._never_written(numbers[-1]):
            # Nothing in it was ever acknowledged.
            self._disk.unlink(self._replay.path(numbers.pop()))
        return [self._replay.header(number) for number in numbers]

    def _never_written(self, number: int) -> bool:
        path = self._replay.path(number)
        file = self._disk.open(path, writable=False)
        try:
            if any(read_bytes(path, file, 0, FILE_HEADER.size)):
                return False
            step = 1 << 20
            places = range(0, file.size(), step)
            return all(not bytes(read_bytes(path, file, position, step)).strip(b"\0") for position in places)
        finally:
            file.close()

    # -- the last one --------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        self._writer.sequence = self._replay.sequence
        self._writer.timestamp = self._replay.segments.timestamp = self._replay.timestamp

    def _replay_last(self, header: FileHeader) -> int:
        """Replay the last file, and begin the next one; returns the sequence that this one begins with."""
        path = self._replay.path(header.number)
        file = self._disk.open(path, writable=True)
        try:
            end = self._find_end(path, file, header)
            mark = new_mark()
            first, cut, again = self._replay_synced(path, file, header, end, mark)
            self._go_on()
            self._begin(header.number + 1, first, again, mark)
            file.truncate(cut)
        except OSError as error:
            raise StoreUnusable(f"{path}: {error}") from error
        finally:
            file.close()
        return first

    def _remove_spent(self, headers: Sequence[FileHeader], first: int) -> None:
        """Remove files without an entry that counts: a thousand restarts leave no thousand files behind."""
        if self._writer.number == headers[-1].number:
            # No new file, so the names of those that are there may not be on the medium.
            return
        ends = [*[header.sequence for header in headers[1:]], first]
        spent = [header for header, end in zip(headers, ends, strict=True) if header.sequence == end]
        for header in spent:
            self._disk.unlink(self._replay.path(header.number))
        if spent:
            self._disk.sync_directory(self._directory)

    def _find_end(self, path: str, file: IDiskFile, header: FileHeader) -> Scanner:
        """Where the good frames of the last file end, and that nothing that was synced is missing there."""
        scanner = Scanner(file, header)
        for _ in self._replay.frames(path, scanner):
            pass
        if scanner.sequence < scanner.synced_behind():
            raise StoreCorrupt(path, scanner.position, scanner.damage or "frames that were synced are missing")
        if scanner.sequence < self._synced:
            # No frame says so, but the writer did: the end of this file is gone, or a file behind it.
            raise self._missing(path, scanner.position, scanner.sequence, scanner.damage)
        torn = scanner.rest(self._settings.torn_bytes_max)
        if scanner.damage or torn:
            self._report.torn_file = path
            self._report.torn_position = scanner.position
            self._report.torn_reason = scanner.damage or "a frame is missing"
            self._report.kept = self._keep(f"{path}.{scanner.position}{TORN_SUFFIX}", torn)
        # Cut before anything is written: the room that this gives back may be what the new file needs.
        file.truncate(scanner.position)
        return scanner

    def _missing(self, path: str, position: int, sequence: int, damage: str | None = None) -> StoreCorrupt:
        return StoreCorrupt(
            path,
            position,
            f"{damage or 'the frames end here'}; sequence {sequence} to {self._synced - 1} was synced, says the file "
            f"{COMMITTED_NAME!r}, and is damaged, or a file is missing",
        )

    def _keep(self, path: str, torn: bytes) -> str | None:
        """Put what is cut off beside the journal, where there is room for it."""
        if not torn:
            return None
        try:
            file = self._disk.create(path + TEMPORARY_SUFFIX)
            file.write(0, [torn])
            file.sync(metadata=True)
            file.close()
            self._disk.rename(path + TEMPORARY_SUFFIX, path)
        except OSError:
            with suppress(OSError):
                self._disk.unlink(path + TEMPORARY_SUFFIX)
            return None
        return path

    def _replay_synced(
        self, path: str, file: IDiskFile, header: FileHeader, end: Scanner, mark: int
    ) -> tuple[int, int, list[Buffer]]:
        """Replay the last file; what is not known to be synced, as frames of the file that follows.

        Returns the first sequence of that file, where this one can be cut, and those frames.
        """
        scanner = Scanner(file, header)
        first, cut = end.sequence, end.position
        again: list[Buffer] = []
        target = FILE_HEADER.size
        for frame in self._replay.frames(path, scanner):
            if frame.sequence < end.synced:
                self._replay.apply(path, frame, header.number)
                continue
            if not frame.headers:
                # The last word of a daemon that stopped in order.
                continue
            if not again:
                first, cut = frame.sequence, frame.position
            raw = memoryview(read_bytes(path, file, frame.position, frame.length))
            table = raw[FRAME_HEADER.size :][: ENTRY_HEADER.size * len(frame.headers)]
            head = frame_head(
                table, mark, target, frame.length, frame.sequence, first, frame.timestamp, len(frame.headers)
            )
            again += [head, raw[FRAME_HEADER.size :]]
            self._replay.apply(path, frame, header.number + 1, target - frame.position)
            target += frame.length
        self._replay.timestamp = max(self._replay.timestamp, header.timestamp)
        self._replay.sequence = end.sequence
        return first, cut, again

    def _begin(self, number: int, sequence: int, frames: Sequence[Buffer], mark: int) -> None:
        """Go on in a new file. On a full disk, one without reserve; with nothing to write again, none at all."""
        length = sum(map(len, frames))
        wanted = FILE_HEADER.size + length
        self._writer.number = number - 1
        try:
            self._writer.begin(number, sequence, self._writer.room_for(length), frames, mark)
            return
        except NoRoom:
            pass
        try:
            self._writer.begin(number, sequence, wanted, frames, mark)
        except NoRoom as error:
            if frames:
                raise StoreUnusable(
                    f"{self._directory}: no room to write the last {wanted} bytes again: {error}. Free some"
                ) from error
