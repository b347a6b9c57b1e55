"""The journal's files: written at their end by one thread, read anywhere by others.

A journal file is prepared under a temporary name (room allocated, header written, synced) and then renamed, so a
file with a journal name always has a header. File N is synced before N + 1 exists, in every sync mode; therefore
only the last file can have a torn tail. A file ends where the next one's first sequence begins: recovery may write the
end of a file again into a new one, and a crash in between leaves both, with the same meaning.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import randbits
from typing import TYPE_CHECKING, Final

from streamd.batch import Buffer
from streamd.settings import StoreSettings
from streamd.store.believed import next_timestamp
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.journal.frame import (
    FILE_HEADER,
    FRAME_BYTES_MAX,
    EncodedFrame,
    Entry,
    FileHeader,
    encode_frame,
    frame_length,
)
from streamd.store.room import PACK_BYTES_MAX, file_bytes_max, is_full, largest_file_bytes

if TYPE_CHECKING:
    from streamd.store.journal.committed import Committed

FILE_NAME: Final = re.compile(r"(\d{20})\.journal")
FILE_ENTRIES_MAX: Final = 50_000
"""A file with more entries is closed, whatever its size: each is a row in memory until the compactor has folded it."""

TEMPORARY_SUFFIX: Final = ".tmp"
TORN_SUFFIX: Final = ".torn"
TEMPORARY_NAME: Final = re.compile(r"\d{20}\.journal(\.\d+\.torn)?\.tmp")


def file_name(number: int) -> str:
    """The name of a journal file."""
    return f"{number:020}.journal"


class NoRoom(Exception):
    """The disk, or the quota, is full. Nothing of the commit was kept."""


class SyncFailed(Exception):
    """The medium did not take what was written, or says it may not have. Nobody knows what is there now."""


def _monotonic() -> int:
    return time.monotonic_ns() // 1000


class JournalWriter:
    """The end of the journal. Used by one thread at a time: recovery, then the writer thread."""

    def __init__(self, disk: IDisk, directory: str, settings: StoreSettings, store: bytes) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._store = store
        self._file: IDiskFile | None = None
        self._mark = 0
        self._dirty = False
        self._entries = 0
        self._room = 0
        """What the file was allocated with."""
        self.number = 0
        self.position = 0
        self.sequence = 1
        """The sequence number of the next entry."""
        self.synced = 1
        """Everything below this sequence number is on the medium."""
        self.timestamp = 0
        """The last timestamp given, in microseconds."""
        self.monotonic: Callable[[], int] = _monotonic
        """Microseconds by a clock that nobody can set."""
        self.given_at = self.monotonic()
        """When the last timestamp was given, by that clock."""
        self.committed: Committed | None = None
        """Where readers outside the daemon look how far they may read."""

    def write(
        self,
        entries: Sequence[Entry],
        *,
        now: int,
        removals: bool = False,
        roll: bool = False,
        ample: bool = False,
    ) -> tuple[EncodedFrame, int]:
        """Write one frame, and return it with the number of its file. It is not synced yet.

        Raises NoRoom with everything as before, or OSError where the file can't be trusted any more. A commit that is
        all `removals` may use the reserve where no new file can be made. With `roll` it goes into a new file, with
        `ample` only where the disk has room for more than that.
        """
        length = frame_length(entries)
        if length > FRAME_BYTES_MAX:
            # Recovery would take it for damage.
            raise NoRoom(f"a commit of {length} bytes is over the limit of {FRAME_BYTES_MAX}")
        if self._must_roll(length, removals, roll):
            try:
                self._roll(length, removals=removals, ample=ample)
            except NoRoom:
                if roll or not removals or self._file is None:
                    raise
                # The last resort: the few bytes that the file may still grow by.
        assert self._file is not None
        given_at = self.monotonic()
        self.timestamp = next_timestamp(self.timestamp, given_at - self.given_at, now)
        self.given_at = given_at
        frame = encode_frame(
            entries,
            mark=self._mark,
            position=self.position,
            sequence=self.sequence,
            synced=self.synced,
            timestamp=self.timestamp,
        )
        self._put(frame.buffers)
        self.position += frame.length
        self.sequence += len(entries)
        self._entries += len(entries)
        return frame, self.number

    def would_roll(self, entries: Sequence[Entry], *, removals: bool, roll: bool) -> bool:
        """Whether these entries would go to a new file, which takes some syncs more."""
        return self._must_roll(frame_length(entries), removals, roll)

    def _must_roll(self, length: int, removals: bool, roll: bool) -> bool:
        limit = self._room - (0 if removals else self._reserve(self._room))
        # A frame larger than a whole file gets one of its own.
        full = roll or self.position + length > limit or self._entries >= FILE_ENTRIES_MAX
        return self._file is None or (full and self.position > FILE_HEADER.size)

    def _put(self, buffers: Sequence[Buffer]) -> None:
        assert self._file is not None
        try:
            self._dirty = True
            self._file.write(self.position, buffers)
        except OSError as error:
            if not is_full(error):
                raise
            self._file.truncate(self.position)
            raise NoRoom(str(error)) from error

    def sync(self) -> None:
        """Wait until all that was written is on the medium. Never call it again after it raised."""
        if self._dirty and self._file is not None:
            try:
                self._file.sync(metadata=False)
            except OSError as error:
                raise SyncFailed(f"{file_name(self.number)}: {error}") from error
            self._dirty = False
        self.synced = self.sequence
        if self.committed is not None:
            self.committed.set_synced(self.synced)

    def publish(self) -> None:
        """All that was written is committed: it may be shown to readers."""
        if self.committed is not None:
            self.committed.set_committed(self.sequence)

    def _reserve(self, room: int) -> int:
        """What a file keeps for removals. A small one keeps little: with the full reserve nothing else would fit."""
        return min(self._settings.reserve_bytes, room // 4)

    def _roll(self, length: int, *, removals: bool, ample: bool) -> None:
        if self._file is not None:
            # Before the next file exists, and in every sync mode: only the last file may have a torn tail.
            self.sync()
        try:
            self.begin(self.number + 1, self.sequence, self.room_for(length, ample=ample))
        except NoRoom:
            if not removals:
                raise
            self._begin_for_removals(length)

    def room_for(self, length: int, *, ample: bool = False) -> int:
        """How large the next file is made, so that a frame of this length fits.

        NoRoom where that would leave too little for the compactor; with `ample`, where it would leave little.
        """
        largest = file_bytes_max(self._disk, self._directory)
        room = max(FILE_HEADER.size + length, min(self._settings.journal_file_bytes, largest))
        free = self._disk.free_bytes(self._directory)
        # Files are looked at only where they could matter.
        if free < 2 * (room + max(room, PACK_BYTES_MAX)):
            kept = max(room, min(largest, largest_file_bytes(self._disk, self._directory)))
            if free < (room + kept) * (2 if ample else 1):
                raise NoRoom(f"{free} bytes are free, of which {kept} are kept for compaction")
        return room

    def _begin_for_removals(self, length: int) -> None:
        """Go on in a small file where there is no room for another one: what takes away must be stored.

        It lies in the room that is kept for compaction, or where that is gone, in half of what the last file has left.
        """
        number, least = self.number + 1, FILE_HEADER.size + length
        try:
            self.begin(number, self.sequence, least + self._reserve(self._settings.journal_file_bytes))
        except NoRoom:
            if self._file is None:
                raise
            size = self._file.size()
            self._file.truncate(self.position)
            try:
                self.begin(number, self.sequence, least + max(size - self.position, 0) // 2)
            except NoRoom:
                with suppress(OSError):
                    self._file.allocate(size)
                raise

    def begin(self, number: int, sequence: int, room: int, frames: Sequence[Buffer] = (), mark: int = 0) -> None:
        """Go on in a new file, which holds `frames` from the start (written with `mark`), all of it synced."""
        path = os.path.join(self._directory, file_name(number))
        temporary = path + TEMPORARY_SUFFIX
        mark = mark or new_mark()
        header = FileHeader(mark, self._store, number, sequence, self.timestamp).encode()
        file = None
        try:
            file = self._disk.create(temporary)
            file.allocate(room)
            file.write(0, [header, *frames])
            file.sync(metadata=True)
            self._disk.rename(temporary, path)
        except OSError as error:
            if file is not None:
                file.close()
            with suppress(OSError):
                self._disk.unlink(temporary)
            if is_full(error):
                raise NoRoom(str(error)) from error
            raise
        try:
            self._disk.sync_directory(self._directory)
        except OSError as error:
            # Never NoRoom, whatever the reason: the new file has its name, so nothing may go into the old one any more.
            raise SyncFailed(f"{self._directory}: {error}") from error
        self._finish()
        self._file = file
        self._room = room
        self._mark = mark
        self._dirty = False
        self._entries = 0
        self.number = number
        self.position = FILE_HEADER.size + sum(map(len, frames))

    def _finish(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                # Give the unused room back. Whether that reaches the medium does not matter.
                self._file.truncate(self.position)
            self._file.close()
            self._file = None

    def close(self, *, now: int) -> None:
        """Sync everything, and say so in a last frame, so that the next start need not write anything again."""
        if self._file is None:
            return
        self.sync()
        with suppress(NoRoom):
            self.write([], now=now, removals=True)
            self.sync()
        self._finish()
        if self.committed is not None:
            self.committed.close()


def new_mark() -> int:
    """A mark for a journal file: random, and never zero, since a zero ends the frames of a file."""
    return randbits(32) or 1
