"""A consistent copy of a store, taken while the daemon writes, compacts and merges. Nothing is written in the store.

The state of a store is its packs in force and every entry of the journal from `covered` on. What makes a copy of it
consistent is the order:

1. The committed position is read: all that was acknowledged until now lies below it.
2. All journal files are opened. An open file stays, whatever becomes of its name.
3. Packs tell which of them are in force, and these are opened. A fold may come between 2 and 3: then they cover more,
   and fewer of the files are needed, never one that was not opened, since `covered` only rises. Where one is gone,
   packs were merged meanwhile, and it is done again. (In a store of an earlier format the catalog tells it, and is
   copied.)
4. Now nothing can get lost any more. Packs that the backup does not have are copied; of the journal what is committed
   above `covered`, every checksum verified.

A daemon that is started in the meantime may move the last frames to another file. That shows in the position, and then
all is done again.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple
from uuid import UUID

from streamd.store.directory import IDENTITY, JOURNAL, PACKS, read_identity
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import NotAStore, StoreCorrupt, StoreUnusable
from streamd.store.journal.committed import Position, read_committed
from streamd.store.journal.frame import FILE_HEADER, FileHeader
from streamd.store.journal.replay import check_header, read_bytes
from streamd.store.journal.scan import Scanner
from streamd.store.journal.writer import TEMPORARY_SUFFIX, file_name
from streamd.store.packs import pack
from streamd.store.packs.catalog import FILE_NAME as CATALOG_NAME
from streamd.store.packs.catalog import Catalog, Pack, Row
from streamd.store.packs.fold import journal_numbers
from streamd.store.packs.inforce import PackSet
from streamd.store.packs.opening import is_old
from streamd.store.packs.readonly import ReadOnlyCatalog
from streamd.store.records import blocks
from streamd.store.upkeep.backup.files import (
    MANIFEST,
    Advance,
    Backup,
    BackupError,
    CutShort,
    Manifest,
    Stored,
    copy_file,
    read_file,
    remove_tree,
    sum_file,
    write_file,
)

# How often packs may be merged, or a daemon started, while a backup begins.
_TRIES: Final = 100
# What looks like damage can be a daemon that starts and moves frames: it is done with that in a moment.
_DAMAGED_SECONDS_MAX: Final = 2.0
_PAUSE_SECONDS: Final = 0.1
# What tells one pack from another of the same number: its footer's end, with the checksum of its directory.
_END_BYTES: Final = 4096


class Taken(NamedTuple):
    """What was done."""

    manifest: Manifest
    copied_bytes: int
    """What was not in the backup before."""
    tightened: int = 0
    """Files and directories of the backup that were open to other users, and are not any more."""


class _Moved(Exception):
    """A daemon was started meanwhile, and may have moved frames."""


def take_backup(
    disk: IDisk,
    directory: str,
    target: str,
    name: str,
    expect: Advance = lambda total: None,
    advance: Advance = lambda more: None,
) -> Taken:
    """Add a snapshot of the store in `directory` to the backup in `target`.

    `expect` is told how many bytes are to be copied, then `advance` how many more are. StoreUnusable where the store is
    damaged or the backup can't be used: the text says what to do.
    """
    try:
        store = read_identity(disk, directory)
    except FileNotFoundError as error:
        raise NotAStore(f"{directory}: there is no store here: {error.strerror}") from error
    if os.path.realpath(target).startswith(os.path.join(os.path.realpath(directory), "")):
        raise BackupError(f"{target}: this is inside the store. Give a directory elsewhere, best on another disk")
    backup = Backup(disk, target)
    with backup.locked():
        backup.begin(store)
        tightened = disk.protect(target).changed
        begin = time.monotonic()
        for _ in range(_TRIES):
            attempt = _Attempt(disk, directory, store, backup, name)
            try:
                return attempt.run(expect, advance)._replace(tightened=tightened)
            except _Moved:
                continue
            except (StoreCorrupt, CutShort):
                if time.monotonic() > begin + _DAMAGED_SECONDS_MAX:
                    raise
                time.sleep(_PAUSE_SECONDS)
            finally:
                attempt.close()
        raise BackupError(f"{directory}: the daemon is started again and again. Look into its log first")


@dataclass
class _Journal:
    """The journal as it was when its files were opened."""

    files: list[tuple[FileHeader, IDiskFile]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


class _Attempt:
    def __init__(self, disk: IDisk, directory: str, store: bytes, backup: Backup, name: str) -> None:
        self._disk = disk
        self._directory = directory
        self._store = store
        self._backup = backup
        self._name = name
        self._home = os.path.join(backup.snapshots, name + TEMPORARY_SUFFIX)
        self._open: list[IDiskFile] = []
        self._has_catalog = False
        """Whether the snapshot needs one: a store makes its own, but for those of an earlier format."""

    def close(self) -> None:
        """Let go of all files."""
        for file in self._open:
            file.close()
        remove_tree(self._home)

    def run(self, expect: Advance, advance: Advance) -> Taken:
        position = read_committed(self._disk, self._directory, self._store)
        opened = self._open_journal()
        remove_tree(self._home)
        self._disk.make_directory(os.path.join(self._home, JOURNAL))
        covered, last, packs, kept = self._pin_packs()
        journal = _Journal([(header, file) for header, file in opened if header.number > last])
        sequence = self._measure(journal, covered, last, position)
        expect(sum(journal.lengths) + sum(file.size() for file in packs.values()))
        files = self._copy_journal(journal, advance)
        self._check_run(position)
        copied = self._copy_packs(packs, advance)
        if self._has_catalog:
            files[CATALOG_NAME] = sum_file(self._disk, os.path.join(self._home, CATALOG_NAME))
        identity = read_file(self._disk, os.path.join(self._directory, IDENTITY))
        files[IDENTITY] = write_file(self._disk, os.path.join(self._home, IDENTITY), identity)
        manifest = Manifest(self._name, str(UUID(bytes=self._store)), sequence, files, {**kept, **copied})
        self._finish(manifest)
        return Taken(manifest, sum(each.bytes for each in (*files.values(), *copied.values())))

    def _finish(self, manifest: Manifest) -> None:
        write_file(self._disk, os.path.join(self._home, MANIFEST), manifest.encode())
        self._disk.sync_directory(os.path.join(self._home, JOURNAL))
        self._disk.sync_directory(self._backup.packs)
        self._disk.rename(self._home, self._home.removesuffix(TEMPORARY_SUFFIX))
        self._disk.sync_directory(self._backup.snapshots)

    # -- what must not get lost ----------------------------------------------------------------------------------------

    def _open_journal(self) -> list[tuple[FileHeader, IDiskFile]]:
        directory = os.path.join(self._directory, JOURNAL)
        numbers = journal_numbers(self._disk, directory)
        _allow_files(len(numbers))
        opened = []
        for number in numbers:
            path = os.path.join(directory, file_name(number))
            try:
                file = self._disk.open(path, writable=False)
            except FileNotFoundError:
                continue  # folded just now: the catalog has it
            self._open.append(file)
            try:
                header = check_header(path, read_bytes(path, file, 0, FILE_HEADER.size), number, self._store)
            except StoreCorrupt:
                # After a power cut the last one can be empty; nothing in it was ever acknowledged.
                if number != numbers[-1] or any(read_bytes(path, file, 0, file.size())):
                    raise
                continue
            opened.append((header, file))
        return opened

    def _pin_packs(self) -> tuple[int, int, dict[int, IDiskFile], dict[str, Stored]]:
        """Open the packs that are in force; again, where one of those was merged meanwhile.

        Returns `covered`, the last journal file that is folded, the packs to be copied, and those that are there.
        """
        known = {name: stored for each in self._backup.manifests() for name, stored in each.packs.items()}
        for _ in range(_TRIES):
            try:
                packs = PackSet(self._disk, os.path.join(self._directory, PACKS), self._store).read()
                if is_old(self._disk, self._directory, packs):
                    return self._pin_known(known)
                covered, last, _ = packs.covered
                numbers = [*packs.footers, *packs.adopted]
                kept = {name: known[name] for number in numbers if (name := pack.file_name(number)) in known}
                for number in numbers:
                    if (name := pack.file_name(number)) in kept:
                        self._check_same(name, kept[name], packs, number)
                missing = [number for number in numbers if pack.file_name(number) not in kept]
                return covered, last, self._open_packs(missing), kept
            except FileNotFoundError as error:
                reason = error
        raise StoreUnusable(f"{reason}; and nothing took its place. See what 'streamctl verify' says")

    def _check_same(self, name: str, stored: Stored, packs: PackSet, number: int) -> None:
        """A pack that the backup has is the one that is meant: they end with the same directory.

        After a restore of an older snapshot the store goes on with numbers that the backup has given before.
        """
        ends = []
        for path in (os.path.join(self._backup.packs, name), packs.path(number)):
            file = self._disk.open(path, writable=False)
            try:
                ends.append((file.size(), bytes(file.read(max(file.size() - _END_BYTES, 0), _END_BYTES))))
            finally:
                file.close()
        if ends[0] != ends[1] or stored.bytes != ends[0][0]:
            raise self._another(os.path.join(self._backup.packs, name))

    def _another(self, path: str) -> BackupError:
        return BackupError(
            f"{path}: this pack is another one than that of the same number in the store. The store was "
            "restored from an older snapshot, or the backup is damaged: give a new directory"
        )

    def _pin_known(self, known: dict[str, Stored]) -> tuple[int, int, dict[int, IDiskFile], dict[str, Stored]]:
        """The same for a store of an earlier format, which needs a copy of its catalog: that alone knows its packs."""
        self._copy_catalog()
        catalog = Catalog(self._disk, self._home, self._store, writable=False, immutable=True)
        try:
            for _segment in catalog.segments():
                pass  # every row is checked on its way
            covered, last, _ = catalog.covered
            kept: dict[str, Stored] = {}
            missing: list[int] = []
            for each in catalog.packs():
                name = pack.file_name(each.number)
                if name in known:
                    self._check_kept(name, known[name], each, catalog.extents_of_packs([each.number]))
                    kept[name] = known[name]
                else:
                    missing.append(each.number)
        finally:
            catalog.close()
        return covered, last, self._open_packs(missing), kept

    def _copy_catalog(self) -> None:
        self._has_catalog = True
        path = os.path.join(self._home, CATALOG_NAME)
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self._disk.unlink(path + suffix)
        target = self._disk.database(path, writable=True)
        source = ReadOnlyCatalog(self._disk, self._directory, self._store)
        try:
            source.ask(lambda catalog: catalog.copy_to(target))
        finally:
            source.close()
            target.close()
        file = self._disk.open(path, writable=True)
        file.sync(metadata=True)
        file.close()

    def _check_kept(self, name: str, stored: Stored, known: Pack, rows: Iterable[Row]) -> None:
        """A pack that the backup has is the one that is meant: it has the blocks that the catalog names."""
        path = os.path.join(self._backup.packs, name)
        file = self._disk.open(path, writable=False)
        try:
            same = stored.bytes == known.bytes == file.size()
            for row in rows if same else ():
                head = file.read(row.position, blocks.BLOCK_HEADER.size)
                same = same and blocks.BLOCK_HEADER.unpack(head)[:2] == (row.crc, row.length)
            if not same:
                raise self._another(path)
        finally:
            file.close()

    def _open_packs(self, numbers: Sequence[int]) -> dict[int, IDiskFile]:
        _allow_files(len(self._open) + len(numbers))
        opened: dict[int, IDiskFile] = {}
        try:
            for number in numbers:
                path = os.path.join(self._directory, PACKS, pack.file_name(number))
                opened[number] = self._disk.open(path, writable=False)
        except FileNotFoundError:
            for file in opened.values():
                file.close()
            raise
        self._open += opened.values()
        return opened

    # -- copying -------------------------------------------------------------------------------------------------------

    def _measure(self, journal: _Journal, covered: int, last: int, position: Position | None) -> int:
        """Find out how much of each file counts, all checksums verified; returns the sequence behind the last entry."""
        if not journal.files:
            self._must_reach(covered, position, last + 1, 0)
            return covered
        first = journal.files[0][0]
        if first.sequence != covered:
            raise self._damaged(first.number, 0, f"it begins at sequence {first.sequence}, where {covered} is due")
        for (header, file), (successor, _) in pairwise(journal.files):
            scanner = Scanner(file, header)
            frames = scanner.frames()
            while scanner.sequence < successor.sequence and next(frames, None):
                pass
            if scanner.sequence != successor.sequence:
                raise self._damaged(header.number, scanner.position, scanner.damage or "the frames end here")
            journal.lengths.append(scanner.position)
        return self._measure_last(journal, position)

    def _measure_last(self, journal: _Journal, position: Position | None) -> int:
        header, file = journal.files[-1]
        # Read again: what was committed meanwhile comes along. It is known before the frames are looked at.
        newest = read_committed(self._disk, self._directory, self._store)
        scanner = Scanner(file, header)
        frames = scanner.frames()
        while (newest is None or scanner.sequence < newest.committed) and next(frames, None):
            pass
        end = scanner.position
        if newest is None and scanner.sequence < scanner.synced_behind():
            raise self._damaged(header.number, end, scanner.damage or "frames that were synced are missing")
        self._must_reach(scanner.sequence, position, header.number, end)
        journal.lengths.append(end)
        return scanner.sequence

    def _must_reach(self, sequence: int, position: Position | None, number: int, at: int) -> None:
        if position is not None and sequence < position.synced:
            raise self._damaged(
                number, at, f"sequence {sequence} to {position.synced - 1} was synced, and is not there"
            )

    def _check_run(self, position: Position | None) -> None:
        """Whether it is still the same daemon that writes, or none."""
        now = read_committed(self._disk, self._directory, self._store)
        if (None if now is None else now.run) != (None if position is None else position.run):
            raise _Moved

    def _damaged(self, number: int, at: int, reason: str) -> StoreCorrupt:
        return StoreCorrupt(os.path.join(self._directory, JOURNAL, file_name(number)), at, reason)

    def _copy_journal(self, journal: _Journal, advance: Advance) -> dict[str, Stored]:
        files = {}
        for (header, file), length in zip(journal.files, journal.lengths, strict=True):
            name = os.path.join(JOURNAL, file_name(header.number))
            files[name] = copy_file(self._disk, file, length, os.path.join(self._home, name), advance)
        return files

    def _copy_packs(self, packs: dict[int, IDiskFile], advance: Advance) -> dict[str, Stored]:
        copied = {}
        for number, file in packs.items():
            name = pack.file_name(number)
            copied[name] = copy_file(self._disk, file, file.size(), os.path.join(self._backup.packs, name), advance)
        return copied


def _allow_files(count: int) -> None:
    """A large store has many files: all of them are held open for a moment."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
