"""A stream of Fujin: commands that are answered in order, and messages that come between the answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from streamd.client.core.session import OrderedSession
from streamd.client.errors import ConnectionLost, Refused
from streamd.client.target import Target
from streamd.wire import WireError
from streamd.wire.client import fujin as fujin_client
from streamd.wire.client.fujin import Answers, Connected, Event, FujinReplies, Messages, Told
from streamd.wire.fujin_replies import Code, Reply

# Above so much the stream is not read until half of it was taken.
_UNREAD_BYTES_MAX: Final = 1 << 20


class Message(NamedTuple):
    """A message that a reader gets. It is acknowledged by `meta`, which is empty where that need not be."""

    data: bytes
    meta: bytes


class StreamEnded(ConnectionLost):
    """The daemon has ended a stream in order, with every command answered."""


class FujinSession(OrderedSession[Event]):
    """A stream of a writer, or of a reader.

    :param first: the command that makes it the one or the other.
    :param reply: the reply to that command; None for a writer, which gets none.
    """

    # QUIC itself finds out whether the daemon is there, and a reader may wait for a message for ever.
    is_waiting = False

    def __init__(self, target: Target, first: bytes, reply: Reply | None) -> None:
        super().__init__(FujinReplies(target.reply_bytes_max), target)
        self._first = first
        self._reply = reply
        self._next_id = 0
        self._unread: deque[Message] = deque()
        self._unread_bytes = 0
        self._is_held = False
        self._is_leaving = False
        self._said_goodbye = False
        self.auto_commit = True
        """Whether the daemon counts a message as acknowledged when it is sent."""

    async def opening(self) -> None:
        if self._reply is None:
            self.send(self._first)
        else:
            await self.demand(self._first, self._reply)

    async def closing(self) -> None:
        """Say goodbye and wait for the answer. Messages that came and were not taken are dropped."""
        if self._said_goodbye:
            return
        self._said_goodbye = True
        self._unread.clear()
        self._read_on(0)
        try:
            await self.demand(fujin_client.DISCONNECT, Reply.DISCONNECTED)
        except ConnectionLost:
            # The stream is gone, and that was the wish.
            pass

    def next_ids(self, count: int) -> int:
        """Return the first of so many correlation ids."""
        first = self._next_id
        self._next_id = (first + count) & 0xFFFFFFFF
        return first

    async def demand(self, data: bytes, reply: Reply, count: int = 1) -> None:
        """Send so many commands and wait until all are answered; Refused where some were refused."""
        refused = await self.ask(data, count, refusal_of(reply))
        if refused is not None:
            raise refused

    def take(self) -> Message | None:
        """Return the next message, where it has come already."""
        if not self._unread:
            return None
        message = self._unread.popleft()
        self._read_on(self._unread_bytes - len(message.data))
        return message

    async def fill(self) -> bool:
        """Wait for a message. Returns False where the daemon wants its clients to go: then the stream is closed."""
        await self.until(lambda: bool(self._unread) or self._is_leaving)
        if not self._unread:
            await self.closing()
        return bool(self._unread)

    def _read_on(self, unread_bytes: int) -> None:
        self._unread_bytes = unread_bytes
        if self._is_held and unread_bytes * 2 < _UNREAD_BYTES_MAX:
            self._is_held = False
            self.flow.resumeProducing()

    def _received(self, replies: list[Event]) -> None:
        answers: list[Event] = []
        for event in replies:
            if isinstance(event, Messages):
                records = map(bytes, event.batch.records())
                metas = event.metas or [b""] * event.batch.count
                self._unread.extend(map(Message, records, metas))
                self._unread_bytes += event.batch.size
            elif isinstance(event, Answers):
                answers += [event] * len(event.ids)
            elif isinstance(event, Connected):
                self.auto_commit = event.auto_commit
                answers.append(event)
            elif event.reply is Reply.DISCONNECTED:
                answers.append(event)
            else:
                self._is_leaving = True
        if self._unread_bytes > _UNREAD_BYTES_MAX and not self._is_held:
            self._is_held = True
            self.flow.pauseProducing()
        super()._received(answers)

    def ended(self) -> None:
        """Take the end of what the daemon sends."""
        error = ConnectionLost if self._asked else StreamEnded
        self.lost(error("the daemon has ended the stream"))


def refusal_of(reply: Reply) -> Callable[[list[Event]], Refused | None]:
    """Return what makes of answers, which have to be of this kind, the error where some of them refuse."""

    def meaning(events: list[Event]) -> Refused | None:
        refused = []
        for event in events:
            kind = Reply.READER_CONNECTED if isinstance(event, Connected) else getattr(event, "reply", None)
            if kind is not reply:
                raise WireError(f"{type(event).__name__} in place of {reply.name}")
            if not isinstance(event, (Messages, Told)) and event.code:
                refused.append(event)
        return Refused(name_of_code(refused[0].code), refused[0].text, len(refused)) if refused else None

    return meaning


def name_of_code(code: int) -> str:
    """Return the name of one of the protocol's codes; the number of any other."""
    try:
        return Code(code).name
    except ValueError:
        return str(code)
