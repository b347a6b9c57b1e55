"""The segment store: everything acknowledged is on disk, whoever wrote it and whoever reads it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from streamd.settings import StoreSettings
from streamd.store.commit.gathering import IWriter, WriterThread
from streamd.store.commit.inplace import InPlace
from streamd.store.commit.levels import Append, Appended, Level
from streamd.store.commit.wakeup import Wakeup
from streamd.store.directory import DataDirectory
from streamd.store.disk import Disk, IDisk
from streamd.store.errors import (
    AttributeMismatch,
    BadName,
    LevelGap,
    LevelMismatch,
    LevelOverlap,
    NoSuchSegment,
    NotAStore,
    ReadFailed,
    RecordsTruncated,
    RequestTooLarge,
    SegmentExists,
    SegmentSealed,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreReadOnly,
    StoreUnusable,
    UnknownVersion,
)
from streamd.store.journal.writer import JournalWriter, SyncFailed
from streamd.store.packs.catalog import Catalog
from streamd.store.packs.compaction import Compaction
from streamd.store.reading.files import StoreFiles
from streamd.store.reading.packed import PackedIndex
from streamd.store.reading.plan import Run
from streamd.store.reading.reader import Reader, Threads
from streamd.store.recovery import recover
from streamd.store.segments.segment import Segment
from streamd.store.store import Store

_log = Logger()

# How long to wait for the compactor of a daemon that died.
_COMPACTOR_SECONDS = 10.0


def open_store(
    directory: str,
    settings: StoreSettings,
    reactor: Any,
    fatal: Callable[[str], None],
) -> Store:
    """Open or make the store in `directory`. Blocks until it is recovered; raises `StoreUnusable`.

    Nothing is compacted before `store.compaction.start` is called, when the reactor runs.
    `fatal` is called from the writer thread when the disk can't be trusted any more: it must end the process.
    """
    wakeups: list[Wakeup] = []

    def make_writer(journal: JournalWriter) -> IWriter:
        if not hasattr(os, "eventfd"):
            return WriterThread(journal, settings, reactor.callFromThread, fatal)
        wakeups.append(Wakeup(reactor))
        return WriterThread(journal, settings, wakeups[0].call, fatal)

    def run(call: Callable[..., Any], *args: Any) -> Any:
        return deferToThreadPool(reactor, reactor.getThreadPool(), call, *args)

    def closed() -> None:
        for wakeup in wakeups:
            wakeup.close()

    threads = Threads(run, reactor.seconds, lambda call: reactor.callLater(0, call))
    in_place = None
    if settings.sync == "always" and settings.sync_in_place_us:
        in_place = InPlace(settings.sync_in_place_us / 1e6)
    store = assemble(Disk(), directory, settings, make_writer, threads, closed, in_place)
    store.compaction = Compaction(store, directory, reactor)
    return store


def assemble(
    disk: IDisk,
    directory: str,
    settings: StoreSettings,
    make_writer: Callable[[JournalWriter], IWriter],
    threads: Threads,
    closed: Callable[[], None] = lambda: None,
    in_place: InPlace | None = None,
) -> Store:
    """Open a store on any disk, with any writer: what `open_store` does with the real ones."""
    try:
        home = DataDirectory(disk, directory)
    except OSError as error:
        raise StoreUnusable(f"{directory}: {error}") from error
    if home.protected.changed:
        _log.warn(
            "{directory}: {count} files and directories were open to other users; they have modes 0600 and 0700 now",
            directory=directory,
            count=home.protected.changed,
        )
    if home.protected.refused is not None:
        _log.warn(
            "{directory}: other users may read this store, or hold its locks: {reason}",
            directory=directory,
            reason=home.protected.refused,
        )
    try:
        with _without_compactor(home):
            segments, journal, found = recover(disk, home, settings)
        packed = PackedIndex(Catalog(disk, home.path, home.store, writable=False))
    except (OSError, SyncFailed) as error:
        home.close()
        raise StoreUnusable(f"{directory}: {error}") from error
    except BaseException:
        home.close()
        raise
    if found.torn_file is not None:
        _log.warn(
            "{file}: a write that nobody was told of is torn at byte {position} ({reason}); cut off, kept in {kept}",
            file=found.torn_file,
            position=found.torn_position,
            reason=found.torn_reason,
            kept=found.kept,
        )
    _log.info(
        "store {directory} recovered: {segments} segments, {frames} frames in {files} journal files",
        directory=directory,
        segments=len(segments.by_id),
        frames=found.frames,
        files=found.files,
    )
    for segment in segments.by_id.values():
        segment.unclaim()
    files = StoreFiles(disk, home.journal, home.packs, settings.open_files_max)

    def on_closed() -> None:
        home.close()
        closed()

    writer = make_writer(journal)
    reader = Reader(segments, files, packed, threads)
    return Store(segments, reader, writer, journal.sequence, journal.number, settings, threads, on_closed, in_place)


@contextmanager
def _without_compactor(home: DataDirectory) -> Iterator[None]:
    """Wait until the compactor of a daemon that died is gone too: it dies with it, but not in the same moment."""
    end = time.monotonic() + _COMPACTOR_SECONDS
    while (lock := home.lock_compactor()) is None:
        if time.monotonic() > end:
            raise StoreLocked(f"{home.path}: a compactor has this data directory")
        time.sleep(0.01)
    try:
        yield
    finally:
        lock.close()


__all__ = [
    "Append",
    "Appended",
    "AttributeMismatch",
    "BadName",
    "Level",
    "LevelGap",
    "LevelMismatch",
    "LevelOverlap",
    "NoSuchSegment",
    "NotAStore",
    "ReadFailed",
    "RecordsTruncated",
    "RequestTooLarge",
    "Run",
    "Segment",
    "SegmentExists",
    "SegmentSealed",
    "Store",
    "StoreCorrupt",
    "StoreError",
    "StoreLocked",
    "StoreReadOnly",
    "StoreSettings",
    "StoreUnusable",
    "Threads",
    "UnknownVersion",
    "assemble",
    "open_store",
]
