"""Where records are read: a store's files, or a daemon. Two ways (`path`, `server`), one small interface.

Spark keeps its Python processes, so what is opened here stays open for the tasks that follow: the index of a large
store is loaded once for each of them, and from then on only what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from streamd.store.reading import outside
    from streamd.store.reading import plan as read
    from streamd.wire import tools as wire

    Info = outside.SegmentInfo | wire.SegmentInfo
    Run = read.Run | wire.Run

_OPEN_MAX: Final = 8


class Storage(Protocol):
    """Segments and their records, as committed at the last `refresh` or later."""

    def refresh(self) -> None:
        """See what was committed since."""

    def segments(self) -> Sequence[Info]:
        """All segments; hidden ones are not listed."""

    def named(self, names: Sequence[str]) -> Sequence[Info]:
        """The segments of these names, as far as there are any."""

    def segment(self, id: int) -> Info:
        """One segment; NoSuchSegment."""

    def number_at(self, id: int, timestamp: int) -> int:
        """The first retained record of this time (microseconds since 1970) or later; the next number where none is."""

    def split_points(self, id: int, first: int, end: int, parts: int) -> list[int]:
        """Record numbers between `first` and `end` that make up to `parts` ranges of about the same size in bytes."""

    def read(self, id: int, first: int, end: int) -> Iterator[Run]:
        """Records `first` to `end` (not included); RecordsTruncated, NoSuchSegment or ReadFailed."""

    def set_group(self, id: int, group: str, position: int) -> None:
        """Publish how far somebody has come, as the position of a reader group."""

    def close(self) -> None:
        """Let go of files and connections."""


_opened: OrderedDict[tuple[str | None, str | None], Storage] = OrderedDict()


def open_storage(path: str | None, server: str | None) -> Storage:
    """The store at a path, or behind a daemon, as it is now. For one thread of this process."""
    storage = _opened.pop((path, server), None)
    if storage is None:
        storage = _open(path, server)
        while len(_opened) >= _OPEN_MAX:
            _opened.popitem(last=False)[1].close()
    else:
        try:
            storage.refresh()
        except Exception:
            # Perhaps another store is there by now: the next one to ask begins anew.
            storage.close()
            raise
    _opened[path, server] = storage
    return storage


def _open(path: str | None, server: str | None) -> Storage:
    # Imported here: these bring much with them, and Spark's processes load this module also where they need neither.
    if path is not None:
        from streamd.spark.read.path import PathStorage

        return PathStorage(path)
    from streamd.spark.read.server import ServerStorage

    assert server is not None
    return ServerStorage(server)
