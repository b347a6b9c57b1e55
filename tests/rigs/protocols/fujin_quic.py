"""A client of Fujin over real QUIC, as plain as can be: streams that remember what came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from streamd.quic.client import QuicClientEndpoint, Trust
from streamd.quic.connection import Connection
from streamd.quic.settings import QuicSettings
from streamd.wire.client import fujin as client


class Ended(Exception):
    """The stream is gone, with this code where it had one."""

    def __init__(self, reason: Failure) -> None:
        super().__init__(str(reason.value))
        self.code: int = getattr(reason.value, "code", 0)


@implementer(IHalfCloseableProtocol)
class Stream(Protocol):
    """One stream: its events, one after the other."""

    transport: Any

    def __init__(self) -> None:
        self._codec = client.FujinReplies(1 << 24)
        self._events: deque[client.Event] = deque()
        self._waiting: Deferred[None] | None = None
        self.reason: Failure | None = None
        self.ended = False

    def send(self, *parts: bytes) -> Stream:
        """Send all of this."""
        self.transport.write(b"".join(parts))
        return self

    async def event(self) -> client.Event:
        """The next one; Ended where none comes any more."""
        while not self._events:
            if self.reason is not None:
                raise Ended(self.reason)
            if self.ended:
                raise EOFError
            self._waiting = Deferred()
            await self._waiting
        return self._events.popleft()

    async def end(self) -> int:
        """The code that the stream ends with; 0 where it ends in order. Nothing may come before."""
        try:
            raise AssertionError(f"{await self.event()} came")
        except Ended as error:
            return error.code
        except EOFError:
            return 0

    async def messages(self, count: int) -> list[tuple[bytes, bytes]]:
        """So many messages, with their metas; nothing else may come before them."""
        found: list[tuple[bytes, bytes]] = []
        while len(found) < count:
            event = await self.event()
            assert isinstance(event, client.Messages), event
            records = [bytes(each) for each in event.batch.records()]
            found += zip(event.metas or [b""] * len(records), records, strict=True)
        return found

    def dataReceived(self, data: bytes) -> None:
        self._events.extend(self._codec.receive(data))
        assert self._codec.error is None, self._codec.error
        self._wake()

    def readConnectionLost(self) -> None:
        self.ended = True
        self.transport.loseConnection()
        self._wake()

    def writeConnectionLost(self) -> None:
        """The server reads no more."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.reason = reason
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)


class Pong(Protocol):
    """Answers a ping as its client does; counts them."""

    factory: Client
    transport: Any

    def dataReceived(self, data: bytes) -> None:
        self.factory.pings += data
        if self.factory.pong:
            self.transport.write(self.factory.pong)
            self.transport.loseConnection()


class Client(Factory):
    """One connection. The streams that the server opens are pings."""

    noisy = False

    def __init__(self, *, pong: bytes = client.PONG) -> None:
        self.pong = pong
        self.pings = b""
        self.connection: Connection | None = None

    def buildProtocol(self, addr: Any) -> Any:
        """For a stream that the server has opened."""
        pong = Pong()
        pong.factory = self
        return pong

    async def dial(self, reactor: Any, port: int, trust: Trust) -> Client:
        """Connect."""
        settings = QuicSettings(alpn=("fujin",))
        endpoint = QuicClientEndpoint(reactor, "127.0.0.1", port, trust=trust, settings=settings)
        self.connection = await endpoint.dial(self)
        return self

    def stream(self, *parts: bytes) -> Stream:
        """A new stream, and what is sent on it first."""
        assert self.connection is not None
        stream = Stream()
        self.connection.openStream(stream)
        return stream.send(*parts)


def asynchronous(test: Callable[[Any], Coroutine[Any, Any, None]]) -> Callable[[Any], Deferred[None]]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(self: Any) -> Deferred[None]:
        return Deferred.fromCoroutine(test(self))

    return run
