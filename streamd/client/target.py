"""Where a client connects to, and how long it waits there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypedDict

from streamd.client.address import Address

CONNECT_SECONDS_MAX: Final = 10.0
REPLY_SECONDS_MAX: Final = 30.0
REPLY_BYTES_MAX: Final = 256 << 20
PIPELINED_BYTES_MAX: Final = 1 << 20


class Options(TypedDict, total=False):
    """What every client takes beside the address, by name."""

    ssl_context: Any
    """TLS: an `ssl.SSLContext`; for a client on Twisted's reactor what `optionsForClientTLS` returns."""
    connect_seconds_max: float
    """How long connecting may take, 10 s where nothing is said."""
    reply_seconds_max: float
    """How long the daemon may be silent while something is awaited of it, 30 s where nothing is said."""
    reply_bytes_max: int
    """The largest reply that is taken, 256 MiB where nothing is said."""
    pipelined_bytes_max: int
    """How much is sent before it is answered, 1 MiB where nothing is said."""


@dataclass(frozen=True)
class Target:
    """An address with its options."""

    address: Address
    ssl_context: Any = None
    connect_seconds_max: float = CONNECT_SECONDS_MAX
    reply_seconds_max: float = REPLY_SECONDS_MAX
    reply_bytes_max: int = REPLY_BYTES_MAX
    pipelined_bytes_max: int = PIPELINED_BYTES_MAX
