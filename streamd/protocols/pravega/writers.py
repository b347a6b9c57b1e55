"""Writers of Pravega's streams that were not seen for long are forgotten, and their ack levels with them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from twisted.internet.defer import Deferred

from streamd.connections.core import Core
from streamd.loop import Loop
from streamd.protocols.pravega.names import STREAM_SEGMENT
from streamd.store import Segment, StoreError

# Segments that are looked at in one turn of the reactor.
_SEGMENTS_AT_ONCE: Final = 50


class Writers:
    """Which writers are connected, and what levels the others had when they were last looked at.

    A writer whose level is the same at two looks in a row, and who is not connected, is forgotten: after the time that
    is set, and before twice that.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._connected: Counter[tuple[Segment, bytes]] = Counter()
        self._seen: dict[Segment, dict[bytes, int]] = {}
        self._loop = Loop("writers", self.look, core.clock, core.loops)

    @classmethod
    def of(cls, core: Core) -> Writers:
        """Those of a store."""
        writers: Writers | None = core.shared.get(("pravega", "writers"))
        if writers is None:
            writers = core.shared["pravega", "writers"] = cls(core)
        return writers

    def start(self, seconds: float) -> None:
        """Look each time so many seconds have passed; 0: never."""
        if seconds and not self._loop.running:
            self._loop.start(seconds, now=False)

    def stop(self) -> None:
        """Look no more."""
        self._loop.stop()

    def joined(self, segment: Segment, writer: bytes) -> None:
        """A connection has set this writer up."""
        self._connected[segment, writer] += 1

    def left(self, segment: Segment, writer: bytes) -> None:
        """And does not have it any more."""
        self._connected[segment, writer] -= 1
        if not self._connected[segment, writer]:
            del self._connected[segment, writer]

    def look(self) -> Deferred[None]:
        """Look at all writers, and forget those who did nothing since the last time."""
        return Deferred.fromCoroutine(self._look())

    async def _look(self) -> None:
        store = self._core.store
        before, self._seen = self._seen, {}
        after = 0
        while True:
            segments, after = store.following(after, _SEGMENTS_AT_ONCE)
            for segment in segments:
                if segment.levels and not segment.hidden and STREAM_SEGMENT.fullmatch(segment.name):
                    self._look_at(segment, before.get(segment, {}))
            if not after:
                return
            turn: Deferred[None] = Deferred()
            self._core.clock.callLater(0, turn.callback, None)
            await turn

    def _look_at(self, segment: Segment, before: dict[bytes, int]) -> None:
        kept = self._seen[segment] = dict(segment.levels or {})
        for writer, level in before.items():
            if segment.claimed_level(writer) == level and (segment, writer) not in self._connected:
                kept.pop(writer, None)
                self._core.store.forget_level(segment, writer).addErrback(lambda failure: failure.trap(StoreError))
