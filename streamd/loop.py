"""Periodic jobs of the daemon: one construct for all of them, so that a job goes on after a failure.

Twisted's LoopingCall stops for ever at the first error, and only its Deferred knows. A `Loop` logs the failure, counts
it by the name of the loop, and calls again after the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from streamd.metrics import LoopCounts

# Failures with different texts that are logged until the loop works again.
_REASONS_MAX: Final = 20


class Loop:
    """Calls a function at an interval until it is stopped, whether or not single calls fail.

    A function that returns a Deferred is called again only when that has fired.
    """

    _log = Logger()

    def __init__(
        self, name: str, call: Callable[[], Any], clock: IReactorTime, counted: LoopCounts | None = None
    ) -> None:
        """:param counted: where failures are counted, under `name`."""
        self._name = name
        self._call = call
        self._counted = counted or LoopCounts()
        self._loop: Any = LoopingCall(self._once)
        self._loop.clock = clock
        self._failures = 0
        """How many calls failed since one succeeded."""
        self._reasons: set[str] = set()
        """The reasons that were logged since then."""

    @property
    def running(self) -> bool:
        """Whether the loop was started and not stopped."""
        running: bool = self._loop.running
        return running

    def start(self, seconds: float, *, now: bool = True) -> None:
        """Call the function every so many seconds, for the first time now or after the first interval."""
        self._loop.start(seconds, now=now)

    def stop(self) -> None:
        """Call the function no more. Nothing happens where the loop does not run."""
        if self._loop.running:
            self._loop.stop()

    def failed(self, failure: Failure) -> None:
        """Log and count a failure. The function can call this for a part of its work, and do the rest."""
        self._counted.failures[self._name] += 1
        self._failures += 1
        reason = f"{failure.type}: {failure.getErrorMessage()}"
        if reason in self._reasons or len(self._reasons) >= _REASONS_MAX:
            # A job that fails each second would fill the log with one traceback.
            return
        self._reasons.add(reason)
        if failure.check(OSError):
            self._log.error("{loop} failed, and is tried again: {reason}", loop=self._name, reason=str(failure.value))
        else:
            self._log.failure("{loop} failed, and is tried again", failure, loop=self._name)

    def _once(self) -> Any:
        before = self._failures
        return maybeDeferred(self._call).addErrback(self.failed).addCallback(lambda _: self._ended(before))

    def _ended(self, before: int) -> None:
        if self._failures and self._failures == before:
            self._log.info("{loop} works again, after {count} failures", loop=self._name, count=self._failures)
            self._failures = 0
            self._reasons.clear()
