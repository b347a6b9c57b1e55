"""The store's side of compaction: what can be folded, and what is read from packs once it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from twisted.internet.defer import Deferred

from streamd.store.commit.pipeline import Pipeline
from streamd.store.reading.reader import Reader, Threads
from streamd.store.records.extent import PACKS
from streamd.store.segments.registry import Segments

# Segments that are told of a fold in one turn of the reactor.
_SEGMENTS_AT_ONCE: Final = 1000


class Folding:
    """What `Store` inherits."""

    _segments: Segments
    _reader: Reader
    _pipeline: Pipeline
    _threads: Threads

    @property
    def closed_file(self) -> int:
        """The last journal file that is complete: what can be folded."""
        return self._pipeline.file - 1

    @property
    def unfolded_entries(self) -> int:
        """Entries of the journal that are in memory because no pack has them yet."""
        return sum(self._segments.entries_in.values())

    @property
    def unfolded_bytes(self) -> int:
        """And the bytes that they hold."""
        return sum(self._segments.bytes_in.values())

    def tidy(self) -> None:
        """Let room come back that was freed, also where nothing else happens. To be called now and then."""
        self._pipeline.tidy()

    def seek_room(self) -> None:
        """While the disk is full, see whether there is room again. To be called each second."""
        self._pipeline.seek_room()

    def on_closed_file(self, call: Callable[[], None]) -> None:
        """Call this each time a journal file is complete."""
        self._pipeline.on_closed_file = call

    def folded(self, file: int) -> Deferred[None]:
        """The compactor has put all journal files up to this one into packs: read from there, and remove them.

        Segments are told in small groups, a turn of the reactor for each: until all of them know, the files stay.
        """
        concerned, sources = self._segments.take_folded(file)
        done: Deferred[None] = Deferred()

        def some() -> None:
            for _ in range(min(_SEGMENTS_AT_ONCE, len(concerned))):
                concerned.pop().packed(file)
            if concerned:
                self._threads.later(some)
                return
            for source in sources:
                # Its records are the target's own now.
                self._segments.by_id.pop(source.id, None)
            gone = self._segments.drop_files(file)
            self._pipeline.fold_ended()
            self._reader.remove(gone).chainDeferred(done)

        some()
        return done

    def merged(self, packs: Sequence[int]) -> Deferred[None]:
        """The compactor has put what these packs held elsewhere."""
        return self._reader.remove([PACKS + number for number in packs])
