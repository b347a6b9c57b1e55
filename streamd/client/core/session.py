"""Sessions: one connection's side of a protocol, without the connection.

A session turns requests into bytes and replies into answers, which commands await:

    reply = await session.ask(command_line(Create(name)), 1, meaning)

Many requests can be on their way at once. `streamd.client.core.connection` moves the bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from streamd.batch import Buffer
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken
from streamd.client.target import Target
from streamd.wire import WireError

T = TypeVar("T")
R = TypeVar("R")

_CHUNK_BYTES: Final = 128 << 10

# What a small message costs beside its bytes, so that a chunk of empty ones is not endless.
_MESSAGE_BYTES: Final = 8


Steps: TypeAlias = Coroutine[Any, Any, T]
"""A coroutine of the core: it awaits answers, and other coroutines of the core."""

Wait: TypeAlias = "Callable[[Answer[Any]], Steps[None]]"
"""Returns when an answer is done."""


class Answer(Generic[T]):
    """A value or an error that is there later. Any number of commands may await it."""

    __slots__ = ("_calls", "_error", "_value", "_wait", "done")

    def __init__(self, wait: Wait) -> None:
        self.done = False
        self._wait = wait
        self._calls: list[Callable[[], object]] = []
        self._value: T | None = None
        self._error: Exception | None = None

    def resolve(self, value: T) -> None:
        """Set the value. An answer that is done stays as it is."""
        if not self.done:
            self._value = value
            self._end()

    def fail(self, error: Exception) -> None:
        """Set the error. An answer that is done stays as it is."""
        if not self.done:
            self._error = error
            self._end()

    def _end(self) -> None:
        self.done = True
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def when_done(self, call: Callable[[], object]) -> None:
        """Call this when the answer is done: at once where it is."""
        if self.done:
            call()
        else:
            self._calls.append(call)

    def result(self) -> T:
        """Return the value, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[Any, Any, T]:
        if not self.done:
            yield from self._wait(self).__await__()
        return self.result()


class Replies(Protocol[R]):
    """A codec of what a daemon sends."""

    error: WireError | None

    def receive(self, data: bytes) -> list[R]:
        """Return the replies that `data` completes."""


