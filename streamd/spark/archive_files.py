"""The file system of an archive: whole files that appear under their names at once, and are on disk when they do.

Any file system that Arrow reaches, named as Spark names it. On a local one every file and its directory are synced;
object stores keep what was closed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pyarrow import ArrowException
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

# Hadoop's names for what Arrow calls otherwise.
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}

# What Hive and Spark write as it is in a directory such as topic=NAME, beside letters and digits.
_PLAIN: Final = " !$&()+,-.;<>@_`|~"


class ArchiveError(Exception):
    """An archive that can't be used, or not be gone on with. The text says what to do."""


class Files:
    """All files below one URI. Paths are relative to it."""

    def __init__(self, uri: str) -> None:
        scheme, colon, rest = uri.partition("://")
        self._local = not colon or scheme == "file"
        if self._local:
            # As Spark has it: a path, in which nothing is quoted.
            self._root = os.path.abspath(rest if colon else uri.removeprefix("file:"))
            self.system, self.uri = LocalFileSystem(), f"file://{self._root}"
            return
        self.uri = uri.rstrip("/")
        try:
            self.system, self._root = FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}{self.uri[len(scheme) :]}")
        except (ArrowException, ValueError, OSError) as error:
            raise ArchiveError(f"{uri}: no place for an archive: {error}") from None

    def at(self, path: str) -> str:
        """The name of a file for `system`."""
        return f"{self._root}/{path}"

    def url(self, path: str) -> str:
        """The name of a file for Spark."""
        return f"{self.uri}/{path}"

    def names(self, directory: str) -> list[str]:
        """The files and directories in a directory, sorted; none where it is not there."""
        found = self.system.get_file_info(FileSelector(self.at(directory), allow_not_found=True))
        return sorted(each.base_name for each in found)

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return bool(self.system.get_file_info(self.at(path)).type == FileType.File)

    def size(self, path: str) -> int:
        """The bytes of a file."""
        return int(self.system.get_file_info(self.at(path)).size)

    def read(self, path: str) -> bytes:
        """What a file holds; FileNotFoundError."""
        with self.system.open_input_file(self.at(path)) as file:
            return bytes(file.read())

    def create(self, path: str, data: bytes) -> None:
        """Make a file that is not there yet; FileExistsError where it is."""

        def write(file: Any) -> None:
            file.write(data)

        if not self._local:
            # Nobody else does it between these two: one archive run at a time, as the documentation asks for.
            if self.exists(path):
                raise FileExistsError(path)
            with self.system.open_output_stream(self.at(path)) as file:
                write(file)
            return
        self._put(path, write, os.link)

    def put(self, path: str, write: Callable[[Any], None]) -> None:
        """Make a file of what `write` writes to the file it is given, in place of one that may be there."""
        if not self._local:
            with self.system.open_output_stream(self.at(path)) as file:
                write(file)
            return
        self._put(path, write, os.replace)

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""
        try:
            self.system.delete_file(self.at(path))
        except FileNotFoundError:
            pass

    def sweep(self, path: str) -> None:
        """Delete what somebody left who was killed before a file had its name."""
        directory, _, name = path.rpartition("/")
        for each in self.names(directory):
            if each.startswith(_temporary(name)):
                self.delete(f"{directory}/{each}")

    def _put(self, path: str, write: Callable[[Any], None], name: Callable[[str, str], None]) -> None:
        """Under another name first; under its own when it is whole and on disk."""
        target = Path(self.at(path))
        outermost = Path(self._root)
        while not outermost.exists():
            outermost = outermost.parent
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = str(target.parent / f"{_temporary(target.name)}{uuid.uuid4().hex}")
        try:
            with self.system.open_output_stream(temporary) as file:
                write(file)
            _sync(temporary)
            name(temporary, str(target))
        finally:
            Path(temporary).unlink(missing_ok=True)
        # A synced file under an unsynced name is gone after a power cut, and so is one in an unsynced directory. All of
        # them, each time: who made one may have been killed before it was synced.
        for directory in (target.parent, *target.parent.parents):
            _sync(str(directory))
            if directory == outermost:
                break


def partition(column: str, value: str) -> str:
    """The directory of a value of a partition column, as Spark writes and reads it."""
    # Spark takes %XX for a character of its own: what is not ASCII stays as it is.
    return f"{column}={''.join(quote(each, safe=_PLAIN) if each.isascii() else each for each in value)}"


def _temporary(name: str) -> str:
    """How a file is called before it is whole; Spark overlooks such names. Something of its own follows."""
    return f".{name}."


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
