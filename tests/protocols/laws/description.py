"""What the laws need to know of a protocol: how to say a few things in it, and what is then answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import ClassVar, NamedTuple

from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.settings import Limits
from tests.rigs.protocols.rig import Rig

LIMITS = Limits(message_bytes_max=20_000, line_bytes_max=20_000, ack_seconds_max=1e6)
"""Small, so that what is over them is quickly sent; a reader may take its time. Descriptions may rely on them."""


class Exchange(NamedTuple):
    """What is sent, and what is answered, to the byte."""

    asked: bytes
    told: bytes


class Breach(NamedTuple):
    """What no peer may send, and the last words to one that does: behind them it is closed."""

    frame: bytes
    told: bytes = b""
    code: int = 0
    """What it is closed with, where the protocol has codes for that."""


class Size(NamedTuple):
    """A field that declares how much follows."""

    name: str
    declare: Callable[[int], bytes]
    """A frame up to this field, with a value; so far nothing is wrong with it."""
    largest: int
    """The largest value that is not refused."""
    end: int
    """What the field's type can't hold any more."""
    told: bytes = b""
    """The last words where it is refused."""
    signed: bool = False
    least: int = 0
    """The smallest value behind which a frame still waits for something: what follows, or the next field."""


class Description(ABC):
    """A protocol, as one peer speaks it: one of these for each connection, with a number that no other one has."""

    name: ClassVar[str]
    """The service of the daemon."""
    segment: ClassVar[str]
    """Where `write` puts its records."""
    transcript: ClassVar[Sequence[Exchange]]
    """A conversation on an empty store, with every command there is, right and wrong; it leaves something behind."""
    breaches: ClassVar[Sequence[Breach]]
    sizes: ClassVar[Sequence[Size]]
    record_bytes_max: ClassVar[int]
    """The largest record that `write` may store, under the limits above."""
    frame_bytes_max: ClassVar[int] = 0
    """What a frame may hold, where that is more than one record."""
    consumes: ClassVar[bool] = False
    """Whether `fetch` removes what it gets."""
    too_large: ClassVar[bytes] = b""
    """The last words to one that tries a larger one."""
    begun: ClassVar[Sequence[bytes]]
    """Frames that have begun and not ended, each in another place."""
    begun_later: ClassVar[Sequence[bytes]] = ()
    """The same, for frames that only the first connection may send, and behind `open`."""
    hello: ClassVar[Exchange] = Exchange(b"", b"")
    """What a connection begins with, before `ask`, and before anything that is a breach or begun."""
    names: ClassVar[Sequence[str]] = ()
    """The topics that this makes."""
    furnished: ClassVar[Sequence[bytes]] = ()
    """Records that are in the segment before the transcript."""
    writer: ClassVar[type[Description] | None] = None
    """Who writes, where this one can only read."""
    bystander: ClassVar[type[Description] | None] = None
    """Who is somebody else, where another one of this kind would share its messages."""
    stop: ClassVar[Exchange | None] = None
    """Where a peer is told that the daemon ends, and then goes on until it says so: that word, and what it is told."""
    unread_code: ClassVar[int] = 0
    """What a connection is closed with where a record can't be read."""
    endless: ClassVar[bool] = False
    """Whether `fetch` asks for all that will ever come, so that the end of a peer does not wait for it."""
    repeatable: ClassVar[bool] = True
    """Whether the transcript can be said again on a store where it was said: some writers count."""
    settings: ClassVar[str] = ""
    """More of the protocol's table in the configuration."""
    rig: ClassVar[type[Rig]] = Rig
    """What makes its connections, where no socket does."""
    endpoint: ClassVar[str] = "tcp"
    """How a daemon is reached: ``tcp``, ``unix`` or ``tls``. For anything else the laws on sockets are not tried."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    @classmethod
    @abstractmethod
    def factory(cls, core: Core) -> StreamFactory:
        """What makes its connections."""

    @classmethod
    @abstractmethod
    def unknown(cls) -> Iterable[tuple[bytes, bytes, bool]]:
        """For every id that means nothing: a frame with it, what is answered, and whether the connection goes on."""

    @classmethod
    def comparable(cls, told: bytes) -> bytes:
        """Replies without what may differ from run to run, or with how requests arrive."""
        return told

    @classmethod
    def answered(cls, told: bytes, expected: Sequence[bytes]) -> int:
        """How many of several writes are answered by this, where these are their answers in order."""
        assert b"".join(expected).startswith(told), "other answers than expected"
        return bisect_right(list(accumulate(map(len, expected))), len(told))

    @classmethod
    def waits(cls, exchange: Exchange) -> bool:
        """Whether it is answered when it is on disk. What is given away and removed is answered before."""
        return True

    @classmethod
    def without_stop(cls, told: bytes) -> bytes:
        """Replies without the word that the daemon ends."""
        return told

    @classmethod
    def given(cls, told: bytes) -> int:
        """How many records are gone when this was sent, whether the peer took it or not."""
        return 0

    @classmethod
    def taken(cls, told: bytes) -> int:
        """How many records are gone when the peer has taken this."""
        return cls.given(told)

    @classmethod
    def acknowledged(cls, told: bytes) -> int:
        """How many requests of the transcript are answered at least, where this was told."""
        beginnings = accumulate((each.told for each in cls.transcript), initial=b"")
        return [cls.comparable(each) for each in beginnings].index(cls.comparable(told))

    @abstractmethod
    def prepare(self) -> Exchange:
        """Once for a store, before any `open`."""

    @abstractmethod
    def open(self) -> Exchange:
        """Once for a connection, before `write` and `fetch`."""

    @abstractmethod
    def ask(self) -> Exchange:
        """A small question at any time, which changes nothing."""

    def flood(self) -> Exchange:
        """What to send again and again without taking the answers, each of which has its own."""
        return self.ask()

    @abstractmethod
    def write(self, record: bytes) -> Exchange:
        """Store a record, which is ASCII. The answer comes when it is on disk."""

    @abstractmethod
    def fetch(self, records: Sequence[bytes]) -> Exchange:
        """Get all records of the segment, which are these; for protocols that consume, for good."""

    def is_fetched(self, records: Sequence[bytes], told: bytes) -> bool:
        """Whether this answers `fetch`."""
        return self.comparable(told) == self.comparable(self.fetch(records).told)

    def is_unread(self, records: Sequence[bytes], bad: int, told: bytes, closed: bool) -> bool:
        """Whether this answers `fetch` where that record, and maybe some around it, can't be read.

        Unless the protocol has an error for it: some of what stands before it, nothing else, and the end.
        """
        return closed and self.fetch(records).told.startswith(told) and records[bad] not in told

    @classmethod
    def whole(cls) -> Exchange:
        """The transcript in one piece."""
        return joined(cls.transcript)


def joined(exchanges: Iterable[Exchange]) -> Exchange:
    """Several as one."""
    several = list(exchanges)
    return Exchange(b"".join([each.asked for each in several]), b"".join([each.told for each in several]))
