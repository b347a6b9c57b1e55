"""What every asynchronous client has: an address, a connection made when it is needed, an ``async with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from streamd.client.address import parse_address
from streamd.client.asynchronous.connection import Connection, Framework, S
from streamd.client.session import Steps, closed
from streamd.client.target import Options, Target

T = TypeVar("T")
P = ParamSpec("P")


class Closing(ABC):
    """What can be opened and closed, by an ``async with`` block."""

    @abstractmethod
    async def connect(self) -> Self:
        """Connect now."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was asked for, and hang up. A second time does nothing."""

    @abstractmethod
    async def _abort(self) -> None:
        """Hang up."""

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nothing is waited for: that could only hide it.
        if error is None:
            await self.close()
        else:
            await self._abort()


class Connected(Closing, Generic[S]):
    """One connection. It is made by the first operation, or at the beginning of an ``async with`` block.

    Operations may be begun without waiting for the last one. Once the connection is lost, each operation says so: make
    another one.
    """

    def __init__(self, session: S, target: Target, framework: Framework) -> None:
        self._target = target
        self._session = session
        session.pipelined_bytes_max = target.pipelined_bytes_max
        self._framework = framework
        self._connection = Connection(session, target, framework)

    async def connect(self) -> Self:
        await self._connection.open()
        return self

    async def close(self) -> None:
        await self._connection.close()

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone, by `close` or otherwise."""
        return self._session.error is not None

    async def _abort(self) -> None:
        self._connection.abort(closed())
        await self._connection.close()

    async def _run(self, steps: Steps[T]) -> T:
        return await self._connection.run(steps)


class Client(Connected[S]):
    """A client of the daemon at an address: ``host:port`` or ``unix:PATH``. `Options` are what it takes beside that.

    With a `reactor` it runs on that, and is awaited by what runs there; otherwise under asyncio.
    """

    _session_type: ClassVar[type[Any]]

    def __init__(self, address: str, *, reactor: Any = None, **options: Unpack[Options]) -> None:
        target = Target(parse_address(address), **options)
        super().__init__(type(self)._session_type(target.reply_bytes_max), target, _framework(reactor))


def _framework(reactor: Any) -> Framework:
    # Imported here: who uses the one need not have the other.
    if reactor is None:
        from streamd.client.asynchronous.over_asyncio import AsyncioFramework

        return AsyncioFramework()
    from streamd.client.asynchronous.over_twisted import TwistedFramework

    return TwistedFramework(reactor)


def asynchronous(
    operation: Callable[Concatenate[S, P], Steps[T]],
) -> Callable[Concatenate[Connected[S], P], Coroutine[Any, Any, T]]:
    """A session's operation as a method to be awaited."""

    @wraps(operation)
    async def method(self: Connected[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(operation(self._session, *args, **kwargs))

    return method
