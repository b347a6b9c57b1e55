"""What time it is, where the clock may be wrong: timestamps that never go back, and ages that no wrong clock makes up.

The machine's clock can be set ahead by mistake, and back again. What was stored in between has times that are yet to
come, and timestamps never go back, or reads by time would miss records. So the store's time is then ahead of the clock,
and goes on from there a little slower than time does until the clock has caught up. And what is old enough to be
dropped is not told by a clock that has only just gone ahead: what is dropped does not come back.

docs/decisions/0013-time-never-goes-back.md argues it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

MICROSECONDS: Final = 1_000_000

# How fast the store's time goes while it is ahead of the clock. An hour is caught up with in eight.
_SLOWER: Final = (7, 8)

# The clock has gone ahead where it moved so much more than time did; it is believed when it has stayed there so long.
_STEP_SECONDS: Final = 60.0
_BELIEVED_SECONDS: Final = 3600.0
# At the start nobody knows how long the daemon was down: up to this that is what the clock tells.
_DOWN_SECONDS: Final = 86400.0

# By so much the store's time may be ahead of the clock without a word: clocks are adjusted all the time.
_AHEAD_SECONDS: Final = 1.0


def next_timestamp(last: int, elapsed: int, now: int) -> int:
    """The timestamp of a commit: that of the clock, never below the `last` one, which was given so long ago.

    `elapsed` is not told by the clock: one that was set back and is set right again has only seemed to go on.
    """
    return now if now >= last else last + elapsed * _SLOWER[0] // _SLOWER[1]


class BelievedClock:
    """The time by which ages count, in seconds: that of the clock, unless that has just gone ahead.

    `timestamp` gives the last one of the store; `monotonic` is a clock that nobody can set.
    """

    _log = Logger()

    def __init__(self, timestamp: Callable[[], int], now: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._timestamp = timestamp
        self._now = now
        self._monotonic = monotonic
        self._looked = monotonic()
        last = timestamp() / MICROSECONDS
        self._time = last if last and now() - last > _DOWN_SECONDS else now()
        self._doubted: float | None = None
        """Since when the clock is not believed."""
        self._is_ahead = False

    def __call__(self) -> float:
        """What time it is. To be asked now and then: what is wrong with the clock is logged, once each time."""
        clock, looked = self._now(), self._monotonic()
        expected = self._time + looked - self._looked
        self._looked = looked
        self._time = clock if self._believes(clock, expected, looked) else expected
        self._tell_ahead(clock)
        return self._time

    def _believes(self, clock: float, expected: float, looked: float) -> bool:
        if clock <= expected + _STEP_SECONDS:
            if self._doubted is not None:
                self._log.info("the clock, which had gone ahead, is back")
            self._doubted = None
            return True
        if self._doubted is None:
            self._doubted = looked
            self._log.warn(
                "the clock has gone ahead by {seconds} s: nothing is dropped for its age before it has stayed there "
                "for {wait} s. If it is wrong, set it right until then",
                seconds=round(clock - expected),
                wait=round(_BELIEVED_SECONDS),
            )
        if looked - self._doubted < _BELIEVED_SECONDS:
            return False
        self._doubted = None
        self._log.warn("the clock has stayed where it went: ages count by it from now on")
        return True

    def _tell_ahead(self, clock: float) -> None:
        ahead = self._timestamp() / MICROSECONDS - clock
        if ahead > _AHEAD_SECONDS and not self._is_ahead:
            self._is_ahead = True
            self._log.warn(
                "the clock is {seconds} s behind the store's time, since it was ahead once: timestamps are ahead of it "
                "by as much until it has caught up, and rules for ages may keep records longer",
                seconds=round(ahead),
            )
        elif ahead <= 0 and self._is_ahead:
            self._is_ahead = False
            self._log.info("the clock has caught up with the store's time")


class StoreTime:
    """The store's time between two commits, for who has to tell how old a record is that is ahead of the clock."""

    def __init__(self, timestamp: Callable[[], int]) -> None:
        self._timestamp = timestamp
        self._last = 0
        self._seen = 0

    def at(self, now: int) -> int:
        """What time it is for the store, where the clock says `now`. To be asked now and then."""
        if self._timestamp() != self._last:
            self._last, self._seen = self._timestamp(), now
        return next_timestamp(self._last, max(now - self._seen, 0), now)
