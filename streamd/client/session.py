"""What blocking and asynchronous clients share: sessions that know what to send and what a reply means, and no socket.

A session's operations are generators. They put bytes into the session and ``yield from`` the answers they wait for; who
runs them (`streamd.client.blocking`, `streamd.client.asynchronous`) moves the bytes:

    def create(self, name: str) -> Steps[None]:
        yield from self._ask(command_line(Create(name)), 1, meaning)

So many operations can be on their way at once, and each is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from streamd.batch import Buffer
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken
from streamd.client.target import PIPELINED_BYTES_MAX
from streamd.wire import WireError

T = TypeVar("T")
R = TypeVar("R")

_CHUNK_BYTES: Final = 128 << 10

# What a small message costs beside its bytes, so that a chunk of empty ones is not endless.
_MESSAGE_BYTES: Final = 8


class Answer(Generic[T]):
    """Something that is awaited: a value or an error, once it is there."""

    __slots__ = ("_error", "_tells", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._tells: list[Callable[[], None]] = []
        self._value: T | None = None
        self._error: Exception | None = None

    def resolve(self, value: T) -> None:
        """It has come."""
        if not self.done:
            self._value = value
            self._end()

    def fail(self, error: Exception) -> None:
        """It won't come."""
        if not self.done:
            self._error = error
            self._end()

    def _end(self) -> None:
        self.done = True
        tells, self._tells = self._tells, []
        for tell in tells:
            tell()

    def when_done(self, tell: Callable[[], None]) -> None:
        """Call this when it is done, which it is not yet."""
        self._tells.append(tell)

    def result(self) -> T:
        """The value, or the error raised."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __iter__(self) -> Steps[T]:
        """Wait for it, in an operation: ``value = yield from answer``."""
        if not self.done:
            yield self
        return self.result()


Steps: TypeAlias = Generator[Answer[Any], None, T]
"""An operation: it stops at each answer that it waits for, and returns its result in the end."""


class Replies(Protocol[R]):
    """A codec of what a daemon sends."""

    error: WireError | None

    def receive(self, data: bytes) -> list[R]:
        """The replies that `data` completes."""


class Session(ABC, Generic[R]):
    """One connection's side of a protocol, without the connection."""

    def __init__(self, codec: Replies[R]) -> None:
        self._codec = codec
        self._outgoing: list[Buffer] = []
        self._outgoing_bytes = 0
        self._room: list[Answer[None]] = []
        self.pipelined_bytes_max = PIPELINED_BYTES_MAX
        """So much is sent before it is answered, or one request that is larger."""
        self.error: ClientError | None = None
        """Why it is over, once it is."""

    # -- for who moves the bytes ---------------------------------------------------------------------------------------

    def opening(self) -> Steps[None]:
        """What is to be done first on a new connection."""
        yield from ()

    def closing(self) -> Steps[None]:
        """What is to be done last, before an orderly end."""
        yield from ()

    @property
    def is_waiting(self) -> bool:
        """Whether somebody waits for the daemon: for an answer, or until it takes what is sent."""
        return bool(self._room)

    @property
    def is_sending(self) -> bool:
        """Whether there is something to send."""
        return self._outgoing_bytes > 0

    def outgoing(self) -> bytes:
        """What is to be sent; say `sent` when it was."""
        data = b"".join(self._outgoing)
        self._outgoing = []
        self._outgoing_bytes = 0
        return data

    def sent(self) -> None:
        """There is room for more."""
        room, self._room = self._room, []
        for answer in room:
            answer.resolve(None)

    def receive(self, data: bytes) -> None:
        """What the daemon sent."""
        if self.error is not None:
            return
        try:
            self._received(self._codec.receive(data))
            if self._codec.error is not None:
                raise self._codec.error
        except WireError as error:
            self.lost(broken(error))
        except ClientError as error:
            self.lost(error)

    def lost(self, error: ClientError) -> None:
        """The connection is gone: nothing that is awaited will come."""
        if self.error is not None:
            return
        self.error = error
        self._outgoing = []
        self._outgoing_bytes = 0
        room, self._room = self._room, []
        for answer in (*room, *self._abandoned()):
            answer.fail(error)

    # -- for the protocols ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _received(self, replies: list[R]) -> None:
        """Give each reply to who waits for it."""

    @abstractmethod
    def _abandoned(self) -> list[Answer[Any]]:
        """All that is awaited; from now on nothing is."""

    def _send(self, data: Buffer) -> None:
        if self.error is not None:
            raise self.error
        self._outgoing.append(data)
        self._outgoing_bytes += len(data)

    def _when_sent(self) -> Answer[None]:
        """Waits until what is to be sent is on its way, where that is much: for requests that are not answered."""
        answer: Answer[None] = Answer()
        if self._outgoing_bytes < self.pipelined_bytes_max:
            answer.resolve(None)
        else:
            self._room.append(answer)
        return answer


