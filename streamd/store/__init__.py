"""The segment store: everything acknowledged is on disk, whoever wrote it and whoever reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from streamd.settings import StoreSettings
from streamd.store.commit import IWriter, WriterThread
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
from streamd.store.journal import JournalFiles, JournalWriter, SyncFailed
from streamd.store.read import Run
from streamd.store.recovery import recover
from streamd.store.segment import Segment
from streamd.store.store import Append, Appended, Store, Threads
from streamd.store.wakeup import Wakeup

_log = Logger()


def open_store(
    directory: str,
    settings: StoreSettings,
    reactor: Any,
    fatal: Callable[[str], None],
) -> Store:
    """Open or make the store in `directory`. Blocks until it is recovered; raises `StoreUnusable`.

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

    return assemble(Disk(), directory, settings, make_writer, Threads(run, reactor.seconds), closed)


def assemble(
    disk: IDisk,
    directory: str,
    settings: StoreSettings,
    make_writer: Callable[[JournalWriter], IWriter],
    threads: Threads,
    closed: Callable[[], None] = lambda: None,
) -> Store:
    """Open a store on any disk, with any writer: what `open_store` does with the real ones."""
    try:
        home = DataDirectory(disk, directory)
    except OSError as error:
        raise StoreUnusable(f"{directory}: {error}") from error
    try:
        segments, journal, found = recover(disk, home, settings)
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
    files = JournalFiles(disk, home.journal, settings.open_files_max)

    def on_closed() -> None:
        home.close()
        closed()

    return Store(segments, files, make_writer(journal), journal.sequence, settings, threads, on_closed)


__all__ = [
    "Append",
    "Appended",
    "AttributeMismatch",
    "BadName",
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
