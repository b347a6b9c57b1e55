"""gRPC over HTTP/2, on the framing of the package `h2`: unary calls in, replies out.

A call is a POST to ``/SERVICE/METHOD`` whose body is one message: a byte that says whether it is compressed, a length
(uint32, big endian) and so many bytes. The reply's status is in its trailers. What HTTP/2 itself has to say (settings,
pings, windows) is a request of its own, `Control`, whose reply is what `h2` wants to be sent. Calls are answered one at
a time: headers are compressed with what the headers before them left behind, so they have to be sent in the order in
which they were made.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes

from streamd.wire import WireError
from streamd.wire.controller import protobuf

_PREFIX_BYTES: Final = 5
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER_BYTES: Final = 9
_FRAME_BYTES_MAX: Final = 16_384
"""The largest frame that a peer may send: HTTP/2's own default."""
_STREAMS_MAX: Final = 100
"""Calls that one connection may have in progress."""
_HEADERS_BYTES_MAX: Final = 16 << 10


class Code(IntEnum):
    """The status codes of gRPC that are used here."""

    OK = 0
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Call(NamedTuple):
    """A call of one of the service's methods."""

    stream: int
    method: str
    message: protobuf.Message
    reads: bool = True
    size: int = 1024


class BadCall(NamedTuple):
    """A call that can't be made, and why."""

    stream: int
    code: Code
    text: str
    reads: bool = True
    size: int = 64


class Control(NamedTuple):
    """Something that HTTP/2 has to say by itself."""

    reads: bool = False
    size: int = 64


Request = Call | BadCall | Control


