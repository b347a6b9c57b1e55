"""A store followed from outside the daemon: its segments as they are committed, kept up to date without a lock.

First all rows of the catalog, copied in one short transaction; then the frames of the journal from `covered` on, up to
the committed position and never beyond it. Later only what is new. Files that are needed may go at any moment, since
the compactor has put what they hold elsewhere; then everything is looked up again.
"""

from __future__ import annotations

import os
import time
from itertools import zip_longest
from typing import Final

from streamd.store.directory import JOURNAL, PACKS, read_identity
from streamd.store.disk import IDisk
from streamd.store.errors import NotAStore, StoreCorrupt, StoreUnusable
from streamd.store.journal.committed import Position, read_committed
from streamd.store.journal.frame import FileHeader
from streamd.store.journal.replay import Replay
from streamd.store.journal.scan import Scanner
from streamd.store.packs.catalog import Catalog
from streamd.store.packs.fold import journal_numbers
from streamd.store.packs.readonly import ReadOnlyCatalog
from streamd.store.segments.registry import Segments

# Files that are gone have a successor, which is found as soon as the catalog is read as it is now. What looks like
# damage can be a daemon that starts and moves frames: it is done with that in a moment.
_GONE_SECONDS_MAX: Final = 10.0
_DAMAGED_SECONDS_MAX: Final = 1.0
_PAUSE_SECONDS: Final = 0.005
# Read at a time of a file that was read before: what is new since then is mostly little.
_NEW_BYTES: Final = 256 << 10


class Follower:
    """The segments of somebody else's store. `refresh` brings them up to date."""

    def __init__(self, disk: IDisk, directory: str) -> None:
        self._disk = disk
        self.directory = directory
        self.journal = os.path.join(directory, JOURNAL)
        self.packs = os.path.join(directory, PACKS)
        try:
            self._store = read_identity(disk, directory)
        except FileNotFoundError as error:
            raise NotAStore(f"{directory}: there is no store here: {error.strerror}") from error
        except PermissionError as error:
            raise StoreUnusable(
                f"{directory}: {error.strerror}. A store's files are its daemon's alone: read them as that user, or "
                "from the daemon itself"
            ) from error
        except OSError as error:
            raise StoreUnusable(f"{directory}: {error}") from error
        self.catalog = ReadOnlyCatalog(disk, directory, self._store)
        self._covered_file = 0
        self._run: int | None = None
        self.loads = 0
        """How often everything was looked up."""
        self.reload()

    @property
    def segments(self) -> Segments:
        """All segments, as committed at the last refresh."""
        return self._replay.segments

    @property
    def sequence(self) -> int:
        """Everything below this sequence number is in `segments`."""
        return self._replay.sequence

    def close(self) -> None:
        """Let go of the catalog."""
        self.catalog.close()

    # -- what is new ---------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take up what was committed and folded since."""
        position = read_committed(self._disk, self.directory, self._store)
        sequence, file, _ = self.catalog.ask(lambda catalog: catalog.covered)
        if _run(position) != self._run or self.sequence < sequence:
            # The daemon was started again and may have moved frames; or what we need next is gone already.
            self.reload()
            return
        if file > self._covered_file:
            self._covered_file = file
            concerned, sources = self.segments.take_folded(file)
            for segment in concerned:
                segment.packed(file)
            for source in sources:
                self.segments.by_id.pop(source.id, None)
            self.segments.drop_files(file)
        try:
            self._advance(position)
        except (FileNotFoundError, StoreCorrupt):
            self.reload()

    def reload(self) -> None:
        """Look everything up again."""
        self.loads += 1
        # Another daemon may have made another one.
        self.catalog.close()
        begin = time.monotonic()
        while True:
            try:
                self._load()
                return
            except FileNotFoundError as error:
                # What is loaded in part is loaded again at the next refresh.
                self._run = None
                if time.monotonic() > begin + _GONE_SECONDS_MAX:
                    raise StoreUnusable(f"{error}; and nothing took its place") from error
            except OSError as error:
                self._run = None
                raise StoreUnusable(f"{self.directory}: {error}") from error
            except StoreCorrupt:
                self._run = None
                if time.monotonic() > begin + _DAMAGED_SECONDS_MAX:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _load(self) -> None:
        # The position first: what it speaks of is in the files that are listed afterwards, or in the catalog.
        position = read_committed(self._disk, self.directory, self._store)
        self._replay = Replay(self._disk, self.journal, self._store, Segments())
        self._run = _run(position)
        self._at = (0, 0, 0)
        self.catalog.ask(self._copy)
        self._advance(position)

    def _copy(self, catalog: Catalog) -> None:
        self._replay.segments = Segments()
        with catalog.snapshot():
            self._replay.sequence, self._covered_file, self._replay.timestamp = catalog.covered
            self._replay.segments.load(catalog.segments())

    # -- the journal ---------------------------------------------------------------------------------------------------

    def _advance(self, position: Position | None) -> None:
        """Replay frames up to the committed position."""
        if position is not None and position.committed <= self.sequence:
            return
        headers = self._headers()
        if not headers:
            return
        if headers[0].sequence > self.sequence:
            raise FileNotFoundError(f"{self.journal}: the files from sequence {self.sequence} on are gone")
        limit = max(self._named(headers[-1]) if position is None else position.committed, headers[-1].sequence)
        for header, successor in zip_longest(headers, headers[1:]):
            end = limit if successor is None else min(limit, successor.sequence)
            if self.sequence < end:
                self._frames(header, end)
            synced = 0 if position is None else position.synced
            if self.sequence < end and (successor is not None or self.sequence < synced):
                raise StoreCorrupt(
                    self._replay.path(header.number), self._at[1], f"sequence {self.sequence} to {end - 1} is missing"
                )

    def _headers(self) -> list[FileHeader]:
        """The headers of the journal files that may hold something new."""
        first = max(self._at[0], self._covered_file + 1)
        numbers = [number for number in journal_numbers(self._disk, self.journal) if number >= first]
        headers = []
        for number in numbers:
            try:
                headers.append(self._replay.header(number))
            except StoreCorrupt:
                # After a power cut the last one can be empty. Where it is not, what is missing is noticed.
                if number != numbers[-1]:
                    raise
        return headers

    def _named(self, header: FileHeader) -> int:
        """What the frames of the last file say is synced: how far to read where no position is published."""
        path = self._replay.path(header.number)
        file = self._disk.open(path, writable=False)
        try:
            scanner = Scanner(file, header)
            for _ in self._replay.frames(path, scanner):
                pass
            return scanner.synced
        finally:
            file.close()

    def _frames(self, header: FileHeader, end: int) -> None:
        path = self._replay.path(header.number)
        file = self._disk.open(path, writable=False)
        try:
            # A new one each time: it keeps what it has read, and the file has grown since.
            if self._at[0] == header.number:
                scanner = Scanner(file, header, _NEW_BYTES)
                _, scanner.position, scanner.sequence = self._at
            else:
                scanner = Scanner(file, header)
            frames = self._replay.frames(path, scanner)
            while scanner.sequence < end and (frame := next(frames, None)):
                if frame.sequence < self.sequence < frame.end_sequence:
                    raise StoreCorrupt(path, frame.position, f"sequence {self.sequence} is inside a frame")
                # Recovery may have written the end of one file again at the beginning of the next.
                if frame.sequence == self.sequence:
                    self._replay.apply(path, frame, header.number)
                self._at = (header.number, scanner.position, scanner.sequence)
        finally:
            file.close()


def _run(position: Position | None) -> int | None:
    return None if position is None else position.run
