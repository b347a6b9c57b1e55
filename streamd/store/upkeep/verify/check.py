"""Checking a store: every file, every checksum, every cross-reference. Nothing is changed.

``python -m streamd.store.upkeep.verify.check DIRECTORY`` prints what is wrong, a line each, and exits with 1 where that
is damage.

It works on a store that nobody has open, and beside a running daemon: what is judged is what was synced when the check
began, and where a file goes because it was folded or merged in the meantime, the one that took its place is checked.
The rules for the end of the journal are those of recovery.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Final

from streamd.batch import LENGTH_TYPE
from streamd.store.directory import IDENTITY, JOURNAL, PACKS, read_identity
from streamd.store.disk import Disk, IDisk, IDiskFile
from streamd.store.errors import StoreCorrupt, StoreUnusable
from streamd.store.journal import writer as journal
from streamd.store.journal.committed import FILE_NAME as COMMITTED_NAME
from streamd.store.journal.committed import Position, read_committed
from streamd.store.journal.frame import FILE_HEADER, FileHeader, Kind
from streamd.store.journal.replay import Replay
from streamd.store.journal.scan import Frame, Scanner
from streamd.store.packs.catalog import Catalog
from streamd.store.packs.readonly import ReadOnlyCatalog
from streamd.store.segments.registry import Segments
from streamd.store.upkeep.problems import Checked, Problem, Progress, Severity
from streamd.store.upkeep.verify.packs import PackCheck

# How often the journal is looked at again because a fold has just taken files away.
_TRIES: Final = 20


def verify(
    disk: IDisk, directory: str, progress: Callable[[Progress], None] | None = None, *, is_alone: bool = False
) -> list[Problem]:
    """All that is wrong with a store, and what is worth knowing. No problem of severity ERROR: it is sound.

    `is_alone`: nobody writes to it meanwhile.
    """
    checked = Checked(progress)
    try:
        store = read_identity(disk, directory)
    except (OSError, StoreUnusable) as error:
        path = os.path.join(directory, IDENTITY)
        reason = f"{error.strerror}" if isinstance(error, OSError) else str(error).removeprefix(f"{path}: ")
        checked.add(path, 0, reason)
        return checked.problems
    checked.expect(disk, [os.path.join(directory, JOURNAL), os.path.join(directory, PACKS)])
    catalog = PackCheck(disk, directory, store, checked, is_alone=is_alone).run()
    try:
        _JournalCheck(disk, directory, store, catalog, checked).run()
    finally:
        if catalog is not None:
            catalog.close()
    return checked.problems


class _JournalCheck:
    def __init__(
        self, disk: IDisk, directory: str, store: bytes, catalog: ReadOnlyCatalog | None, checked: Checked
    ) -> None:
        self._disk = disk
        self._home = directory
        self._directory = os.path.join(directory, JOURNAL)
        self._store = store
        self._catalog = catalog
        self._checked = checked

    def run(self) -> None:
        """Check the journal; again, where a fold took files away meanwhile."""
        for _ in range(_TRIES):
            attempt = Checked(None)
            self._attempt(attempt)
            if not attempt.problems or self._covered() == self._covered_file:
                break
        self._checked.problems += attempt.problems
        self._checked.done_all()

    def _covered(self) -> int:
        return 0 if self._catalog is None else self._catalog.ask(lambda catalog: catalog.covered)[1]

    def _attempt(self, checked: Checked) -> None:
        position = read_committed(self._disk, self._home, self._store)
        if position is None:
            path = os.path.join(self._home, COMMITTED_NAME)
            checked.note(path, 0, "not there, or damaged: the next start makes it anew")
        self._replay = Replay(self._disk, self._directory, self._store, Segments())
        self._covered_file = 0
        # Frames take effect as long as all before them did. Behind damage only their checksums are checked.
        self._whole = self._catalog is not None
        if self._catalog is not None:
            self._catalog.ask(self._copy)
        headers = self._headers(checked)
        if headers and self._whole and headers[0].sequence > self._replay.sequence:
            self._whole = False
            reason = (
                f"it begins at sequence {headers[0].sequence}: what is before it, from {self._replay.sequence} on, "
            )
            checked.add(self._replay.path(headers[0].number), 0, reason + "is missing")
        for header, successor in zip_longest(headers, headers[1:]):
            path = self._replay.path(header.number)
            try:
                file = self._disk.open(path, writable=False)
                try:
                    if successor is None:
                        self._last(path, file, header, position, checked)
                    else:
                        self._closed(path, file, header, successor, checked)
                finally:
                    file.close()
                self._checked.done(file_bytes=0, path=path)
            except OSError as error:
                self._whole = False
                checked.add(path, 0, f"the disk can't read it: {error}")
        if not headers and position is not None and self._whole and self._replay.sequence < position.synced:
            checked.add(self._directory, 0, f"files from sequence {self._replay.sequence} on are missing")

    def _copy(self, catalog: Catalog) -> None:
        with catalog.snapshot():
            self._replay.sequence, self._covered_file, self._replay.timestamp = catalog.covered
            self._replay.segments = Segments()
            self._replay.segments.load(catalog.segments())

    def _headers(self, checked: Checked) -> list[FileHeader]:
        headers = []
        names = self._disk.list_directory(self._directory)
        for name in names:
            path = os.path.join(self._directory, name)
            if match := journal.FILE_NAME.fullmatch(name):
                if int(match[1]) <= self._covered_file:
                    checked.note(path, 0, "folded: the next start removes it")
                    continue
                try:
                    headers.append(self._replay.header(int(match[1])))
                except (OSError, StoreUnusable) as error:
                    self._whole = False
                    reason = error.reason if isinstance(error, StoreCorrupt) else str(error)
                    checked.add(path, 0, reason)
            elif journal.TEMPORARY_NAME.fullmatch(name):
                checked.note(path, 0, "a file in the making: the next start removes it")
            elif name.endswith(journal.TORN_SUFFIX):
                checked.note(path, 0, "a torn tail that was cut off; nobody was told that it was stored")
            else:
                checked.add(path, 0, "this file is not part of the store, and stops the start")
        return headers

    def _closed(self, path: str, file: IDiskFile, header: FileHeader, successor: FileHeader, checked: Checked) -> None:
        """A file with a successor was synced whole: it must reach the sequence with which that begins."""
        scanner = Scanner(file, header)
        frames = scanner.frames()
        while scanner.sequence < successor.sequence and (frame := next(frames, None)):
            self._frame(path, file, header, frame, checked)
        if scanner.sequence < successor.sequence:
            self._whole = False
            reason = scanner.damage or "the frames end here"
            lost = f"; sequence {scanner.sequence} to {successor.sequence - 1} is damaged or missing"
            checked.add(path, scanner.position, reason + lost)
        elif scanner.sequence > successor.sequence:
            self._whole = False
            checked.add(path, scanner.position, f"file {successor.number} begins inside the last frame")

    def _last(
        self, path: str, file: IDiskFile, header: FileHeader, position: Position | None, checked: Checked
    ) -> None:
        """What was synced must be there; behind that a tail may be torn, or just being written."""
        place, sequence, synced = FILE_HEADER.size, header.sequence, 0
        while True:
            # Again from where the last look ended: a daemon may have written on. `synced` is what was known before it.
            scanner = Scanner(file, header)
            scanner.position, scanner.sequence = place, sequence
            for frame in scanner.frames():
                self._frame(path, file, header, frame, checked)
            if scanner.position == place:
                break
            place, sequence = scanner.position, scanner.sequence
            synced = max(synced, scanner.synced_behind())
        if place == FILE_HEADER.size and not synced:
            synced = scanner.synced_behind()
        if position is not None:
            synced = max(synced, position.synced)
        if sequence < synced:
            reason = scanner.damage or "the frames end here"
            checked.add(
                path, place, f"{reason}; sequence {sequence} to {synced - 1} was synced and is damaged or missing"
            )
        elif scanner.damage or scanner.rest(1 << 20):
            reason = scanner.damage or "a frame is missing"
            checked.note(path, place, f"{reason}: a torn tail, or a commit that is just being written")

    def _frame(self, path: str, file: IDiskFile, header: FileHeader, frame: Frame, checked: Checked) -> None:
        for entry, (position, _) in zip(frame.headers, frame.bodies, strict=True):
            if entry.kind in (Kind.APPEND, Kind.PAYLOAD):
                lengths = array(LENGTH_TYPE)
                lengths.frombytes(bytes(file.read(position, 4 * entry.count)))
                if 4 * entry.count + sum(lengths) != entry.length:
                    checked.add(path, position, "the lengths of the records do not fit their entry")
        self._checked.done(frame.length, path)
        if self._whole and frame.sequence >= self._replay.sequence:
            try:
                self._replay.apply(path, frame, header.number)
            except StoreCorrupt as error:
                self._whole = False
                checked.add(path, error.position, error.reason)


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    if len(arguments) != 1:
        print("usage: python -m streamd.store.upkeep.verify.check DIRECTORY", file=sys.stderr)
        return 2
    terminal = sys.stderr.isatty()

    def show(progress: Progress) -> None:
        print(f"\r{progress}", end="", file=sys.stderr, flush=True)

    problems = verify(Disk(), arguments[0], show if terminal else None)
    if terminal:
        print(file=sys.stderr)
    for problem in problems:
        print(problem)
    damaged = sum(problem.severity is Severity.ERROR for problem in problems)
    print(f"{arguments[0]}: {damaged} damaged places" if damaged else f"{arguments[0]}: sound")
    return 1 if damaged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
