"""The time in which the disk has no room for appends: what was refused in it, and when the next one may try."""

from __future__ import annotations

from typing import Final

from twisted.logger import Logger

from streamd.store.errors import StoreReadOnly

# How long appends are refused after the disk was found full, before the next one may try again.
_FULL_SECONDS: Final = 1.0


class Full:
    """A full disk, from the first append that found no room until one does."""

    _log = Logger()

    def __init__(self, now: float, error: Exception) -> None:
        self._since = self._tried = now
        self._requests = 0
        self._bytes = 0
        self._log.error("the disk is full, writes are refused until there is room: {error}", error=str(error))

    def check(self, now: float, size: int) -> None:
        """Raise StoreReadOnly where so many bytes are not even tried, since the disk was found full just now."""
        if now - self._tried < _FULL_SECONDS:
            self.refused(1, size)
            raise StoreReadOnly("the disk is full")

    def tried(self, now: float) -> None:
        """There was no room again."""
        self._tried = now

    def refused(self, requests: int, size: int) -> None:
        """Count what was refused."""
        self._requests += requests
        self._bytes += size

    def ended(self, now: float) -> None:
        """Log that there is room again."""
        self._log.info(
            "the disk has room again: {requests} writes with {bytes} bytes were refused in {seconds} s",
            requests=self._requests,
            bytes=self._bytes,
            seconds=round(now - self._since, 1),
        )
