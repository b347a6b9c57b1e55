"""Ack levels: every writer's data is stored once, in order, whatever it sends again."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from streamd.batch import Batch
from streamd.store import Append, LevelGap, LevelMismatch, LevelOverlap, Segment, StoreError, StoreReadOnly
from streamd.store.journal.frame import Kind
from tests.rigs.store.case import StoreCase, Told
from tests.rigs.store.folded import FoldCase

WRITER = b"\x01" * 16
OTHER = b"\x02" * 16


class LevelTests(StoreCase):
    """Compare-and-set on the stored level, with its four outcomes."""

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("news")

    def send(self, expected: int, level: int, writer: bytes = WRITER, **more: int) -> list[int]:
        """Append records `expected` to `level`; the records that are stored afterwards."""
        records = [b"%d" % number for number in range(expected, level)]
        self.append(self.segment, *records, writer=writer, expected=expected, level=level, **more)
        return list(map(int, self.records(self.segment)))

    def test_outcomes(self) -> None:
        """Equal: stored. At or above: acknowledged again. Between: an overlap. Below: a gap. Also after a restart."""
        self.assertEqual(self.send(0, 4), [0, 1, 2, 3])
        for _ in range(2):
            for expected in range(7):
                for level in range(expected + 1, 8):
                    if level <= 4:
                        self.assertEqual(self.send(expected, level), [0, 1, 2, 3])
                    elif expected != 4:
                        wanted = LevelOverlap if expected < 4 else LevelGap
                        error = self.assertRaises(wanted, self.send, expected, level)
                        assert isinstance(error, LevelMismatch)
                        self.assertEqual(error.stored, 4)
            self.assertEqual(self.segment.levels, {WRITER: 4})
            self.reopen()
            self.segment = self.store.find("news")
        self.assertEqual(self.send(4, 6), [0, 1, 2, 3, 4, 5])
        self.assertEqual(self.segment.levels, {WRITER: 6})

    def test_duplicate_is_said(self) -> None:
        """Who is acknowledged again is told so."""
        batch = Batch.of([b"x"])
        keywords = {"writer": WRITER, "expected": 0, "level": 1}
        self.assertFalse(self.do(self.store.append, self.segment, batch, **keywords).duplicate)
        self.assertTrue(self.do(self.store.append, self.segment, batch, **keywords).duplicate)

    def test_writers(self) -> None:
        """Levels of writers, and of segments, have nothing to do with each other."""
        self.assertEqual(self.send(0, 2), [0, 1])
        self.assertEqual(self.send(0, 1, OTHER), [0, 1, 0])
        (other,) = self.create("other")
        self.append(other, b"x", writer=WRITER, expected=0, level=9)
        self.reopen()
        self.assertEqual(self.store.find("news").levels, {WRITER: 2, OTHER: 1})
        self.assertEqual(self.store.find("other").levels, {WRITER: 9})

    def test_initial(self) -> None:
        """A writer that is new begins at the level that it names, which may be below zero."""
        low = -(1 << 63)
        self.assertEqual(self.send(0, 2, initial=0), [0, 1])
        self.append(self.segment, b"7", writer=OTHER, expected=low, level=low + 5, initial=low)
        self.reopen()
        self.assertEqual(self.store.find("news").levels, {WRITER: 2, OTHER: low + 5})
        self.segment = self.store.find("news")
        self.assertRaises(LevelGap, self.send, 1, 2, b"\x03" * 16)

    def test_level_alone(self) -> None:
        """A writer can raise its level without a record."""
        self.append(self.segment, writer=WRITER, expected=0, level=3)
        self.kill()
        self.segment = self.store.find("news")
        self.assertEqual((self.segment.levels, self.records(self.segment)), ({WRITER: 3}, []))

    def test_pending(self) -> None:
        """What is pending counts: a duplicate, an overlap and a gap are judged by it, and told when it is on disk."""
        told = Told()
        one = Batch.of([b"x"])
        for name, expected, level in (
            ("first", 0, 2),
            ("duplicate", 0, 2),
            ("next", 2, 4),
            ("overlap", 1, 5),
            ("gap", 6, 7),
            ("older", 0, 1),
            ("last", 4, 5),
        ):
            told.when(name, self.store.append(self.segment, one, writer=WRITER, expected=expected, level=level))
        self.assertEqual(told.results, [])
        self.writer.step()
        # The duplicate was of something in flight, and was judged before anything was gathered.
        self.assertEqual(told.names, ["first", "duplicate"])
        self.writer.run()
        self.assertEqual(told.names, ["first", "duplicate", "next", "overlap", "gap", "older", "last"])
        results = dict(told.results)
        self.assertEqual(
            [results[name].duplicate for name in ("first", "duplicate", "next", "older", "last")],
            [False, True, False, True, False],
        )
        self.assertEqual((type(results["overlap"]), results["overlap"].stored), (LevelOverlap, 4))
        self.assertEqual((type(results["gap"]), results["gap"].stored), (LevelGap, 4))
        self.assertEqual(len(self.records(self.segment)), 3)

    def test_pending_fails(self) -> None:
        """A duplicate of something that fails, fails with it, and can be sent again."""
        self.disk.capacity_bytes = self.disk.used_bytes()
        told = Told()
        large = Batch.of([bytes(2 << 20)])
        for name in ("first", "duplicate"):
            told.when(name, self.store.append(self.segment, large, writer=WRITER, expected=0, level=1))
        self.writer.run()
        self.assertEqual([type(result) for _, result in told.results], [StoreReadOnly] * 2)
        self.assertFalse(self.segment.levels)
        self.disk.capacity_bytes = None
        self.clock.advance(2)
        self.assertEqual(self.send(0, 1), [0])

    def test_one_entry_for_each_writer(self) -> None:
        """However often a writer appends during a commit, its level is written once."""
        self.store.append(self.segment, Batch.of([b"flies alone"]))
        for number in range(20):
            for writer in (WRITER, OTHER):
                one = Batch.of([b"x"])
                self.store.append(self.segment, one, writer=writer, expected=number, level=number + 1)
        self.writer.run()
        headers = self.frames()[-1].headers
        levels = [(header.writer, header.level) for header in headers if header.kind == Kind.LEVEL]
        self.assertEqual(levels, [(WRITER, 20), (OTHER, 20)])
        self.kill()
        self.assertEqual(self.store.find("news").levels, {WRITER: 20, OTHER: 20})


class AppendAllTests(StoreCase):
    """Appends to several segments are all there, or none."""

    def setUp(self) -> None:
        super().setUp()
        self.a, self.b = self.create("a", "b")

    def part(self, segment: Segment, record: bytes, expected: int, level: int) -> Append:
        return Append(segment, Batch.of([record]), 0, WRITER, expected, level)

    def test_one_frame(self) -> None:
        """All of it is in one frame, and each part is told its place."""
        frames = len(self.frames())
        parts = [
            Append(self.a, Batch.of([b"1", b"2"])),
            Append(self.b, Batch.of([b"3"]), 5),
            Append(self.a, Batch.of([b"4"])),
        ]
        places = self.do(self.store.append_all, parts)
        self.assertEqual(len(self.frames()), frames + 1)
        self.assertEqual([place[:2] for place in places], [(0, 0), (0, 0), (2, 18)])
        self.assertEqual((self.records(self.a), self.records(self.b)), ([b"1", b"2", b"4"], [b"3"]))

    def test_one_is_refused(self) -> None:
        """Where one part can't be, nothing is: a gap, an overlap, a sealed or a deleted segment."""
        sealed, deleted = self.create("sealed", "deleted")
        self.do(self.store.seal, sealed)
        self.do(self.store.delete, deleted)
        self.do(self.store.append_all, [self.part(self.a, b"0", 0, 3)])
        good = self.part(self.b, b"x", 0, 1)
        for bad in (
            self.part(self.a, b"x", 4, 5),
            self.part(self.a, b"x", 2, 5),
            Append(sealed, Batch.of([b"x"])),
            Append(deleted, Batch.of([b"x"])),
        ):
            for parts in ([good, bad], [bad, good]):
                self.assertRaises(StoreError, self.do, self.store.append_all, parts)
        self.assertEqual((self.records(self.a), self.records(self.b), self.b.levels), ([b"0"], [], None))

    def test_writer_twice(self) -> None:
        """A writer that stands twice goes on from its own first part."""
        parts = [self.part(self.a, b"0", 0, 2), self.part(self.b, b"1", 0, 9), self.part(self.a, b"2", 2, 3)]
        self.do(self.store.append_all, parts)
        places = self.do(self.store.append_all, parts)
        self.assertTrue(all(place.duplicate for place in places))
        self.assertEqual((self.records(self.a), self.records(self.b)), ([b"0", b"2"], [b"1"]))
        self.assertEqual((self.a.levels, self.b.levels), ({WRITER: 3}, {WRITER: 9}))

    def test_partly_duplicate(self) -> None:
        """Parts that are stored already are acknowledged again beside those that are new."""
        self.do(self.store.append_all, [self.part(self.a, b"0", 0, 1)])
        places = self.do(self.store.append_all, [self.part(self.a, b"0", 0, 1), self.part(self.b, b"1", 0, 1)])
        self.assertEqual([place.duplicate for place in places], [True, False])
        self.assertEqual((self.records(self.a), self.records(self.b)), ([b"0"], [b"1"]))

    def test_nothing(self) -> None:
        """Nothing to append is acknowledged at once, or when what is pending is on disk; no frame is written for it."""
        frames = len(self.frames())
        nothing = [[], [Append(self.a, Batch.of([]))]]
        for parts in nothing:
            self.successResultOf(self.store.append_all(parts))
        self.assertEqual(len(self.frames()), frames)
        told = Told()
        told.when("append", self.store.append(self.a, Batch.of([b"x"])))
        for parts in nothing:
            told.when("nothing", self.store.append_all(parts))
        self.writer.run()
        self.assertEqual(told.names, ["append", "nothing", "nothing"])
        self.assertEqual(len(self.frames()), frames + 1)


