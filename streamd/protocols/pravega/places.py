"""Places in a segment: which record stands at a number, an offset or a time, and where a range can be split."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from streamd.connections.core import Core
from streamd.connections.order import Ordered
from streamd.store import Segment, StoreError
from streamd.store.packs.pack import BLOCK_BYTES
from streamd.wire.tools import By


class Places:
    """Finds places by reading, as one connection may: between two reads the other connections have their turn."""

    def __init__(self, core: Core, peer: Ordered) -> None:
        self._core = core
        self._peer = peer

    async def find(self, segment: Segment, by: int, place: int) -> tuple[int, int]:
        """The number and the offset of a record; behind the last one there is a place too."""
        if by == By.TIMESTAMP:
            by, place = By.NUMBER, await self._number_at(segment, place)
        if by not in (By.NUMBER, By.OFFSET):
            raise StoreError(f"{by} is nothing that a record is looked for by")
        end = segment.number if by == By.NUMBER else segment.offset
        if not 0 <= place <= end:
            raise StoreError(f"{place} lies outside of {segment.name!r}, which ends at {end}")
        if place == end:
            return segment.number, segment.offset
        if by == By.NUMBER:
            runs = await self._peer.read(segment, place, bytes_max=1, records_max=1)
        else:
            runs = await self._peer.read_at(segment, place, bytes_max=1)
        return runs[0].number, runs[0].offset

    async def _number_at(self, segment: Segment, timestamp: int) -> int:
        """The first record of this time or later; the next number where there is none."""
        number = max(await self._core.store.number_at(segment, timestamp), segment.first_number)
        while number < segment.number:
            runs = await self._peer.read(segment, number, bytes_max=BLOCK_BYTES, records_max=1 << 62)
            for run in runs:
                if run.timestamp >= timestamp:
                    return run.number
            number = runs[-1].number + runs[-1].batch.count
            await self._turn()
        return segment.number

    async def split(self, segment: Segment, first: int, end: int, parts: int) -> tuple[int, ...]:
        """Record numbers that split a range into up to so many parts of about the same bytes."""
        points: list[int] = []
        if parts < 2 or first >= end:
            return ()
        _, begin = await self.find(segment, By.NUMBER, first)
        _, last = await self.find(segment, By.NUMBER, end)
        for part in range(1, parts):
            number, _ = await self.find(segment, By.OFFSET, begin + (last - begin) * part // parts)
            if max([first, *points[-1:]]) < number < end:
                points.append(number)
            await self._turn()
        return tuple(points)

    def _turn(self) -> Deferred[None]:
        """Let the other connections have their turn."""
        turn: Deferred[None] = Deferred()
        self._core.clock.callLater(0, turn.callback, None)
        return turn
