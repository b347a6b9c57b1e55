"""The only module that imports the QUIC library, and checks that its internals are those we build on.

All of aioquic that this package uses is imported here. Most of it is public. What is not is used by `flow` alone and
named below, so that a release that changes it is refused at the import, and not noticed by its use of memory.
"""

from __future__ import annotations

import logging
from inspect import signature
from typing import Any, Final

from aioquic import __version__ as VERSION
from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE, QuicConfiguration
from aioquic.quic.connection import (
    CONNECTION_LIMIT_FRAME_CAPACITY,
    END_STATES,
    MAX_STREAM_DATA_FRAME_CAPACITY,
    QuicConnection,
    QuicConnectionState,
)
from aioquic.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    HandshakeCompleted,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import (
    QuicErrorCode,
    QuicFrameType,
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
    pull_quic_header,
)
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.retry import QuicRetryTokenHandler
from aioquic.quic.stream import QuicStream

__all__ = [
    "VERSION",
    "Buffer",
    "SMALLEST_MAX_DATAGRAM_SIZE",
    "QuicConfiguration",
    "CONNECTION_LIMIT_FRAME_CAPACITY",
    "END_STATES",
    "MAX_STREAM_DATA_FRAME_CAPACITY",
    "QuicConnection",
    "QuicConnectionState",
    "ConnectionIdIssued",
    "ConnectionIdRetired",
    "ConnectionTerminated",
    "HandshakeCompleted",
    "StopSendingReceived",
    "StreamDataReceived",
    "StreamReset",
    "QuicErrorCode",
    "QuicFrameType",
    "QuicPacketType",
    "encode_quic_retry",
    "encode_quic_version_negotiation",
    "pull_quic_header",
    "QuicPacketBuilder",
    "QuicRetryTokenHandler",
    "QuicStream",
    "missing_seams",
]

# It warns of what peers do wrong. Nobody should fill the standard error of a process by that; who wants to read it adds
# a handler of their own.
logging.getLogger("quic").addHandler(logging.NullHandler())

# The two methods that decide how much more a peer may send, and who calls them. Where a later release does that
# elsewhere, overriding them would bound nothing, and nobody would see it.
_SEAMS: Final = {
    "_write_connection_limits": ("self", "builder", "space"),
    "_write_stream_limits": ("self", "builder", "space", "stream"),
}


def missing_seams(library: Any = QuicConnection) -> list[str]:
    """The methods that `flow` overrides and this release of the library does not have or does not call."""
    called = library._write_application.__code__.co_names
    missing = []
    for name, parameters in _SEAMS.items():
        method = getattr(library, name, None)
        if method is None or name not in called or tuple(signature(method).parameters) != parameters:
            missing.append(name)
    return missing


if missing_seams():
    raise ImportError(f"aioquic {VERSION} has no {', '.join(missing_seams())}: what a peer sends could not be bounded")
