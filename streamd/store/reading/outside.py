"""Reading a store's files from outside the daemon: for Spark, and for tools.

No lock is taken and nothing is written, so this works for a user who may only read there, while the daemon writes,
compacts and deletes, and while no daemon runs. What is above the committed position is never seen. No reactor is
needed, and none is imported.

    with OutsideReader("/var/lib/streamd") as reader:
        for run in reader.read("topic", 0, 1000):
            run.number, run.timestamp, run.batch.lengths, run.batch.payload

A read names a segment and its records, not files: where those are is looked up again when a file is gone. What is
truncated or deleted while it is read raises; it is never left out in silence.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, Self

from streamd.store.disk import Disk, IDisk
from streamd.store.errors import NoSuchSegment, ReadFailed, RecordsTruncated
from streamd.store.packs.pack import BLOCK_BYTES
from streamd.store.reading.files import StoreFiles
from streamd.store.reading.follow import Follower
from streamd.store.reading.packed import PackedIndex
from streamd.store.reading.plan import enough, own_place, own_runs, plan, source_of, source_want
from streamd.store.records.extent import Extent
from streamd.store.records.fetch import Want, decode, fetch
from streamd.store.segments.segment import Segment, info
from streamd.views import Run as Run
from streamd.views import SegmentInfo as SegmentInfo

BYTES_AT_ONCE: Final = 8 << 20

_OPEN_FILES_MAX: Final = 64
_GONE_SECONDS_MAX: Final = 10.0
_DAMAGED_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.005


class OutsideReader:
    """A store opened for reading. It shows what was committed when it was opened, or at the last `refresh`.

    For one thread at a time. Segments are given by name or by id.
    """

    def __init__(self, path: str, *, disk: IDisk | None = None) -> None:
        self._disk: IDisk = disk or Disk()
        self._follower = Follower(self._disk, path)
        self._files = StoreFiles(self._disk, self._follower.journal, self._follower.packs, _OPEN_FILES_MAX)
        self._packed = PackedIndex(self._follower.catalog)
        self._loads = self._follower.loads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all files."""
        self._files.close()
        self._packed.close()

    # -- what there is -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """See what was committed since."""
        self._follower.refresh()
        if self._loads != self._follower.loads:
            # The daemon may have cut files that are open here.
            self._loads = self._follower.loads
            self._files.close()
            self._packed.forget()

    @property
    def sequence(self) -> int:
        """Everything that was committed below this sequence number is seen."""
        return self._follower.sequence

    def segments(self) -> list[SegmentInfo]:
        """All segments, in the order of their creation. Hidden ones are not listed."""
        return [info(segment) for segment in self._follower.segments.by_name.values()]

    def segment(self, which: str | int) -> SegmentInfo:
        """One segment; NoSuchSegment."""
        return info(self._find(which))

    def _find(self, which: str | int) -> Segment:
        segments = self._follower.segments
        found = segments.by_name.get(which) if isinstance(which, str) else segments.by_id.get(which)
        if found is None or found.published:
            raise NoSuchSegment(str(which))
        return found

    # -- records -------------------------------------------------------------------------------------------------------

    def read(
        self, which: str | int, first: int, end: int | None = None, *, bytes_max: int = BYTES_AT_ONCE
    ) -> Iterator[Run]:
        """Records `first` to `end` (not included; None: all that are seen now), about `bytes_max` of them at a time.

        Raises RecordsTruncated, NoSuchSegment or ReadFailed (also where there are not so many) when it comes to that.
        """
        id = self._find(which).id
        if end is not None and end > self._find(id).number:
            # Somebody who looked later than we did has asked for it.
            self.refresh()
            if end > self._find(id).number:
                raise ReadFailed(f"segment {which!r} has records up to {self._find(id).number}, not up to {end}")
        number, last = first, self._find(id).number if end is None else end
        while number < last:
            runs = self._some(id, Want(number, None, bytes_max, last - number))
            yield from runs
            number = runs[-1].number + runs[-1].batch.count

    def _some(self, id: int, want: Want) -> list[Run]:
        """At least one record of what is wanted, looked up again and again where files go under our hands."""
        begin = time.monotonic()
        damaged = 0
        while True:
            try:
                runs = self._read(self._find(id), want)
                if runs and runs[0].number == want.number:
                    return runs
                reason = f"segment {id}: record {want.number} is not where the catalog says"
            except FileNotFoundError as error:
                reason = str(error)
            except (ReadFailed, OSError) as error:
                # A daemon that was started again may have moved it. What is really damaged stays so.
                reason = str(error)
                damaged += 1
            if damaged >= _DAMAGED_TRIES or time.monotonic() > begin + _GONE_SECONDS_MAX:
                raise ReadFailed(reason)
            time.sleep(_PAUSE_SECONDS)
            self._packed.forget()
            self._files.close()
            if damaged:
                self._follower.reload()
            self.refresh()

    def _read(self, segment: Segment, want: Want) -> list[Run]:
        extents = plan(segment, want)
        if extents is None:
            extents = self._packed.near(segment, want)
        if extents is None:
            found = self._packed.load(segment.id, want)
            self._packed.remember(segment, found)
            extents = enough(found, want)
        if extents and extents[0].is_reference:
            source = source_of(extents[0], self._follower.segments)
            return own_runs(extents[0], self._read(source, source_want(extents[0], want)))
        files = {number: self._files.get(number) for number in {extent.file for extent in extents}}
        bodies = fetch(extents, files, lambda file, position, length: file.read(position, length))
        assert bodies is not None
        return decode(extents, bodies, want)

    # -- places --------------------------------------------------------------------------------------------------------

    def number_at(self, which: str | int, timestamp: int) -> int:
        """The first retained record of this time (microseconds since 1970) or later; the next number where none is."""
        segment = self._find(which)
        # A block at a time: the first one mostly has it.
        for run in self.read(segment.id, self._before(segment, timestamp), bytes_max=BLOCK_BYTES):
            if run.timestamp >= timestamp:
                return run.number
        return segment.number

    def _before(self, segment: Segment, timestamp: int) -> int:
        """A record that is not later than the first one of this time, and not long before it."""
        index = segment.index
        if index is not None and (row := index.row_of_timestamp(timestamp)):
            return index.extent(row).number if row < len(index) else segment.own_number
        in_memory = segment.own_number if index is None else index.extent(0).number
        found = self._packed.number_at(segment.id, timestamp)
        return max(in_memory if found is None else min(found, segment.number), segment.first_number)

    def split_points(self, which: str | int, first: int, end: int, parts: int) -> list[int]:
        """Record numbers between `first` and `end` that make up to `parts` ranges of about the same size in bytes.

        Ranges begin where blocks do, so that no block is read for two of them; a few records are not cut at all.
        """
        segment = self._find(which)
        if parts < 2 or first >= end:
            return []
        begin, last = self._offset_of(segment, first), self._offset_of(segment, end)
        points: list[int] = []
        for part in range(1, parts):
            extent = self._extent(segment, Want(None, begin + (last - begin) * part // parts, 1, 1))
            if extent is not None and max([first, *points[-1:]]) < extent.number < end:
                points.append(extent.number)
        return points

    def _offset_of(self, segment: Segment, number: int) -> int:
        """About where a record begins."""
        if number >= segment.number:
            return segment.offset
        if number <= segment.first_number:
            return segment.first_offset
        extent = self._extent(segment, Want(number, None, 1, 1))
        return extent.offset if extent is not None else segment.first_offset

    def _extent(self, segment: Segment, want: Want) -> Extent | None:
        """The extent that holds a place."""
        extents = plan(segment, want)
        if extents is None:
            extents = self._packed.near(segment, want) or self._packed.load(segment.id, want)
        if not extents:
            return None
        extent = extents[0]
        if not extent.is_reference:
            return extent
        try:
            inner = self._extent(source_of(extent, self._follower.segments), source_want(extent, want))
        except (KeyError, RecordsTruncated):
            # What it stands for is elsewhere by now; where it begins is near enough.
            return extent
        return extent if inner is None else own_place(extent, inner)
