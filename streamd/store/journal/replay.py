"""Letting journal files take effect again: recovery does it with the last ones, the compactor with closed ones."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from streamd.batch import Buffer
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import BadEntry, StoreCorrupt, StoreUnusable, UnknownVersion
from streamd.store.journal.frame import FILE_HEADER, FileHeader, Header, decode_file_header
from streamd.store.journal.scan import Frame, Scanner
from streamd.store.journal.writer import file_name


def read_bytes(path: str, file: IDiskFile, position: int, length: int) -> Buffer:
    """Read, or say which file can't be read, and where."""
    try:
        return file.read(position, length)
    except OSError as error:
        raise StoreCorrupt(path, position, f"the disk can't read it: {error}") from error


def check_header(path: str, data: Buffer, number: int, store: bytes) -> FileHeader:
    """The header of journal file `number` of this store, or an error that says whose it is."""
    header = decode_file_header(data)
    if isinstance(header, int):
        raise UnknownVersion(f"{path}: the file has format {header}, which this streamd does not read")
    if header is None:
        raise StoreCorrupt(path, 0, "the file header is damaged")
    if header.store != store:
        raise StoreUnusable(f"{path}: this file belongs to another store. Move it elsewhere")
    if header.number != number:
        raise StoreUnusable(
            f"{path}: this is a copy of {file_name(header.number)} under another name. Move it elsewhere"
        )
    return header


class Target(Protocol):
    """What takes frames up: a table of segments."""

    def apply(self, header: Header, sequence: int, timestamp: int, file: int, position: int, body: Buffer) -> None:
        """Let one entry take effect. BadEntry where it can't be."""


T = TypeVar("T", bound=Target)


class Replay(Generic[T]):
    """Frames, applied in order to a table of segments."""

    def __init__(self, disk: IDisk, directory: str, store: bytes, segments: T) -> None:
        self._disk = disk
        self._directory = directory
        self._store = store
        self.segments = segments
        self.sequence = 1
        """The sequence number that comes next."""
        self.timestamp = 0
        """The last one that was seen."""
        self.frames_applied = 0
        self.entries_applied = 0

    def path(self, number: int) -> str:
        """Where a journal file is."""
        return os.path.join(self._directory, file_name(number))

    def header(self, number: int) -> FileHeader:
        """The checked header of a journal file."""
        path = self.path(number)
        file = self._disk.open(path, writable=False)
        try:
            return check_header(path, read_bytes(path, file, 0, FILE_HEADER.size), number, self._store)
        finally:
            file.close()

    def frames(self, path: str, scanner: Scanner) -> Iterator[Frame]:
        """The good frames of a file."""
        try:
            yield from scanner.frames()
        except OSError as error:
            raise StoreCorrupt(path, scanner.position, f"the disk can't read it: {error}") from error

    def apply(self, path: str, frame: Frame, file: int, shift: int = 0) -> None:
        """Let a frame take effect, as one that stands `shift` bytes further on in `file`."""
        for at, (header, (position, body)) in enumerate(zip(frame.headers, frame.bodies, strict=True)):
            try:
                self.segments.apply(header, frame.sequence + at, frame.timestamp, file, position + shift, body)
            except (BadEntry, ValueError, struct.error) as error:
                raise StoreCorrupt(path, frame.position, f"entry {frame.sequence + at}: {error}") from error
        self.sequence = frame.end_sequence
        self.timestamp = max(self.timestamp, frame.timestamp)
        self.frames_applied += 1
        self.entries_applied += len(frame.headers)

    def closed(self, header: FileHeader, successor: FileHeader) -> None:
        """Apply a file that has a successor. It was synced before that existed: all of it must be there."""
        path = self.path(header.number)
        file = self._disk.open(path, writable=False)
        try:
            scanner = Scanner(file, header)
            frames = self.frames(path, scanner)
            while scanner.sequence < successor.sequence and (frame := next(frames, None)):
                self.apply(path, frame, header.number)
        finally:
            file.close()
        self.timestamp = max(self.timestamp, header.timestamp)
        if scanner.sequence > successor.sequence:
            raise StoreUnusable(
                f"{self.path(successor.number)}: begins at sequence {successor.sequence}, which is inside a frame "
                f"of {path}. One of the two is not part of this store"
            )
        if scanner.sequence < successor.sequence:
            raise StoreCorrupt(
                path,
                scanner.position,
                f"{scanner.damage or 'the frames end here'}; sequence {scanner.sequence} to {successor.sequence - 1} "
                "is damaged, or a file is missing",
            )