class _Asked(Generic[R]):
    """A request, or many alike, on its way: how many replies it gets, what they mean, and who waits for that."""

    __slots__ = ("answer", "count", "meaning", "replies", "size")

    def __init__(self, count: int, size: int, meaning: Callable[[list[R]], Any]) -> None:
        self.count = count
        self.size = size
        self.meaning = meaning
        self.replies: list[R] = []
        self.answer: Answer[Any] = Answer()

    def finish(self) -> WireError | None:
        """All replies are there; returns what is wrong with them, where they are none of this protocol."""
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

    def __init__(self, codec: Replies[R]) -> None:
        super().__init__(codec)
        self._asked: deque[_Asked[R]] = deque()
        self._asked_bytes = 0

    @property
    def is_waiting(self) -> bool:
        return bool(self._asked) or super().is_waiting

    def _ask(self, data: bytes, count: int, meaning: Callable[[list[R]], T]) -> Answer[T]:
        """Send what gets so many replies; the answer is what `meaning` makes of them, or the ClientError it raises."""
        self._send(data)
        asked = _Asked(count, len(data), meaning)
        self._asked.append(asked)
        self._asked_bytes += asked.size
        return asked.answer

    def _ask_many(self, requests: Iterable[tuple[bytes, int]], meaning: Callable[[list[R]], T]) -> Steps[list[T]]:
        """Send all of these (bytes, replies) without waiting for each other, and for as long as not too much is out."""
        answers: deque[Answer[T]] = deque()
        found: list[T] = []
        rest = iter(requests)
        while True:
            try:
                data, count = next(rest)
            except StopIteration:
                break
            except Exception:
                # One of them can't be sent: those before it are seen to, and then that is said.
                for answer in answers:
                    yield from answer
                raise
            answers.append(self._ask(data, count, meaning))
            while answers and self._asked_bytes >= self.pipelined_bytes_max:
                found.append((yield from answers.popleft()))
        for answer in answers:
            found.append((yield from answer))
        return found

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
        # Only now: who waited may ask for the next thing at once.
        for wrong in [asked.finish() for asked in finished]:
            if wrong is not None:
                raise wrong
        if at < len(replies):
            raise WireError("a reply that nobody asked for")

    def _abandoned(self) -> list[Answer[Any]]:
        asked, self._asked = self._asked, deque()
        self._asked_bytes = 0
        return [each.answer for each in asked]


def chunks(messages: Iterable[bytes], chunk_bytes: int = _CHUNK_BYTES) -> Iterator[list[bytes]]:
    """The messages in lists of about so many bytes, without looking further ahead than that."""
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
    """What is said of a daemon that sent what it should not."""
    return ProtocolBroken(f"the daemon broke the protocol: {error}")


def closed() -> ConnectionLost:
    """What is said of a client that was closed."""
    return ConnectionLost("the client is closed")
