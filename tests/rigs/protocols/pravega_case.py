"""Pravega's port on a real store, for its events and for the messages for tools."""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.connections.core import Core
from streamd.protocols.pravega.protocol import PravegaFactory, PravegaSettings
from streamd.settings import Limits
from streamd.store import Segment
from streamd.wire import tools as storage
from streamd.wire.client.tools import StorageReplies, request_bytes
from streamd.wire.tools import Code, Existing, LevelChange, Part
from tests.rigs.protocols.rig import Peer, Rig

TAIL_SECONDS = 10.0


def make_factory(core: Core) -> PravegaFactory:
    return PravegaFactory(core, PravegaSettings(TAIL_SECONDS))


OTHER = b"o" * 16
RECORD_BYTES_MAX = 1 << 20


class StorageCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = os.path.abspath(self.mktemp())
        self.rig = self.start()
        self.peer = self.rig.connect()
        self.segment = self.make("s")

    def start(self) -> Rig:
        rig = Rig(self.directory, make_factory=make_factory, limits=Limits(message_bytes_max=RECORD_BYTES_MAX))
        self.addCleanup(rig.close)
        return rig

    def restart(self) -> None:
        self.rig.close()
        self.rig = self.start()
        self.peer = self.rig.connect()

    def ask(self, make: Any, *values: object, peer: Peer | None = None) -> Any:
        """The one reply to a request."""
        (reply,) = self.asked([make(7, *values)], peer)
        self.assertEqual(reply.id, 7)
        return reply

    def asked(self, requests: list[Any], peer: Peer | None = None) -> list[Any]:
        """The replies to requests that come at once."""
        return self.taken(peer or self.peer, b"".join(map(request_bytes, requests)))

    def taken(self, peer: Peer, asked: bytes = b"") -> list[Any]:
        if asked:
            peer.send(asked)
        codec = StorageReplies(1 << 30)
        found = codec.receive(peer.take_all())
        self.assertIsNone(codec.error)
        self.assertEqual(codec.buffered, 0)
        return found

    def refused(self, code: Code, make: Any, *values: object) -> storage.Refusal:
        reply = self.ask(make, *values)
        self.assertIsInstance(reply, storage.Refusal)
        self.assertEqual(reply.code, code, reply.text)
        assert isinstance(reply, storage.Refusal)
        return reply

    def make(self, name: str, *, hidden: bool = False, existing: int = Existing.REFUSED) -> int:
        (info,) = self.ask(storage.MakeSegment, name, hidden, existing).segments
        self.assertEqual(info.name, name)
        return int(info.id)

    def hide(self, name: str, *records: bytes) -> int:
        """A hidden segment with records."""
        id = self.make(name, hidden=True)
        self.assertEqual(self.append(id, 0, *records), len(records))
        return id

    def append(self, id: int, number: int, *records: bytes) -> int:
        reply = self.ask(storage.AppendRecords, id, number, Batch.of(records))
        self.assertIsInstance(reply, storage.RecordsAppended, reply)
        return int(reply.number)

    def publish(self, parts: list[Part], *levels: LevelChange) -> bool:
        """Publish; whether that was done before."""
        reply = self.ask(storage.PublishSegments, parts, levels)
        self.assertIsInstance(reply, storage.SegmentsPublished, reply)
        return bool(reply.again)

    def read(self, id: int, number: int = 0, records_max: int = 1 << 40, bytes_max: int = 1 << 20) -> list[bytes]:
        reply = self.ask(storage.ReadRecords, id, number, records_max, bytes_max)
        self.assertIsInstance(reply, storage.RecordsRead, reply)
        return [bytes(record) for run in reply.runs for record in run.batch.records()]

    def read_all(self, id: int) -> list[bytes]:
        """All records of a segment: an answer may end before they do, where a segment was published behind another."""
        found: list[bytes] = []
        while some := self.read(id, len(found)):
            found += some
        return found

    @property
    def store_segment(self) -> Segment:
        return self.rig.store.find("s")
