"""What a repair is going to do, and what it keeps of all that it takes away."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from streamd.as_json import json_lines
from streamd.batch import Batch
from streamd.store.disk import IDisk, IDiskFile

FOLDER: Final = "repair"
"""Below the data directory, with one folder for each repair."""

_RECORDS: Final = "records.jsonl"
_COPY_BYTES: Final = 4 << 20


class Step(NamedTuple):
    """One thing that is wrong, and what becomes of it."""

    path: str
    damage: str
    action: str
    lost: str
    """What nobody will be able to read any more; nothing where it is empty."""

    def __str__(self) -> str:
        return f"damaged: {self.path}: {self.damage}\n  repair: {self.action}\n  lost:   {self.lost or 'nothing'}"


class Kept:
    """The folder of one repair. Nothing is taken out of the store that is not here first, synced."""

    def __init__(self, disk: IDisk, directory: str, name: str) -> None:
        self._disk = disk
        self.path = os.path.join(directory, FOLDER, name)
        disk.make_directory(self.path)
        self._records: IDiskFile | None = None
        self._at = 0

    def move(self, path: str) -> None:
        """Take a file out of the store."""
        self.copy(path)
        self._disk.unlink(path)
        self._disk.sync_directory(os.path.dirname(path))

    def copy(self, path: str) -> None:
        """Copy a file, where it is there."""
        try:
            file = self._disk.open(path, writable=False)
        except FileNotFoundError:
            return
        try:
            self._put(path, file, 0, file.size())
        finally:
            file.close()

    def cut(self, path: str, begin: int) -> None:
        """Copy what stands in a file from a byte on, without the zeros at its end."""
        file = self._disk.open(path, writable=False)
        try:
            at = end = begin
            while data := bytes(file.read(at, _COPY_BYTES)):
                end = at + len(written) if (written := data.rstrip(b"\0")) else end
                at += len(data)
            if end > begin:
                self._put(f"{path}.{begin}.cut", file, begin, end)
        finally:
            file.close()

    def _put(self, name: str, file: IDiskFile, begin: int, end: int) -> None:
        folder = self._folder(name)
        target = self._disk.create(os.path.join(folder, os.path.basename(name)))
        try:
            for at in range(begin, end, _COPY_BYTES):
                target.write(at - begin, [file.read(at, min(_COPY_BYTES, end - at))])
            target.sync(metadata=True)
        finally:
            target.close()
        self._disk.sync_directory(folder)

    def _folder(self, path: str) -> str:
        """Files keep the folder they were in."""
        folder = os.path.basename(os.path.dirname(path))
        kept = os.path.join(self.path, folder) if folder in ("journal", "packs") else self.path
        self._disk.make_directory(kept)
        return kept

    def records(self, topic: str, number: int, timestamp: int, tag: int, batch: Batch) -> None:
        """Write records down that can still be read, before they go: somebody may want to publish them again."""
        if self._records is None:
            self._records = self._disk.create(os.path.join(self.path, _RECORDS))
        lines = json_lines(topic, number, timestamp, tag, batch)
        self._records.write(self._at, [lines])
        self._at += len(lines)

    def sync(self) -> None:
        """All that was given here is on the medium."""
        if self._records is not None:
            self._records.sync(metadata=True)
        self._disk.sync_directory(self.path)

    def close(self) -> None:
        """Sync, and let go."""
        self.sync()
        if self._records is not None:
            self._records.close()
            self._records = None
