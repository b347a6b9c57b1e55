"""An answer: what a command waits for until a reply, an error or a timer resolves it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

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
