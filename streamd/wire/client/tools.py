"""The messages for tools from the client's side: requests to bytes, bytes to replies."""

from __future__ import annotations

from streamd.wire import WireError
from streamd.wire.client.pravega import MessageReplies
from streamd.wire.fields import from_payload, to_bytes
from streamd.wire.pravega.documented import HEADER, MESSAGE_BYTES_MAX, Type
from streamd.wire.tools import REPLIES, Reply, Request

_BEGIN, _MIDDLE, _END = range(3)


def request_bytes(request: Request) -> bytes:
    """A request as it is sent; ValueError where a field has no room for its value."""
    data = to_bytes(request)
    if len(data) > HEADER.size + MESSAGE_BYTES_MAX:
        raise ValueError(f"a message of {len(data)} bytes is over the limit of {MESSAGE_BYTES_MAX}")
    return data


class StorageReplies(MessageReplies[Reply]):
    """Parses what the daemon sends on a connection for these messages alone."""

    def __init__(self, reply_bytes_max: int) -> None:
        super().__init__()
        self._reply_bytes_max = reply_bytes_max
        self._parts: bytearray | None = None

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete message."""
        return len(self._rest) + (0 if self._parts is None else 1 + len(self._parts))

    def _break(self) -> None:
        self._parts = None

    def _message(self, kind: int, payload: bytes, replies: list[Reply]) -> None:
        if kind == Type.PARTIAL:
            payload = self._joined(payload)
            if not payload:
                return
            kind, length = HEADER.unpack_from(payload)
            payload = payload[HEADER.size :]
            if length != len(payload):
                raise WireError("partial messages do not join to a whole one")
        elif self._parts is not None:
            raise WireError("a partial message was begun and not ended")
        if kind not in REPLIES:
            raise WireError(f"a message of type {kind} is no reply")
        replies.append(from_payload(REPLIES[kind], payload))

    def _joined(self, payload: bytes) -> bytes:
        """The whole message when this is the last of its parts, else nothing."""
        part = payload[0] if payload else -1
        if not _BEGIN <= part <= _END or (self._parts is None) is not (part == _BEGIN):
            raise WireError("partial messages out of order")
        if self._parts is None:
            self._parts = bytearray()
        self._parts += payload[1:]
        if len(self._parts) > self._reply_bytes_max:
            raise WireError(f"a reply of more than {self._reply_bytes_max} bytes")
        if part != _END:
            return b""
        whole, self._parts = bytes(self._parts), None
        if len(whole) < HEADER.size:
            raise WireError("partial messages do not join to a whole one")
        return whole
