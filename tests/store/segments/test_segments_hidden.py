"""Hidden segments: nobody lists them, and publishing makes them part of others, all at once and by reference."""

from __future__ import annotations

from streamd.batch import Batch
from streamd.store import (
    Level,
    LevelGap,
    NoSuchSegment,
    Segment,
    SegmentExists,
    SegmentSealed,
    StoreError,
)
from streamd.store.journal.frame import Kind
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.case import StoreCase, Told

WRITER = b"w" * 16


class HiddenCase(StoreCase):
    """A store with two segments to publish into."""

    def setUp(self) -> None:
        super().setUp()
        self.a, self.b = self.create("a", "b")

    def hide(self, name: str, *records: bytes) -> Segment:
        """A new hidden segment with records."""
        segment = self.do(self.store.create, name, hidden=True)
        if records:
            self.append(segment, *records)
        return segment


class HiddenTests(HiddenCase):
    """Before they are published."""

    def test_nobody_lists_it(self) -> None:
        """A hidden segment has a name of its own, beside a visible one's, and is found by who knows it."""
        hidden = self.hide("a", b"x")
        self.assertEqual(self.store.names(), ["a", "b"])
        self.assertIs(self.store.find("a"), self.a)
        self.assertIs(self.store.find_hidden("a"), hidden)
        self.assertEqual(self.store.hidden_segments(), [hidden])
        self.refuses(SegmentExists, self.store.create, "a", hidden=True)

    def test_survives(self) -> None:
        """It is there after a restart, and hidden."""
        self.hide("h", b"x")
        self.kill()
        self.assertEqual(self.store.names(), ["a", "b"])
        self.assertEqual(self.records(self.store.find_hidden("h")), [b"x"])

    def test_abandoned(self) -> None:
        """What is deleted is gone, and its name is free."""
        self.do(self.store.delete, self.hide("h", b"x"))
        self.assertEqual(self.store.hidden_segments(), [])
        self.hide("h")
        self.kill()
        self.assertEqual(self.records(self.store.find_hidden("h")), [])


