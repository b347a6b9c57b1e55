"""A disk in memory that loses what a real one may lose when the power goes.

Every file and every directory has two states: what programs see (the page cache), and what is on the medium. Between
the two stands the list of changes that were not synced. `SimulatedDisk.crash` decides the fate of each of them by
itself:

- A write is lost, kept, or torn: at any byte, or sector by sector in any pattern, so a later write can be there
  where an earlier one is not. Bytes that were being written can also come out as garbage. Bytes that were synced
  and not written again stay, also where they share a sector with others (what SQLite calls powersafe overwrite).
- The length that a lost write gave the file can be kept: zeros stand in its place.
- A truncate or an allocate is lost or kept.
- A change of a directory is lost or kept, each by itself. Only changes of the same name depend on each other: what was
  renamed is not lost under both names. Journaling file systems promise more (changes in order), so what holds here
  holds there.
- A synced file whose name is not synced is gone.
- What was stored in a mapped file is kept or lost, each eight bytes by themselves, and never torn within them.

A database has its newest states in a ``-wal`` file beside it, as SQLite has, one behind the other: a commit writes one
and syncs it, and who opens the database first after a crash takes up the last one that is whole, with all before it.
Where the sync fails, those who have the database open go on with the state before; the file has the new one, and the
medium may have it or not. Now and then the newest state goes into the database's own file, and the other begins anew.

A sync that fails does what Linux does: programs still see the data, the medium does not have it, and the next sync
says that all is well. `SimulatedDisk.kill` is the end of the process without a power cut: the page cache stays.

Calls that only read are no crash points: a crash there is the crash at the next call that changes something.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import EEXIST, EIO, EISDIR, ENOENT, ENOSPC, ENOTDIR
from os import strerror
from random import Random
from struct import Struct
from zlib import compress, decompress

from crc32c import crc32c
from zope.interface import implementer

from streamd.batch import Buffer
from streamd.store.disk import IDisk, IDiskFile, Protected
from tests.rigs.store.medium import Directory, File, NameChange, Resize, Write


class PowerCut(BaseException):
    """The machine is off. No handler of a program catches this."""


_STATE = Struct("<II")  # crc, which goes on from that of the state before, and length of the bytes behind it
_WAL = "-wal"


def _error(number: int, path: str) -> OSError:
    return OSError(number, strerror(number), path)


Observer = Callable[[str, bool], None]
"""Called with the name of a call that changes something, before its effect (False) and after it (True)."""


@implementer(IDisk)
class SimulatedDisk:
    """A file system in memory, with everything that can go wrong."""

    def __init__(self, root: Directory | None = None) -> None:
        self._root = root or Directory()
        self._locks: set[int] = set()
        self._databases: dict[str, SimulatedDatabase] = {}
        self._cut: tuple[int, bool] | None = None
        self._is_off = False
        self.calls = 0
        """Calls so far that change something."""
        self.observer: Observer | None = None
        self.capacity_bytes: int | None = None
        """The room of the medium. Set it higher to give room back."""
        self.syncs_that_fail = 0
        """How many of the next syncs of files fail with EIO, and lose what they should have written."""
        self.commits_that_fail: list[str] = []
        """What becomes of the next commits of databases: ``lost`` or ``kept`` with a sync that fails; ``full``."""
        self.commits_per_checkpoint = 1
        """How many states of a database stand in its WAL before it begins anew."""
        self.directory_syncs_that_fail = 0
        """How many of the next syncs of directories fail with EIO."""
        self.read_bytes = 0
        """Bytes that were read, in all."""
        self.lies: frozenset[str] = frozenset()
        """``file``, ``directory``: syncs that do nothing and say that all is well."""
        self.is_cold = False
        """Whether nothing is in the page cache, so that `read_now` never has an answer."""
        self.synced: list[str] = []
        """What was synced, in order."""

    # -- the power, and other troubles ------------------------------------------------------------------------------

    def cut_power_at(self, call: int, *, after: bool) -> None:
        """Raise PowerCut from the call with this number (counted from 1), before or after its effect."""
        self._cut = (call, after)

    def keep_power(self) -> None:
        """Do not cut the power, where it was not cut yet."""
        self._cut = None

    def crash(self, rng: Random) -> SimulatedDisk:
        """The disk as it is when the power comes back."""
        fate = rng.choice(("lost", "kept", "mixed", "mixed", "mixed"))
        return self._successor(self._root.after_power_cut(rng, fate))

    def kill(self) -> SimulatedDisk:
        """The disk as the next process finds it when this one is killed: nothing is lost, nothing more is synced."""
        return self._successor(self._root.copy())

    def _successor(self, root: Directory) -> SimulatedDisk:
        disk = SimulatedDisk(root)
        disk.capacity_bytes = self.capacity_bytes
        disk.lies = self.lies
        disk.commits_per_checkpoint = self.commits_per_checkpoint
        disk.is_cold = self.is_cold
        return disk

    def break_at(self, path: str, position: int, length: int = 1) -> None:
        """Let every read of these bytes fail with EIO."""
        self._file(path).broken.append((position, position + length))

    def mend(self, path: str) -> None:
        """Let reads of a file succeed again."""
        self._file(path).broken.clear()

    def content(self, path: str) -> bytearray:
        """The bytes of a file as programs see them, all of them on the medium now. Change them: it is damaged."""
        file = self._file(path)
        file.pending.clear()
        file.durable = file.content
        return file.content

    def put(self, path: str, content: bytes) -> None:
        """Put a synced file there, as somebody from outside does."""
        directory, name = self._parent(path)
        directory.entries[name] = directory.durable[name] = File(content)

    def used_bytes(self) -> int:
        """Bytes that all files take."""
        return self._root.size()

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        if self._is_off:
            raise PowerCut
        self.calls += 1
        if self.observer is not None:
            self.observer(name, False)
        if self._cut == (self.calls, False):
            self._is_off = True
            raise PowerCut
        yield
        if self.observer is not None:
            self.observer(name, True)
        if self._cut == (self.calls, True):
            self._is_off = True
            raise PowerCut

    # -- where things are ---------------------------------------------------------------------------------------------

    def _directory(self, path: str) -> Directory:
        node = self._root
        for name in path.strip("/").split("/"):
            if name:
                below = node.entries.get(name)
                if below is None:
                    raise _error(ENOENT, path)
                if isinstance(below, File):
                    raise _error(ENOTDIR, path)
                node = below
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        return self._directory(parent), name

    def _file(self, path: str) -> File:
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is None:
            raise _error(ENOENT, path)
        if isinstance(node, Directory):
            raise _error(EISDIR, path)
        return node

    def _room(self) -> int:
        if self.capacity_bytes is None:
            return 1 << 62
        return max(self.capacity_bytes - self.used_bytes(), 0)

    # -- IDisk -------------------------------------------------------------------------------------------------------

    def make_directory(self, path: str) -> None:
        parent = above = "/"
        node = self._root
        missing = path.strip("/").split("/")
        while missing and (below := node.entries.get(missing[0])) is not None:
            if isinstance(below, File):
                raise _error(ENOTDIR, path)
            node = below
            above, parent = parent, f"{parent}{missing.pop(0)}/"
        # As the real one does: its maker may have been killed before the next line.
        self.sync_directory(above)
        for name in missing:
            with self._call("mkdir"):
                made = Directory()
                node.change(NameChange(None, name, made))
            self.sync_directory(parent)
            node = made
            parent = f"{parent}{name}/"

    def protect(self, path: str) -> Protected:
        return Protected(0)

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def create(self, path: str) -> SimulatedFile:
        directory, name = self._parent(path)
        if name in directory.entries:
            raise _error(EEXIST, path)
        file = File()
        with self._call("create"):
            directory.change(NameChange(None, name, file))
        return SimulatedFile(self, file, path)

    def open(self, path: str, *, writable: bool) -> SimulatedFile:
        return SimulatedFile(self, self._file(path), path)

    def rename(self, source: str, target: str) -> None:
        file = self._file(source)
        directory, old = self._parent(source)
        other, new = self._parent(target)
        assert directory is other, "the store never moves a file between directories"
        with self._call("rename"):
            directory.change(NameChange(old, new, file))

    def unlink(self, path: str) -> None:
        self._file(path)
        directory, name = self._parent(path)
        with self._call("unlink"):
            directory.change(NameChange(name, None, None))
            self._databases.pop(path, None)

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        with self._call("sync_directory"):
            if self.directory_syncs_that_fail:
                self.directory_syncs_that_fail -= 1
                raise _error(EIO, path)
            if "directory" not in self.lies:
                directory.sync()
            self.synced.append(path)

    def free_bytes(self, path: str) -> int:
        return self._room()

    def size_bytes(self, path: str) -> int:
        return 1 << 62 if self.capacity_bytes is None else self.capacity_bytes

    def map(self, path: str, length: int, *, writable: bool) -> memoryview:
        file = self._file(path)
        if len(file.content) < length:
            raise ValueError("mmap length is greater than file size")
        if not writable:
            return memoryview(file.content)[:length].toreadonly()
        file.is_mapped = True
        return memoryview(file.content)[:length]

    def stamp(self, path: str) -> tuple[int, ...]:
        try:
            content = self._file(path).content
        except FileNotFoundError:
            return ()
        return len(content), hash(bytes(content))

    def database(
        self, path: str, *, writable: bool, immutable: bool = False, is_index: bool = False
    ) -> sqlite3.Connection:
        if path not in self._databases:
            directory, name = self._parent(path)
            if name not in directory.entries and not writable:
                raise sqlite3.OperationalError("unable to open database file")
            database = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False, factory=SimulatedDatabase
            )
            database.lives_on(self, path)
            self._databases[path] = database
        if writable:
            self._databases[path].is_index = is_index
        return self._databases[path]

    def lock(self, path: str) -> SimulatedFile | None:
        directory, name = self._parent(path)
        if name not in directory.entries:
            self.create(path)
        file = self._file(path)
        if id(file) in self._locks:
            return None
        self._locks.add(id(file))
        return SimulatedFile(self, file, path)


class SimulatedDatabase(sqlite3.Connection):
    """A database on a SimulatedDisk, one for all who open it."""

    is_index = False
    """Whether commits are not synced."""

    def lives_on(self, disk: SimulatedDisk, path: str) -> None:
        """Take up the state that the disk has."""
        self._disk, self._path = disk, path
        directory, name = disk._parent(path)
        self._state = bytes(disk._file(path).content) if name in directory.entries else b""
        self._end, self._crc, self._states = 0, 1, 0
        wal = bytes(disk._file(path + _WAL).content) if name + _WAL in directory.entries else b""
        while self._end + _STATE.size <= len(wal):
            crc, length = _STATE.unpack_from(wal, self._end)
            data = wal[self._end + _STATE.size :][:length]
            if len(data) < length or crc32c(data, self._crc) != crc:
                break
            self._state = decompress(data)
            self._count(data, crc)
        if self._state:
            self.deserialize(self._state)

    def _count(self, data: bytes, crc: int) -> None:
        self._end += _STATE.size + len(data)
        self._crc = crc
        self._states += 1

    def commit(self) -> None:
        """The new state is on the medium, or OperationalError is raised, and it is the one before for all."""
        super().commit()
        state = self.serialize()
        try:
            self._log(state)
        except OSError as error:
            self.deserialize(self._state)
            full = error.errno == ENOSPC
            failed = sqlite3.OperationalError("database or disk is full" if full else "disk I/O error")
            failed.sqlite_errorcode = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_IOERR_FSYNC
            raise failed from error
        self._state = state
        if self._states >= self._disk.commits_per_checkpoint:
            self._checkpoint()

    def _log(self, state: bytes) -> None:
        disk = self._disk
        directory, name = disk._parent(self._path)
        fate = disk.commits_that_fail.pop(0) if disk.commits_that_fail else "well"
        if fate == "full":
            raise _error(ENOSPC, self._path)
        data = compress(state, 1)
        crc = crc32c(data, self._crc)
        with disk._call("commit"):
            if name + _WAL not in directory.entries:
                directory.change(NameChange(None, name + _WAL, File()))
            wal = disk._file(self._path + _WAL)
            wal.change(Write(self._end, _STATE.pack(crc, len(data)) + data))
        if self.is_index and fate == "well":
            self._count(data, crc)
            return
        with disk._call("commit"):
            if fate == "lost":
                wal.pending.clear()
            else:
                wal.sync()
                directory.sync()
            if fate != "well":
                raise _error(EIO, self._path)
        self._count(data, crc)

    def _checkpoint(self) -> None:
        directory, name = self._disk._parent(self._path)
        if self.is_index:
            with self._disk._call("checkpoint"):
                self._disk._file(self._path + _WAL).sync()
                directory.sync()
        with self._disk._call("checkpoint"):
            if name not in directory.entries:
                directory.change(NameChange(None, name, File()))
                directory.sync()
            file = self._disk._file(self._path)
            file.content, file.durable = bytearray(self._state), bytearray(self._state)
            # SQLite syncs the salt of the next round before anything is written over what stands there.
            wal = self._disk._file(self._path + _WAL)
            wal.change(Resize(0, is_cut=True))
            wal.sync()
            self._end, self._crc, self._states = 0, 1, 0

    def close(self) -> None:
        """The next one to open it gets this one again. What was not committed is gone."""
        if self.in_transaction:
            self.rollback()


@implementer(IDiskFile)
class SimulatedFile:
    """An open file of a SimulatedDisk."""

    def __init__(self, disk: SimulatedDisk, file: File, path: str) -> None:
        self._disk = disk
        self._open: File | None = file
        self.path = path

    @property
    def _file(self) -> File:
        assert self._open is not None, f"{self.path} is closed"
        return self._open

    def size(self) -> int:
        return len(self._file.content)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        file = self._file
        with self._disk._call("write"):
            grown = position + len(data) - len(file.content)
            missing = grown - self._disk._room() if grown > 0 else 0
            if missing > 0:
                # A disk that fills up takes what it has room for.
                file.change(Write(position, data[: max(len(data) - missing, 0)]))
                raise _error(ENOSPC, self.path)
            file.change(Write(position, data))

    def read(self, position: int, length: int) -> bytes:
        if self._disk._is_off:
            raise PowerCut
        file = self._file
        if any(first < position + length and position < last for first, last in file.broken):
            raise _error(EIO, self.path)
        data = bytes(file.content[position : position + length])
        self._disk.read_bytes += len(data)
        return data

    def read_now(self, position: int, length: int) -> Buffer | None:
        if self._disk.is_cold:
            return None
        data = self.read(position, length)
        return data if len(data) == length else None

    def allocate(self, length: int) -> None:
        with self._disk._call("allocate"):
            if length - self.size() > self._disk._room():
                raise _error(ENOSPC, self.path)
            self._file.change(Resize(length, is_cut=False))

    def truncate(self, length: int) -> None:
        with self._disk._call("truncate"):
            self._file.change(Resize(length, is_cut=True))

    def sync(self, *, metadata: bool) -> None:
        with self._disk._call("sync"):
            if self._disk.syncs_that_fail:
                self._disk.syncs_that_fail -= 1
                self._file.pending.clear()
                raise _error(EIO, self.path)
            if "file" not in self._disk.lies:
                self._file.sync()
            self._disk.synced.append(self.path)

    def close(self) -> None:
        if self._open is not None:
            self._disk._locks.discard(id(self._open))
            self._open = None
