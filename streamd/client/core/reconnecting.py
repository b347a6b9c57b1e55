"""Reconnecting: commands that go on over lost connections, and when to give up."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from streamd.client.core.connection import ClientConnection, Driver, S
from streamd.client.core.session import Answer, Steps, closed
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken
from streamd.client.target import Target

T = TypeVar("T")

RECONNECT_SECONDS_MAX: Final = 60.0
"""How long a daemon may be away, where the caller says nothing else."""

_DELAY_SECONDS_FIRST: Final = 0.05
_DELAY_SECONDS_MAX: Final = 2.0


class Backoff:
    """When to connect again after a lost connection: soon, then later and later, and not at all after too long.

    :param seconds_max: how long to try while there is no progress.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._since = self._delay = 0.0
        self._reached: int | None = None

    def delay(self, error: ClientError, now: float, reached: int = 0) -> float:
        """How many seconds to wait before the next attempt; raises `error` where there is to be none.

        :param now: the time of a monotonic clock.
        :param reached: a number that changes whenever there is progress.
        """
        # A peer that speaks something else won't speak this protocol later.
        if not isinstance(error, ConnectionLost) or isinstance(error, ProtocolBroken):
            raise error
        if reached != self._reached:
            self._since, self._delay, self._reached = now, _DELAY_SECONDS_FIRST, reached
        if now - self._since > self._seconds_max:
            raise error
        delay, self._delay = self._delay, min(2 * self._delay, _DELAY_SECONDS_MAX)
        return delay * random.uniform(0.5, 1.0)


class Reconnecting(Generic[S]):
    """Connections to one target, one after the other: a lost one is made again by the next command that needs it.

    It is made again soon, then later and later, and not at all when there was no progress for too long.

    :param make_session: makes the session of a new connection.
    :param seconds_max: how long to try while there is no progress.
    :param progress: returns a number that changes whenever there is progress.
    """

    def __init__(
        self,
        make_session: Callable[[], S],
        target: Target,
        driver: Driver,
        seconds_max: float,
        progress: Callable[[], int],
    ) -> None:
        self._make_session = make_session
        self._target = target
        self._driver = driver
        self._seconds_max = seconds_max
        self._progress = progress
        self._connection: ClientConnection[S] | None = None
        self.is_closed = False

    async def carry_out(self, operation: Callable[[S], Steps[T]]) -> T:
        """Carry an operation out, again on a new connection where one is lost. ConnectionLost when that is given up."""
        backoff = Backoff(self._seconds_max)
        while True:
            if self.is_closed:
                raise closed()
            if self._connection is None:
                self._connection = ClientConnection(self._make_session(), self._target, self._driver)
            # Other commands may be here too. The first of them to find the connection lost makes the next one.
            connection = self._connection
            try:
                return await connection.carry_out(operation(connection.session))
            except ClientError as error:
                await self._hang_up(connection)
                delay = backoff.delay(error, self._driver.seconds(), self._progress())
            # An answer that nobody gives: the time passes.
            await self._driver.until(Answer(connection.wait), delay)

    async def carry_out_once(self, operation: Callable[[S], Steps[T]]) -> T | None:
        """Carry an operation out on the connection that there is; where there is none, do nothing."""
        if self._connection is None:
            return None
        return await self._connection.carry_out(operation(self._connection.session))

    async def close(self) -> None:
        """Hang up for good."""
        if self._connection is not None:
            await self._hang_up(self._connection)
        self.is_closed = True

    async def _hang_up(self, connection: ClientConnection[S]) -> None:
        if connection is self._connection:
            self._connection = None
        connection.abort(closed())
        await connection.close()