class FanOutTests(StoreCase):
    """One payload for many segments is written once."""

    def test_written_once(self) -> None:
        """The bytes are on the disk once, and in every segment."""
        segments = self.create(*[f"s{number}" for number in range(20)])
        payload = bytes(range(256)) * 300
        self.do(self.store.fan_out, segments, Batch.of([payload, b"second"]), tag=9)
        whole = b"".join([bytes(self.disk.content(path)) for path in self.files()])
        self.assertEqual(whole.count(payload), 1)
        for _ in range(2):
            for number in range(20):
                self.assertEqual(self.records(f"s{number}"), [payload, b"second"])
            self.reopen()
        self.assertEqual(self.store.find("s7").offset, len(payload) + 6 + 16)

    def test_twice(self) -> None:
        """A segment that stands twice receives twice."""
        a, b = self.create("a", "b")
        self.do(self.store.fan_out, [a, b, a], Batch.of([b"x", b"y"]))
        self.assertEqual((self.records(a), self.records(b)), ([b"x", b"y", b"x", b"y"], [b"x", b"y"]))
        self.reopen()
        self.assertEqual(self.records("a"), [b"x", b"y", b"x", b"y"])

    def test_twice_in_pieces(self) -> None:
        """Also where it takes several entries: all of it, and then all of it again."""
        a, b = self.create("a", "b")
        records = [b"1" * 200_000, b"2" * 200_000, b"3" * 200_000]
        self.do(self.store.fan_out, [a, b, a, a], Batch.of(records))
        self.assertEqual((self.records(a), self.records(b)), (records * 3, records))
        self.reopen()
        self.assertEqual((self.records("a"), self.records("b")), (records * 3, records))

    def test_between_appends(self) -> None:
        """Appends before and after it, in the same commit, stay before and after it."""
        a, b = self.create("a", "b")
        self.store.append(b, Batch.of([b"flies alone"]))
        self.store.append(a, Batch.of([b"1"]))
        self.store.fan_out([a, b], Batch.of([b"2"]))
        self.store.append(a, Batch.of([b"3"]))
        self.store.fan_out([a], Batch.of([b"4"]))
        self.store.append(a, Batch.of([b"5"]))
        self.writer.run()
        self.assertEqual(self.records(a), [b"1", b"2", b"3", b"4", b"5"])
        self.kill()
        self.assertEqual(self.records("a"), [b"1", b"2", b"3", b"4", b"5"])

    def test_split(self) -> None:
        """Large batches, and such with very many small records, are split as those of an append are."""
        a, b = self.create("a", "b")
        for lengths in ([0] * 200_000, [1] * 150_000, [100] * 6_000, [300_000, 1, 200_000]):
            before = len(self.records(a))
            records = [b"x" * length for length in lengths]
            self.do(self.store.fan_out, [a, b], Batch.of(records))
            for header in self.frames()[-1].headers:
                self.assertTrue(header.length <= 256 << 10 or header.count == 1, header)
            self.assertEqual(self.records(a)[before:], records)
            self.assertEqual(self.records(b)[before:], records)

    def test_many_segments(self) -> None:
        """More segments than one entry can name, each of them once."""
        (a,) = self.create("a")
        self.do(self.store.fan_out, [a] * 40_000, Batch.of([b"x"]))
        self.assertEqual(a.number, 40_000)
        for header in self.frames()[-1].headers:
            self.assertLessEqual(header.length, 256 << 10)

    def test_refused(self) -> None:
        """Where one segment can't take it, none does; to no segment, or of no record, it is nothing."""
        a, b, c = self.create("a", "b", "c")
        self.do(self.store.seal, b)
        self.do(self.store.delete, c)
        for bad in (b, c):
            self.assertRaises(StoreError, self.do, self.store.fan_out, [a, bad], Batch.of([b"x"]))
        self.do(self.store.fan_out, [], Batch.of([b"x"]))
        self.do(self.store.fan_out, [a], Batch.of([]))
        self.assertEqual(self.append(a, b"first")[:2], (0, 0))


