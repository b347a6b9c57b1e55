"""The bytes that a peer's writes leave in a topic never exceed the limit of its rule, however they are written."""

from __future__ import annotations

from random import Random
from uuid import uuid4

from streamd.batch import Batch
from streamd.settings import Limits
from streamd.store import Segment
from streamd.wire import tools as storage
from streamd.wire.client import fujin
from streamd.wire.tools import Code, Existing, LevelChange, Part
from tests.rigs.access.rules import RuledCase, rule
from tests.rigs.access.writing import STREAM, TOPIC, WAYS, Blocks, Enqueue, FujinTransaction, Smq, Tools, Way
from tests.rigs.protocols.rig import Rig
from tests.rigs.store.inline import read_all
from tests.rigs.wire.faststream import all_except, to_all

LIMIT = 1000
HEADER = 8
LIMITED = rule("read", "write", "create", "admin", topic_bytes_max=LIMIT)


def taken(segment: Segment) -> int:
    """The bytes that a segment holds once all that is pending is on disk."""
    return segment.next_offset - segment.first_offset


class TopicBytesCase(RuledCase):
    def start(self, *, topic: bool = True) -> Rig:
        """A store with an empty topic, and a limit to it."""
        rig = self.make(limits=Limits(message_bytes_max=1 << 20))
        if topic:
            rig.store.create(TOPIC)
            rig.run()
        self.put(rig, LIMITED)
        return rig

    def assert_within(self, rig: Rig, what: object = None) -> None:
        """No topic is over the limit: as committed, as claimed, hidden or not."""
        segments = rig.store._segments
        for segment in {*segments.by_id.values(), *segments.claimed.values()}:
            self.assertLessEqual(segment.offset - segment.first_offset, LIMIT, (what, segment))
            self.assertLessEqual(taken(segment), LIMIT, (what, segment))

    def records(self, rig: Rig) -> list[bytes]:
        """What the topic holds."""
        if TOPIC not in rig.store.names():
            return []
        return [bytes(record) for run in read_all(rig.store, rig.store.find(TOPIC)) for record in run.batch.records()]


