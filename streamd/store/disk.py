"""The one way to the disk: a small interface, so that tests can cut the power at each call.

`IDisk` is a file system, `IDiskFile` an open file of it. `Disk` is the real one. Every call may raise OSError; what an
error means (full, broken, missing) is for the caller to say.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import suppress
from errno import EAGAIN, ENODATA, EOPNOTSUPP
from mmap import ACCESS_READ, ACCESS_WRITE, mmap
from typing import NamedTuple
from urllib.parse import quote

from zope.interface import Interface, implementer

from streamd.batch import Buffer
from streamd.store import wal

# The kernel takes at most this many buffers in one call (IOV_MAX is 1024 on Linux and macOS).
_BUFFERS_MAX = 1024


# Everything is made with these, whatever the umask says: who could read a store's files could read all messages, and
# hold its locks.
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


class Protected(NamedTuple):
    """What came of it."""

    changed: int
    """Files and directories that others could read, write or run."""
    refused: str | None = None
    """One of those that still are so, and why."""


class IDiskFile(Interface):
    """An open file. Writes say where they go; there is no current position."""

    def size() -> int:
        """The bytes in the file, preallocated ones included."""

    def write(position: int, buffers: Sequence[Buffer]) -> None:
        """Write all of the buffers, one after the other."""

    def read(position: int, length: int) -> Buffer:
        """Up to `length` bytes; fewer only at the end of the file."""

    def read_now(position: int, length: int) -> Buffer | None:
        """The same, or None where that would wait for the disk."""

    def allocate(length: int) -> None:
        """Reserve room so that the file has at least `length` bytes, zeros where nothing was written."""

    def truncate(length: int) -> None:
        """Cut the file."""

    def sync(*, metadata: bool) -> None:
        """Wait until what was written is on the medium: the data and what is needed to find it, or all metadata."""

    def close() -> None:
        """Let go of the file."""


class IDisk(Interface):
    """A file system. Paths are strings."""

    def make_directory(path: str) -> None:
        """Create a directory, and its parents; one that is there is fine. What is made here is its owner's alone."""

    def protect(path: str) -> Protected:
        """Let nobody but the owner have anything below a directory, itself included. Links are not followed."""

    def list_directory(path: str) -> list[str]:
        """The names in a directory, sorted."""

    def create(path: str) -> IDiskFile:
        """A new empty file to read and write; it must not be there."""

    def open(path: str, *, writable: bool) -> IDiskFile:
        """A file that is there."""

    def rename(source: str, target: str) -> None:
        """Give a file its name, in place of any that has it."""

    def unlink(path: str) -> None:
        """Remove a file."""

    def sync_directory(path: str) -> None:
        """Wait until the names in a directory are on the medium."""

    def free_bytes(path: str) -> int:
        """Room left on the file system of `path`."""

    def size_bytes(path: str) -> int:
        """The size of the file system of `path`."""

    def database(path: str, *, writable: bool, immutable: bool = False, is_index: bool = False) -> sqlite3.Connection:
        """A SQLite database in WAL mode whose commits are synced, made where there is none and it may be written.

        `is_index`: commits are atomic, but not synced. A power cut may take back the last ones.

        `immutable`: nobody writes to it now, and it is read, with what is in its WAL, without a look at locks. No file
        is made or changed by that.
        """

    def map(path: str, length: int, *, writable: bool) -> memoryview:
        """The first bytes of a file as memory: what is stored there, others who map it see at once."""

    def stamp(path: str) -> tuple[int, ...]:
        """Numbers that are others once the file was written to or replaced; none where it is not there."""

    def lock(path: str) -> IDiskFile | None:
        """Create and lock a file for as long as it stays open; None where somebody else has it."""


