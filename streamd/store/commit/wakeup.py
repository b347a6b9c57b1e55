"""From the writer thread back to the reactor's, in one step.

``callFromThread`` costs the reactor two turns and three system calls. An eventfd that the reactor watches like a socket
costs one of each, which shows in the latency of every acknowledgement.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReadDescriptor
from zope.interface import implementer


@implementer(IReadDescriptor)
class Wakeup:
    """Calls made from another thread, run in order on the reactor's."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        reactor.addReader(self)

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Have the reactor's thread call this. For any thread."""
        self._calls.append((function, args))
        os.eventfd_write(self._descriptor, 1)

    def close(self) -> None:
        """Watch no more. For the reactor's thread, when nothing is to come."""
        if self._descriptor >= 0:
            self._reactor.removeReader(self)
            os.close(self._descriptor)
            self._descriptor = -1

    def fileno(self) -> int:
        """The descriptor to watch."""
        return self._descriptor

    def doRead(self) -> None:
        """Something was called."""
        os.eventfd_read(self._descriptor)
        # What these call in turn is for the next turn of the reactor.
        for _ in range(len(self._calls)):
            function, args = self._calls.popleft()
            function(*args)

    def connectionLost(self, reason: object) -> None:
        """The reactor has given this up, as it does with all it watches when it ends."""

    def logPrefix(self) -> str:
        """For the reactor's log."""
        return "streamd store"
