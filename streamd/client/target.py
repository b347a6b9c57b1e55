"""Targets: where a client connects to, and the limits it keeps there."""

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
    """What to speak TLS with: an `ssl.SSLContext`, or on Twisted's reactor what `optionsForClientTLS` returns."""
    connect_seconds_max: float
    """How long connecting may take, by default 10 s."""
    reply_seconds_max: float
    """How long the daemon may be silent while the client waits for it, by default 30 s."""
    reply_bytes_max: int
    """The largest reply that the client takes, by default 256 MiB."""
    pipelined_bytes_max: int
    """How much the client sends before it is answered, by default 1 MiB."""


@dataclass(frozen=True)
class Target:
    """An address, with the options of the client that connects to it."""

    address: Address
    ssl_context: Any = None
    connect_seconds_max: float = CONNECT_SECONDS_MAX
    reply_seconds_max: float = REPLY_SECONDS_MAX
    reply_bytes_max: int = REPLY_BYTES_MAX
    pipelined_bytes_max: int = PIPELINED_BYTES_MAX
