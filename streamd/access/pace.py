"""Token buckets: a peer that exceeds its rate waits. Nothing is lost, and nothing is refused."""

from __future__ import annotations

from typing import Final

# What may be taken in one go after a pause: what comes in so many seconds.
_BURST_SECONDS: Final = 1.0


class Bucket:
    """A token bucket. Tokens can always be taken, which may leave a debt; the next request waits until it is paid.

    So a request that is larger than the whole bucket is served too, and paid for afterwards.
    """

    __slots__ = ("_full", "_left", "_rate", "_then")

    def __init__(self, per_second: float, now: float) -> None:
        self._rate = per_second
        self._full = self._left = per_second * _BURST_SECONDS
        self._then = now

    def take(self, tokens: float, now: float) -> float:
        """Take tokens; returns how many seconds the next request has to wait."""
        left = min(self._full, self._left + (now - self._then) * self._rate) - tokens
        self._left, self._then = left, now
        return -left / self._rate if left < 0 else 0.0


class Pace:
    """The token buckets of a rule or of a connection: one for messages, one for bytes. A rate of 0 is no limit."""

    __slots__ = ("_bytes", "_messages", "_reasons")

    def __init__(self, messages_per_second: float, bytes_per_second: float, now: float, *, of: str = "") -> None:
        self._reasons = (f"{of}messages_per_second", f"{of}bytes_per_second")
        self._messages = Bucket(messages_per_second, now) if messages_per_second else None
        self._bytes = Bucket(bytes_per_second, now) if bytes_per_second else None

    def take(self, messages: int, size: int, now: float) -> tuple[float, str]:
        """Charge messages and bytes; returns how many seconds the next request has to wait, and for which rate."""
        for_messages = 0.0 if self._messages is None else self._messages.take(messages, now)
        for_bytes = 0.0 if self._bytes is None else self._bytes.take(size, now)
        return (for_bytes, self._reasons[1]) if for_bytes > for_messages else (for_messages, self._reasons[0])
