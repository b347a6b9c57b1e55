"""What the daemon tells the service manager that started it, in the way of sd_notify(3).

systemd names a datagram socket in ``NOTIFY_SOCKET``, and takes lines of ``KEY=VALUE`` there:

    READY=1         every listener is up; systemctl start returns
    RELOADING=1     the settings are read again, with MONOTONIC_USEC, the time; READY=1 ends it
    STOPPING=1      the daemon drains
    WATCHDOG=1      the reactor turns; where none comes for WATCHDOG_USEC the daemon is taken for stuck
    STATUS=text     what systemctl status shows

All of it is sent by the reactor's own timer, and never by a thread: a watchdog that is fed by somebody else than the
one who can get stuck watches nobody.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Final

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from streamd.loop import Loop
from streamd.metrics import LoopCounts

# How old the status may be. A watchdog that wants to hear of us more often gets both more often.
_STATUS_SECONDS: Final = 5.0

# Each of these says in which phase the daemon is, so the last one counts.
_PHASES: Final = ("READY", "RELOADING", "STOPPING")


class Notifier:
    """Tells a service manager the state of the daemon. Without an address nothing is sent."""

    _log = Logger()

    def __init__(
        self,
        address: str | None,
        watchdog_seconds: float | None,
        clock: IReactorTime,
        loops: LoopCounts | None = None,
    ) -> None:
        self._address = address
        self._watchdog_seconds = watchdog_seconds
        self._socket: socket.socket | None = None
        self._owed: dict[str, str] = {}
        self._unheard = False
        self._status_sent = ""
        self._describe: Callable[[], str] | None = None
        self._loop = Loop("watchdog", self._tick, clock, loops)

    @classmethod
    def from_environment(
        cls, environment: MutableMapping[str, str], clock: IReactorTime, loops: LoopCounts | None = None
    ) -> Notifier:
        """The notifier that systemd asks for.

        Its variables are removed from the environment, so that no child uses them.
        """
        address = environment.pop("NOTIFY_SOCKET", None)
        usec, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        watched = usec.isdecimal() and int(usec) > 0 and pid in ("", str(os.getpid()))
        return cls(address, int(usec) / 1e6 if watched else None, clock, loops)

    @property
    def interval_seconds(self) -> float:
        """The time between two signs of life: half of what the watchdog allows, so that one may be late."""
        return min(_STATUS_SECONDS, (self._watchdog_seconds or _STATUS_SECONDS * 2) / 2)

    def status(self, text: str) -> None:
        """Set the status line: what the daemon does before it is ready, or why it never will be."""
        self._tell(STATUS=" ".join(text.split()))

    def ready(self, describe: Callable[[], str]) -> None:
        """Announce that the daemon serves, and begin to feed the watchdog; `describe` returns the status line."""
        self._describe = describe
        self._tell(READY="1")
        if self._address is not None and not self._loop.running:
            self._loop.start(self.interval_seconds)

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Announce a reload for the duration of the context.

        The daemon serves afterwards, also where it was refused.
        """
        self._tell(RELOADING="1", MONOTONIC_USEC=str(time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000))
        try:
            yield
        finally:
            self._tell(READY="1")

    def stopping(self) -> None:
        """Announce that the daemon drains. The watchdog is fed until `close`."""
        self._describe = None
        self._tell(STOPPING="1", STATUS="stopping")

    def close(self) -> None:
        """Send nothing more."""
        self._loop.stop()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._address = None

    def _tick(self) -> None:
        words = {} if self._watchdog_seconds is None else {"WATCHDOG": "1"}
        try:
            if self._describe is not None and (status := self._describe()) != self._status_sent:
                words["STATUS"] = self._status_sent = status
        finally:
            # The reactor turns, also where the status can't be told: no reason to be killed.
            self._tell(**words)

    def _tell(self, **words: str) -> None:
        """Send lines, and those that could not be sent before.

        What can't be sent now is tried again at the next tick.
        """
        if self._address is None:
            return
        if any(phase in words for phase in _PHASES):
            for phase in (*_PHASES, "MONOTONIC_USEC"):
                self._owed.pop(phase, None)
        self._owed.update(words)
        if not self._owed:
            return
        try:
            self._send("\n".join(f"{key}={value}" for key, value in self._owed.items()).encode())
        except BlockingIOError:
            pass  # its queue is full, and the reactor waits for nobody
        except OSError as error:
            if not self._unheard:
                self._log.warn(
                    "can't tell the service manager at {address}: {reason}",
                    address=self._address,
                    reason=error.strerror or str(error),
                )
            self._unheard = True
        else:
            self._owed.clear()
            self._unheard = False

    def _send(self, data: bytes) -> None:
        assert self._address is not None
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        # A name that begins with @ is one of the abstract namespace, which has a NUL in that place.
        name = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        self._socket.sendto(data, name)
