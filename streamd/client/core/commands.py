"""Commands: methods that are written once, as coroutines, for clients that block and for clients that are awaited.

    class SmqCommands(ConnectedCommands[OrderedSession[Response]]):
        @command
        async def pull(self) -> Message | None:
            ...

    class SmqClient(BlockingClient, SmqCommands): ...         # message = client.pull()
    class SmqClient(AsynchronousClient, SmqCommands): ...     # message = await client.pull()

A type checker takes the method's type from the class of the client: `Blocking` or `Asynchronous`. It refuses a command
that calls another one on ``self``, which would wait where it should be awaited: what two of them share is a coroutine
without a decorator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from streamd.client.core.connection import ClientConnection, MakeDriver, S
from streamd.client.core.session import Steps, closed
from streamd.client.target import Target

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class Commands(ABC):
    """A client of one protocol, for callers of either kind: what it connects to, and when."""

    _is_blocking: ClassVar[bool] = False

    def __init__(self, target: Target, make_driver: MakeDriver) -> None:
        self._target = target
        self._make_driver = make_driver

    @abstractmethod
    async def _open(self) -> None:
        """Connect."""

    @abstractmethod
    async def _close(self) -> None:
        """Finish what was asked for, and hang up."""

    @abstractmethod
    async def _abort(self) -> None:
        """Hang up."""

    def _carry_out(self, steps: Steps[T]) -> Steps[T]:
        """Carry out a command."""
        return steps


class ConnectedCommands(Commands, Generic[S]):
    """A client with one connection, made by the first command or at the beginning of a ``with`` block.

    Once the connection is lost every command raises ConnectionLost: make another client.
    """

    _session_type: Callable[[Target], S]

    def __init__(self, target: Target, make_driver: MakeDriver) -> None:
        super().__init__(target, make_driver)
        self._session = self._make_session()
        self._connection = ClientConnection(self._session, target, make_driver())

    def _make_session(self) -> S:
        """Return the session of the connection."""
        return self._session_type(self._target)

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone, by `close` or otherwise."""
        return self._session.error is not None

    async def _open(self) -> None:
        await self._connection.open()

    async def _close(self) -> None:
        await self._connection.close()

    async def _abort(self) -> None:
        self._connection.abort(closed())
        await self._connection.close()

    def _carry_out(self, steps: Steps[T]) -> Steps[T]:
        return self._connection.carry_out(steps)


class Feed(ABC, Generic[T]):
    """Items that have come and were not taken yet, and where more of them come from."""

    _client: Commands
    """Carries out `_fill`, for an iterator."""
    _unread: deque[T]

    def _take(self) -> T | None:
        """Return the next item, where it has come already."""
        return self._unread.popleft() if self._unread else None

    @abstractmethod
    async def _fill(self) -> bool:
        """See that an item is unread; False where there is none now, or never will be."""


class BlockingIterator(Feed[T]):
    """A feed to iterate over."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        item = self._take()
        if item is None and run(self._client._carry_out(self._fill())):
            item = self._take()
        if item is None:
            raise StopIteration
        return item


class AsynchronousIterator(Feed[T]):
    """A feed to iterate over with ``async for``."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        item = self._take()
        if item is None and await self._client._carry_out(self._fill()):
            item = self._take()
        if item is None:
            raise StopAsyncIteration
        return item


class Blocking(Commands):
    """A client whose methods return when they are done. It is for one thread at a time."""

    _is_blocking = True

    def connect(self) -> Self:
        """Connect now instead of with the first command. Returns the client."""
        run(self._open())
        return self

    def close(self) -> None:
        """Finish what was asked for, and hang up. A second time does nothing."""
        run(self._close())

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nothing is waited for: that could only hide it.
        run(self._close() if error is None else self._abort())


class Asynchronous(Commands):
    """A client whose methods are awaited. Any number of them may be on their way at once."""

    async def connect(self) -> Self:
        """Connect now instead of with the first command. Returns the client."""
        await self._open()
        return self

    async def close(self) -> None:
        """Finish what was asked for, and hang up. A second time does nothing."""
        await self._close()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nothing is waited for: that could only hide it.
        await (self._close() if error is None else self._abort())


def run(steps: Steps[T]) -> T:
    """Carry out a coroutine of the core whose driver blocks."""
    try:
        steps.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("a blocking driver does not suspend")


class Method(Generic[P, B, A]):
    """A method in two forms: it returns B for clients that block, and A for clients that are awaited."""

    def __init__(
        self, blocking: Callable[Concatenate[Any, P], B], asynchronous: Callable[Concatenate[Any, P], A]
    ) -> None:
        self._blocking: Any = blocking
        self._asynchronous: Any = asynchronous

    @overload
    def __get__(self, client: Blocking, owner: object) -> Callable[P, B]: ...
    @overload
    def __get__(self, client: Asynchronous, owner: object) -> Callable[P, A]: ...
    @overload
    def __get__(self, client: None, owner: type[Blocking]) -> Callable[Concatenate[Any, P], B]: ...
    @overload
    def __get__(self, client: None, owner: type[Asynchronous]) -> Callable[Concatenate[Any, P], A]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        method = self._blocking if owner._is_blocking else self._asynchronous
        return method.__get__(client, owner)


def command(operation: Callable[Concatenate[Any, P], Steps[T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    """Make a coroutine a method of clients."""

    @wraps(operation)
    def blocking(self: Commands, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(self._carry_out(operation(self, *args, **kwargs)))

    @wraps(operation)
    async def asynchronous(self: Commands, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._carry_out(operation(self, *args, **kwargs))

    return Method(blocking, asynchronous)


def stream(operation: Callable[Concatenate[Any, P], Feed[T]]) -> Method[P, Iterator[T], AsyncIterator[T]]:
    """Make a method that returns a feed a method of clients that iterates over it."""

    @wraps(operation)
    def blocking(self: Commands, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        feed = operation(self, *args, **kwargs)
        unread = feed._unread
        while run(self._carry_out(feed._fill())):
            while unread:
                yield unread.popleft()

    @wraps(operation)
    async def asynchronous(self: Commands, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        feed = operation(self, *args, **kwargs)
        unread = feed._unread
        while await self._carry_out(feed._fill()):
            while unread:
                yield unread.popleft()

    # What help() shows.
    signed = signature(operation)
    for method, kind in ((blocking, "Iterator"), (asynchronous, "AsyncIterator")):
        shown: Any = method
        shown.__signature__ = signed.replace(return_annotation=signed.return_annotation.replace("Feed", kind))
    return Method(blocking, asynchronous)
