"""The settings of a QUIC endpoint: a limit for every buffer and every count."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class QuicSettings:
    """The limits of an endpoint, and of each connection and stream on it. Sizes are in bytes, times in seconds."""

    alpn: tuple[str, ...] = ()
    """The application protocols offered, best first. A peer that speaks none of them is refused; empty: none is asked
    for."""

    idle_seconds: float = 60.0
    """A connection on which nothing arrives for so long is dropped."""

    handshake_seconds_max: float = 10.0
    """A peer that has not ended its handshake by then is dropped."""

    connections_max: int = 10_000
    """Connections at a time; more are not answered."""

    handshakes_max: int = 1_000
    """Connections whose handshake has not ended; more are not answered."""

    retry_handshakes: int | None = 100
    """From so many unfinished handshakes on a peer has to show first that it is at the address it claims, which costs
    it a round trip and us no memory. 0: always, None: never."""

    streams_max: int = 128
    """Streams that the peer of one connection may have open at a time, and streams of ours that may wait for it."""

    stream_receive_bytes_max: int = 1 << 20
    """What a peer may send on one stream before the application has read it."""

    connection_receive_bytes_max: int = 4 << 20
    """What a peer may send on all streams of a connection before the application has read it."""

    stream_send_bytes_max: int = 256 << 10
    """How much unacknowledged data a stream keeps before its producer is paused."""

    connection_send_bytes_max: int = 4 << 20
    """How much unacknowledged data all streams of a connection keep before producers are paused."""

    datagram_bytes_max: int = 1_200
    """The largest datagram we send: 1,200 goes everywhere, more only where the way to the peer is known."""

    congestion_control: str = "reno"
    """The congestion control algorithm: reno or cubic."""

    socket_buffer_bytes: int = 4 << 20
    """The size of the socket's receive and send buffers, as asked of the operating system."""

    def __post_init__(self) -> None:
        """Refuse what can't work; ValueError names the field."""
        for name in [field.name for field in fields(self) if field.name.endswith(("_seconds", "_max", "_bytes"))]:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if self.retry_handshakes is not None and self.retry_handshakes < 0:
            raise ValueError("retry_handshakes must be 0 or above")
        # The library writes the lengths of packets and frames in two bytes, of which QUIC uses 14 bits.
        if not 1_200 <= self.datagram_bytes_max <= 16_000:
            raise ValueError("datagram_bytes_max must be from 1200 to 16000")
        if self.congestion_control not in ("reno", "cubic"):
            raise ValueError("congestion_control must be reno or cubic")
