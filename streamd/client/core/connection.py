"""Connections: a session from connecting to hanging up, on a transport of whichever driver."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from streamd.client.core.session import Answer, Session, Steps, closed
from streamd.client.errors import ClientError, ConnectionLost, Timeout
from streamd.client.target import Target

T = TypeVar("T")
S = TypeVar("S", bound=Session[Any])


class Transport(Protocol):
    """What a connection writes to. It reports to the connection: `received`, `paused`, `resumed` and `lost`."""

    def write(self, data: bytes) -> None:
        """Send this, now or later."""

    def close(self) -> None:
        """Hang up when all is sent."""

    def abort(self) -> None:
        """Hang up at once."""


class Driver(Protocol):
    """What the core wants done by blocking sockets, by asyncio's loop or by Twisted's reactor."""

    def spawn(self, steps: Steps[None]) -> None:
        """Carry this out, beside the caller or at once."""

    async def dial(self, connection: ClientConnection[Any], target: Target) -> Transport:
        """Connect, and return a transport that reports to this connection. TimeoutError, OSError or ClientError."""

    async def until(self, answer: Answer[Any], seconds: float) -> None:
        """Return when the answer is done, or after so many seconds, which may be infinitely many."""

    def seconds(self) -> float:
        """Return the time of a clock that never goes back."""


MakeDriver: TypeAlias = Callable[[], Driver]


class ClientConnection(Generic[S]):
    """One connection, from its making to its end. Any number of commands may be on their way at once."""

    def __init__(self, session: S, target: Target, driver: Driver) -> None:
        self.session = session
        session.wait = self.wait
        self._target = target
        self._driver = driver
        self._transport: Transport | None = None
        self._paused = False
        self._begun = False
        self._opened: Answer[None] = Answer(self.wait)
        self._dialed: Answer[None] = Answer(self.wait)
        self._gone: Answer[None] = Answer(self.wait)
        self._moved_seconds = 0.0

    # -- what clients do with it ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and do what the session wants done first. A command that comes meanwhile waits for it too."""
        if self.session.error is not None:
            raise self.session.error
        self.begin()
        await self._opened

    def begin(self) -> None:
        """Begin to connect, and do not wait for it. A second time does nothing."""
        if not self._begun:
            self._begun = True
            # Not by the command itself: it may be cancelled, and others still want the connection.
            self._driver.spawn(self._connect())

    async def carry_out(self, steps: Steps[T]) -> T:
        """Carry out a command of the session. All that it sent is on its way when this returns."""
        try:
            if not self._opened.done or self.session.error is not None:
                await self.open()
        except BaseException:
            steps.close()
            raise
        try:
            value = await steps
        finally:
            self._flush()
        if self._paused:
            await self.session.until(lambda: not self._paused)
        return value

    async def close(self) -> None:
        """Do what the session wants done last, and hang up. A second time does nothing."""
        try:
            if self._opened.done and self.session.error is None:
                await self.session.closing()
        finally:
            self._end(closed())
        if self._begun:
            await self._dialed
        if self._transport is not None and not self._gone.done:
            self._transport.close()
            await self._driver.until(self._gone, self._target.reply_seconds_max)
            if not self._gone.done:
                # A daemon that takes nothing more does not keep the client from closing.
                self._transport.abort()
                await self._gone

    def abort(self, error: ClientError) -> None:
        """Hang up at once; every command that waits fails with this error."""
        self._end(error)
        if self._transport is not None and not self._gone.done:
            self._transport.abort()

    async def wait(self, answer: Answer[Any]) -> None:
        """Send what there is to send, and wait for an answer. A daemon that is silent for too long is given up."""
        self._flush()
        seconds = self._driver.seconds
        begun, seconds_max = seconds(), self._target.reply_seconds_max
        while not answer.done:
            left = max(begun, self._moved_seconds) + seconds_max - seconds() if self.session.is_waiting else inf
            if left > 0:
                await self._driver.until(answer, left)
            else:
                self.abort(Timeout(f"{self._target.address} was silent for {seconds_max:g} s"))

    # -- what the transport reports ------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Take what came in."""
        self._moved_seconds = self._driver.seconds()
        if (error := self.session.receive(data)) is not None:
            self.abort(error)

    def paused(self) -> None:
        """The transport's buffer is full."""
        self._paused = True

    def resumed(self) -> None:
        """The transport's buffer has room again."""
        self._moved_seconds = self._driver.seconds()
        self._paused = False
        self._flush()
        self.session.changed()

    def lost(self, reason: str) -> None:
        """The transport is gone."""
        # First: a command that is told of the end may close the connection, and there is nothing left to close.
        self._gone.resolve(None)
        self._end(ConnectionLost(f"the connection to {self._target.address} is lost: {reason}"))

    # -- how it is done ------------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        address = self._target.address
        try:
            self._transport = await self._driver.dial(self, self._target)
            if self.session.error is None:
                await self.session.opening()
                self._opened.resolve(None)
        except ClientError as error:
            self.abort(error)
        except TimeoutError:
            self.abort(Timeout(f"no connection to {address} within {self._target.connect_seconds_max:g} s"))
        except OSError as error:
            self.abort(ConnectionLost(f"no connection to {address}: {error}"))
        except BaseException:
            # Half open it is of no use to anybody, also after a Ctrl-C.
            self.abort(ConnectionLost("connecting was given up"))
            raise
        finally:
            self._dialed.resolve(None)

    def _flush(self) -> None:
        if self.session.is_sending and not self._paused and self._transport is not None:
            self._transport.write(self.session.outgoing())
            if not self._paused:
                # The transport has room for more.
                self.session.changed()

    def _end(self, error: ClientError) -> None:
        self.session.lost(error)
        self._opened.fail(error)
