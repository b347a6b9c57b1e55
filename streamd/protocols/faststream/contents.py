"""The reads and takes of streams' contents that are under way, and how they exclude each other.

Takes of one stream wait for each other, in the order of their requests: no two may give away the same contents. Reads
wait for nothing, and nothing waits for them: contents that are taken while they are being read are gone for everybody
else at once. That is durable as the position of a reader group, and they are dropped when the last read has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred

from streamd.connections.load import Receiver
from streamd.store import Segment, Store, StoreError

GROUP: Final = "faststream"
"""The reader group whose position says what was taken from a stream and is not dropped yet."""


class Turn:
    """One take: waiting, then under way, then over."""

    def __init__(self, contents: Contents, segment: Segment, holder: Receiver) -> None:
        self._contents = contents
        self.segment = segment
        self.holder = holder
        self.begins: Deferred[None] | None = None
        """Fires when the turn begins; None where it has begun."""

    @property
    def is_awaited(self) -> bool:
        """Whether another take waits for the end of this one."""
        return self._contents.line(self.segment)[:1] == [self] != self._contents.line(self.segment)

    def end(self) -> None:
        """End this take, or give it up, and let the next one begin. A second call does nothing."""
        self._contents.end_take(self)


class Reading:
    """One read of the records from `first` on."""

    def __init__(self, contents: Contents, segment: Segment, holder: Receiver, first: int) -> None:
        self._contents = contents
        self.segment = segment
        self.holder = holder
        self.first = first

    @property
    def is_awaited(self) -> bool:
        """Whether the records have been taken, and are kept for this read alone."""
        return self.first < self._contents.first(self.segment)

    def end(self) -> None:
        """End the read: all of it was read, or it is no longer wanted. A second call does nothing."""
        self._contents.end_read(self)


class _Taken(NamedTuple):
    """What was taken and is not dropped yet: all records below `number`, which begins at `offset`."""

    number: int
    offset: int
    is_marked: bool
    """Whether the position of the reader group says so."""


class Contents:
    """The reads and takes of all connections of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._takes: dict[Segment, list[Turn]] = {}
        self._reads: dict[Segment, set[Reading]] = {}
        self._taken: dict[Segment, _Taken] = {}

    def first(self, segment: Segment) -> int:
        """The first record that was not taken."""
        taken = self._taken.get(segment)
        group = (segment.groups or {}).get(GROUP)
        return max(segment.claimed_first_number, taken.number if taken is not None else group.position if group else 0)

    def line(self, segment: Segment) -> list[Turn]:
        """The take that is under way, and those that wait for it."""
        return self._takes.get(segment, [])

    # -- takes ---------------------------------------------------------------------------------------------------------

    def begin_take(self, segment: Segment, holder: Receiver) -> Turn:
        """Begin to take a stream's contents, alone. Wait for the turn's `begins`, and call its `end` in any case."""
        line = self._takes.setdefault(segment, [])
        turn = Turn(self, segment, holder)
        if line:
            turn.begins = Deferred()
            line[0].holder.hurry_peer()
        line.append(turn)
        return turn

    def end_take(self, turn: Turn) -> None:
        """Note that a turn is over, or given up."""
        line = self.line(turn.segment)
        if turn not in line:
            return
        line.remove(turn)
        if not line:
            del self._takes[turn.segment]
            return
        if len(line) > 1:
            line[0].holder.hurry_peer()
        begins, line[0].begins = line[0].begins, None
        if begins is not None:
            begins.callback(None)

    def remove(self, segment: Segment, number: int, offset: int) -> None:
        """Remove all records below `number`, which begins at `offset`: they were taken.

        They are gone for every later request. Nobody waits for the disk: the removal is journaled in order with
        everything else, and so durable as soon as any later change is.
        """
        late = [reading for reading in self._reads.get(segment, ()) if reading.first < number]
        self._taken[segment] = _Taken(number, offset, is_marked=bool(late))
        if not late:
            self._drop(segment)
            return
        _in_passing(lambda: self._store.set_group(segment, GROUP, number))
        for reading in late:
            reading.holder.hurry_peer()

    def _drop(self, segment: Segment) -> None:
        taken = self._taken.pop(segment)
        _in_passing(lambda: self._store.truncate(segment, taken.number, taken.offset))
        if taken.is_marked or GROUP in (segment.groups or {}):
            _in_passing(lambda: self._store.drop_group(segment, GROUP))

    # -- reads ---------------------------------------------------------------------------------------------------------

    def begin_read(self, segment: Segment, holder: Receiver, first: int) -> Reading:
        """Begin to read contents from record `first` on. They stay until its `end` is called."""
        reading = Reading(self, segment, holder, first)
        self._reads.setdefault(segment, set()).add(reading)
        return reading

    def end_read(self, reading: Reading) -> None:
        """Note that a read is over."""
        segment = reading.segment
        readings = self._reads.get(segment, set())
        readings.discard(reading)
        if not readings:
            self._reads.pop(segment, None)
        taken = self._taken.get(segment)
        if taken is not None and all(other.first >= taken.number for other in readings):
            self._drop(segment)


def _in_passing(change: Callable[[], Deferred[None]]) -> None:
    """Have the store change something that nobody waits for. Nothing is to be done where the segment was deleted."""
    try:
        change().addErrback(lambda failure: failure.trap(StoreError) and None)
    except StoreError:
        pass
