"""Whatever a tool asks, in whatever order: each request gets one answer, and what is answered is so."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from streamd.batch import Batch
from streamd.wire import tools as storage
from streamd.wire import work
from streamd.wire.client.tools import StorageReplies, request_bytes
from tests.rigs.protocols.pravega_case import make_factory
from tests.rigs.protocols.rig import Rig
from tests.rigs.wire.pieces import made
from tests.rigs.wire.tools import several

LARGE = st.sampled_from([2**31, 2**62, 2**63 - 1])
IDS = st.integers(0, 12) | LARGE
NUMBERS = st.integers(0, 8) | LARGE
NAMES = st.sampled_from(["a", "b", "c", "", "x" * 300, "faststream/7", "faststream/x", "\n"])
WRITERS = st.sampled_from([b"v" * 16, b"w" * 16])
BATCHES = st.lists(st.binary(max_size=5), max_size=4).map(Batch.of)
PARTS = several(made(storage.Part, IDS, IDS))
LEVELS = several(made(storage.LevelChange, IDS, WRITERS, NUMBERS, NUMBERS))

# The request id is put in later.
REQUESTS: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    st.tuples(st.just(storage.MakeSegment), NAMES, st.booleans(), st.integers(0, 3)),
    st.tuples(st.just(storage.MakeSegment), NAMES, st.booleans(), st.just(storage.Existing.TAKEN)),
    st.tuples(st.just(storage.AppendRecords), IDS, NUMBERS, BATCHES),
    st.tuples(st.just(storage.AppendRecords), IDS, st.just(0), BATCHES),
    st.tuples(st.just(storage.PublishSegments), PARTS, LEVELS),
    st.tuples(st.just(storage.PublishSegments), PARTS, st.just(())),
    st.tuples(st.just(storage.DeleteHidden), several(IDS)),
    st.tuples(st.just(storage.SetGroup), IDS, NAMES, NUMBERS),
    st.tuples(st.just(storage.GetGroup), IDS, NAMES),
    st.tuples(st.just(storage.GetLevel), IDS, WRITERS),
    st.tuples(st.just(storage.ListSegments), st.sampled_from(["*", "[", "?", ""]), IDS),
    st.tuples(st.just(storage.NameSegments), several(NAMES)),
    st.tuples(st.just(storage.DescribeSegment), IDS),
    st.tuples(st.just(storage.ReadRecords), IDS, NUMBERS, NUMBERS, st.integers(0, 100)),
    st.tuples(st.just(storage.FindRecord), IDS, st.integers(0, 3), st.integers(-5, 50) | LARGE),
    st.tuples(st.just(storage.SplitRecords), IDS, NUMBERS, NUMBERS, st.integers(0, 5)),
    st.tuples(st.just(work.ListGroups), st.sampled_from(["*", "[", "?", ""]), IDS),
    st.tuples(st.just(work.MoveGroup), IDS, NAMES, NUMBERS, st.booleans()),
    st.tuples(st.just(work.DropGroup), IDS, NAMES, st.booleans()),
    st.tuples(st.just(work.SetGroupRule), IDS, NAMES, st.sampled_from(["", "{}", "x", '{"retry_seconds": [1]}'])),
    st.tuples(st.just(work.TakeRecords), IDS, NAMES, st.booleans(), NUMBERS, st.integers(0, 100), st.just(0)),
    st.tuples(st.just(work.AcknowledgeRecords), IDS, NAMES, several(NUMBERS)),
    st.tuples(st.just(work.RefuseRecords), IDS, NAMES, several(NUMBERS), st.integers(-1, 0), NAMES),
    st.tuples(st.just(work.LeaveGroup), IDS, NAMES),
    st.tuples(st.just(work.StoreRecords), IDS, WRITERS | st.just(work.NO_WRITER), NUMBERS, st.just(0), BATCHES),
    st.tuples(st.just(work.DescribeTopic), IDS),
    st.tuples(st.just(work.SealTopic), IDS),
    st.tuples(st.just(work.DeleteTopic), IDS),
    st.tuples(st.just(work.TruncateTopic), IDS, NUMBERS),
    st.tuples(st.just(work.AwaitRecord), IDS, st.just(0), st.just(0)),
)


class AnyTests(SynchronousTestCase):
    @given(st.lists(REQUESTS, max_size=40), st.booleans())
    @settings(deadline=None, max_examples=60, derandomize=True)
    def test_any(self, asked: list[tuple[Any, ...]], at_once: bool) -> None:
        """One answer for each, in order; nothing ends the connection; and a restart shows the same segments."""
        with tempfile.TemporaryDirectory() as directory:
            rig = Rig(directory, make_factory=make_factory)
            peer = rig.connect()
            rig.held = at_once
            for id, (make, *values) in enumerate(asked):
                peer.send(request_bytes(make(id, *values)))
            rig.release()
            codec = StorageReplies(1 << 20)
            replies = codec.receive(peer.take_all())
            self.assertEqual([reply.id for reply in replies], list(range(len(asked))))
            self.assertFalse(peer.closed)
            before = self.segments(rig)
            rig.close()
            rig = Rig(directory, make_factory=make_factory)
            self.assertEqual(self.segments(rig), before)
            rig.close()
        self.assertEqual(self.flushLoggedErrors(), [])

    def segments(self, rig: Rig) -> list[Any]:
        """What there is, with all records of it."""
        found: list[Any] = []
        for name in rig.store.names():
            segment = rig.store.find(name)
            records: list[bytes] = []
            while len(records) < segment.number:
                runs = self.successResultOf(rig.store.read(segment, len(records), bytes_max=1000))
                records += [bytes(record) for run in runs for record in run.batch.records()]
            groups = {name: group.position for name, group in (segment.groups or {}).items()}
            found.append((segment.id, name, records, segment.levels, groups))
        return found