class EveryWayTests(TopicBytesCase):
    """Each way alone."""

    def test_largest(self) -> None:
        """A record that fills the topic to the last byte is stored; one of a byte more is refused, and counted."""
        for make in WAYS:
            for more in (0, 1):
                rig = self.start()
                way = make(rig)
                record = b"x" * (LIMIT // way.copies - HEADER + more)
                way.write(record)
                self.assertEqual(self.records(rig), [] if more else [record] * way.copies, (make, more))
                self.assertEqual(rig.load.refusals["topic_bytes"] > 0, bool(more), (make, more))
                rig.close()

    def test_small(self) -> None:
        """What a record takes beside its bytes counts too: it is what fills a topic with empty ones."""
        for make in WAYS:
            rig = self.start()
            way = make(rig)
            for _ in range(LIMIT // HEADER + 2):
                way.write(b"")
            self.assertEqual(taken(rig.store.find(TOPIC)), LIMIT // (HEADER * way.copies) * HEADER * way.copies, make)
            rig.close()

    def test_at_once(self) -> None:
        """Records that are sent at once are stored as far as they fit, though nothing of them is on disk yet."""
        for make in WAYS:
            for there in (True, False):
                rig = self.start(topic=there)
                way = make(rig)
                if not there and not way.creates:
                    rig.close()
                    continue
                records = [bytes([65 + number]) * 300 for number in range(5)]
                way.prepare()
                rig.held = True
                way.peer.send(way.asked(*records))
                self.assert_within(rig, make)
                rig.release()
                self.assert_within(rig, make)
                fitting = 0 if way.together else LIMIT // (308 * way.copies)
                expected = [record for record in records[:fitting] for _ in range(way.copies)]
                self.assertEqual(self.records(rig), expected, (make, there))
                rig.close()

    def test_as_alone(self) -> None:
        """A run of writes is answered, and stored, as if each had been sent alone."""
        random = Random(12)
        for make in WAYS:
            for there in (True, False):
                sizes = [random.choice((0, 1, 50, 120, 400, 990, 2000)) for _ in range(12)]
                records = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
                told: list[tuple[bytes, list[bytes]]] = []
                for together in (True, False):
                    rig = self.start(topic=there)
                    way = make(rig)
                    if way.in_runs and (there or way.creates):
                        asked = way.asked(*records)
                        pieces = [asked] if together else [asked[at : at + 1] for at in range(len(asked))]
                        told.append((b"".join(map(way.peer.ask, pieces)), self.records(rig)))
                    rig.close()
                if told:
                    self.assertEqual(told[0], told[1], (make, there))
                    self.assertTrue(told[0][1])

    def test_block_again(self) -> None:
        """A block that comes again is acknowledged again, however full the topic is."""
        rig = self.start()
        way = Blocks(rig)
        asked = way.asked(b"x" * 900)
        told = way.peer.ask(asked)
        rig.publish(TOPIC, b"y" * 80)
        before = self.records(rig)
        self.assertEqual(way.peer.ask(asked)[-32:], told[-32:])
        self.assertEqual(self.records(rig), before)
        self.assertEqual(rig.load.refusals["topic_bytes"], 0)

    def test_first_pushes(self) -> None:
        """Pushes that come before the queue is there count together, and one that is refused does not make it."""
        rig = self.start(topic=False)
        Smq(rig).write(b"x" * LIMIT)
        self.assertEqual(rig.store.names(), [])
        rig.held = True
        for _ in range(20):
            Smq(rig).write(b"x" * 100)
        self.assert_within(rig)
        rig.release()
        self.assertEqual(len(self.records(rig)), LIMIT // 108)

    def test_broadcast(self) -> None:
        """To all streams nobody writes whose rule has a limit."""
        rig = self.start()
        peer = Enqueue(rig).peer
        peer.send(to_all(b"x") + all_except(b"x", STREAM + 1))
        self.assertEqual(self.records(rig), [])
        self.assertEqual(rig.load.refusals["not_allowed"], 2)


class MixTests(TopicBytesCase):
    """All ways at once."""

    def test_any(self) -> None:
        """Whatever is written by whom, in whatever pieces and before what commit, no topic is ever over the limit."""
        stored: set[str] = set()
        for seed in range(40):
            random = Random(seed)
            rig = self.start(topic=random.random() < 0.5)
            ways: list[Way] = [make(rig) for make in random.choices(WAYS, k=6)]
            for _ in range(30):
                way = random.choice(ways)
                if not (TOPIC in rig.store.names() or way.creates or isinstance(way, Tools)):
                    continue
                records = [b"x" * random.choice((0, 3, 40, 150, 400)) for _ in range(random.randrange(1, 5))]
                way.prepare()
                before = taken(rig.store.find(TOPIC)) if TOPIC in rig.store.names() else 0
                asked, cut = way.asked(*records), random.randrange(200)
                way.peer.send(asked[:cut])
                rig.held = random.random() < 0.5
                if not way.peer.closed:
                    way.peer.send(asked[cut:])
                self.assert_within(rig, (seed, way))
                if TOPIC in rig.store.names() and taken(rig.store.find(TOPIC)) > before:
                    stored.add(type(way).__name__)
                if random.random() < 0.2 and TOPIC in rig.store.names():
                    rig.store.truncate(rig.store.find(TOPIC), rig.store.find(TOPIC).number // 2)
            rig.release()
            self.assert_within(rig, seed)
            self.assertGreater(taken(rig.store.find(TOPIC)), 0)
            rig.close()
        self.assertEqual(stored, {make.__name__ for make in WAYS if isinstance(make, type)})


class TransactionTests(TopicBytesCase):
    """Transactions that are too large for memory, and so are in hidden segments until their commit."""

    def test_spilled(self) -> None:
        """Each counts what it has written, whichever is committed first; the other is refused as a whole."""
        rig = self.make()
        limit, size = 1_000_000, 100_000
        self.put(rig, rule("write", "create", topic_bytes_max=limit))
        first, second = FujinTransaction(rig), FujinTransaction(rig)
        for way in (first, second):
            way.peer.send(fujin.begin(0))
            for id in range(12):
                way.peer.send(fujin.write(id, TOPIC, b"x" * size))
        self.assertEqual(rig.load.refusals["topic_bytes"], 6)
        self.assertEqual([taken(each) for each in rig.store.hidden_segments()], [9 * (size + HEADER)] * 2)
        second.peer.send(fujin.commit(0))
        self.assertEqual(taken(rig.store.find(TOPIC)), 9 * (size + HEADER))
        peer = first.peer
        peer.send(fujin.commit(0))
        self.assertTrue(peer.closed)
        self.assertEqual(taken(rig.store.find(TOPIC)), 9 * (size + HEADER))
        self.assertEqual(rig.store.hidden_segments(), [])


class PublishTests(TopicBytesCase):
    """What is special about hidden segments."""

    def setUp(self) -> None:
        self.rig = self.start()
        self.tools = Tools(self.rig)
        self.target = self.tools.ask(storage.MakeSegment(1, TOPIC, False, Existing.TAKEN)).segments[0].id

    def hide(self, *sizes: int) -> list[int]:
        """Hidden segments with one record of so many bytes each."""
        made = []
        for size in sizes:
            name = f"hidden/{uuid4().hex}"
            made.append(self.tools.ask(storage.MakeSegment(1, name, True, Existing.REFUSED)).segments[0].id)
            self.tools.ask(storage.AppendRecords(1, made[-1], 0, Batch.of([b"x" * size])))
        return made

    def publish(self, hidden: list[int], *levels: LevelChange) -> storage.SegmentsPublished | storage.Refusal:
        parts = tuple(Part(id, self.target) for id in hidden)
        reply = self.tools.ask(storage.PublishSegments(1, parts, levels))
        assert isinstance(reply, storage.SegmentsPublished | storage.Refusal)
        return reply

    def test_together(self) -> None:
        """All parts of a publication count together: it is refused as a whole, and nothing is done."""
        hidden = self.hide(400, 400, 400)
        refusal = self.publish(hidden)
        assert isinstance(refusal, storage.Refusal)
        self.assertEqual(refusal.code, Code.NOT_ALLOWED)
        self.assertEqual(self.records(self.rig), [])
        self.assertIsInstance(self.publish(hidden[:2]), storage.SegmentsPublished)
        self.assertEqual(taken(self.rig.store.find(TOPIC)), 816)

    def test_hidden(self) -> None:
        """A hidden segment is a topic of its name: it is filled up to the limit, and what is sent again is known."""
        (hidden,) = self.hide(900)
        more = storage.AppendRecords(1, hidden, 1, Batch.of([b"y" * 100]))
        refusal = self.tools.ask(more)
        self.assertEqual(refusal.code, Code.NOT_ALLOWED)
        self.assertEqual(taken(self.rig.store.find_id(hidden)), 908)
        again = storage.AppendRecords(1, hidden, 0, Batch.of([b"x" * 900]))
        self.assertEqual(self.tools.ask(again), storage.RecordsAppended(1, 1))

    def test_again(self) -> None:
        """What was published before is acknowledged again, however full the topic is."""
        level = LevelChange(self.target, b"w" * 16, 0, 1)
        self.assertEqual(self.publish(self.hide(900), level), storage.SegmentsPublished(1, False))
        self.assertEqual(self.publish(self.hide(900), level), storage.SegmentsPublished(1, True))