class Session(ABC, Generic[R]):
    """One connection's side of a protocol."""

    wait: Wait
    """How a command waits for an answer of this session. Set by the connection."""
    flow: Any = None
    """Pauses and resumes what the daemon sends, where it sends more than was asked for. Set by the driver."""

    def __init__(self, codec: Replies[R], target: Target) -> None:
        self._codec = codec
        self._outgoing: list[Buffer] = []
        self._outgoing_bytes = 0
        self._asked: deque[Any] = deque()
        """Requests that wait for replies. Each has an `answer`."""
        self._change: Answer[None] | None = None
        self.pipelined_bytes_max = target.pipelined_bytes_max
        """How much is sent before it is answered. A single request may be larger."""
        self.error: ClientError | None = None
        """Why the session has ended; None while it has not."""

    # -- for the connection --------------------------------------------------------------------------------------------

    async def opening(self) -> None:
        """Do what comes first on a new connection."""

    async def closing(self) -> None:
        """Do what comes last before the connection is closed in order."""

    @property
    def is_waiting(self) -> bool:
        """Whether the daemon owes an answer, or has to take what is sent before a command goes on."""
        return bool(self._asked) or self._change is not None

    @property
    def is_sending(self) -> bool:
        """Whether there is something to send."""
        return self._outgoing_bytes > 0

    def outgoing(self) -> bytes:
        """Return what is to be sent. The caller says `changed` when there is room for more."""
        data = b"".join(self._outgoing)
        self._outgoing = []
        self._outgoing_bytes = 0
        return data

    def changed(self) -> None:
        """Let commands look again that wait in `until`."""
        change, self._change = self._change, None
        if change is not None:
            change.resolve(None)

    def receive(self, data: bytes) -> ClientError | None:
        """Take what the daemon sent. Returns the error that it ends the session with, if any."""
        if self.error is not None:
            return None
        try:
            self._received(self._codec.receive(data))
            if self._codec.error is not None:
                raise self._codec.error
        except (WireError, ClientError) as error:
            ended = broken(error) if isinstance(error, WireError) else error
            self.lost(ended)
            return ended
        self.changed()
        return None

    def ended(self) -> None:
        """Take the end of what the daemon sends."""
        self.lost(ConnectionLost("the daemon has ended the stream"))

    def lost(self, error: ClientError) -> None:
        """End the session: every answer that is awaited fails with this error. A second time does nothing."""
        if self.error is not None:
            return
        self.error = error
        self._outgoing = []
        self._outgoing_bytes = 0
        asked, self._asked = self._asked, deque()
        for request in asked:
            request.answer.fail(error)
        if self._change is not None:
            self._change.fail(error)

    # -- for the protocols ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _received(self, replies: list[R]) -> None:
        """Resolve the answers that these replies are for. WireError or ClientError where they end the session."""

    def send(self, data: Buffer) -> None:
        """Put a request into what is to be sent."""
        if self.error is not None:
            raise self.error
        self._outgoing.append(data)
        self._outgoing_bytes += len(data)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this is so. The session looks whenever something was sent or received."""
        while not condition():
            if self.error is not None:
                raise self.error
            if self._change is None:
                self._change = Answer(self.wait)
            await self._change

    async def room(self) -> None:
        """Wait where much is to be sent: for requests that get no reply."""
        await self.until(lambda: self._outgoing_bytes < self.pipelined_bytes_max)


@dataclass(slots=True)
class _Asked(Generic[R]):
    """A request, or many alike, on its way: how many replies it gets, what they mean, and the answer."""

    answer: Answer[Any]
    count: int
    size: int
    meaning: Callable[[list[R]], Any]
    replies: list[R] = field(default_factory=list)

    def finish(self) -> WireError | None:
        """Resolve the answer. Returns what is wrong with the replies, where they are none of this protocol."""
        try:
            value = self.meaning(self.replies)
        except ClientError as error:
            self.answer.fail(error)
        except WireError as error:
            self.answer.fail(broken(error))
            return error
        else:
            self.answer.resolve(value)
        return None


class OrderedSession(Session[R]):
    """A session whose replies come in the order of the requests."""

    _asked: deque[_Asked[R]]

    def __init__(self, codec: Replies[R], target: Target) -> None:
        super().__init__(codec, target)
        self._asked_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether so much is not answered that requests have to wait."""
        return self._asked_bytes >= self.pipelined_bytes_max

    def ask(self, data: bytes, count: int, meaning: Callable[[list[R]], T]) -> Answer[T]:
        """Send what gets so many replies. The answer is what `meaning` makes of them, or the ClientError it raises."""
        self.send(data)
        answer: Answer[T] = Answer(self.wait)
        self._asked.append(_Asked(answer, count, len(data), meaning))
        self._asked_bytes += len(data)
        return answer

    async def ask_many(self, requests: Iterable[tuple[bytes, int]], meaning: Callable[[list[R]], T]) -> list[T]:
        """Send all of these (bytes, count of replies) without waiting for each; wait where too much is not answered."""
        answers: deque[Answer[T]] = deque()
        values: list[T] = []
        rest = iter(requests)
        while True:
            try:
                data, count = next(rest)
            except StopIteration:
                break
            except Exception:
                # A request that can't be sent: the requests before it are answered first.
                for answer in answers:
                    await answer
                raise
            answers.append(self.ask(data, count, meaning))
            while answers and self.is_full:
                values.append(await answers.popleft())
        for answer in answers:
            values.append(await answer)
        return values

    def _received(self, replies: list[R]) -> None:
        at = 0
        finished: list[_Asked[R]] = []
        while at < len(replies) and self._asked:
            asked = self._asked[0]
            missing = asked.count - len(asked.replies)
            taken = replies[at : at + missing] if at or missing < len(replies) else replies
            if asked.replies:
                asked.replies += taken
            else:
                asked.replies = taken
            at += len(taken)
            if len(asked.replies) == asked.count:
                self._asked.popleft()
                self._asked_bytes -= asked.size
                finished.append(asked)
        # Only now: a command that is resumed may ask for the next thing at once.
        for wrong in [asked.finish() for asked in finished]:
            if wrong is not None:
                raise wrong
        if at < len(replies):
            raise WireError("a reply that nobody asked for")


def chunks(messages: Iterable[bytes], chunk_bytes: int = _CHUNK_BYTES) -> Iterator[list[bytes]]:
    """Yield the messages in lists of about so many bytes, and look no further ahead into the iterable than that."""
    if isinstance(messages, (bytes, bytearray, memoryview, str)):
        raise TypeError("expected several messages, not one: put it into a list")
    chunk: list[bytes] = []
    size = 0
    for message in messages:
        chunk.append(message)
        size += len(message) + _MESSAGE_BYTES
        if size >= chunk_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def broken(error: WireError) -> ProtocolBroken:
    """Return the error for a daemon that sent what it should not."""
    return ProtocolBroken(f"the daemon broke the protocol: {error}")


def closed() -> ConnectionLost:
    """Return the error for a command on a client that was closed."""
    return ConnectionLost("the client is closed")
