"""The files of a backup: a directory with any number of snapshots of one store, which share their packs::

    backup.json                   which store this is a backup of
    lock                          held by who writes here
    packs/NNN.pack                every pack that a snapshot needs, copied once
    snapshots/TIME/manifest.json  what belongs to the snapshot, each file with its size and CRC32C
    snapshots/TIME/identity, catalog.sqlite, journal/NNN.journal

A snapshot is made under a name that ends in ``.tmp``, and renamed when all of it is synced: what has its name is whole.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import StoreUnusable
from streamd.store.journal.writer import FILE_NAME as JOURNAL_NAME
from streamd.store.journal.writer import TEMPORARY_SUFFIX
from streamd.store.packs.pack import FILE_NAME as PACK_NAME

FORMAT: Final = 1
PACKS: Final = "packs"
SNAPSHOTS: Final = "snapshots"
MANIFEST: Final = "manifest.json"
_HEAD: Final = "backup.json"
_LOCK: Final = "lock"
_COPY_BYTES: Final = 4 << 20
_FILE_NAME: Final = re.compile(rf"identity|catalog\.sqlite|journal/{JOURNAL_NAME.pattern}")

Advance = Callable[[int], None]
"""Told how many more bytes are done."""


class BackupError(StoreUnusable):
    """A backup that can't be made or can't be used. The text says what to do."""


class CutShort(BackupError):
    """A file became shorter while it was copied."""


class Stored(NamedTuple):
    """What a file must be."""

    bytes: int
    crc: int


@dataclass(frozen=True)
class Manifest:
    """What a snapshot consists of."""

    name: str
    store: str
    sequence: int
    """Every entry below this sequence number is in it."""
    files: dict[str, Stored] = field(default_factory=dict)
    """Those in the snapshot's own directory."""
    packs: dict[str, Stored] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The bytes of the store that it restores to."""
        return sum(each.bytes for each in (*self.files.values(), *self.packs.values()))

    def encode(self) -> bytes:
        """As JSON, with a checksum over all of it."""
        told = {"format": FORMAT, "name": self.name, "store": self.store, "sequence": self.sequence}
        body = json.dumps({**told, "files": self.files, "packs": self.packs}, sort_keys=True)
        return json.dumps({"crc32c": crc32c(body.encode()), "snapshot": body}).encode() + b"\n"


def decode_manifest(path: str, data: bytes) -> Manifest:
    """The manifest in a file; BackupError where it is damaged."""
    try:
        outer = json.loads(data)
        if crc32c(outer["snapshot"].encode()) != outer["crc32c"]:
            raise ValueError("its checksum does not match")
        told: dict[str, Any] = json.loads(outer["snapshot"])
        if told["format"] != FORMAT:
            raise BackupError(f"{path}: the backup has format {told['format']}, this streamd reads {FORMAT}")
        files, packs = ({name: Stored(*each) for name, each in told[kind].items()} for kind in ("files", "packs"))
        # Names become paths: none may lead elsewhere.
        if not all(map(_FILE_NAME.fullmatch, files)) or not all(map(PACK_NAME.fullmatch, packs)):
            raise ValueError("it names a file that no store has")
        return Manifest(told["name"], told["store"], told["sequence"], files, packs)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BackupError(f"{path}: damaged: {error}. Use another snapshot, and make a new backup") from error


class Backup:
    """A backup's directory."""

    def __init__(self, disk: IDisk, path: str) -> None:
        self.disk = disk
        self.path = path
        self.packs = os.path.join(path, PACKS)
        self.snapshots = os.path.join(path, SNAPSHOTS)

    def manifests(self) -> list[Manifest]:
        """All snapshots, the oldest first."""
        try:
            names = self.disk.list_directory(self.snapshots)
        except OSError as error:
            raise BackupError(f"{self.path}: there is no backup here: {error.strerror}") from error
        paths = [os.path.join(self.snapshots, name, MANIFEST) for name in names if not name.endswith(TEMPORARY_SUFFIX)]
        return [decode_manifest(path, read_file(self.disk, path)) for path in paths]

    def begin(self, store: bytes) -> None:
        """Make the directory where it is not there; BackupError where it is something else."""
        self.disk.make_directory(self.path)
        head = os.path.join(self.path, _HEAD)
        names = set(self.disk.list_directory(self.path)) - {_LOCK, "lost+found", _HEAD + TEMPORARY_SUFFIX}
        if _HEAD in names:
            try:
                told = json.loads(read_file(self.disk, head))
                found, format_ = UUID(told["store"]).bytes, told["format"]
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise BackupError(f"{head}: damaged: {error!r}. Give a new directory") from error
            if format_ != FORMAT:
                raise BackupError(f"{head}: the backup has format {format_}, this streamd writes {FORMAT}")
            if found != store:
                raise BackupError(f"{self.path}: this is the backup of another store. Give a directory of its own")
        elif names:
            raise BackupError(f"{self.path}: no backup, and not empty: it holds {min(names)!r}. Give a new directory")
        else:
            body = json.dumps({"format": FORMAT, "store": str(UUID(bytes=store))}).encode() + b"\n"
            write_file(self.disk, head, body)
        for each in (self.packs, self.snapshots):
            self.disk.make_directory(each)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes here meanwhile."""
        self.disk.make_directory(self.path)
        lock = self.disk.lock(os.path.join(self.path, _LOCK))
        if lock is None:
            raise BackupError(f"{self.path}: another backup is being written there. Wait for its end")
        try:
            yield
        finally:
            lock.close()

    def forget(self, keep: int) -> list[str]:
        """Remove all snapshots but the last `keep`, and the packs that no other needs; which snapshots those were."""
        manifests = self.manifests()
        gone = manifests[:-keep]
        for each in gone:
            path = os.path.join(self.snapshots, each.name)
            # Without its name first: what is half removed is no snapshot.
            self.disk.rename(path, path + TEMPORARY_SUFFIX)
            self.disk.sync_directory(self.snapshots)
            remove_tree(path + TEMPORARY_SUFFIX)
        needed = {name for each in manifests[-keep:] for name in each.packs}
        for name in self.disk.list_directory(self.packs):
            if name not in needed:
                self.disk.unlink(os.path.join(self.packs, name))
        return [each.name for each in gone]


def copy_file(disk: IDisk, file: IDiskFile, length: int, target: str, advance: Advance) -> Stored:
    """Copy the first `length` bytes of an open file, synced under its name; what was copied."""
    temporary = target + TEMPORARY_SUFFIX
    remove_file(disk, temporary)
    written = disk.create(temporary)
    crc = at = 0
    try:
        while at < length:
            data = file.read(at, min(_COPY_BYTES, length - at))
            if not data:
                raise CutShort(f"{target}: what is copied there ends at byte {at}, not {length}. Try again")
            written.write(at, [data])
            crc = crc32c(data, crc)
            at += len(data)
            advance(len(data))
        written.sync(metadata=True)
    finally:
        written.close()
    disk.rename(temporary, target)
    return Stored(at, crc)


def sum_file(disk: IDisk, path: str, advance: Advance = lambda more: None) -> Stored:
    """What a file is."""
    file = disk.open(path, writable=False)
    crc = at = 0
    try:
        while data := file.read(at, _COPY_BYTES):
            crc = crc32c(data, crc)
            at += len(data)
            advance(len(data))
    finally:
        file.close()
    return Stored(at, crc)


def read_file(disk: IDisk, path: str) -> bytes:
    """All of a small file."""
    try:
        file = disk.open(path, writable=False)
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from error
    try:
        return bytes(file.read(0, file.size()))
    finally:
        file.close()


def write_file(disk: IDisk, path: str, data: bytes) -> Stored:
    """A small file, synced under its name."""
    temporary = path + TEMPORARY_SUFFIX
    remove_file(disk, temporary)
    file = disk.create(temporary)
    try:
        file.write(0, [data])
        file.sync(metadata=True)
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path))
    return Stored(len(data), crc32c(data))


def remove_file(disk: IDisk, path: str) -> None:
    """Remove a file, where it is there."""
    try:
        disk.unlink(path)
    except FileNotFoundError:
        pass


def remove_tree(path: str) -> None:
    """Remove a directory with all that is in it, where it is there."""
    shutil.rmtree(path, ignore_errors=True)