class ForgottenTests(FoldCase):
    """A writer that is forgotten is new again."""

    def test_forgotten(self) -> None:
        """At once, after a restart, and when the catalog has it; others keep their levels."""
        (segment,) = self.create("news")
        for writer in (WRITER, OTHER):
            self.append(segment, b"x", writer=writer, expected=0, level=7)
        self.fold()
        segment = self.store.find("news")
        self.do(self.store.forget_level, segment, WRITER)
        for again in (self.reopen, self.fold, self.reopen):
            self.assertEqual(segment.levels, {OTHER: 7})
            self.assertIsNone(segment.claimed_level(WRITER))
            again()
            segment = self.store.find("news")
        self.append(segment, b"y", writer=WRITER, expected=0, level=1)
        self.assertEqual(segment.levels, {OTHER: 7, WRITER: 1})


class TogetherTests(StoreCase):
    """Changes that are asked for together are one commit."""

    def test_one_frame(self) -> None:
        """Whatever they are: after a crash all of them are there, or none."""
        (target,) = self.create("target")
        hidden = self.do(self.store.create, "hidden", hidden=True)
        self.append(hidden, b"x")
        before = self.store.commits
        with self.store.together():
            done: list[Deferred[Any]] = [
                self.store.publish([(hidden, target)]),
                self.store.set_attribute(target, b"key", b"value"),
                self.store.create("new"),
            ]
        self.writer.run()
        self.assertEqual([each.called for each in done], [True] * 3)
        self.assertEqual(self.store.commits, before + 1)
