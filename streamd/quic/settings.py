"""What can be set of a QUIC endpoint. Every buffer and every number of things has a limit here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QuicSettings:
    """The limits of an endpoint, and of each connection and stream on it. Sizes are in bytes, times in seconds."""

    alpn: tuple[str, ...] = ()
    """The application protocols offered, best first. A peer that speaks none of them is refused; empty: none is asked
    for."""

    idle_seconds: float = 60.0
    """A connection on which nothing comes for so long is dropped."""

    handshake_seconds_max: float = 10.0
    """A peer that has not ended its handshake by then is dropped."""

    connections_max: int = 10_000
    """Connections at a time; more are not answered."""

    handshakes_max: int = 1_000
    """Of these, those whose handshake has not ended; more are not answered."""

    retry_handshakes: int | None = 100
    """From so many unfinished handshakes on a peer has to show first that it is at the address it claims, which costs
    it a round trip and us no memory. 0: always, None: never."""

    streams_max: int = 128
    """Streams that the peer of one connection may have open at a time, and streams of ours that may wait for it."""

    stream_receive_bytes_max: int = 1 << 20
    """What a peer may send on one stream before we have taken it."""

    connection_receive_bytes_max: int = 4 << 20
    """The same for all streams of a connection together."""

    stream_send_bytes_max: int = 256 << 10
    """What one stream keeps of data that the peer has not acknowledged before its producer is paused."""

    connection_send_bytes_max: int = 4 << 20
    """The same for all streams of a connection together."""

    datagram_bytes_max: int = 1_200
    """The largest datagram we send: 1,200 goes everywhere, more only where the way to the peer is known."""

    congestion_control: str = "reno"
    """How the rate of sending is found: reno or cubic."""

    socket_buffer_bytes: int = 4 << 20
    """What the operating system is asked to keep of datagrams that wait for us, and of those that wait to be sent."""

    def __post_init__(self) -> None:
        """Refuse what can't work; ValueError names the field."""
        for name in (
            "idle_seconds",
            "handshake_seconds_max",
            "connections_max",
            "handshakes_max",
            "streams_max",
            "stream_receive_bytes_max",
            "connection_receive_bytes_max",
            "stream_send_bytes_max",
            "connection_send_bytes_max",
            "socket_buffer_bytes",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if self.retry_handshakes is not None and self.retry_handshakes < 0:
            raise ValueError("retry_handshakes must be 0 or above")
        # The library writes the lengths of packets and frames in two bytes, of which QUIC uses 14 bits.
        if not 1_200 <= self.datagram_bytes_max <= 16_000:
            raise ValueError("datagram_bytes_max must be from 1200 to 16000")
        if self.congestion_control not in ("reno", "cubic"):
            raise ValueError("congestion_control must be reno or cubic")
