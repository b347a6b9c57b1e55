"""Reading from wherever records are: the journal or a pack, unseen by who asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.python.failure import Failure

from streamd.store.errors import NoSuchSegment, ReadFailed, RecordsTruncated
from streamd.store.reading.files import StoreFiles
from streamd.store.reading.packed import PackedIndex
from streamd.store.reading.plan import Run, check_retained, enough, own_runs, plan, source_of, source_want
from streamd.store.reading.recent import FEW_RECORDS, Recent
from streamd.store.records.extent import PACKS, Extent
from streamd.store.records.fetch import Want, decode, extent_runs, fetch
from streamd.store.segments.registry import Segments
from streamd.store.segments.segment import Segment
from streamd.store.usage import Usage


def _at_once(call: Callable[[], None]) -> None:
    call()


class Threads(NamedTuple):
    """How the store leaves the reactor's thread, and what time it is."""

    run: Callable[..., Deferred[Any]]
    seconds: Callable[[], float]
    later: Callable[[Callable[[], None]], object] = _at_once
    """Call something in the reactor's next turn."""


Admit = Callable[[int], Deferred[None] | None]
"""Asked before a record of so many bytes is read: None where it may be now, else when it may."""


class Reader:
    """Reads committed records. For the reactor's thread, which it leaves where the disk would make it wait."""

    def __init__(self, segments: Segments, files: StoreFiles, packed: PackedIndex, threads: Threads) -> None:
        self._segments = segments
        self._files = files
        self._packed = packed
        self._threads = threads
        self.recent = Recent()

    def read(self, segment: Segment, want: Want, admit: Admit | None = None) -> Deferred[list[Run]]:
        """What is wanted of a segment. StoreErrors are raised, or fail the Deferred.

        `admit` is asked where it begins with a record that is large enough to stand alone in its entry.
        """
        if segment.deleted:
            raise NoSuchSegment(segment.name)
        extents = plan(segment, want)
        if extents is None:
            extents = self._packed.near(segment, want)
        if extents and extents[0].is_reference:
            return self._read_source(segment, extents[0], want, admit)
        if extents is not None:
            if (wait := _wait_for_room(extents, admit)) is not None:
                return wait.addCallback(lambda _: self.read(segment, want))
            try:
                return self._fetch(extents, want, segment)
            except FileNotFoundError:
                pass  # a merge has just put it elsewhere: ask the catalog
        return self._ask(segment, want, admit, tries=2)

    def _read_source(self, segment: Segment, extent: Extent, want: Want, admit: Admit | None) -> Deferred[list[Run]]:
        """Read from the segment that this extent stands for, as if it were its own."""

        def owned(runs: list[Run]) -> list[Run] | Deferred[list[Run]]:
            if not runs:
                # A fold has made them this segment's own, in the catalog, and we are not told yet.
                return self._ask(segment, want, admit, tries=2)
            return own_runs(extent, runs)

        def truncated(failure: Failure) -> list[Run]:
            failure.trap(RecordsTruncated)
            # What nobody needs goes from there too. It says so with numbers that mean nothing here.
            check_retained(segment, want)
            raise ReadFailed(f"segment {segment.id}: records that were broadcast are missing: {failure.value}")

        source = source_of(extent, self._segments)
        found = maybeDeferred(self.read, source, source_want(extent, want), admit)
        return found.addCallbacks(owned, truncated)

    def _ask(self, segment: Segment, want: Want, admit: Admit | None, tries: int) -> Deferred[list[Run]]:
        """Ask the catalog where it is, and read it from there."""

        def begins(runs: list[Run]) -> list[Run]:
            if not segment.published and (not runs or (want.number is not None and runs[0].number != want.number)):
                place = f"offset {want.offset}" if want.number is None else f"record {want.number}"
                raise ReadFailed(f"segment {segment.id}: {place} is not where the catalog says")
            return runs

        def found(extents: list[Extent]) -> Deferred[list[Run]]:
            if segment.deleted:
                raise NoSuchSegment(segment.name)
            # It may have been truncated, and the catalog thinned, since the question was asked.
            check_retained(segment, want)
            self._packed.remember(segment, extents)
            if extents and extents[0].is_reference:
                return self._read_source(segment, extents[0], want, admit)
            if (wait := _wait_for_room(extents, admit)) is not None:
                return wait.addCallback(lambda _: self.read(segment, want))
            try:
                return self._fetch(enough(extents, want), want, segment).addCallback(begins)
            except FileNotFoundError as error:
                self._packed.forget()
                if not tries:
                    raise ReadFailed(str(error)) from error
                return self._ask(segment, want, None, tries - 1)

        return self._threads.run(self._packed.load, segment.id, want).addCallback(found)

    def _fetch(self, extents: list[Extent], want: Want, segment: Segment) -> Deferred[list[Run]]:
        if not extents:
            return succeed([])
        try:
            files = {number: self._files.get(number) for number in {extent.file for extent in extents}}
        except FileNotFoundError as error:
            if extents[0].file >= PACKS:
                raise
            raise ReadFailed(str(error)) from error
        except OSError as error:
            raise ReadFailed(str(error)) from error
        bodies = fetch(extents, files, lambda file, position, length: file.read_now(position, length))
        if bodies is not None:
            if want.records_max <= FEW_RECORDS and extents[0].count > 1:
                # Who asks for few of many will soon ask for the next ones.
                for run in extent_runs(extents[0], bodies[0]):
                    self.recent.add(segment.id, run)
            return succeed(decode(extents, bodies, want))

        def cold() -> list[Run]:
            found = fetch(extents, files, lambda file, position, length: file.read(position, length))
            assert found is not None
            return decode(extents, found, want)

        return self._threads.run(cold)

    def number_at(self, segment: Segment, timestamp: int) -> Deferred[int]:
        """The first record from a time on, or one a little before it: that of the block which holds it."""
        index = segment.index
        if index is not None and (row := index.row_of_timestamp(timestamp)):
            return succeed(index.extent(row).number if row < len(index) else segment.own_number)
        # The first row in memory is late enough, so what is before it, in packs, may be too.
        in_memory = segment.own_number if index is None else index.extent(0).number
        found = self._threads.run(self._packed.number_at, segment.id, timestamp)
        return found.addCallback(lambda number: max(in_memory if number is None else number, segment.first_number))

    def needed_broadcast(self) -> Deferred[int | None]:
        """The first broadcast record that an extent in the catalog stands for."""
        found: Deferred[int | None] = self._threads.run(self._packed.needed_broadcast)
        return found

    def usage(self) -> Deferred[Usage]:
        """How much room there is, and how much the store takes of it."""
        found: Deferred[Usage] = self._threads.run(self._files.usage)
        return found

    def remove(self, files: list[int]) -> Deferred[None]:
        """Nobody needs these files any more; who is reading one goes on."""
        self._packed.forget()
        self._files.forget(files)
        return self._threads.run(self._files.remove, files)

    def close(self) -> None:
        """Let go of all files."""
        self._files.close()
        self._packed.close()


def _wait_for_room(extents: list[Extent], admit: Admit | None) -> Deferred[None] | None:
    """Ask for room where these begin with a large record: what follows it is read up to a limit, but never it."""
    if admit is None or not extents or extents[0].count != 1:
        return None
    return admit(extents[0].length)
