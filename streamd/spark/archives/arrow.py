"""An archive on a local file system or on S3, through Arrow: tasks write and read its files themselves.

On a local file system every file and its directory are synced; S3 keeps what was closed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, S3FileSystem

from streamd.spark.archives.files import ArchiveError, Files, Location, temporary


class ArrowFiles(Files):
    """All files below one URI."""

    def __init__(self, location: Location) -> None:
        self.location = location
        scheme, colon, rest = location.uri.partition("://")
        self._local = not colon or scheme == "file"
        self.system: FileSystem
        if self._local:
            # As Spark has it: a path, in which nothing is quoted.
            self._root = os.path.abspath(rest if colon else location.uri.removeprefix("file:"))
            self.system, self.uri = LocalFileSystem(), f"file://{self._root}"
            return
        self._root = rest.rstrip("/")
        self.uri = f"{scheme}://{self._root}"
        try:
            self.system = S3FileSystem(**dict(location.settings))
        except (pa.ArrowException, ValueError, OSError) as error:
            raise ArchiveError(f"{self.uri}: no place for an archive: {error}") from None

    def at(self, path: str) -> str:
        """The name of a file for `system`."""
        return f"{self._root}/{path}"

    def names(self, directory: str) -> list[str]:
        """The files and directories in a directory, sorted; none where it is not there."""
        found = self.system.get_file_info(FileSelector(self.at(directory), allow_not_found=True))
        return sorted(each.base_name for each in found)

    def size(self, path: str) -> int:
        """The bytes of a file."""
        return int(self.system.get_file_info(self.at(path)).size)

    def rows(self, path: str) -> int | None:
        """How many rows a Parquet file has; None where it is not there, or not whole."""
        if not self._exists(path):
            return None
        try:
            with self.system.open_input_file(self.at(path)) as file:
                return int(pq.ParquetFile(file).metadata.num_rows)
        except pa.ArrowInvalid:
            # A writer that failed on S3 leaves what it had.
            return None

    def read(self, path: str) -> bytes:
        """What a small file holds; FileNotFoundError."""
        with self.system.open_input_file(self.at(path)) as file:
            return bytes(file.read())

    def batches(self, path: str) -> Iterator[Any]:
        """The record batches of a Parquet file."""
        with self.system.open_input_file(self.at(path)) as file:
            yield from pq.ParquetFile(file).iter_batches()

    def create(self, path: str, data: bytes) -> None:
        """Make a small file that is not there yet; FileExistsError where it is."""

        def write(file: Any) -> None:
            file.write(data)

        if self._local:
            self._put(path, write, os.link)
            return
        # Nobody else does it between these two: one archive run at a time, as the documentation asks for.
        if self._exists(path):
            raise FileExistsError(path)
        self.put(path, write)

    def put(self, path: str, write: Callable[[Any], None]) -> None:
        """Make a file of what `write` writes to the file it is given, in place of one that may be there."""
        if self._local:
            self._put(path, write, os.replace)
            return
        with self.system.open_output_stream(self.at(path)) as file:
            write(file)

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""
        try:
            self.system.delete_file(self.at(path))
        except FileNotFoundError:
            pass

    def _exists(self, path: str) -> bool:
        return bool(self.system.get_file_info(self.at(path)).type == FileType.File)

    def _put(self, path: str, write: Callable[[Any], None], name: Callable[[str, str], None]) -> None:
        """Under another name first; under its own when it is whole and on disk."""
        target = Path(self.at(path))
        outermost = Path(self._root)
        while not outermost.exists():
            outermost = outermost.parent
        target.parent.mkdir(parents=True, exist_ok=True)
        made = str(target.parent / f"{temporary(target.name)}{uuid.uuid4().hex}")
        try:
            with self.system.open_output_stream(made) as file:
                write(file)
            _sync(made)
            name(made, str(target))
        finally:
            Path(made).unlink(missing_ok=True)
        # A synced file under an unsynced name is gone after a power cut, and so is one in an unsynced directory. All of
        # them, each time: who made one may have been killed before it was synced.
        for directory in (target.parent, *target.parent.parents):
            _sync(str(directory))
            if directory == outermost:
                break


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
