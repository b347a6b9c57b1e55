"""Records on their way into the blocks of a pack, segment by segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from streamd.store.packs import pack
from streamd.store.packs.catalog import BROADCAST_PACK, Row
from streamd.store.records import blocks
from streamd.store.records.extent import Extent


class Source(NamedTuple):
    """Records on their way into a pack; `shared` names the place where other segments find them too."""

    number: int
    offset: int
    pieces: list[blocks.Piece]
    shared: tuple[int, int] | None
    timestamp: int = 0
    """Not before this, whatever the pieces say."""
    broadcast: Extent | None = None
    """Nothing to be packed: records of the broadcast segment."""

    @property
    def size(self) -> int:
        return sum([piece.batch.size + 4 * piece.batch.count for piece in self.pieces])


class Packing:
    """Fills blocks with the records of one segment."""

    def __init__(self, writer: pack.PackWriter, segment: int) -> None:
        self._writer = writer
        self._segment = segment
        self._pieces: list[blocks.Piece] = []
        self._size = 0
        self._number = 0
        self._offset = 0
        self._end = -1

    def run(self, sources: Iterable[Source], shared: dict[tuple[int, int], pack.Block]) -> Iterator[Row]:
        for source in sources:
            size = source.size
            if source.broadcast is not None:
                yield from self._close()
                yield self._reference(source.broadcast)
                continue
            if source.shared is not None:
                yield from self._close()
                if source.shared not in shared:
                    shared[source.shared] = self._writer.add(pack.SHARED, 0, 0, source.pieces)
                yield self._row(source.number, source.offset, shared[source.shared], source.timestamp)
                continue
            # What does not follow on what is gathered (a hole where a merge has only some of the packs) begins anew.
            if self._size + size > pack.BLOCK_BYTES or source.number != self._end:
                yield from self._close()
            if not self._pieces:
                self._number, self._offset = source.number, source.offset
            self._pieces += source.pieces
            self._size += size
            self._end = source.number + sum([piece.batch.count for piece in source.pieces])
        yield from self._close()

    def _close(self) -> Iterator[Row]:
        if self._pieces:
            yield self._row(
                self._number,
                self._offset,
                self._writer.add(self._segment, self._number, self._offset, self._pieces),
            )
            self._pieces = []
            self._size = 0

    def _reference(self, extent: Extent) -> Row:
        return Row(
            self._segment,
            extent.number,
            extent.offset,
            extent.count,
            extent.timestamp,
            extent.timestamp,
            BROADCAST_PACK,
            extent.position,
            extent.length,
            0,
        )

    def _row(self, number: int, offset: int, block: pack.Block, timestamp: int = 0) -> Row:
        return Row(
            self._segment,
            number,
            offset,
            block.records,
            max(block.timestamp, timestamp),
            max(block.last_timestamp, timestamp),
            self._writer.number,
            block.position,
            block.length,
            block.crc,
        )
