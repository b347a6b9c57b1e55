"""What the daemon changes in its process, and how it ends the process.

All of it is state that every other part of the process shares, so it is in one place, and `Process.restore` undoes it:
tests start and stop the service in their own process.
"""

from __future__ import annotations

import atexit
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from twisted.internet.error import ReactorNotRunning
from twisted.logger import Logger

# The exit status of sysexits.h for an input/output error.
EXIT_IO = 74

# Descriptors that are neither connections of the protocols nor files of the store: log, lock, journal, epoll,
# listeners, who looks at the dashboard, and some room.
FILES_SPARE = 128

_FATAL_SECONDS_MAX = 1.0
_GC_THRESHOLDS = (50_000, 20, 100)
_SWITCH_SECONDS = 0.0005


class StartFailed(SystemExit, Exception):
    """The daemon can't start. The text says why; the log and the operator were told.

    It is a SystemExit, so that the process ends with status 1 and without a traceback. It is an Exception too, since
    twistd removes its PID file, and notifies the process that waits for the daemon, only for those.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.code = 1


class Process:
    """The limits, the garbage collector, the thread switching and the signal handlers of this process."""

    _log = Logger()

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._undo: list[Callable[[], object]] = []
        self._stopping = False

    def prepare(self, files_wanted: int) -> None:
        """Prepare the process before the store is opened: more descriptors, fewer garbage collections."""
        self._raise_file_limit(files_wanted)
        self._undo.append(partial(gc.set_threshold, *gc.get_threshold()))
        gc.set_threshold(*_GC_THRESHOLDS)
        # The writer thread comes back from fdatasync and wants the interpreter while the reactor is busy parsing. It
        # gets it after one interval at most, which is added to every acknowledgement; Python's own is 5 ms.
        self._undo.append(partial(sys.setswitchinterval, sys.getswitchinterval()))
        sys.setswitchinterval(_SWITCH_SECONDS)

    def settle(self) -> None:
        """Freeze all objects after recovery: no later garbage collection has to walk over all segments."""
        gc.collect()
        gc.freeze()
        self._undo.append(gc.unfreeze)

    def take_signals(self, reload: Callable[[], None]) -> None:
        """Handle signals: SIGTERM and SIGINT stop the reactor, and the process exits 0; SIGHUP calls `reload`.

        Call it when the reactor runs, since the reactor installs its own handlers at that moment: with those, twistd
        would end by the same signal again after a clean stop.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number, call in (
            (signal.SIGTERM, self._stop_for),
            (signal.SIGINT, self._stop_for),
            (signal.SIGHUP, partial(self._reload_for, reload)),
        ):
            before = signal.signal(number, partial(self._signalled, call))
            self._undo.append(partial(signal.signal, number, before))

    def stop(self) -> None:
        """Stop the reactor once; a second signal while the daemon drains is no error."""
        if self._stopping:
            return
        self._stopping = True
        try:
            self._reactor.stop()
        except ReactorNotRunning:
            pass  # somebody else has stopped it

    def restore(self) -> None:
        """Undo all changes, in reverse order."""
        while self._undo:
            self._undo.pop()()

    def _signalled(self, call: Callable[[str], None], number: int, frame: object) -> None:
        # The reactor may be asleep, and this may be the middle of anything: wake it, and act in a turn of its own.
        self._reactor.callFromThread(call, signal.Signals(number).name)

    def _reload_for(self, reload: Callable[[], None], name: str) -> None:
        if not self._stopping:
            self._log.info("received {signal}, reading the configuration again", signal=name)
            reload()

    def _stop_for(self, name: str) -> None:
        self._log.info("received {signal}, stopping", signal=name)
        self.stop()

    def _raise_file_limit(self, wanted: int) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = soft
        if soft != hard:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            except (OSError, ValueError):
                pass  # a hard limit above what the kernel can give; then the soft one it is
            else:
                allowed = hard
                self._undo.append(partial(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard)))
        if allowed != resource.RLIM_INFINITY and allowed < wanted:
            self._log.warn(
                "only {files} files may be open, {wanted} are wanted for limits.connections_max and "
                "store.open_files_max: raise the limit (ulimit -n, LimitNOFILE) or lower these",
                files=allowed,
                wanted=wanted,
            )


def fatal(reason: str) -> NoReturn:
    """End the process now, from any thread: nothing may be acknowledged after a failed sync."""
    # A log that nobody reads can block for ever. The process ends all the same.
    watchdog = threading.Timer(_FATAL_SECONDS_MAX, os._exit, (EXIT_IO,))
    watchdog.daemon = True
    watchdog.start()
    try:
        Logger(namespace="streamd").critical("{reason}", reason=reason)  # its observer flushes each line
    finally:
        os._exit(EXIT_IO)


def exit_with(code: int) -> None:
    """Have the process, which is about to end by itself, end with this status.

    twistd returns from a stopped reactor with status 0 and offers no way to change that.
    """
    atexit.register(os._exit, code)


def tell(reason: str) -> None:
    """Print one line for the operator on the real standard error: `sys.stderr` is the log by now."""
    if sys.__stderr__ is not None:
        try:
            print(f"streamd: {reason}", file=sys.__stderr__, flush=True)
        except OSError:
            pass  # nobody is there to be told; the log has it