@implementer(IDiskFile)
class DiskFile:
    """A file descriptor. It is closed when the last reference goes, so a reader in a thread never loses it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        for begin in range(0, len(buffers), _BUFFERS_MAX):
            some = buffers[begin : begin + _BUFFERS_MAX]
            wanted = sum(map(len, some))
            written = os.pwritev(self._descriptor, some, position)
            position += written
            if written < wanted:
                # A short write is rare (a signal, a disk that fills up): go on from there, and let the next call
                # report what is wrong.
                rest = memoryview(b"".join(some))[written:]
                while rest:
                    written = os.pwrite(self._descriptor, rest, position)
                    position += written
                    rest = rest[written:]

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) in (0, length):
            return data
        parts = [data]
        position += len(data)
        length -= len(data)
        while length and (data := os.pread(self._descriptor, length, position)):
            parts.append(data)
            position += len(data)
            length -= len(data)
        return b"".join(parts)

    def read_now(self, position: int, length: int) -> Buffer | None:
        buffer = bytearray(length)
        try:
            got = os.preadv(self._descriptor, [buffer], position, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno in (EAGAIN, EOPNOTSUPP, ENODATA):
                return None
            raise
        # A short answer means that the rest is cold, or beyond the end: the slow way knows which.
        return buffer if got == length else None

    def allocate(self, length: int) -> None:
        os.posix_fallocate(self._descriptor, 0, length)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def sync(self, *, metadata: bool) -> None:
        if metadata:
            os.fsync(self._descriptor)
        else:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


@implementer(IDisk)
class Disk:
    """The operating system's file system."""

    def make_directory(self, path: str) -> None:
        path = os.path.abspath(path)
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        # One that is there may have been made by somebody who was killed before the next line.
        with suppress(PermissionError):
            self.sync_directory(os.path.dirname(path))
        for each in reversed(missing):
            os.mkdir(each, _DIRECTORY_MODE)
            _give(each, os.path.dirname(each))
            # A directory whose name is not synced is gone after a power cut, with all that was synced in it.
            self.sync_directory(os.path.dirname(each))

    def protect(self, path: str) -> Protected:
        changed, refused = 0, None
        for folder, folders, names in os.walk(path):
            for each in (folder, *[os.path.join(folder, name) for name in (*folders, *names)]):
                try:
                    found = os.lstat(each).st_mode
                    mode = _DIRECTORY_MODE if stat.S_ISDIR(found) else _FILE_MODE
                    if not stat.S_ISLNK(found) and stat.S_IMODE(found) & ~mode:
                        os.chmod(each, stat.S_IMODE(found) & mode)
                        changed += 1
                except FileNotFoundError:
                    continue  # it has just gone
                except OSError as error:
                    refused = str(error)
        return Protected(changed, refused)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def create(self, path: str) -> DiskFile:
        return DiskFile(_create(path, os.O_EXCL))

    def open(self, path: str, *, writable: bool) -> DiskFile:
        return DiskFile(os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC))

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        room = os.statvfs(path)
        return room.f_bavail * room.f_frsize

    def size_bytes(self, path: str) -> int:
        room = os.statvfs(path)
        return room.f_blocks * room.f_frsize

    def database(
        self, path: str, *, writable: bool, immutable: bool = False, is_index: bool = False
    ) -> sqlite3.Connection:
        if not (self.stamp(path) or (0,))[0] and (self.stamp(path + wal.SUFFIX) or (0,))[0]:
            # SQLite takes it for a new one and removes the WAL, in which all of it may be.
            raise sqlite3.DatabaseError("the file is empty or gone, and its -wal is not")
        if writable and not self.stamp(path):
            # SQLite would go by the umask. The files beside it get the mode and the owner of this one.
            os.close(_create(path))
        mode = "rwc" if writable else "ro"
        in_memory = immutable and self._has_commit(path + wal.SUFFIX)
        if immutable:
            # The first has the WAL's index in memory instead of a file; the second takes no notice of a WAL, since the
            # first would remove one that it finds nothing in.
            mode = "ro&vfs=unix-none" if in_memory else "ro&immutable=1"
        # Connections move between threads of a pool, one at a time: who shares one has a lock.
        database = sqlite3.connect(
            f"file:{quote(path)}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=30
        )
        if in_memory:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
        if writable:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA synchronous = {'NORMAL' if is_index else 'FULL'}")
            database.execute("PRAGMA temp_store = MEMORY")
        return database

    def _has_commit(self, path: str) -> bool:
        if not (self.stamp(path) or (0,))[0]:
            return False
        file = self.open(path, writable=False)
        try:
            return wal.has_commit(file.read)
        finally:
            file.close()

    def map(self, path: str, length: int, *, writable: bool) -> memoryview:
        descriptor = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            # Unmapped when the last view of it goes.
            return memoryview(mmap(descriptor, length, access=ACCESS_WRITE if writable else ACCESS_READ))
        finally:
            os.close(descriptor)

    def stamp(self, path: str) -> tuple[int, ...]:
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return ()
        return found.st_size, found.st_mtime_ns, found.st_ino

    def lock(self, path: str) -> DiskFile | None:
        descriptor = _create(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return DiskFile(descriptor)


def _create(path: str, flags: int = 0) -> int:
    """Open a file to read and write, which is made where it is not there."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, _FILE_MODE)
    _give(descriptor, os.path.dirname(path) or ".")
    return descriptor


def _give(made: int | str, directory: str) -> None:
    """Let what root makes in somebody's directory be that one's: a repair by root must not lock the daemon out."""
    if os.geteuid() == 0:
        with suppress(OSError):  # a root that is none: in a container, or to a server of files
            owner = os.stat(directory)
            os.chown(made, owner.st_uid, owner.st_gid)
