"""How much a connection may keep in memory, and for how long it may leave a frame open.

A peer that sends too much is no longer read, and neither is one that holds more than its share while all together hold
too much. Whoever begins a frame has to end it in time; while we do not read it, its time stands still.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from streamd.batch import Buffer
from streamd.connections.core import Core
from streamd.connections.permitted import Permitted
from streamd.store import Run, Segment
from streamd.wire import Codec

if TYPE_CHECKING:
    from streamd.connections.joint import JointAppend

# Smaller changes of what a connection holds are not counted.
_HELD_GRAIN: Final = 1024

# Why a connection is not read: it holds too much, or all do together; the peer does not take its replies; what it has
# sent is not looked at yet.
_CROWDED: Final = 1
UNSENT: Final = 2
_BUSY: Final = 4


class Phase(Enum):
    """The life of a connection."""

    GREETING = auto()  # nothing is known of the peer yet
    OPEN = auto()
    ENDING = auto()  # no more input; what was asked is finished, then it closes
    CLOSED = auto()


class Holding(Permitted, metaclass=ABCMeta):
    """What a connection holds, and whether it is read."""

    __slots__ = (
        *("_asked_bytes", "_deadline", "_fetching", "_frame_began", "_greeting", "_has_room", "_held_bytes"),
        *("_incoming_bytes", "_is_free", "_joint", "_pause", "_phase", "_ready_bytes", "_unsent_bytes", "codec"),
    )

    def __init__(self, core: Core, codec: Codec) -> None:
        super().__init__(core)
        self.codec = codec
        self._phase = Phase.GREETING
        self._pause = 0
        self._greeting = b""
        self._incoming_bytes = 0
        self._asked_bytes = 0
        self._ready_bytes = 0
        self._unsent_bytes = 0
        self._held_bytes = 0
        """Of all these, what the others know of."""
        self._deadline: IDelayedCall | None = None
        self._frame_began: float | None = None
        self._has_room = False
        """Whether there is room set aside for a large record: that which is being read, or on its way to the peer."""
        self._fetching = False
        self._is_free = False
        """Whether all is known to be answered, and nothing is in the way of one more request."""
        self._joint: JointAppend | None = None
        """Where the one message is whose answer this connection waits for, in place of a slot."""

    @abstractmethod
    def _cut_off(self, reason: str) -> None:
        """Close at once, and count why."""

    @property
    def is_slow(self) -> bool:
        """Whether the peer does not take what it is sent: `resumeProducing` says when it does again."""
        return bool(self._pause & UNSENT)

    @property
    def reply_bytes_max(self) -> int:
        """About how much of an answer to give at once: less when memory is short."""
        return 256 << 10 if not self.core.load.crowded else max(min(self.core.load.share_bytes, 256 << 10), 4096)

    # -- what is read for the peer -------------------------------------------------------------------------------------

    def read(self, segment: Segment, number: int, *, records_max: int, bytes_max: int = 0) -> Deferred[list[Run]]:
        """Records for the peer, as much as an answer may have, or so many bytes. There is one such read at a time."""
        return self.core.store.read(
            segment, number, bytes_max=bytes_max or self.reply_bytes_max, records_max=records_max, admit=self._admit
        )

    def recent(self, segment: Segment, number: int, records_max: int) -> Run | None:
        """Few records for the peer where they are at hand: then there is nothing to wait for."""
        return self.core.store.recent(segment, number, bytes_max=self.reply_bytes_max, records_max=records_max)

    def recent_one(self, segment: Segment, number: int) -> tuple[int, Buffer] | None:
        """The tag and the bytes of one record for the peer, where it is at hand: it counts as read."""
        record = self.core.store.recent_one(segment, number)
        if record is not None:
            traffic = self.factory.traffic
            traffic.read_records += 1
            traffic.read_bytes += len(record[1])
        return record

    def read_at(self, segment: Segment, offset: int, *, bytes_max: int) -> Deferred[list[Run]]:
        """Like `read`, from an offset on."""
        return self.core.store.read_at(segment, offset, bytes_max=bytes_max, admit=self._admit)

    def fetched(self) -> None:
        """What was read is there, and goes to the peer now; or it can't be read."""
        self._fetching = False

    def _admit(self, size: int) -> Deferred[None] | None:
        load = self.core.load
        if self._has_room:
            load.leave_room(self)
        self._has_room = self._fetching = size > load.share_bytes
        return load.take_room(self, size) if self._has_room else None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for this peer to take what it is sent."""
        return self._has_room and self.core.load.is_room_awaited

    @abstractmethod
    def hurry_peer(self) -> None:
        """Others wait until the peer has taken what it is sent. May be called again and again."""

    # -- what is held --------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Tell how much this connection keeps in memory, and stop reading where that is too much."""
        if self._has_room and not self._fetching and not self._pause & UNSENT:
            self._has_room = False
            self.core.load.leave_room(self)
        busy = self._incoming_bytes + self._asked_bytes + self._ready_bytes + self._unsent_bytes
        held = busy + self.codec.buffered
        load = self.core.load
        delta = held - self._held_bytes
        if -_HELD_GRAIN < delta < _HELD_GRAIN and not self._pause and not self._incoming_bytes:
            # Not worth telling: a message of a hundred bytes comes and goes.
            return
        self._held_bytes = held
        if delta:
            load.change(delta)
        limit = load.must_wait(held, busy)
        if limit is not None or self._asked_bytes > self.core.store.pace.bytes:
            if limit is not None and not self._pause & _CROWDED:
                self.traffic.connections_slowed[limit] += 1
            self._pause_for(_CROWDED)
            load.wait(self)
        elif self._pause & _CROWDED:
            load.forget(self)
            self._resume_for(_CROWDED)
        if self._incoming_bytes:
            self._pause_for(_BUSY)
        elif self._pause & _BUSY:
            self._resume_for(_BUSY)

    def _holds_little(self) -> bool:
        """Whether `_hold` has nothing to tell: nothing worth it is held, and nobody knows otherwise."""
        return (
            self._asked_bytes + self._ready_bytes < _HELD_GRAIN
            and not self._pause
            and not self._held_bytes
            and not self._has_room
        )

    def uncrowded(self) -> None:
        """There is room for all again."""
        if self._phase is not Phase.CLOSED:
            self._hold()

    @abstractmethod
    def _leave_express(self) -> None:
        """Be served as connections are that have more to do than one request."""

    def _pause_for(self, why: int) -> None:
        self._leave_express()
        if not self._pause and self._phase is not Phase.ENDING:
            self.transport.pauseProducing()
        self._pause |= why

    def _resume_for(self, why: int) -> None:
        was, self._pause = self._pause, self._pause & ~why
        if was and not self._pause and self._phase in (Phase.OPEN, Phase.GREETING):
            if self._frame_began is not None:
                # While it was not read it could not end its frame: the deadline begins anew.
                self._frame_began = self.core.clock.seconds()
            self.transport.resumeProducing()

    def _release(self) -> None:
        """The connection is gone: it holds nothing, and nobody waits for it."""
        self.core.load.forget(self)
        self.core.load.leave_room(self)
        self.core.load.change(-self._held_bytes)
        self._held_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- the time of a frame -------------------------------------------------------------------------------------------

    def _watch_frame(self, ended: bool) -> None:
        """Let a deadline run while a frame is open. There is one timer, moved when it fires, not at each read."""
        if not self.codec.buffered and not self._greeting:
            self._frame_began = None
            return
        if ended or self._frame_began is None:
            self._begin_frame()

    def _begin_frame(self) -> None:
        self._frame_began = self.core.clock.seconds()
        if self._deadline is None:
            self._deadline = self.core.clock.callLater(self.core.limits.frame_seconds_max, self._overdue)

    def _overdue(self) -> None:
        self._deadline = None
        if self._frame_began is None or self._phase not in (Phase.OPEN, Phase.GREETING):
            return
        left = self._frame_began + self.core.limits.frame_seconds_max - self.core.clock.seconds()
        if self._pause and self._held_bytes > self.codec.buffered:
            # It waits for us. Where all it holds is the frame itself, others that do the same may fill the memory, each
            # waiting for the rest to end: then the deadline is what frees it.
            left = self.core.limits.frame_seconds_max
        if left > 0:
            self._deadline = self.core.clock.callLater(left, self._overdue)
        else:
            self.log.warn("{peer} did not end what it began to send to {wire}", peer=self.peer, wire=self.name)
            self._cut_off("overdue")
