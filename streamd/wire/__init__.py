"""The codecs: bytes in, requests out, replies as bytes. No Twisted, no socket, no clock, no store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class WireError(Exception):
    """The peer broke the protocol. It is told where the protocol has a word for it, and then cut off."""

    reason = "broken"
    """What it is counted as."""


class TooLarge(WireError):
    """The peer sent, or was about to, more than a message may hold."""

    reason = "message_bytes"


class Request(Protocol):
    """Something that a peer asks for. One request may stand for a run of like commands."""

    @property
    def size(self) -> int:
        """About how many bytes it keeps in memory until it is answered."""

    @property
    def reads(self) -> bool:
        """Whether it must see this connection's earlier writes, and so waits until they are on disk."""


class Codec(Protocol):
    """Turns what a peer sends, cut anywhere, into requests."""

    error: WireError | None
    """Set when the peer broke the protocol, after the requests before that were returned. Nothing more is parsed."""

    @property
    def buffered(self) -> int:
        """Bytes of a request that has begun and not ended."""

    def receive(self, data: bytes) -> Iterable[Request]:
        """The requests that `data` completes; something false where there are none. Too little data is never an error.

        They may be parsed while they are iterated over: thousands of small ones need not be done in one go.
        """
