"""The codecs: bytes in, requests out, replies as bytes. No Twisted, no socket, no clock, no store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class WireError(Exception):
    """The peer broke the protocol. It gets an error where the protocol has one, and is then cut off."""

    reason = "broken"
    """The reason under which it is counted."""


class TooLarge(WireError):
    """The peer sent, or announced, more than a message may hold."""

    reason = "message_bytes"


class Request(Protocol):
    """Something that a peer asks for. One request may stand for a run of like commands."""

    @property
    def size(self) -> int:
        """About how many bytes the request keeps in memory until it is answered."""

    @property
    def reads(self) -> bool:
        """Whether the request must see this connection's earlier writes, and so waits until they are on disk."""


class Codec(Protocol):
    """Parses what a peer sends, cut anywhere, into requests."""

    error: WireError | None
    """Set when the peer broke the protocol, after the requests before that were returned. Nothing more is parsed."""

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete request."""

    def receive(self, data: bytes) -> Iterable[Request]:
        """The requests that `data` completes; something false where there are none. Too little data is never an error.

        The result may be lazy: thousands of small requests need not be parsed in one go.
        """
