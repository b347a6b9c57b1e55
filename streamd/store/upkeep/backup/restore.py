"""A store out of a backup: every file checked against its checksum on the way, the identity last.

A directory without an identity is no store, so one that was restored in part is never taken for a whole one.
"""

from __future__ import annotations

import os
from uuid import UUID

from streamd.store.directory import IDENTITY, JOURNAL
from streamd.store.disk import IDisk
from streamd.store.journal.committed import begin_committed
from streamd.store.upkeep.backup.files import (
    PACKS,
    Advance,
    Backup,
    BackupError,
    Manifest,
    Stored,
    copy_file,
    sum_file,
)


def choose(backup: Backup, name: str | None) -> Manifest:
    """The snapshot of this name, or the latest."""
    manifests = backup.manifests()
    if not manifests:
        raise BackupError(f"{backup.path}: this backup has no snapshot yet")
    if name is None:
        return manifests[-1]
    for each in manifests:
        if each.name == name:
            return each
    raise BackupError(f"{backup.path}: there is no snapshot {name}; the latest is {manifests[-1].name}")


def restore(disk: IDisk, backup: Backup, manifest: Manifest, target: str, advance: Advance) -> None:
    """Make a store of a snapshot in a directory that is new or empty."""
    disk.make_directory(target)
    held = [name for name in disk.list_directory(target) if name != "lost+found"]
    if held:
        raise BackupError(f"{target}: not empty: it holds {held[0]!r}. Give a new directory; nothing was changed")
    for name in (JOURNAL, PACKS):
        disk.make_directory(os.path.join(target, name))
    for name, (source, stored) in _sources(backup, manifest).items():
        if name != IDENTITY:
            _copy(disk, source, os.path.join(target, name), stored, advance)
    for name in (JOURNAL, PACKS):
        disk.sync_directory(os.path.join(target, name))
    # What a start must find: less than this, and something was lost after the restore.
    begin_committed(disk, target, UUID(manifest.store).bytes, manifest.sequence).close()
    source, stored = _sources(backup, manifest)[IDENTITY]
    _copy(disk, source, os.path.join(target, IDENTITY), stored, advance)
    disk.sync_directory(target)


def check(disk: IDisk, backup: Backup, manifest: Manifest, advance: Advance) -> list[str]:
    """What is wrong with the files of a snapshot."""
    wrong = []
    for path, stored in _sources(backup, manifest).values():
        try:
            found = sum_file(disk, path, advance)
        except OSError as error:
            wrong.append(f"{path}: {error.strerror}")
            continue
        if found != stored:
            wrong.append(f"{path}: not what was copied there")
    return wrong


def _sources(backup: Backup, manifest: Manifest) -> dict[str, tuple[str, Stored]]:
    """The files of the store that is restored, and where they are in the backup."""
    home = os.path.join(backup.snapshots, manifest.name)
    own = {name: (os.path.join(home, name), stored) for name, stored in manifest.files.items()}
    packs = {
        os.path.join(PACKS, name): (os.path.join(backup.packs, name), stored) for name, stored in manifest.packs.items()
    }
    return {**own, **packs}


def _copy(disk: IDisk, source: str, target: str, stored: Stored, advance: Advance) -> None:
    try:
        file = disk.open(source, writable=False)
    except OSError as error:
        raise BackupError(f"{source}: {error.strerror}. Restore another snapshot") from error
    try:
        found = copy_file(disk, file, file.size(), target, advance)
    finally:
        file.close()
    if found != stored:
        raise BackupError(
            f"{source}: damaged: it is not what was copied there. Restore another snapshot; what was restored of this "
            "one can be removed"
        )
