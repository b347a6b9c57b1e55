"""What a check finds, and how far it has come."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from streamd.store.disk import IDisk

# Progress is told each time so much was read.
_TELL_BYTES: Final = 1 << 20


class Severity(Enum):
    """How bad it is."""

    ERROR = "damaged"
    """Something that was stored is not what it was, or not there."""
    NOTE = "note"
    """Worth knowing; nothing is wrong."""


class Problem(NamedTuple):
    """One place where something is wrong."""

    path: str
    position: int
    reason: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.path} at byte {self.position}: {self.reason}"


class Progress(NamedTuple):
    """How far a check has come."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int

    def __str__(self) -> str:
        percent = 100 * self.bytes_done // max(self.bytes_total, 1)
        return f"{self.files_done} of {self.files_total} files, {percent} %"


class Checked:
    """Problems so far, and how much was looked at."""

    def __init__(self, progress: Callable[[Progress], None] | None) -> None:
        self.problems: list[Problem] = []
        self._progress = progress
        self._sizes: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._untold_bytes = 0

    def add(self, path: str, position: int, reason: str) -> None:
        """Something is damaged."""
        self.problems.append(Problem(path, position, reason, Severity.ERROR))

    def note(self, path: str, position: int, reason: str) -> None:
        """Something is worth knowing."""
        self.problems.append(Problem(path, position, reason, Severity.NOTE))

    def expect(self, disk: IDisk, directories: Sequence[str]) -> None:
        """Find out how much there is to be read."""
        for directory in directories:
            try:
                for name in disk.list_directory(directory):
                    path = os.path.join(directory, name)
                    file = disk.open(path, writable=False)
                    self._sizes[path] = file.size()
                    file.close()
            except OSError:
                continue  # a file that goes just now, or something that the check itself will name

    def done(self, file_bytes: int, path: str) -> None:
        """So much more of a file is checked."""
        self._read[path] = self._read.get(path, 0) + file_bytes
        self._untold_bytes += file_bytes
        if self._untold_bytes >= _TELL_BYTES:
            self._tell()

    def done_all(self) -> None:
        """Nothing is left to do: rooms that were allocated and not used are not read."""
        self._read = dict(self._sizes)
        self._tell()

    def _tell(self) -> None:
        self._untold_bytes = 0
        if self._progress is not None:
            total = sum(self._sizes.values())
            read = sum(min(size, self._sizes.get(path, size)) for path, size in self._read.items())
            files = min(len(self._read), len(self._sizes))
            self._progress(Progress(files, len(self._sizes), min(read, total), total))
