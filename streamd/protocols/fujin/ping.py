"""PING and PONG: a stream of ours for each ping, on every connection. A peer that does not answer is cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol
from twisted.logger import Logger

from streamd.access.peer import address_text
from streamd.connections.core import Core
from streamd.loop import Loop
from streamd.quic.interfaces import IQuicConnection, TooManyStreams
from streamd.wire import fujin_replies as replies
from streamd.wire.fujin_replies import Code

if TYPE_CHECKING:
    from streamd.protocols.fujin.settings import FujinSettings


class Ping(Protocol):
    """One ping: the opcode, and the end of what we send. Any answer shows that the peer is alive.

    The specification wants the same opcode back. Clients of its own age answer with another one, 10.
    """

    def __init__(self, pinger: Pinger) -> None:
        self._pinger = pinger

    def connectionMade(self) -> None:
        stream: Any = self.transport
        stream.write(replies.PING)
        stream.loseWriteConnection()

    def dataReceived(self, data: bytes) -> None:
        self._pinger.answered()


class Pinger:
    """Pings one connection for as long as it is open."""

    _log = Logger()

    def __init__(self, core: Core, settings: FujinSettings, connection: IQuicConnection) -> None:
        self._clock = core.clock
        self._settings = settings
        self._connection = connection
        self._loop = Loop("ping", self._ping, core.clock, core.loops)
        self._late: IDelayedCall | None = None

    def start(self) -> None:
        """Ping periodically, the first time after a pause: a client may have to get ready for it."""
        self._loop.start(self._settings.ping_seconds, now=False)

    def _ping(self) -> None:
        if self._late is None:
            # From the first one on that is not answered: an answer to any of them says that the peer is there.
            self._late = self._clock.callLater(self._settings.pong_seconds_max, self._unanswered)
        try:
            self._connection.openStream(Ping(self))
        except (ConnectionDone, TooManyStreams):
            # It is about to close, or takes none of our streams: no answer will come.
            return

    def stop(self) -> None:
        """Stop pinging: the connection is gone."""
        self._loop.stop()
        self.answered()

    def answered(self) -> None:
        """Note that the peer has answered."""
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _unanswered(self) -> None:
        self._late = None
        self._log.warn(
            "{peer} did not answer a ping for {seconds} s",
            peer=address_text(self._connection.getPeer()),
            seconds=self._settings.pong_seconds_max,
        )
        self.stop()
        self._connection.close(Code.NO_PONG, "no PONG came in time")
