"""The daemon's side of compaction: the compactor's process is started, told what to do, watched and started again.

Nothing depends on it but time: while there is no compactor the journal grows, until writers have to wait for one.
"""

from __future__ import annotations

import json
import os
import sys
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IDelayedCall, IProcessTransport
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from streamd.metrics import CompactionCounts

if TYPE_CHECKING:
    from streamd.store.store import Store

# How long after its death a compactor is started again: longer each time, as long as it gets nothing done.
_RESTART_SECONDS: Final = 1.0
_RESTART_SECONDS_MAX: Final = 60.0

# A compactor that says nothing for so long while it has something to fold is taken for dead.
_SILENT_SECONDS_MAX: Final = 600.0


class Phase(Enum):
    """The life of the process."""

    STOPPED = auto()
    RUNNING = auto()
    WAITING = auto()  # it died, and will be started again
    STOPPING = auto()


class Compaction(ProcessProtocol):
    """One compactor process after the other."""

    _log = Logger()

    def __init__(self, store: Store, directory: str, reactor: Any) -> None:
        self._store = store
        self._directory = directory
        self._reactor = reactor
        self._phase = Phase.STOPPED
        self._output = b""
        self._folded = 0
        self._asked = 0
        self._delay = _RESTART_SECONDS
        self._is_full = False
        """Whether the last process ended for want of room."""
        self._was_full = False
        """Whether one did since something was folded or merged."""
        self._restart: IDelayedCall | None = None
        self._watch: IDelayedCall | None = None
        self._ended: Deferred[None] | None = None
        self.counted = CompactionCounts()
        self.transport: IProcessTransport | None = None
        store.on_closed_file(self._ask)

    def start(self) -> None:
        """Start the process, and have it fold what is there. Where no process can be had, try again later."""
        self._restart = None
        if self._phase is Phase.STOPPING:
            return
        # The same modules as here, wherever they were found.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        command = [sys.executable, "-m", "streamd.store.packs.compactor", os.path.abspath(self._directory)]
        try:
            self._reactor.spawnProcess(self, command[0], command, env=environment)
        except Exception as error:
            # No descriptors, no memory, no processes: any of these may be there again in a moment.
            self.counted.failures += 1
            self._start_later(f"the compactor can't be started ({error})")
            return
        self._phase = Phase.RUNNING
        self._asked = 0
        self.counted.starts += 1
        self._ask()

    @property
    def running(self) -> bool:
        """Whether there is such a process now."""
        return self._phase is Phase.RUNNING

    def stop(self) -> Deferred[None]:
        """End the process. What it was doing is done again next time."""
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None
        self._unwatch()
        running, self._phase = self._phase is Phase.RUNNING, Phase.STOPPING
        if not running or self.transport is None:
            return succeed(None)
        self._ended = Deferred()
        self._kill()
        return self._ended

    def _ask(self) -> None:
        """Tell it of the last complete journal file."""
        file = self._store.closed_file
        if self._is_full and self._restart is not None and file > self._folded:
            # With what is in that file, something may be deleted that the last one had no room for.
            self._restart.cancel()
            self.start()
            return
        if self._phase is Phase.RUNNING and self.transport is not None and file > max(self._asked, self._folded):
            self._asked = file
            self.transport.write(b"fold %d\n" % file)
            if self._watch is None:
                self._watch_on()

    def _watch_on(self) -> None:
        """Wait for the next message for as long as a fold is owed, whatever the last one was about."""
        self._unwatch()
        if self._asked > self._folded:
            self._watch = self._reactor.callLater(_SILENT_SECONDS_MAX, self._silent)

    def _silent(self) -> None:
        self._watch = None
        self._log.error(
            "the compactor has said nothing for {seconds} s and is started again", seconds=_SILENT_SECONDS_MAX
        )
        self._kill()

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _kill(self) -> None:
        assert self.transport is not None
        try:
            self.transport.signalProcess("KILL")
        except ProcessExitedAlready:
            pass  # it was faster

    # -- what the process says -----------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        """The process runs."""
        self._output = b""
        self._is_full = False

    def outReceived(self, data: bytes) -> None:
        """It has done something."""
        *lines, self._output = (self._output + data).split(b"\n")
        for line in lines:
            self._heard(json.loads(line))
        self._watch_on()

    def _heard(self, said: dict[str, Any]) -> None:
        if "folded" in said:
            self._delay = _RESTART_SECONDS
            self._was_full = False
            self._folded = said["folded"]
            self.counted.folds += 1
            self.counted.pack_bytes += said["bytes"]
            self._log.debug(
                "journal files up to {file} are folded into pack {pack}", file=said["folded"], pack=said["pack"]
            )
            self._store.folded(said["folded"]).addErrback(self._could_not, "remove journal files")
        elif "merged" in said:
            self._was_full = False
            self.counted.merges += 1
            self._log.debug("packs {packs} are merged into {into}", packs=said["merged"], into=said["into"])
            self._store.merged(said["merged"]).addErrback(self._could_not, "remove packs")
        elif "adopted" in said:
            self._log.info(
                "the store is of format 3 from now on: pack {pack} tells of all before", pack=said["adopted"]
            )
        else:
            self.counted.failures += 1
            if said["full"]:
                self._fell_short(said["failed"])
            else:
                self._log.error("the compactor failed: {reason}", reason=said["failed"])

    def _fell_short(self, reason: str) -> None:
        """There is no room for a pack. That is said once, and not at all where the store has said it of the disk."""
        if not self._was_full and not self._store.read_only:
            self._log.error("the compactor has no room, and tries until it has: {reason}", reason=reason)
        self._is_full = self._was_full = True

    def _could_not(self, failure: Failure, what: str) -> None:
        self._log.failure("could not {what}", failure, what=what)

    def errReceived(self, data: bytes) -> None:
        """It has died of something unforeseen."""
        self._log.error("compactor: {text}", text=data.decode("utf-8", "backslashreplace"))

    def processEnded(self, reason: Failure) -> None:
        """It is gone: start another, unless we are leaving too."""
        self.transport = None
        self._unwatch()
        if self._phase is Phase.STOPPING:
            if self._ended is not None:
                self._ended.callback(None)
            return
        self._start_later(f"the compactor ended ({reason.getErrorMessage()})")

    def _start_later(self, reason: str) -> None:
        """Start the next one after a pause that grows as long as nothing gets done."""
        self._phase = Phase.WAITING
        level = LogLevel.debug if self._is_full else LogLevel.warn
        self._log.emit(level, "{reason}, the next starts in {seconds} s", reason=reason, seconds=self._delay)
        self._restart = self._reactor.callLater(self._delay, self.start)
        self._delay = min(self._delay * 2, _RESTART_SECONDS_MAX)