class _Stream:
    """A call that is being received."""

    __slots__ = ("body", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.body = bytearray()


class GrpcCodec:
    """One connection's input and output."""

    def __init__(self, service: str, calls: dict[str, type[protobuf.Message]], message_bytes_max: int) -> None:
        self._prefix = f"/{service}/"
        self._calls = calls
        self._message_bytes_max = message_bytes_max
        self._connection: Any = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._streams: dict[int, _Stream] = {}
        self._unsent: dict[int, tuple[bytes, list[tuple[str, str]]]] = {}
        """Replies, with their trailers, for which the peer's window has no room yet."""
        self._rest = bytearray()
        self._is_new = True
        self.error: WireError | None = None
        self._connection.local_settings.update(
            {
                SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS_MAX,
                SettingCodes.MAX_HEADER_LIST_SIZE: _HEADERS_BYTES_MAX,
            }
        )
        self._connection.initiate_connection()

    @property
    def buffered(self) -> int:
        """Bytes of calls that have begun and not ended, and of replies that the peer does not take."""
        coming = sum([1 + len(stream.body) for stream in self._streams.values()])
        return len(self._rest) + coming + sum([1 + len(body) for body, _ in self._unsent.values()])

    def receive(self, data: bytes) -> list[Request]:
        """The calls that `data` completes."""
        found: list[Request] = []
        try:
            for event in self._connection.receive_data(self._whole_frames(data)):
                self._event(event, found)
        except WireError as error:
            self.error = error
        except H2Error as error:
            self.error = WireError(f"HTTP/2 is broken: {error}")
        if self.error is not None:
            self._streams.clear()
            self._rest.clear()
        found.append(Control())
        return found

    def _whole_frames(self, data: bytes) -> bytes:
        """What has come of whole frames. `h2` would keep one of 16 MiB, and look at its size when it is complete."""
        self._rest += data
        at = 0
        if self._is_new:
            if not _PREFACE.startswith(self._rest[: len(_PREFACE)]):
                raise WireError("no HTTP/2")
            if len(self._rest) < len(_PREFACE):
                return b""
            self._is_new = False
            at = len(_PREFACE)
        while len(self._rest) - at >= _FRAME_HEADER_BYTES:
            size = int.from_bytes(self._rest[at : at + 3])
            if size > _FRAME_BYTES_MAX:
                raise WireError(f"a frame of {size} bytes is over the limit of {_FRAME_BYTES_MAX}")
            if len(self._rest) - at < _FRAME_HEADER_BYTES + size:
                break
            at += _FRAME_HEADER_BYTES + size
        whole = bytes(self._rest[:at])
        del self._rest[:at]
        return whole

    def control(self) -> bytes:
        """What HTTP/2 has to say now."""
        out: bytes = self._connection.data_to_send()
        return out

    def reply(self, stream: int, message: protobuf.Message) -> bytes:
        """The answer to a call."""
        body = protobuf.encode(message)
        return self._respond(stream, b"\0" + len(body).to_bytes(4) + body, _trailers(Code.OK, ""))

    def refuse(self, stream: int, code: Code, text: str) -> bytes:
        """The answer to a call that failed."""
        return self._respond(stream, b"", _trailers(code, text))

    def _respond(self, stream: int, body: bytes, trailers: list[tuple[str, str]]) -> bytes:
        if self._is_open(stream):
            self._connection.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
            self._unsent[stream] = (body, trailers)
            self._send_more()
        return self.control()

    def _is_open(self, stream: int) -> bool:
        try:
            self._connection.local_flow_control_window(stream)
        except H2Error:
            return False
        return True

    def _send_more(self) -> None:
        """Send as much of the replies as the peer's windows have room for."""
        for stream, (body, trailers) in list(self._unsent.items()):
            if not self._is_open(stream):
                del self._unsent[stream]
                continue
            while body:
                size = min(
                    len(body),
                    self._connection.local_flow_control_window(stream),
                    self._connection.max_outbound_frame_size,
                )
                if size <= 0:
                    break
                self._connection.send_data(stream, body[:size])
                body = body[size:]
            if body:
                self._unsent[stream] = (body, trailers)
            else:
                del self._unsent[stream]
                self._connection.send_headers(stream, trailers, end_stream=True)

    def _event(self, event: Event, found: list[Request]) -> None:
        if isinstance(event, RequestReceived):
            headers: dict[Any, Any] = dict(event.headers or [])
            self._streams[event.stream_id] = _Stream(str(headers.get(":path", "")))
        elif isinstance(event, DataReceived):
            self._data(event)
        elif isinstance(event, StreamEnded):
            stream = self._streams.pop(event.stream_id, None)
            if stream is not None:
                found.append(self._call(event.stream_id, stream))
        elif isinstance(event, StreamReset):
            self._streams.pop(event.stream_id or 0, None)
            self._unsent.pop(event.stream_id or 0, None)
        elif isinstance(event, WindowUpdated):
            self._send_more()
        elif isinstance(event, ConnectionTerminated):
            self._streams.clear()

    def _data(self, event: DataReceived) -> None:
        self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        stream.body += event.data or b""
        if len(stream.body) > _PREFIX_BYTES + self._message_bytes_max:
            # Nothing of it is kept; what still comes is dropped.
            del self._streams[event.stream_id]
            self._connection.reset_stream(event.stream_id, ErrorCodes.ENHANCE_YOUR_CALM)

    def _call(self, id: int, stream: _Stream) -> Call | BadCall:
        method = stream.path.removeprefix(self._prefix)
        kind = self._calls.get(method)
        if kind is None or method == stream.path:
            return BadCall(id, Code.UNIMPLEMENTED, f"there is no {stream.path[:200]}")
        body = bytes(stream.body)
        if len(body) < _PREFIX_BYTES or int.from_bytes(body[1:_PREFIX_BYTES]) != len(body) - _PREFIX_BYTES:
            return BadCall(id, Code.INVALID_ARGUMENT, "the call does not hold one message")
        if body[0]:
            return BadCall(id, Code.UNIMPLEMENTED, "compressed messages are not read")
        try:
            return Call(id, method, protobuf.decode(kind, body[_PREFIX_BYTES:]))
        except WireError as error:
            return BadCall(id, Code.INVALID_ARGUMENT, str(error))


def _trailers(code: Code, text: str) -> list[tuple[str, str]]:
    status = [("grpc-status", str(int(code)))]
    return [*status, ("grpc-message", quote(text[:1000]))] if text else status
