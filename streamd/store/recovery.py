"""Opening the journal: replay what is whole, cut what is torn, refuse what is damaged.

Damage below the highest synced position that any frame names is corruption, and so is any damage in a file that
has a successor: that was on the medium, and somebody relies on it. Damage at or above that position is a torn tail:
nobody was told that it is stored. It is cut, and kept beside the journal.

What stands above the synced position is written again into a new file, and synced, before anything is served: after a
failed sync the page cache can show what the medium never got.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from streamd.batch import Buffer
from streamd.settings import StoreSettings
from streamd.store.directory import DataDirectory
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import StoreCorrupt, StoreUnusable, UnknownVersion
from streamd.store.frame import (
    ENTRY_HEADER,
    FILE_HEADER,
    FRAME_HEADER,
    FileHeader,
    decode_file_header,
    frame_head,
)
from streamd.store.journal import (
    FILE_NAME,
    TEMPORARY_NAME,
    TEMPORARY_SUFFIX,
    TORN_SUFFIX,
    JournalWriter,
    NoRoom,
    file_name,
    new_mark,
)
from streamd.store.scan import Frame, Scanner
from streamd.store.segments import BadEntry, Segments

FIRST_SEQUENCE = 1


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
    rewritten: int = 0
    """Frames written again, since they were not known to be synced."""


def recover(disk: IDisk, directory: DataDirectory, settings: StoreSettings) -> tuple[Segments, JournalWriter, Recovery]:
    """Replay the journal. What it returns is on the medium, and ready to be served and written to."""
    return _Recoverer(disk, directory, settings).run()


class _Recoverer:
    def __init__(self, disk: IDisk, directory: DataDirectory, settings: StoreSettings) -> None:
        self._disk = disk
        self._directory = directory.journal
        self._settings = settings
        self._store = directory.store
        self._segments = Segments()
        self._writer = JournalWriter(disk, self._directory, settings, self._store)
        self._report = Recovery()

    def run(self) -> tuple[Segments, JournalWriter, Recovery]:
        headers = self._headers()
        self._check_chain(headers)
        self._report.files = len(headers)
        for header, successor in pairwise(headers):
            self._replay_closed(header, successor)
        if headers:
            first = self._replay_last(headers[-1])
            self._remove_spent(headers, first)
        else:
            self._begin(1, FIRST_SEQUENCE, [], new_mark())
        self._writer.synced = self._writer.sequence
        return self._segments, self._writer, self._report

    # -- which files there are -----------------------------------------------------------------------------------------

    def _path(self, number: int) -> str:
        return os.path.join(self._directory, file_name(number))

    def _headers(self) -> list[FileHeader]:
        numbers = []
        for name in self._disk.list_directory(self._directory):
            path = os.path.join(self._directory, name)
            if match := FILE_NAME.fullmatch(name):
                numbers.append(int(match[1]))
            elif TEMPORARY_NAME.fullmatch(name):
                self._disk.unlink(path)
            elif not name.endswith(TORN_SUFFIX):
                raise StoreUnusable(f"{path}: this file is not part of the store. Move it elsewhere")
        headers = [self._header(number, last=number == numbers[-1]) for number in numbers]
        return [header for header in headers if header is not None]

    def _header(self, number: int, *, last: bool) -> FileHeader | None:
        path = self._path(number)
        file = self._disk.open(path, writable=False)
        try:
            data = self._read(path, file, 0, FILE_HEADER.size)
            if last and not any(data) and self._is_zero(path, file):
                # Made, and never written to: nothing in it was ever acknowledged.
                self._disk.unlink(path)
                return None
        finally:
            file.close()
        header = decode_file_header(data)
        if isinstance(header, int):
            raise UnknownVersion(f"{path}: the file has format {header}, which this streamd does not read")
        if header is None:
            raise StoreCorrupt(path, 0, "the file header is damaged")
        if header.store != self._store:
            raise StoreUnusable(f"{path}: this file belongs to another store. Move it elsewhere")
        if header.number != number:
            raise StoreUnusable(
                f"{path}: this is a copy of {file_name(header.number)} under another name. Move it elsewhere"
            )
        return header

    def _is_zero(self, path: str, file: IDiskFile) -> bool:
        step = 1 << 20
        return all(
            not bytes(self._read(path, file, position, step)).strip(b"\0") for position in range(0, file.size(), step)
        )

    def _read(self, path: str, file: IDiskFile, position: int, length: int) -> Buffer:
        try:
            return file.read(position, length)
        except OSError as error:
            raise StoreCorrupt(path, position, f"the disk can't read it: {error}") from error

    def _check_chain(self, headers: Sequence[FileHeader]) -> None:
        if headers and headers[0].sequence != FIRST_SEQUENCE:
            raise StoreCorrupt(
                self._path(headers[0].number), 0, f"the files before it, from sequence {FIRST_SEQUENCE} on, are missing"
            )

    # -- what is in them -----------------------------------------------------------------------------------------------

    def _frames(self, path: str, scanner: Scanner) -> Iterator[Frame]:
        try:
            yield from scanner.frames()
        except OSError as error:
            raise StoreCorrupt(path, scanner.position, f"the disk can't read it: {error}") from error

    def _apply(self, path: str, frame: Frame, file: int, shift: int = 0) -> None:
        """Let a frame take effect, as one that stands `shift` bytes further on in `file`."""
        for at, (header, (position, body)) in enumerate(zip(frame.headers, frame.bodies, strict=True)):
            try:
                self._segments.apply(header, frame.sequence + at, frame.timestamp, file, position + shift, body)
            except (BadEntry, ValueError, struct.error) as error:
                raise StoreCorrupt(path, frame.position, f"entry {frame.sequence + at}: {error}") from error
        self._writer.sequence = frame.end_sequence
        self._writer.timestamp = max(self._writer.timestamp, frame.timestamp)
        self._report.frames += 1
        self._report.entries += len(frame.headers)

    def _replay_closed(self, header: FileHeader, successor: FileHeader) -> None:
        """A file that has a successor was synced before that existed: all of it must be there."""
        path = self._path(header.number)
        file = self._disk.open(path, writable=False)
        try:
            scanner = Scanner(file, header)
            frames = self._frames(path, scanner)
            while scanner.sequence < successor.sequence and (frame := next(frames, None)):
                self._apply(path, frame, header.number)
        finally:
            file.close()
        if scanner.sequence > successor.sequence:
            raise StoreUnusable(
                f"{self._path(successor.number)}: begins at sequence {successor.sequence}, which is inside a frame "
                f"of {path}. One of the two is not part of this store"
            )
        if scanner.sequence < successor.sequence:
            raise StoreCorrupt(
                path,
                scanner.position,
                f"{scanner.damage or 'the frames end here'}; sequence {scanner.sequence} to {successor.sequence - 1} "
                "is damaged, or a file is missing",
            )

    def _replay_last(self, header: FileHeader) -> int:
        """Replay the last file, and begin the next one; returns the sequence that this one begins with."""
        path = self._path(header.number)
        file = self._disk.open(path, writable=True)
        try:
            end = self._find_end(path, file, header)
            mark = new_mark()
            first, cut, again = self._replay_synced(path, file, header, end, mark)
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
            self._disk.unlink(self._path(header.number))
        if spent:
            self._disk.sync_directory(self._directory)

    def _find_end(self, path: str, file: IDiskFile, header: FileHeader) -> Scanner:
        """Where the good frames of the last file end, and that nothing that was synced is missing there."""
        scanner = Scanner(file, header)
        for _ in self._frames(path, scanner):
            pass
        if scanner.sequence < scanner.synced_behind():
            raise StoreCorrupt(path, scanner.position, scanner.damage or "frames that were synced are missing")
        torn = scanner.rest(self._settings.torn_bytes_max)
        if scanner.damage or torn:
            self._report.torn_file = path
            self._report.torn_position = scanner.position
            self._report.torn_reason = scanner.damage or "a frame is missing"
            self._report.kept = self._keep(f"{path}.{scanner.position}{TORN_SUFFIX}", torn)
        # Cut before anything is written: the room that this gives back may be what the new file needs.
        file.truncate(scanner.position)
        return scanner

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
        for frame in self._frames(path, scanner):
            if frame.sequence < end.synced:
                self._apply(path, frame, header.number)
                continue
            if not frame.headers:
                # The last word of a daemon that stopped in order.
                continue
            if not again:
                first, cut = frame.sequence, frame.position
            raw = memoryview(self._read(path, file, frame.position, frame.length))
            table = raw[FRAME_HEADER.size :][: ENTRY_HEADER.size * len(frame.headers)]
            head = frame_head(
                table, mark, target, frame.length, frame.sequence, first, frame.timestamp, len(frame.headers)
            )
            again += [head, raw[FRAME_HEADER.size :]]
            self._apply(path, frame, header.number + 1, target - frame.position)
            target += frame.length
            self._report.rewritten += 1
        self._writer.timestamp = max(self._writer.timestamp, header.timestamp)
        self._writer.sequence = end.sequence
        return first, cut, again

    def _begin(self, number: int, sequence: int, frames: Sequence[Buffer], mark: int) -> None:
        """Go on in a new file. On a full disk, one without reserve; with nothing to write again, none at all."""
        wanted = FILE_HEADER.size + sum(map(len, frames))
        self._writer.number = number - 1
        try:
            self._writer.begin(number, sequence, max(wanted, self._settings.journal_file_bytes), frames, mark)
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
