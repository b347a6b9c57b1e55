"""Where packed records are: what the catalog says, asked for in a thread, remembered for who reads on."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, Protocol

from streamd.store.errors import ReadFailed
from streamd.store.packs.catalog import BROADCAST_PACK, Row
from streamd.store.packs.database import UNREADABLE, CatalogDamaged
from streamd.store.reading.plan import enough
from streamd.store.records.extent import BROADCAST, PACKS, Extent
from streamd.store.records.fetch import Want
from streamd.store.segments.segment import Segment

# Extents fetched at a time, and segments for which they are remembered: a few megabytes in all.
_EXTENTS: Final = 128
_SEGMENTS_MAX: Final = 512


class Extents(Protocol):
    """Who knows where packed records are: the catalog, or somebody who asks it."""

    def extents_from_number(self, segment: int, number: int, limit: int) -> list[Row]:
        """The extent that holds this record, and those behind it."""

    def extents_from_offset(self, segment: int, offset: int, limit: int) -> list[Row]:
        """The extent that holds this offset, and those behind it."""

    def number_at(self, segment: int, timestamp: int) -> int | None:
        """The first record of the first extent that has one of this time or later."""

    def needed_broadcast(self) -> int | None:
        """The first record of the broadcast segment that an extent stands for."""

    def close(self) -> None:
        """Let go of it."""


class PackedIndex:
    """The catalog's extents, for readers. `near` is for the reactor's thread, `load` for any other."""

    def __init__(self, catalog: Extents) -> None:
        self._catalog = catalog
        self._lock = Lock()
        self._known: OrderedDict[int, list[Extent]] = OrderedDict()

    def near(self, segment: Segment, want: Want) -> list[Extent] | None:
        """The extents that hold what is wanted, where they are remembered."""
        known = self._known.get(segment.id)
        if known is None:
            return None
        if want.number is not None:
            at = bisect_right(known, want.number, key=lambda extent: extent.number) - 1
            held = at >= 0 and want.number < known[at].number + known[at].count
        else:
            assert want.offset is not None
            at = bisect_right(known, want.offset, key=lambda extent: extent.offset) - 1
            # Where the last one ends is not known before it is read.
            held = 0 <= at < len(known) - 1
        if not held:
            return None
        self._known.move_to_end(segment.id)
        return enough(known[at:], want)

    def load(self, segment: int, want: Want) -> list[Extent]:
        """The extents from the wanted place on, as the catalog has them now."""
        with self._lock, _readable():
            if want.number is not None:
                rows = self._catalog.extents_from_number(segment, want.number, _EXTENTS)
            else:
                assert want.offset is not None
                rows = self._catalog.extents_from_offset(segment, want.offset, _EXTENTS)
        return [as_extent(row) for row in rows]

    def number_at(self, segment: int, timestamp: int) -> int | None:
        """The first record of the first extent that reaches this time."""
        with self._lock, _readable():
            return self._catalog.number_at(segment, timestamp)

    def needed_broadcast(self) -> int | None:
        """The first broadcast record that an extent stands for."""
        with self._lock, _readable():
            return self._catalog.needed_broadcast()

    def remember(self, segment: Segment, extents: list[Extent]) -> None:
        """Keep what `load` gave."""
        self._known[segment.id] = extents
        self._known.move_to_end(segment.id)
        if len(self._known) > _SEGMENTS_MAX:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Packs were merged: extents are elsewhere now."""
        self._known.clear()

    def close(self) -> None:
        """Let go of the catalog."""
        with self._lock:
            self._catalog.close()


@contextmanager
def _readable() -> Iterator[None]:
    """A catalog that can't be read, or is damaged, fails the read, and not the daemon."""
    try:
        yield
    except (CatalogDamaged, *UNREADABLE) as error:
        raise ReadFailed(f"catalog: {error}") from error


def as_extent(row: Row) -> Extent:
    """A row of the catalog as what readers work with."""
    if row.pack == BROADCAST_PACK:
        tag = BROADCAST
        return Extent(row.number, row.offset, row.timestamp, PACKS, row.position, row.length, row.records, 0, tag)
    return Extent(
        row.number,
        row.offset,
        row.timestamp,
        PACKS + row.pack,
        row.position,
        row.length,
        row.records,
        row.crc,
        0,
    )
