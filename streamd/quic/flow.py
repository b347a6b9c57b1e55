"""aioquic's connection, with bounded memory.

By itself aioquic doubles a window as soon as half of it is used, whether or not the application has read anything, so
that a peer may send without end to an application that does not read. Here a window moves only as the application
reads: a peer may never send more than the window's size beyond that. So what is kept of a stream that nobody reads, in
order or not, is at most its window, and of a connection at most the connection's.

What is sent is kept by aioquic until it is acknowledged. `unacknowledged_bytes` tells how much that is; `stream` pauses
its producer by it.

The methods overridden here are private to aioquic, which `library` checks at the import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamd.quic.library import (
    CONNECTION_LIMIT_FRAME_CAPACITY,
    END_STATES,
    MAX_STREAM_DATA_FRAME_CAPACITY,
    ConnectionTerminated,
    QuicConfiguration,
    QuicConnection,
    QuicFrameType,
    QuicPacketBuilder,
    QuicStream,
)

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from streamd.quic.settings import QuicSettings


def configuration(settings: QuicSettings, **own: Any) -> QuicConfiguration:
    """The library's configuration for these settings, with the server's or the client's own values."""
    return QuicConfiguration(
        alpn_protocols=list(settings.alpn) or None,
        congestion_control_algorithm=settings.congestion_control,
        idle_timeout=settings.idle_seconds,
        max_data=settings.connection_receive_bytes_max,
        max_stream_data=settings.stream_receive_bytes_max,
        max_datagram_size=settings.datagram_bytes_max,
        **own,
    )


class BoundedConnection(QuicConnection):
    """A connection of aioquic whose windows follow what the application reads."""

    def __init__(self, settings: QuicSettings, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._stream_window_bytes = settings.stream_receive_bytes_max
        self._stream_low_bytes = self._stream_window_bytes // 2
        self._window_bytes = settings.connection_receive_bytes_max
        self._low_bytes = self._window_bytes // 2
        self._taken_bytes = 0
        # Nothing has been sent yet, so these are the limits of the handshake. Each stream that ends raises the limit
        # by one. Unidirectional streams are not offered: nobody here could take what came on one.
        for limit, value in ((self._local_max_streams_bidi, settings.streams_max), (self._local_max_streams_uni, 0)):
            limit.value = limit.sent = value

    # -- what is received ----------------------------------------------------------------------------------------------

    def take(self, stream: QuicStream, taken_bytes: int, size: int) -> None:
        """Note that the application has read `taken_bytes` of a stream in all: the peer may send as much more."""
        receiver = stream.receiver
        left_bytes = stream.max_stream_data_local - receiver.highest_offset
        if left_bytes <= self._stream_low_bytes and not receiver.is_finished:
            stream.max_stream_data_local = taken_bytes + self._stream_window_bytes
        self._move_window(size)

    def drop(self, stream: QuicStream, taken_bytes: int) -> int:
        """Drop what has arrived on a stream, so that it no longer counts against the connection's window.

        Data behind a gap stays in memory and counts on, until the gap is filled or the peer resets the stream. Returns
        what counts as read of the stream from now on.
        """
        receiver = stream.receiver
        if receiver.is_finished:
            receiver._buffer.clear()
            dropped_bytes: int = receiver.highest_offset
        else:
            dropped_bytes = receiver.starting_offset()
        self._move_window(dropped_bytes - taken_bytes)
        return dropped_bytes

    def _move_window(self, size: int) -> None:
        # Moved when the peer has less than half of it left: each smaller step would be a frame of its own. What it has
        # left counts, and not what was taken: most of what it has used may lie in streams that nobody reads.
        self._taken_bytes += size
        limit = self._local_max_data
        if limit.value - limit.used <= self._low_bytes:
            limit.value = self._taken_bytes + self._window_bytes

    def _write_stream_limits(self, builder: QuicPacketBuilder, space: Any, stream: QuicStream) -> None:
        if stream.max_stream_data_local_sent != stream.max_stream_data_local and not stream.receiver.is_finished:
            buffer = builder.start_frame(
                QuicFrameType.MAX_STREAM_DATA,
                capacity=MAX_STREAM_DATA_FRAME_CAPACITY,
                handler=self._on_max_stream_data_delivery,
                handler_args=(stream,),
            )
            buffer.push_uint_var(stream.stream_id or 0)
            buffer.push_uint_var(stream.max_stream_data_local)
            stream.max_stream_data_local_sent = stream.max_stream_data_local

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: Any) -> None:
        streams = self._local_max_streams_bidi
        # One frame for many streams that ended: it is sent when the peer could open fewer than the frame would add.
        # A lost frame has set `sent` to 0.
        due = streams.value - streams.sent > streams.sent - streams.used
        for limit in (self._local_max_data, streams) if due else (self._local_max_data,):
            if limit.sent != limit.value:
                buffer = builder.start_frame(
                    limit.frame_type,
                    capacity=CONNECTION_LIMIT_FRAME_CAPACITY,
                    handler=self._on_connection_limit_delivery,
                    handler_args=(limit,),
                )
                buffer.push_uint_var(limit.value)
                limit.sent = limit.value

    # -- what aioquic knows and does not say ---------------------------------------------------------------------------

    def stream(self, number: int) -> QuicStream | None:
        """The stream with this id, unless it has ended and is forgotten."""
        return self._streams.get(number)

    def open_stream(self) -> QuicStream:
        """A new bidirectional stream to the peer. It waits where the peer allows no more at the moment."""
        return self._get_or_create_stream_for_send(self.get_next_available_stream_id())

    @property
    def waiting_streams(self) -> int:
        """How many of our streams the peer has not allowed yet."""
        return len(self._streams_blocked_bidi)

    @property
    def ended(self) -> ConnectionTerminated | None:
        """How the connection ended. aioquic reports that only after it has waited for late datagrams."""
        return self._close_event if self._state in END_STATES else None

    @property
    def peer_address(self) -> tuple[str, int]:
        """The present address of the peer."""
        host, port = self._network_paths[0].addr[:2]
        return host, port

    @property
    def peer_certificate(self) -> Certificate | None:
        """The certificate that the peer showed in the handshake."""
        certificate: Certificate | None = self.tls._peer_certificate
        return certificate


def unacknowledged_bytes(stream: QuicStream) -> int:
    """How many bytes of a stream are not sent yet, or sent and not acknowledged."""
    return len(stream.sender._buffer)


def let_go(stream: QuicStream) -> None:
    """Forget the data of a stream that was reset: it is not sent again, and would stay in memory."""
    if stream.sender._reset_error_code is not None:
        stream.sender._buffer.clear()


def can_write(stream: QuicStream) -> bool:
    """Whether data can be written to a stream: it has no end yet, and neither side has reset it."""
    return stream.sender._buffer_fin is None and stream.sender._reset_error_code is None


def has_ended_writing(stream: QuicStream) -> bool:
    """Whether the peer has all data of a stream and its end, or the stream was reset."""
    sender = stream.sender
    return sender.is_finished or sender._reset_error_code is not None
