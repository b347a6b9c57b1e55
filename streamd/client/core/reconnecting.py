"""Reconnecting: commands that go on over lost connections, and when to give up."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from streamd.client.core.answer import Answer, Steps
from streamd.client.core.connection import Connection, Driver, S
from streamd.client.core.session import closed
from streamd.client.errors import ClientError, ConnectionLost, ProtocolBroken
from streamd.client.target import Target

T = TypeVar("T")

_DELAY_SECONDS_FIRST: Final = 0.05
_DELAY_SECONDS_MAX: Final = 2.0


class Patience:
    """When to connect again: soon, then later and later, and never when there was no progress for too long.

    :param progress: returns a number that changes whenever there is progress.
    :param now: when the first connection was lost.
    """

    def __init__(self, seconds_max: float, progress: Callable[[], int], now: float) -> None:
        self._seconds_max = seconds_max
        self._progress = progress
        self._reached = progress()
        self._since = now
        self._delay = _DELAY_SECONDS_FIRST

    def delay(self, error: ConnectionLost, now: float) -> float:
        """Return how many seconds to wait; raise the error when it is time to give up, or when waiting is of no use."""
        if self._reached != (reached := self._progress()):
            self._reached, self._since, self._delay = reached, now, _DELAY_SECONDS_FIRST
        if now - self._since > self._seconds_max or isinstance(error, ProtocolBroken):
            raise error
        delay = self._delay * random.uniform(0.5, 1.0)
        self._delay = min(2 * self._delay, _DELAY_SECONDS_MAX)
        return delay


class Reconnecting(Generic[S]):
    """Connections to one target, one after the other: a lost one is made again by the next command that needs it.

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
        self._connection: Connection[S] | None = None
        self.is_closed = False

    async def carry_out(self, operation: Callable[[S], Steps[T]]) -> T:
        """Carry an operation out, again on a new connection where one is lost. ConnectionLost when that is given up."""
        patience: Patience | None = None
        while True:
            if self.is_closed:
                raise closed()
            if self._connection is None:
                self._connection = Connection(self._make_session(), self._target, self._driver)
            # Other commands may be here too. The first of them to find the connection lost makes the next one.
            connection = self._connection
            try:
                return await connection.carry_out(operation(connection.session))
            except ConnectionLost as error:
                await self._hang_up(connection)
                patience = patience or Patience(self._seconds_max, self._progress, self._driver.seconds())
                await self._sleep(patience.delay(error, self._driver.seconds()))
            except ClientError:
                await self._hang_up(connection)
                raise

    async def close(self) -> None:
        """Hang up for good."""
        if self._connection is not None:
            await self._hang_up(self._connection)
        self.is_closed = True

    async def _hang_up(self, connection: Connection[S]) -> None:
        if connection is self._connection:
            self._connection = None
        connection.abort(closed())
        await connection.close()

    async def _sleep(self, seconds: float) -> None:
        slept: Answer[None] = Answer(self._driver.until)
        self._driver.call_later(seconds, lambda: slept.resolve(None))
        await slept
