"""What a connection may do, and how fast: the part of every stream protocol that asks the rules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from twisted.logger import Logger

from streamd.access.pace import Pace
from streamd.access.peer import peer_of, peer_text
from streamd.access.permits import CREATE, STALE, WRITE, NotAllowed, Permits, TooManyTopics, TopicFull
from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.interfaces import RequestError
from streamd.metrics import Traffic, reason_of
from streamd.store import Segment
from streamd.store.records.offsets import span

if TYPE_CHECKING:
    from streamd.connections.factory import StreamFactory


class Permitted:
    """One peer, and the rules that fit it.

    A protocol asks before it does anything with a topic, each time: the answer is remembered, and changes with the
    rules. What is refused is a RequestError, so that the protocol answers it in its own words.
    """

    __slots__ = ("_paces", "_permits", "core")

    name: ClassVar[str] = "stream"
    """The word for the protocol, in logs and metrics."""
    log: ClassVar[Logger] = Logger()
    # Each of our transports is a producer and a consumer too, which ITransport does not say.
    transport: Any
    factory: StreamFactory

    def __init__(self, core: Core) -> None:
        self.core = core
        self._permits = STALE
        self._paces: tuple[Pace, ...] = ()

    @property
    def peer(self) -> str:
        """The other end, for the log."""
        return peer_text(self.transport)

    @property
    def traffic(self) -> Traffic:
        """What is counted of this protocol. It is the factory's: one attribute more would make all others slower."""
        return self.factory.traffic

    @property
    def permits(self) -> Permits:
        """What the peer may do, for questions about more than one topic."""
        return self._permits if not self._permits.is_stale else self.identify()

    def allow(self, right: int, name: str) -> None:
        """Raise NotAllowed unless the peer has this right, or one of these rights, on the topic of that name."""
        # Without rules this is all that it costs.
        if not self._permits.is_open and not self.permits.rights(name) & right:
            raise NotAllowed(name, right)

    def who(self) -> str:
        """Whom the peer is taken for, in the words of a rule."""
        return ", ".join(peer_of(self.transport).called()) or "anyone"

    def allow_write(self, segment: Segment, batch: Batch, tag: int = 0, times: int = 1) -> None:
        """Raise NotAllowed unless the peer may append these records, so many times."""
        if not self._permits.is_open:
            self.allow_more(segment, times * span(tag, batch.count, batch.size))

    def allow_more(self, segment: Segment, size: int) -> None:
        """Raise NotAllowed unless the peer may append so many bytes, counted as offsets are. What is pending counts."""
        if not self._permits.is_open:
            self.allow_fill(segment.name, segment.next_offset - segment.first_offset + size)

    def allow_fill(self, name: str, size: int) -> None:
        """Raise NotAllowed unless the peer may append to a topic of that name, and fill it with so many bytes."""
        self.allow(WRITE, name)
        bytes_max = self._permits.topic_bytes_max(name)
        if bytes_max and size > bytes_max:
            raise TopicFull(name)

    def allow_create(self, name: str) -> None:
        """Raise NotAllowed unless the peer may make a topic of that name, and one more."""
        self.allow(CREATE, name)
        if not self._permits.may_make(name, self.core.store.names, self.core.clock.seconds()):
            raise TooManyTopics(name)

    def note(self, error: RequestError) -> None:
        """Count what is refused. What a rule refuses is a line at debug alone: a peer can do this all day."""
        reason = reason_of(error)
        self.traffic.requests_refused[reason] += 1
        if hasattr(error, "reason"):
            self.log.debug("{peer} may not: {topic}, {reason}", peer=self.peer, topic=str(error), reason=reason)

    def count_invalid(self) -> None:
        """Count a request that the protocol itself has no answer to but an error."""
        self.traffic.requests_refused["invalid"] += 1

    def count_cut_off(self, reason: str) -> None:
        """Count that it was us who ended the connection."""
        self.traffic.connections_cut_off[reason] += 1

    def identify(self) -> Permits:
        """Look up what the peer may do, and how fast. Before the first bytes of TLS nobody knows who it is."""
        self._permits = self.core.access.permits(partial(peer_of, self.transport))
        limits = self.core.limits
        self._paces = self._permits.paces
        rates = (limits.connection_messages_per_second_max, limits.connection_bytes_per_second_max)
        if any(rates):
            self._paces += (Pace(*rates, self.core.clock.seconds(), of="connection_"),)
        return self._permits

    def pay(self, messages: int, size: int) -> float:
        """Charge all rates that count for this connection: how many seconds it has to wait."""
        now = self.core.clock.seconds()
        wait, reason = max([pace.take(messages, size, now) for pace in self._paces], default=(0.0, ""))
        if wait:
            self.traffic.connections_slowed[reason] += 1
        return wait
