"""One stream of a Fujin client: what was asked and is not answered, and messages that came and were not looked at."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.client.errors import ClientError, ConnectionLost, Refused
from streamd.client.session import broken
from streamd.wire import WireError, fujin_client
from streamd.wire.fujin_replies import Code, Reply

# Above so much the stream is not read until half of it was looked at.
_UNREAD_BYTES_MAX: Final = 1 << 20


class Ended(Exception):
    """The daemon has ended the stream in order."""


class Asked:
    """Commands on their way: how many answers are to come, and what was refused of them."""

    __slots__ = ("left", "refused", "reply", "size")

    def __init__(self, reply: Reply, left: int, size: int) -> None:
        self.reply = reply
        self.left = left
        self.size = size
        self.refused: Refused | None = None


@implementer(IHalfCloseableProtocol)
class FujinStream(Protocol):
    """Answers come in the order of the commands; messages, and the daemon's wish that we go, come between them."""

    # Our transports are producers too, which ITransport does not say.
    transport: Any

    def __init__(self, reply_bytes_max: int) -> None:
        self._codec = fujin_client.FujinReplies(reply_bytes_max)
        self._asked: deque[Asked] = deque()
        self._asked_bytes = 0
        self._messages: deque[tuple[bytes, bytes]] = deque()
        self._unread_bytes = 0
        self._paused = False
        self._next_id = 0
        self._changed: list[Deferred[None]] = []
        self._error: ClientError | None = None
        self._leaving = False
        self.is_over = False
        """Whether nothing can be asked or comes any more."""
        self.auto_commit = True

    # -- asking --------------------------------------------------------------------------------------------------------

    def next_ids(self, count: int) -> int:
        """The first of so many correlation ids."""
        first = self._next_id
        self._next_id = (first + count) & 0xFFFFFFFF
        return first

    def send(self, data: bytes) -> None:
        """Send what is not answered."""
        if self.is_over:
            raise self._error or ConnectionLost("the stream is closed")
        self.transport.write(data)

    def ask(self, data: bytes, reply: Reply, count: int) -> Asked:
        """Send what gets so many answers."""
        self.send(data)
        asked = Asked(reply, count, len(data))
        self._asked.append(asked)
        self._asked_bytes += len(data)
        return asked

    async def room(self, bytes_max: int) -> None:
        """Wait until less than this is not answered."""
        while self._asked_bytes >= bytes_max:
            await self._change()

    async def answered(self, *asked: Asked) -> None:
        """Wait until these are answered; Refused where some of them were."""
        while any(each.left for each in asked):
            await self._change()
        refused = [each.refused for each in asked if each.refused is not None]
        if refused:
            raise Refused(refused[0].reason, str(refused[0]), sum(each.count for each in refused))

    async def message(self) -> tuple[bytes, bytes]:
        """The next message and its meta; Ended where the daemon has ended the stream."""
        while not self._messages:
            if self._leaving:
                await self.disconnect()
                raise Ended
            if self.is_over and self._error is None:
                raise Ended
            await self._change()
        data, meta = self._messages.popleft()
        self._unread_bytes -= len(data)
        if self._paused and self._unread_bytes * 2 < _UNREAD_BYTES_MAX:
            self._paused = False
            self.transport.resumeProducing()
        return data, meta

    async def disconnect(self) -> None:
        """Say goodbye, and wait for the answer. Nothing more is wanted of what came."""
        if self.is_over:
            return
        self._messages.clear()
        self._unread_bytes = 0
        if self._paused:
            self._paused = False
            self.transport.resumeProducing()
        try:
            self.ask(fujin_client.DISCONNECT, Reply.DISCONNECTED, 1)
            while not self.is_over:
                await self._change()
        except ConnectionLost:
            # It is gone, and that was the wish.
            pass

    async def _change(self) -> None:
        """Wait until something came; the error where nothing will."""
        if self.is_over:
            raise self._error or ConnectionLost("the stream is closed")
        changed: Deferred[None] = Deferred()
        self._changed.append(changed)
        await changed

    # -- what comes ----------------------------------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        try:
            for event in self._codec.receive(data):
                self._happened(event)
            if self._codec.error is not None:
                raise self._codec.error
        except WireError as error:
            self._end(broken(error))
            self.transport.abortConnection()
        if self._unread_bytes > _UNREAD_BYTES_MAX and not self._paused:
            self._paused = True
            self.transport.pauseProducing()
        self._tell()

    def _happened(self, event: fujin_client.Event) -> None:
        if isinstance(event, fujin_client.Messages):
            records = [bytes(each) for each in event.batch.records()]
            self._messages.extend(zip(records, event.metas or [b""] * len(records), strict=True))
            self._unread_bytes += event.batch.size
        elif isinstance(event, fujin_client.Answers):
            self._answered(event.reply, len(event.ids), event.code, event.text)
        elif isinstance(event, fujin_client.Connected):
            self.auto_commit = event.auto_commit
            self._answered(Reply.READER_CONNECTED, 1, event.code, event.text)
        elif event.reply is Reply.DISCONNECTED:
            self._answered(event.reply, 1, Code.NONE, "")
        else:
            self._leaving = True

    def _answered(self, reply: Reply, count: int, code: int, text: str) -> None:
        while count:
            if not self._asked or self._asked[0].reply is not reply:
                raise WireError(f"{reply.name} came, which nobody asked for")
            asked = self._asked[0]
            taken = min(count, asked.left)
            asked.left -= taken
            count -= taken
            if code:
                before = 0 if asked.refused is None else asked.refused.count
                asked.refused = Refused(_name(code), text, before + taken)
            if not asked.left:
                self._asked.popleft()
                self._asked_bytes -= asked.size

    # -- the end -------------------------------------------------------------------------------------------------------

    def readConnectionLost(self) -> None:
        """The daemon says no more."""
        self._end(None if not self._asked else ConnectionLost("the daemon has ended the stream"))
        self.transport.loseConnection()

    def writeConnectionLost(self) -> None:
        """The daemon takes no more; what it has to say may still come."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        code = getattr(reason.value, "code", None)
        why = f"the daemon closed it with {_name(code)}" if code else reason.getErrorMessage()
        self._end(ConnectionLost(f"the stream is lost: {why}"))

    def _end(self, error: ClientError | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._error = error
            self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, []
        for each in changed:
            each.callback(None)


def _name(code: int) -> str:
    """The name of one of our codes; others as they are."""
    try:
        return Code(code).name
    except ValueError:
        return str(code)
