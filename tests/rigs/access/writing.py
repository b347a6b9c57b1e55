"""Every way in which a peer can write records to a topic, for laws that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final
from uuid import uuid4

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.connections.factory import StreamFactory
from streamd.protocols import smq
from streamd.protocols.faststream.protocol import FastStreamFactory
from streamd.protocols.fujin.factory import FujinFactory
from streamd.protocols.fujin.settings import FujinSettings
from streamd.protocols.pravega import protocol as pravega
from streamd.protocols.sesp import SespFactory
from streamd.wire import tools as storage
from streamd.wire.client import fujin
from streamd.wire.client.tools import StorageReplies, request_bytes
from streamd.wire.tools import Existing, Part
from tests.rigs.protocols.rig import Peer, Rig
from tests.rigs.wire import faststream as faststream_bytes
from tests.rigs.wire import pravega as pravega_bytes
from tests.rigs.wire import smq as smq_bytes

STREAM: Final = 7
TOPIC: Final = f"faststream/{STREAM}"
"""A name that every protocol has a word for."""


class Way:
    """One peer that writes in one way. A connection that was closed is made again."""

    in_runs: ClassVar[bool] = True
    """Whether records that are sent at once may become one request."""
    creates: ClassVar[bool] = False
    """Whether a topic that is not there is made by the first record."""
    copies: ClassVar[int] = 1
    """How often the topic receives each record."""
    together: ClassVar[bool] = False
    """Whether records that are sent at once are stored all, or none."""
    opening: ClassVar[bytes] = b""
    """What a connection begins with."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._factory = self.make_factory(rig.core)
        self._peer: Peer | None = None

    def make_factory(self, core: Core) -> StreamFactory:
        """What makes its connections."""
        raise NotImplementedError

    def asked(self, *records: bytes) -> bytes:
        """What to send to have these records stored, one after the other."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Whatever has to be answered before `asked` can be said."""

    @property
    def peer(self) -> Peer:
        """The connection."""
        if self._peer is None or self._peer.closed:
            self._peer = self.rig.connect(self._factory)
            if self.opening:
                self._peer.ask(self.opening)
        return self._peer

    def write(self, *records: bytes) -> bytes:
        """Have these records stored, sent at once; what is answered by then."""
        self.prepare()
        return self.peer.ask(self.asked(*records))


class Sesp(Way):
    """``>``."""

    opening = f"@{TOPIC}\n".encode()

    def make_factory(self, core: Core) -> StreamFactory:
        return SespFactory(core)

    def asked(self, *records: bytes) -> bytes:
        return b"".join([b">%b\n" % record for record in records])


class Smq(Way):
    """A push, to a queue that is the topic."""

    creates = True

    def make_factory(self, core: Core) -> StreamFactory:
        return smq.factory(core, smq.configure({"queue": TOPIC}))

    def asked(self, *records: bytes) -> bytes:
        return b"".join([smq_bytes.push(0, len(record), record) for record in records])


class Enqueue(Way):
    """FastStreamDB, to one stream."""

    def make_factory(self, core: Core) -> StreamFactory:
        return FastStreamFactory(core)

    def asked(self, *records: bytes) -> bytes:
        return b"".join([faststream_bytes.single(STREAM, record) for record in records])


class EnqueueMany(Enqueue):
    """FastStreamDB, to several streams, where the topic stands twice."""

    in_runs = False
    copies = 2

    def asked(self, *records: bytes) -> bytes:
        return b"".join([faststream_bytes.multiple(record, STREAM, 99, STREAM) for record in records])


class Blocks(Way):
    """Pravega's append blocks, one for each record. A gap closes a connection: each block has a writer of its own."""

    in_runs = False

    def make_factory(self, core: Core) -> StreamFactory:
        return pravega.factory(core, pravega.configure({}))

    def asked(self, *records: bytes) -> bytes:
        return b"".join(map(self._block, records))

    def _block(self, *records: bytes) -> bytes:
        writer = uuid4().bytes
        events = b"".join(map(pravega_bytes.event, records))
        return pravega_bytes.setup(TOPIC, writer) + pravega_bytes.block(0, events, writer=writer)


class OneBlock(Blocks):
    """One block of several events."""

    together = True

    def asked(self, *records: bytes) -> bytes:
        return self._block(*records)


class FujinWrite(Way):
    """WRITE outside of a transaction."""

    creates = True
    opening = fujin.connect_writer(1)

    def make_factory(self, core: Core) -> StreamFactory:
        return FujinFactory(core, FujinSettings())

    def asked(self, *records: bytes) -> bytes:
        return b"".join([fujin.write(id, TOPIC, record) for id, record in enumerate(records, 1)])


class FujinTransaction(FujinWrite):
    """WRITEs, and a COMMIT."""

    def asked(self, *records: bytes) -> bytes:
        return fujin.begin(0) + super().asked(*records) + fujin.commit(0)


class Tools(Way):
    """Hidden segments that are published: a new one for each record, or one for all."""

    in_runs = False
    one: ClassVar[bool] = False
    together = True

    def make_factory(self, core: Core) -> StreamFactory:
        return pravega.factory(core, pravega.configure({}))

    def ask(self, request: Any) -> Any:
        """The reply to a request that is asked alone."""
        held = self.rig.held
        self.rig.release()
        self.peer.take_all()
        (reply,) = StorageReplies(1 << 20).receive(self.peer.ask(request_bytes(request)))
        self.rig.held = held
        return reply

    def prepare(self) -> None:
        self.target = self.ask(storage.MakeSegment(1, TOPIC, False, Existing.TAKEN)).segments[0].id
        names = [f"hidden/{uuid4().hex}" for _ in range(1 if self.one else 5)]
        made = [self.ask(storage.MakeSegment(2, name, True, Existing.REFUSED)) for name in names]
        self.hidden = [each.segments[0].id for each in made]

    def asked(self, *records: bytes) -> bytes:
        if self.one:
            (id,) = self.hidden
            appends = [storage.AppendRecords(3, id, number, Batch.of([each])) for number, each in enumerate(records)]
        else:
            pairs = zip(self.hidden, records, strict=False)
            appends = [storage.AppendRecords(3, id, 0, Batch.of([record])) for id, record in pairs]
        parts = tuple(Part(id, self.target) for id in self.hidden)
        published = request_bytes(storage.PublishSegments(4, parts, ()))
        return b"".join([*map(request_bytes, appends), published])


class OneHidden(Tools):
    """All records in one hidden segment."""

    one = True
    # An append that is refused makes those behind it a gap, and what was appended before is published all the same.
    together = False


WAYS: Final[tuple[Callable[[Rig], Way], ...]] = (
    Sesp,
    Smq,
    Enqueue,
    EnqueueMany,
    Blocks,
    OneBlock,
    FujinWrite,
    FujinTransaction,
    Tools,
    OneHidden,
)
