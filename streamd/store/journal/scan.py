"""Reading a journal file frame by frame, and telling an end from damage. Recovery and verification share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from streamd.batch import Buffer
from streamd.store.disk import IDiskFile
from streamd.store.journal.frame import (
    CRC_BEGIN,
    ENTRY_HEADER,
    FILE_HEADER,
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    FileHeader,
    Header,
    Kind,
)

_WINDOW_BYTES: Final = 4 << 20
_PAYLOADS: Final = (Kind.APPEND, Kind.PAYLOAD)


class Frame(NamedTuple):
    """A frame whose checksums, all of them, are right."""

    position: int
    length: int
    sequence: int
    synced: int
    timestamp: int
    headers: list[Header]
    bodies: list[tuple[int, Buffer]]
    """For each entry where its body stands, and the body itself where it is no payload."""

    @property
    def end_sequence(self) -> int:
        """The sequence number behind its last entry."""
        return self.sequence + len(self.headers)


class Damaged(Exception):
    """What stands at a position is no frame."""


class Window:
    """A file through a buffer that moves forward."""

    def __init__(self, file: IDiskFile, window_bytes: int = _WINDOW_BYTES) -> None:
        self._file = file
        self._window_bytes = window_bytes
        self._begin = 0
        self._data = memoryview(b"")
        self.size = file.size()

    def get(self, position: int, length: int) -> memoryview:
        """The bytes at a position: fewer than asked for where the file ends."""
        at = position - self._begin
        if at < 0 or at + length > len(self._data):
            if position >= self.size:
                return memoryview(b"")
            self._begin = position
            self._data = memoryview(self._file.read(position, max(length, self._window_bytes)))
            at = 0
        return self._data[at : at + length]


class Scanner:
    """The frames of one file in order, up to the first place where there is none."""

    def __init__(self, file: IDiskFile, header: FileHeader, window_bytes: int = _WINDOW_BYTES) -> None:
        self._window = Window(file, window_bytes)
        self._mark = header.mark
        self.position = FILE_HEADER.size
        """Behind the last good frame."""
        self.sequence = header.sequence
        """The sequence number that must follow."""
        self.synced = header.sequence
        """The highest synced sequence that any frame named."""
        self.damage: str | None = None
        """Why the frames ended before their end: None where only zeros, or nothing, follow."""

    def frames(self) -> Iterator[Frame]:
        """Every good frame. Afterwards `position` and `damage` tell how it ended."""
        while True:
            try:
                frame = self._frame(self.position)
            except Damaged as damage:
                self.damage = str(damage)
                return
            if frame is None:
                return
            self.position += frame.length
            self.sequence = frame.end_sequence
            self.synced = max(self.synced, frame.synced)
            yield frame

    def _frame(self, position: int) -> Frame | None:
        head = self._window.get(position, FRAME_HEADER.size)
        if len(head) < FRAME_HEADER.size:
            if any(head):
                raise Damaged("the file ends inside a frame header")
            return None
        mark, crc, place, length, sequence, synced, timestamp, count, _ = FRAME_HEADER.unpack(head)
        if mark == 0 and not any(head):
            return None
        table = self._check_head(mark, crc, place, length, count, position)
        if sequence != self.sequence:
            raise Damaged(f"the frame has sequence {sequence} where {self.sequence} is due")
        return self._bodies(position, length, sequence, synced, timestamp, table)

    def _check_head(self, mark: int, crc: int, place: int, length: int, count: int, position: int) -> memoryview:
        """Check what a frame's header says; returns the headers of its entries."""
        if mark != self._mark:
            raise Damaged("no frame begins here")
        # Sizes first: a damaged one must not make us read or allocate what isn't there.
        head_bytes = FRAME_HEADER.size + ENTRY_HEADER.size * count
        if not head_bytes <= length <= FRAME_BYTES_MAX or position + length > self._window.size:
            raise Damaged(f"the frame header gives a length of {length} bytes with {count} entries")
        whole = self._window.get(position, head_bytes)
        if place != position or crc != crc32c(whole[CRC_BEGIN:]):
            raise Damaged("the checksum of the frame header does not match")
        return whole[FRAME_HEADER.size :]

    def _bodies(
        self, position: int, length: int, sequence: int, synced: int, timestamp: int, table: memoryview
    ) -> Frame:
        # A journal may hold hundreds of thousands of small frames, and all of them are read at a start.
        headers = list(map(Header._make, ENTRY_HEADER.iter_unpack(table)))
        at = position + FRAME_HEADER.size + len(table)
        end = position + length
        get = self._window.get
        bodies: list[tuple[int, Buffer]] = []
        for header in headers:
            size = header.length
            body = get(at, size)
            if len(body) != size or at + size > end:
                raise Damaged(f"entry {sequence + len(bodies)} reaches beyond its frame")
            if crc32c(body) != header.crc:
                raise Damaged(f"the checksum of entry {sequence + len(bodies)} does not match")
            bodies.append((at, b"" if header.kind in _PAYLOADS else bytes(body)))
            at += size
        return Frame(position, length, sequence, synced, timestamp, headers, bodies)

    def synced_behind(self) -> int:
        """The highest synced sequence that any frame names, those behind the damage included.

        A frame behind a hole may be whole: writes that were not synced reach the medium in any order.
        """
        wanted = self._mark.to_bytes(4, "little")
        position = self.position
        while position < self._window.size:
            data = bytes(self._window.get(position, min(_WINDOW_BYTES, self._window.size - position)))
            if not data:
                break
            found = data.find(wanted)
            while found >= 0:
                self._note_synced(position + found)
                found = data.find(wanted, found + 1)
            # A mark may lie across the end of the window.
            position += max(len(data) - len(wanted) + 1, 1)
        return self.synced

    def _note_synced(self, position: int) -> None:
        """What the frame at this position says of others, where there is one."""
        head = self._window.get(position, FRAME_HEADER.size)
        if len(head) < FRAME_HEADER.size:
            return
        mark, crc, place, length, _, synced, _, count, _ = FRAME_HEADER.unpack(head)
        try:
            self._check_head(mark, crc, place, length, count, position)
            self.synced = max(self.synced, synced)
        except Damaged:
            pass

    def rest(self, bytes_max: int) -> bytes:
        """What stands behind the last good frame, without the zeros at its end."""
        parts = []
        position = self.position
        while position < self._window.size and position - self.position < bytes_max:
            data = bytes(self._window.get(position, min(_WINDOW_BYTES, self._window.size - position)))
            if not data:
                break
            parts.append(data)
            position += len(data)
        return b"".join(parts)[:bytes_max].rstrip(b"\0")
