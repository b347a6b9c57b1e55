"""What can be saved of a damaged journal: all up to the first damage. What stands behind it is kept, not used.

Entries build on each other: an append says which number it begins with, a segment's id is the number of the entry that
made it. So nothing behind a hole can take effect, and the journal is cut there. What is readable behind the hole is
written down for people. A file whose header alone is damaged loses nothing: its first frame tells what stood there.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Final, NamedTuple

from crc32c import crc32c

from streamd.batch import LENGTH_TYPE, Batch, Buffer
from streamd.store.directory import JOURNAL
from streamd.store.disk import IDisk, IDiskFile
from streamd.store.errors import StoreCorrupt, StoreUnusable, UnknownVersion
from streamd.store.journal.committed import read_committed
from streamd.store.journal.frame import (
    CRC_BEGIN,
    ENTRY_HEADER,
    FILE_HEADER,
    FRAME_HEADER,
    FileHeader,
    Header,
    Kind,
    decode_file_header,
)
from streamd.store.journal.replay import Replay, check_header, read_bytes
from streamd.store.journal.scan import Scanner, Window
from streamd.store.journal.writer import TORN_SUFFIX, file_name
from streamd.store.packs.fold import journal_numbers
from streamd.store.segments.registry import Segments
from streamd.store.upkeep.repair.kept import Kept, Step

_MARK_AT: Final = 12
"""Where the file header has the mark of its frames."""


@dataclass
class Journal:
    """The journal as it is, and as it will be."""

    good: list[FileHeader] = field(default_factory=list)
    """The files that count, in order; the last one up to `end`."""
    end: int = 0
    sequence: int = 0
    """Behind the last entry that counts."""
    timestamp: int = 0
    highest: int = 0
    """The highest sequence number that anything speaks of: those up to it are never given again."""
    headers: dict[int, FileHeader] = field(default_factory=dict)
    """Headers to be written anew."""
    cut: list[int] = field(default_factory=list)
    """Files that go as a whole."""
    damaged: bool = False
    """Whether something is lost at the end."""


class JournalRepair:
    """Looks at a journal, and cuts it."""

    def __init__(self, disk: IDisk, directory: str, store: bytes) -> None:
        self._disk = disk
        self._home = directory
        self._directory = os.path.join(directory, JOURNAL)
        self._store = store
        self.steps: list[Step] = []
        self.found = Journal()

    def examine(self, covered: tuple[int, int, int], segments: Segments) -> Journal:
        """Replay what is whole above `covered`, and find out where it ends."""
        replay = Replay(self._disk, self._directory, self._store, segments)
        replay.sequence, file, replay.timestamp = covered
        found = self.found = Journal(sequence=covered[0], timestamp=covered[2], highest=covered[0])
        position = read_committed(self._disk, self._home, self._store)
        synced = 0 if position is None else position.synced
        numbers = [number for number in journal_numbers(self._disk, self._directory) if number > file]
        for number, successor in zip_longest(numbers, numbers[1:]):
            if found.damaged:
                found.cut.append(number)
                continue
            path = replay.path(number)
            opened = self._disk.open(path, writable=False)
            try:
                header = self._header(path, opened, number, replay)
                if header is None:
                    if successor is None and not any(read_bytes(path, opened, 0, opened.size())):
                        continue  # never written to: the next start removes it
                    self._cut(path, 0, "the file header is damaged", replay.sequence, whole=number)
                elif header.sequence != replay.sequence:
                    reason = f"it begins at sequence {header.sequence}: what is before it is missing"
                    self._cut(path, 0, reason, replay.sequence, whole=number)
                else:
                    self._file(path, opened, header, successor, replay, synced)
            finally:
                opened.close()
        if not found.damaged and found.sequence < synced:
            self._cut(self._directory, 0, "files at its end are missing", found.sequence)
        found.highest = max(found.highest, found.sequence, synced, 0 if position is None else position.committed)
        self._tell_lost()
        return found

    def _header(self, path: str, file: IDiskFile, number: int, replay: Replay[Segments]) -> FileHeader | None:
        data = read_bytes(path, file, 0, FILE_HEADER.size)
        try:
            return check_header(path, data, number, self._store)
        except StoreCorrupt:
            pass
        except UnknownVersion:
            if is_too_new(data):
                raise
        # Every frame carries the mark of its file. The first one is trusted where all of its checksums are right.
        mark = int.from_bytes(bytes(read_bytes(path, file, FILE_HEADER.size, 4)), "little")
        guess = FileHeader(mark, self._store, number, replay.sequence, replay.timestamp)
        if not mark or next(Scanner(file, guess).frames(), None) is None:
            return None
        self.found.headers[number] = guess
        self.steps.append(Step(path, "the file header is damaged", "it is made again: its frames are all there", ""))
        return guess

    def _file(
        self,
        path: str,
        file: IDiskFile,
        header: FileHeader,
        successor: int | None,
        replay: Replay[Segments],
        synced: int,
    ) -> None:
        """Replay one file; what it ends with decides whether the journal goes on behind it."""
        found = self.found
        limit = None if successor is None else self._begin_of(successor)
        scanner = Scanner(file, header)
        reason = None
        try:
            for frame in replay.frames(path, scanner):
                replay.apply(path, frame, header.number)
                found.end, found.sequence, found.timestamp = scanner.position, replay.sequence, replay.timestamp
                if limit is not None and replay.sequence >= limit:
                    break
        except StoreCorrupt as error:
            reason = error.reason
        if not found.good or found.good[-1].number != header.number:
            found.good.append(header)
            if found.sequence == header.sequence:
                found.end = FILE_HEADER.size
        if reason is None and limit is not None and found.sequence == limit:
            return
        if reason is None and scanner.damage is None and limit is None and successor is not None:
            return  # nothing is wrong here; the next file can't even say where it begins, and is named for that
        behind = max(synced, scanner.synced_behind())
        if reason is None and successor is None and found.sequence >= behind:
            return  # the end, or a torn tail that nobody was told of
        self._cut(path, found.end, reason or scanner.damage or "the frames end here", found.sequence)

    def _begin_of(self, number: int) -> int | None:
        """The sequence with which a file begins, where it can be told."""
        path = os.path.join(self._directory, file_name(number))
        file = self._disk.open(path, writable=False)
        try:
            return check_header(path, read_bytes(path, file, 0, FILE_HEADER.size), number, self._store).sequence
        except (StoreCorrupt, UnknownVersion):
            # Its first frame tells, where that is whole.
            head = bytes(read_bytes(path, file, FILE_HEADER.size, FRAME_HEADER.size))
            return int(FRAME_HEADER.unpack(head)[4]) if len(head) == FRAME_HEADER.size and any(head) else None
        except (OSError, StoreUnusable):
            return None
        finally:
            file.close()

    def _cut(self, path: str, position: int, reason: str, sequence: int, whole: int | None = None) -> None:
        self.found.damaged = True
        if whole is not None:
            self.found.cut.append(whole)
        action = f"the journal is cut at sequence {sequence}; what stands behind it is kept"
        self.steps.append(Step(path, f"at byte {position}: {reason}", action, ""))

    # -- what is behind the cut ----------------------------------------------------------------------------------------

    def _tell_lost(self) -> None:
        if not self.found.damaged:
            return
        readable: dict[int, tuple[int, int]] = {}
        for header, sequence, *_ in self._behind():
            self.found.highest = max(self.found.highest, sequence + 1)
            if header.kind == Kind.APPEND:
                first, end = readable.get(header.segment, (header.number, 0))
                readable[header.segment] = min(first, header.number), max(end, header.number + header.count)
        lost = f"all changes from sequence {self.found.sequence} on"
        if readable:
            kept = ", ".join(f"{end - first} of segment {id} from {first} on" for id, (first, end) in readable.items())
            lost += f"; of the records behind it these can be read, and are kept in records.jsonl: {kept}"
        last = max(at for at, step in enumerate(self.steps) if "is cut at" in step.action)
        self.steps[last] = self.steps[last]._replace(lost=lost)

    def _behind(self) -> Iterator[JournalEntry]:
        """Every entry behind the cut whose checksums are right."""
        places = [(number, FILE_HEADER.size) for number in self.found.cut]
        if self.found.good:
            places.insert(0, (self.found.good[-1].number, self.found.end))
        for number, begin in places:
            path = os.path.join(self._directory, file_name(number))
            file = self._disk.open(path, writable=False)
            try:
                yield from entries(file, begin)
            except OSError:
                continue  # what the disk can't read is lost
            finally:
                file.close()

    # -- doing it ------------------------------------------------------------------------------------------------------

    def apply(self, kept: Kept, segments: Segments) -> None:
        """Cut the journal; what is cut is kept first."""
        names = {id: segment.name for id, segment in segments.by_id.items()}
        for header, _, timestamp, _, body in self._behind() if self.found.damaged else ():
            if header.kind == Kind.APPEND:
                lengths = array(LENGTH_TYPE)
                lengths.frombytes(body[: 4 * header.count])
                batch = Batch(lengths, body[4 * header.count :])
                name = names.get(header.segment, f"segment {header.segment}")
                kept.records(name, header.number, timestamp, header.tag, batch)
        kept.sync()
        for number in self.found.cut:
            kept.move(os.path.join(self._directory, file_name(number)))
        for name in self._disk.list_directory(self._directory):
            if name.endswith(TORN_SUFFIX):
                kept.move(os.path.join(self._directory, name))
        for number, made in self.found.headers.items():
            if number not in self.found.cut:
                self._change(number, partial(_write_header, made))
        if self.found.good:
            last = self.found.good[-1].number
            path = os.path.join(self._directory, file_name(last))
            kept.cut(path, self.found.end)
            self._change(last, lambda file: file.truncate(self.found.end))

    def _change(self, number: int, change: Callable[[IDiskFile], None]) -> None:
        file = self._disk.open(os.path.join(self._directory, file_name(number)), writable=True)
        try:
            change(file)
            file.sync(metadata=True)
        finally:
            file.close()


def is_too_new(data: Buffer) -> bool:
    """Whether a header that is not known is that of a later version, and not a damaged one."""
    return isinstance(decode_file_header(data), int) and crc32c(bytes(data[:-4])) == int.from_bytes(data[-4:], "little")


def _write_header(header: FileHeader, file: IDiskFile) -> None:
    file.write(0, [header.encode()])


class JournalEntry(NamedTuple):
    """An entry whose checksums are right, wherever it was found."""

    header: Header
    sequence: int
    timestamp: int
    position: int
    """Where its body stands."""
    body: memoryview


def entries(file: IDiskFile, begin: int, end: int | None = None) -> Iterator[JournalEntry]:
    """Entries in a file from a byte on, found by the mark of its frames; up to the sequence number `end`."""
    window = Window(file)
    # As the first frame has it, or, where that is damaged, the file header.
    mark = bytes(file.read(FILE_HEADER.size if _frame(window, FILE_HEADER.size) else _MARK_AT, 4))
    if len(mark) < 4 or not any(mark):
        return
    at = begin
    while at < window.size:
        data = bytes(window.get(at, min(4 << 20, window.size - at)))
        found = data.find(mark)
        if found < 0:
            at += max(len(data) - 3, 1)
            continue
        at += found
        frame = _frame(window, at)
        if frame is None:
            at += 4
            continue
        length, entries = frame
        yield from (entry for entry in entries if end is None or entry.sequence < end)
        at += length


def _frame(window: Window, at: int) -> tuple[int, list[JournalEntry]] | None:
    """The length of the frame at a byte, and those of its entries that are whole; None where there is none."""
    head = window.get(at, FRAME_HEADER.size)
    if len(head) < FRAME_HEADER.size:
        return None
    _, crc, place, length, sequence, _, timestamp, count, _ = FRAME_HEADER.unpack(head)
    size = FRAME_HEADER.size + ENTRY_HEADER.size * count
    if place != at or not size <= length <= window.size - at:
        return None
    whole = bytes(window.get(at, size))
    if crc32c(whole[CRC_BEGIN:]) != crc:
        return None
    entries = []
    body_at = at + size
    for number, row in enumerate(ENTRY_HEADER.iter_unpack(whole[FRAME_HEADER.size :])):
        header = Header._make(row)
        body = memoryview(bytes(window.get(body_at, header.length)))
        if len(body) == header.length and crc32c(body) == header.crc:
            entries.append(JournalEntry(header, sequence + number, timestamp, body_at, body))
        body_at += header.length
    return length, entries
