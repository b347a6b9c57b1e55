"""A session on a transport of asyncio or Twisted. txaio makes their futures and timers look alike; the rest is here."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from streamd.client.errors import ClientError, ConnectionLost, Timeout
from streamd.client.session import Answer, Session, Steps, closed
from streamd.client.target import Target

T = TypeVar("T")
S = TypeVar("S", bound=Session)  # type: ignore[type-arg]


class Transport(Protocol):
    """What a connection writes to."""

    def write(self, data: bytes) -> None:
        """Send this, now or later."""

    def close(self) -> None:
        """Hang up when all is sent."""

    def abort(self) -> None:
        """Hang up at once."""


class Receiver(Protocol):
    """Whom a transport tells what happens to it."""

    def received(self, data: bytes) -> None:
        """This came in."""

    def paused(self) -> None:
        """Its buffer is full."""

    def resumed(self) -> None:
        """There is room again."""

    def lost(self, reason: str) -> None:
        """It is gone."""


class Framework(ABC):
    """Asyncio or Twisted."""

    @property
    @abstractmethod
    def txaio(self) -> Any:
        """Its futures and timers."""

    @abstractmethod
    async def connect(self, receiver: Receiver, target: Target) -> Transport:
        """A transport that reports to this receiver; ConnectionLost or Timeout where there is none to be had."""


class _Phase(Enum):
    NEW = auto()
    CONNECTING = auto()
    OPEN = auto()
    CLOSED = auto()


class Connection(Generic[S]):
    """One connection, from its making to its end. Any number of operations may be on their way at once."""

    def __init__(self, session: S, target: Target, framework: Framework) -> None:
        self.session = session
        self._target = target
        self._framework = framework
        self._phase = _Phase.NEW
        self._transport: Transport | None = None
        self._paused = False
        self._connecting: Any = None
        self._opened: Answer[None] = Answer()
        self._gone: Answer[None] = Answer()
        self._timer: Any = None
        self._heard_seconds = 0.0

    # -- what clients do with it ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and do what the session wants done first. Whoever comes meanwhile waits for it too."""
        waits = self._phase in (_Phase.NEW, _Phase.CONNECTING)
        if self._phase is _Phase.NEW:
            self._phase = _Phase.CONNECTING
            # On its own: whoever came first may go away, and the others still want it. It may have failed at once.
            self._connecting = self._framework.txaio.as_future(self._connect)
        if waits:
            await self._wait(self._opened)
            self._opened.result()

    async def _connect(self) -> None:
        try:
            self._transport = await self._framework.connect(self, self._target)
            await self._carry_out(self.session.opening())
            self._phase = _Phase.OPEN
            self._opened.resolve(None)
        except BaseException as error:
            lost = error if isinstance(error, ClientError) else ConnectionLost("connecting was given up")
            self.abort(lost)
            self._opened.fail(lost)
            if not isinstance(error, ClientError):
                raise

    async def run(self, steps: Steps[T]) -> T:
        """Carry out an operation."""
        await self.open()
        return await self._carry_out(steps)

    async def close(self) -> None:
        """Do what the session wants done last, and hang up."""
        try:
            if self._phase is _Phase.OPEN and self.session.error is None:
                await self._carry_out(self.session.closing())
        finally:
            self._end(closed())
        if self._connecting is not None:
            await self._wait(self._opened)
        if self._transport is not None and not self._gone.done:
            self._transport.close()
            # A daemon that takes nothing more does not keep us.
            late = self._framework.txaio.call_later(self._target.reply_seconds_max, self._transport.abort)
            try:
                await self._wait(self._gone)
            finally:
                late.cancel()

    def abort(self, error: ClientError) -> None:
        """Hang up."""
        self._end(error)
        if self._transport is not None:
            self._transport.abort()

    # -- what the transport reports ------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Part of an answer, or several."""
        self._heard_seconds = time.monotonic()
        self.session.receive(data)
        if self.session.error is not None:
            self.abort(self.session.error)
        elif not self.session.is_waiting:
            self._stop_watching()

    def paused(self) -> None:
        """The daemon takes less than we send."""
        self._paused = True

    def resumed(self) -> None:
        """It takes more again."""
        self._paused = False
        self._flush()
        if not self._paused:
            self.session.sent()

    def lost(self, reason: str) -> None:
        """The end."""
        self._end(ConnectionLost(f"the connection to {self._target.address} is lost: {reason}"))
        self._gone.resolve(None)

    # -- how it is done ------------------------------------------------------------------------------------------------

    async def _carry_out(self, steps: Steps[T]) -> T:
        try:
            while True:
                answer = next(steps)
                self._flush()
                await self._wait(answer)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            self._flush()

    async def _wait(self, answer: Answer[Any]) -> None:
        if answer.done:
            return
        txaio = self._framework.txaio
        future = txaio.create_future()

        def tell() -> None:
            # Whoever waited may have been cancelled.
            if not txaio.is_called(future):
                txaio.resolve(future, None)

        answer.when_done(tell)
        self._watch()
        await future

    def _flush(self) -> None:
        if self.session.is_sending and not self._paused and self._transport is not None:
            self._transport.write(self.session.outgoing())
            if not self._paused:
                # The transport has room for more.
                self.session.sent()

    def _end(self, error: ClientError) -> None:
        self._phase = _Phase.CLOSED
        self._stop_watching()
        self.session.lost(error)

    def _watch(self) -> None:
        """Give up when the daemon is silent for too long from now on."""
        if self._timer is None and self.session.is_waiting:
            self._heard_seconds = time.monotonic()
            self._look_in(self._target.reply_seconds_max)

    def _look_in(self, seconds: float) -> None:
        self._timer = self._framework.txaio.call_later(seconds, self._look)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if not self.session.is_waiting:
            return
        seconds_max = self._target.reply_seconds_max
        left = self._heard_seconds + seconds_max - time.monotonic()
        if left > 0:
            self._look_in(left)
        else:
            self.abort(Timeout(f"{self._target.address} was silent for {seconds_max:g} s"))