class PublishTests(HiddenCase):
    """What publishing does."""

    def test_by_reference(self) -> None:
        """Records have their place behind those of the target, numbers and offsets go on, and more can follow."""
        self.append(self.a, b"before")
        hidden = self.hide("h", b"one", b"two")
        self.append(hidden, b"raw", tag=TAG_RAW)
        self.do(self.store.publish, [(hidden, self.a)])
        self.append(self.a, b"behind")
        for _ in range(2):
            self.assertEqual(self.records("a"), [b"before", b"one", b"two", b"raw", b"behind"])
            runs = self.runs("a")
            self.assertEqual([run.number for run in runs], [0, 1, 3, 4])
            self.assertEqual([run.offset for run in runs], [0, 14, 36, 39])
            self.assertEqual(self.store.hidden_segments(), [])
            self.kill()

    def test_cost(self) -> None:
        """What is written to publish does not depend on how much is published: one small entry for each segment."""
        costs = []
        for size in (1, 300_000):
            sources = [self.hide(f"{size} {each}", b"x" * size, b"y" * size) for each in range(3)]
            self.do(self.store.publish, [(source, self.a) for source in sources], [Level(self.a, WRITER, 0, 1)])
            frame = self.frames()[-1]
            self.assertEqual([each.kind for each in frame.headers], [Kind.PUBLISH] * 3 + [Kind.LEVEL])
            costs.append(frame.length)
            self.do(self.store.delete, self.a)
            (self.a,) = self.create("a")
        self.assertEqual(costs[0], costs[1])
        self.assertLess(costs[0], 500)

    def test_time(self) -> None:
        """Published records have the time of their publication: time never goes back in a segment."""
        hidden = self.hide("h", b"early")
        self.append(self.a, b"later")
        self.do(self.store.publish, [(hidden, self.a)])
        later, early = self.runs("a")
        self.assertGreater(early.timestamp, later.timestamp)

    def test_all_or_nothing(self) -> None:
        """Several segments and the ack levels are one frame; where one part is refused, nothing is done."""
        sources = [self.hide(name, name.encode()) for name in ("x", "y")]
        pairs = [(sources[0], self.a), (sources[1], self.b)]
        self.refuses(LevelGap, self.store.publish, pairs, [Level(self.a, WRITER, 5, 6)])
        self.do(self.store.seal, self.b)
        self.refuses(SegmentSealed, self.store.publish, pairs, [Level(self.a, WRITER, 0, 1)])
        self.assertEqual((self.records("a"), self.a.levels), ([], None))
        self.do(self.store.publish, [(sources[0], self.a), (sources[1], self.a)], [Level(self.a, WRITER, 0, 1)])
        self.assertEqual((self.records("a"), self.a.levels), ([b"x", b"y"], {WRITER: 1}))

    def test_again(self) -> None:
        """Publishing with levels that are stored is acknowledged again; nothing is stored twice, or taken away."""
        hidden = self.hide("h", b"x")
        levels = [Level(self.a, WRITER, 0, 1)]
        self.do(self.store.publish, [(hidden, self.a)], levels)
        # Once with the same segment, once with what a writer made anew after a crash.
        self.do(self.store.publish, [(hidden, self.a)], levels)
        self.do(self.store.publish, [(self.hide("h", b"x"), self.a)], levels)
        for _ in range(2):
            self.assertEqual(self.records("a"), [b"x"])
            self.assertEqual(self.store.hidden_segments(), [])
            self.kill()

    def test_again_while_pending(self) -> None:
        """The same where the first one is not on disk yet: both are told then, in order."""
        hidden = self.hide("h", b"x")
        told = Told()
        told.when(1, self.store.publish([(hidden, self.a)], [Level(self.a, WRITER, 0, 1)]))
        told.when(2, self.store.publish([(hidden, self.a)], [Level(self.a, WRITER, 0, 1)]))
        self.assertEqual(told.names, [])
        self.writer.run()
        self.assertEqual(told.results, [(1, None), (2, None)])
        self.assertEqual(self.records("a"), [b"x"])

    def test_gone(self) -> None:
        """A published segment is no segment any more: nothing can be done to it that its target would feel."""
        hidden = self.hide("h", b"x", b"y")
        published = self.store.publish([(hidden, self.a)])
        for operation, args in (
            (self.store.delete, (hidden,)),
            (self.store.truncate, (hidden, 1)),
            (self.store.append, (hidden, Batch.of([b"z"]))),
            (self.store.publish, ([(hidden, self.b)],)),
        ):
            if published is not None and not published.called:
                self.refuses(NoSuchSegment, operation, *args)
            self.refuses(NoSuchSegment, operation, *args)
        self.assertEqual(self.records("a"), [b"x", b"y"])
        self.hide("h", b"its name is free")

    def test_refused(self) -> None:
        """Only a whole hidden segment, once, into one that is not hidden."""
        hidden, other = self.hide("h", b"x", b"y"), self.hide("o", b"z")
        self.refuses(StoreError, self.store.publish, [(hidden, other)])
        self.refuses(StoreError, self.store.publish, [(self.a, self.b)])
        self.refuses(StoreError, self.store.publish, [(hidden, self.a), (hidden, self.b)])
        self.do(self.store.truncate, hidden, 1)
        self.refuses(StoreError, self.store.publish, [(hidden, self.a)])
        self.do(self.store.delete, self.b)
        self.refuses(NoSuchSegment, self.store.publish, [(other, self.b)])
        self.refuses(NoSuchSegment, self.store.publish, [(other, self.a)], [Level(self.b, WRITER, 0, 1)])
        self.assertEqual(self.records("a"), [])

    def test_empty(self) -> None:
        """An empty one can be published too."""
        self.do(self.store.publish, [(self.hide("h"), self.a)])
        self.append(self.a, b"x")
        self.kill()
        self.assertEqual(self.records("a"), [b"x"])

    def test_waiting_readers(self) -> None:
        """Who waits at the tail of the target is told."""
        hidden = self.hide("h", b"x")
        waiting = self.store.wait(self.a, 0)
        self.do(self.store.publish, [(hidden, self.a)])
        self.successResultOf(waiting)
