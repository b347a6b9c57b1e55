"""What every blocking client has: an address, a connection that is made when it is needed, a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from streamd.client.address import parse_address
from streamd.client.blocking.connection import Connection, S
from streamd.client.session import Steps, closed
from streamd.client.target import Options, Target

T = TypeVar("T")
P = ParamSpec("P")


class Closing(ABC):
    """What can be opened and closed, by a ``with`` block."""

    @abstractmethod
    def connect(self) -> Self:
        """Connect now."""

    @abstractmethod
    def close(self) -> None:
        """Finish what was asked for, and hang up. A second time does nothing."""

    @abstractmethod
    def _abort(self) -> None:
        """Hang up."""

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nothing is waited for: that could only hide it.
        if error is None:
            self.close()
        else:
            self._abort()


class Connected(Closing, Generic[S]):
    """One connection. It is made by the first operation, or at the beginning of a ``with`` block.

    Once it is lost, each operation says so: make another one. It is not for two threads at once.
    """

    def __init__(self, session: S, target: Target) -> None:
        self._target = target
        self._session = session
        session.pipelined_bytes_max = target.pipelined_bytes_max
        self._connection = Connection(session, target)

    def connect(self) -> Self:
        self._connection.open()
        return self

    def close(self) -> None:
        self._connection.close()

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone, by `close` or otherwise."""
        return self._session.error is not None

    def _abort(self) -> None:
        self._connection.abort(closed())

    def _run(self, steps: Steps[T]) -> T:
        return self._connection.run(steps)


class Client(Connected[S]):
    """A client of the daemon at an address: ``host:port`` or ``unix:PATH``. `Options` are what it takes beside that."""

    _session_type: ClassVar[type[Any]]

    def __init__(self, address: str, **options: Unpack[Options]) -> None:
        target = Target(parse_address(address), **options)
        super().__init__(type(self)._session_type(target.reply_bytes_max), target)


def blocking(operation: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[Connected[S], P], T]:
    """A session's operation as a method that waits for its result."""

    @wraps(operation)
    def method(self: Connected[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(operation(self._session, *args, **kwargs))

    return method
