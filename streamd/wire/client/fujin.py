"""The client's half of Fujin: requests to bytes, and what the server sends to replies.

A run of messages becomes one `Messages` with one batch, and a run of equal answers one `Answers`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from streamd.batch import LENGTH_TYPE, Batch, Buffer
from streamd.wire import WireError
from streamd.wire.frames import alike, payloads
from streamd.wire.fujin import Opcode, OpcodeCodec
from streamd.wire.fujin_replies import META, U32, Code, Reply

DISCONNECT: Final = bytes((Opcode.DISCONNECT,))
PONG: Final = bytes((Opcode.PING,))

# An answer without an error: its id.
_ANSWER: Final = Struct(">xIx")
assert _ANSWER.size == 6


def connect_writer(writer: int) -> bytes:
    """CONNECT WRITER: the stream writes."""
    return bytes((Opcode.CONNECT_WRITER,)) + U32.pack(writer)


def connect_reader(name: str, *, consumer: bool) -> bytes:
    """CONNECT READER: the stream reads what it fetches, or, where it is no consumer, all messages."""
    return bytes((Opcode.CONNECT_READER,)) + _string(name.encode()) + bytes((consumer,))


def write(id: int, topic: str, message: Buffer) -> bytes:
    """WRITE: one message."""
    return writes(id, topic, [message])


def writes(first_id: int, topic: str, messages: Sequence[Buffer]) -> bytes:
    """WRITE for messages of one topic, with ids that count from the first one on and wrap around."""
    opcode, name, pack = bytes((Opcode.WRITE,)), _string(topic.encode()), U32.pack
    return b"".join(
        [
            part
            for id, message in enumerate(messages, first_id)
            for part in (opcode, pack(id & 0xFFFFFFFF), name, pack(len(message)), message)
        ]
    )


def begin(id: int) -> bytes:
    """BEGIN: begin a transaction."""
    return bytes((Opcode.BEGIN,)) + U32.pack(id)


def commit(id: int) -> bytes:
    """COMMIT: commit the transaction."""
    return bytes((Opcode.COMMIT,)) + U32.pack(id)


def rollback(id: int) -> bytes:
    """ROLLBACK: roll the transaction back."""
    return bytes((Opcode.ROLLBACK,)) + U32.pack(id)


def fetch(messages: int) -> bytes:
    """FETCH: ask for so many more messages."""
    return bytes((Opcode.FETCH,)) + U32.pack(messages)


def acknowledge(id: int, meta: bytes, *, back: bool = False) -> bytes:
    """ACK of a message, or, `back`, NACK. Its meta is empty where there is none."""
    return bytes((Opcode.NACK if back else Opcode.ACK,)) + U32.pack(id) + meta


def _string(data: bytes) -> bytes:
    return U32.pack(len(data)) + data


class Connected(NamedTuple):
    """The reader is connected, or the error why it is not."""

    auto_commit: bool
    meta_bytes: int
    code: int
    text: str


class Answers(NamedTuple):
    """The same answer to several commands: WRITTEN, ACKNOWLEDGED, GIVEN_BACK, BEGUN, COMMITTED or ROLLED_BACK."""

    reply: Reply
    ids: list[int]
    code: int = Code.NONE
    text: str = ""


class Messages(NamedTuple):
    """Messages, and the metas to acknowledge them by; none where they need no acknowledgement."""

    metas: list[bytes]
    batch: Batch


class Told(NamedTuple):
    """A reply without content: DISCONNECTED, PING or STOP."""

    reply: Reply


Event = Connected | Answers | Messages | Told


class FujinReplies(OpcodeCodec[Event]):
    """Parses what the server sends on one stream. After a message over the limit nothing more is parsed."""

    def __init__(self, message_bytes_max: int) -> None:
        super().__init__()
        self._message_bytes_max = message_bytes_max
        self._meta_bytes = 0

    def _parse_one(self, data: bytes, at: int, events: list[Event]) -> int:
        parse = _PARSERS.get(data[at])
        if parse is None:
            raise WireError(f"reply {data[at]} is not a server's")
        return parse(self, data, at, events)

    def _connected(self, data: bytes, at: int, events: list[Event]) -> int:
        stop, code, text = self._error(data, at + 3)
        if stop <= len(data):
            auto_commit, self._meta_bytes = bool(data[at + 1]), data[at + 2]
            events.append(Connected(auto_commit, self._meta_bytes, code, text))
        return stop

    def _answer(self, data: bytes, at: int, events: list[Event]) -> int:
        stop, code, text = self._error(data, at + 1 + U32.size)
        if stop > len(data):
            return stop
        ids: list[int] = list(U32.unpack_from(data, at + 1))
        if code == Code.NONE:
            # Under load thousands follow that differ in their ids alone.
            frame = _ANSWER.size
            count = min(alike(data, at, frame, 1), alike(data, stop - 1, frame, 1))
            if count > 1:
                stop = at + frame * count
                ids = [id for (id,) in _ANSWER.iter_unpack(memoryview(data)[at:stop])]
        _answered(events, Answers(Reply(data[at]), ids, code, text))
        return stop

    def _transaction(self, data: bytes, at: int, events: list[Event]) -> int:
        stop = at + 1 + U32.size
        if stop <= len(data):
            _answered(events, Answers(Reply(data[at]), [U32.unpack_from(data, at + 1)[0]]))
        return stop

    def _messages(self, data: bytes, at: int, events: list[Event]) -> int:
        """All complete messages from here on."""
        end = len(data)
        head = 1 + self._meta_bytes + U32.size
        metas: list[bytes] = []
        lengths = array(LENGTH_TYPE)
        payload: list[bytes] = []
        while True:
            stop = at + head
            if stop <= end:
                (length,) = U32.unpack_from(data, stop - U32.size)
                if lengths and length > self._message_bytes_max:
                    # Those before it count: it is looked at again alone.
                    break
                stop += self._checked(length)
            if stop > end:
                break
            # Where two in a row have one length, perhaps those behind them have it too.
            count = _alike(data, at, head, stop - at) if lengths and length == lengths[-1] else 1
            if count > 1:
                stop = at + (stop - at) * count
                frames = memoryview(data)[at:stop]
                metas += self._metas(frames, length)
                lengths.extend(array(LENGTH_TYPE, (length,)) * count)
                payload.append(payloads(frames, head, length))
            else:
                if self._meta_bytes:
                    metas.append(data[at + 1 : at + 1 + self._meta_bytes])
                lengths.append(length)
                payload.append(data[at + head : stop])
            at = stop
            if at >= end or data[at] != Reply.MESSAGE:
                break
        if lengths:
            events.append(Messages(metas, Batch(lengths, b"".join(payload))))
            # What is not whole is looked at again by the loop that called this.
            return at
        return stop

    def _metas(self, frames: memoryview, length: int) -> list[bytes]:
        """The metas of messages of one length."""
        if not self._meta_bytes:
            return []
        form = Struct(f"x{self._meta_bytes}s{U32.size + length}x")
        return [meta for (meta,) in form.iter_unpack(frames)]

    def _without_content(self, data: bytes, at: int, events: list[Event]) -> int:
        events.append(Told(Reply(data[at])))
        return at + 1

    def _checked(self, size: int) -> int:
        if size > self._message_bytes_max:
            raise WireError(f"{size} bytes in one piece, {self._message_bytes_max} at most")
        return size

    def _error(self, data: bytes, at: int) -> tuple[int, int, str]:
        """The end of an error code and its text, and both; where they are incomplete, the end they would have."""
        if at >= len(data):
            return at + 1, Code.NONE, ""
        code = data[at]
        begin = at + 1
        if code == Code.NONE:
            return begin, code, ""
        begin += U32.size
        if begin > len(data):
            return begin, code, ""
        stop = begin + self._checked(U32.unpack_from(data, begin - U32.size)[0])
        return stop, code, data[begin:stop].decode("utf-8", "replace")


def _alike(data: bytes, at: int, head: int, frame: int) -> int:
    """How many messages from here on have the same size: at least 1."""
    return min(alike(data, at, frame, 1), alike(data, at + head - U32.size, frame, U32.size))


def _answered(events: list[Event], answer: Answers) -> None:
    """Add an answer: where it equals the last one, they become one."""
    last = events[-1] if events else None
    if isinstance(last, Answers) and last._replace(ids=answer.ids) == answer:
        last.ids.extend(answer.ids)
    else:
        events.append(answer)


_PARSERS: Final[dict[int, Callable[[FujinReplies, bytes, int, list[Event]], int]]] = {
    Reply.READER_CONNECTED: FujinReplies._connected,
    Reply.WRITTEN: FujinReplies._answer,
    Reply.MESSAGE: FujinReplies._messages,
    Reply.ACKNOWLEDGED: FujinReplies._answer,
    Reply.GIVEN_BACK: FujinReplies._answer,
    Reply.BEGUN: FujinReplies._transaction,
    Reply.COMMITTED: FujinReplies._transaction,
    Reply.ROLLED_BACK: FujinReplies._transaction,
    Reply.DISCONNECTED: FujinReplies._without_content,
    Reply.PING: FujinReplies._without_content,
    Reply.STOP: FujinReplies._without_content,
}


def number_of(meta: bytes) -> int:
    """The number of a record from the meta of its message."""
    number: int = META.unpack(meta)[0]
    return number
