"""The data directory: that it is ours, that nobody else has it, and which store it is::

identity     JSON: {"format": 1, "store": "<uuid>"}: what makes a directory a store
lock         held by the one daemon that has the directory
journal/     the journal's files
"""

from __future__ import annotations

import json
import os
from typing import Final
from uuid import UUID, uuid4

from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import SAVE, NotAStore, StoreLocked, StoreUnusable, UnknownVersion
from streamd.store.journal.frame import READABLE, VERSION
from streamd.store.journal.writer import TEMPORARY_SUFFIX

IDENTITY: Final = "identity"
LOCK: Final = "lock"
JOURNAL: Final = "journal"
PACKS: Final = "packs"
COMPACTOR_LOCK: Final = "compactor.lock"
# What a directory may hold that is not a store yet: our own beginnings, and what file systems put there.
_NOTHING: Final = {LOCK, IDENTITY + TEMPORARY_SUFFIX, "lost+found"}


def read_identity(disk: IDisk, directory: str) -> bytes:
    """Which store this is."""
    return _read(disk, directory)[0]


def read_format(disk: IDisk, directory: str) -> int:
    """The format that the store was begun with."""
    return _read(disk, directory)[1]


def _read(disk: IDisk, directory: str) -> tuple[bytes, int]:
    path = os.path.join(directory, IDENTITY)
    file = disk.open(path, writable=False)
    try:
        identity = json.loads(bytes(file.read(0, 4096)))
        version, store = identity["format"], UUID(identity["store"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreUnusable(f"{path}: damaged: it does not tell which store this is. {SAVE}") from error
    finally:
        file.close()
    if version not in READABLE:
        raise UnknownVersion(f"{path}: the store has format {version}, this streamd reads up to {VERSION}")
    return store.bytes, version


class DataDirectory:
    """A locked data directory, made where there was none. `close` gives it back."""

    def __init__(self, disk: IDisk, path: str) -> None:
        self.path = path
        self.journal = os.path.join(path, JOURNAL)
        self.packs = os.path.join(path, PACKS)
        self._disk = disk
        disk.make_directory(path)
        names = disk.list_directory(path)
        if IDENTITY not in names and not _NOTHING.issuperset(names):
            strange = sorted(set(names) - _NOTHING)
            if JOURNAL in names:
                raise NotAStore(f"{path}: a store without its file 'identity'. {SAVE}")
            raise NotAStore(
                f"{path}: not a streamd data directory: it has no file 'identity', but holds {strange[0]!r}. "
                "Give an empty or a new directory"
            )
        lock = disk.lock(os.path.join(path, LOCK))
        if lock is None:
            raise StoreLocked(f"{path}: another streamd has this data directory")
        self._lock: IDiskFile = lock
        try:
            self.protected = disk.protect(path)
            """What of it others could have had until now."""
            self.store: bytes = self._identify(names)
            disk.make_directory(self.journal)
            disk.make_directory(self.packs)
        except BaseException:
            lock.close()
            raise

    def _identify(self, names: list[str]) -> bytes:
        if IDENTITY not in names:
            return self._found(os.path.join(self.path, IDENTITY))
        store = read_identity(self._disk, self.path)
        # Whoever gave the file its name may have been killed before it was synced. Nothing else stands without it.
        self._disk.sync_directory(self.path)
        return store

    def _found(self, path: str) -> bytes:
        store = uuid4()
        temporary = path + TEMPORARY_SUFFIX
        if os.path.basename(temporary) in self._disk.list_directory(self.path):
            self._disk.unlink(temporary)
        file = self._disk.create(temporary)
        file.write(0, [json.dumps({"format": VERSION, "store": str(store)}).encode() + b"\n"])
        file.sync(metadata=True)
        file.close()
        self._disk.rename(temporary, path)
        self._disk.sync_directory(self.path)
        return store.bytes

    def lock_compactor(self) -> IDiskFile | None:
        """Keep compactors out for as long as the file is open: a crashed daemon's may live a moment longer."""
        return self._disk.lock(os.path.join(self.path, COMPACTOR_LOCK))

    def close(self) -> None:
        """Let somebody else have the directory."""
        self._lock.close()
