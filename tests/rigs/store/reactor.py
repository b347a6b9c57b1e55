"""A reactor whose processes a test holds in its hand."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock


class Process:
    """Stands for the compactor's process."""

    def __init__(self) -> None:
        self.written = b""
        self.signals: list[str] = []

    def write(self, data: bytes) -> None:
        self.written += data

    def signalProcess(self, signal: str) -> None:
        self.signals.append(signal)


class Reactor(Clock):
    """A clock that starts processes, and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Process] = []
        self.error: Exception | None = None
        """Why no process can be started now."""

    def spawnProcess(self, protocol: Any, *_: object, **__: object) -> None:
        if self.error is not None:
            raise self.error
        self.started.append(Process())
        protocol.transport = self.started[-1]
        protocol.connectionMade()
