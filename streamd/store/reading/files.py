"""The store's files open for reading: journal files and packs, at most so many at a time."""

from __future__ import annotations

import os
from collections import OrderedDict

from streamd.store.disk import IDisk, IDiskFile
from streamd.store.journal import writer as journal
from streamd.store.packs import pack
from streamd.store.records.extent import PACKS
from streamd.store.usage import Usage, usage


class StoreFiles:
    """Files by number; that of a pack counts from `PACKS`.

    A file is closed when it falls out of here and nobody reads it any more: `IDiskFile` is closed with its last
    reference, so a read that runs in a thread keeps its own.
    """

    def __init__(self, disk: IDisk, journal_directory: str, pack_directory: str, open_files_max: int) -> None:
        self._disk = disk
        self._journal = journal_directory
        self._packs = pack_directory
        self._open_files_max = open_files_max
        self._files: OrderedDict[int, IDiskFile] = OrderedDict()

    def path(self, number: int) -> str:
        """Where this file is."""
        if number < PACKS:
            return os.path.join(self._journal, journal.file_name(number))
        return os.path.join(self._packs, pack.file_name(number - PACKS))

    def get(self, number: int) -> IDiskFile:
        """The file, opened where it is not yet. Called by the reactor's thread alone."""
        file = self._files.get(number)
        if file is None:
            file = self._files[number] = self._disk.open(self.path(number), writable=False)
            if len(self._files) > self._open_files_max:
                self._files.popitem(last=False)
        else:
            self._files.move_to_end(number)
        return file

    def remove(self, numbers: list[int]) -> None:
        """Take the names of these files away; who reads one goes on. Slow: for a thread, after `forget`."""
        for number in numbers:
            try:
                self._disk.unlink(self.path(number))
            except FileNotFoundError:
                pass  # somebody was faster

    def usage(self) -> Usage:
        """How much room there is, and how much the store takes of it. Slow: for a thread."""
        return usage(self._journal, self._packs)

    def forget(self, numbers: list[int]) -> None:
        """Do not keep these open."""
        for number in numbers:
            self._files.pop(number, None)

    def close(self) -> None:
        """Let go of all files."""
        self._files.clear()
