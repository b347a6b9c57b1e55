"""Segments: made, appended to, sealed and ended."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from streamd.batch import Batch
from streamd.store import (
    BadName,
    NoSuchSegment,
    RequestTooLarge,
    SegmentExists,
    SegmentSealed,
    StoreReadOnly,
)
from streamd.store.journal.frame import Kind
from streamd.store.records.offsets import TAG_RAW
from tests.rigs.store.case import StoreCase, Told
from tests.rigs.store.inline import result_of
from tests.rigs.store.model import Contents, contents


class SegmentTests(StoreCase):
    """Segments begin and end."""

    def test_create(self) -> None:
        """A new segment is empty, is found by its name, and outlives the process."""
        (segment,) = self.create("news")
        self.assertIs(self.store.find("news"), segment)
        self.assertEqual((segment.number, segment.offset, segment.sealed), (0, 0, False))
        self.reopen()
        self.assertEqual((self.store.names(), len(self.store)), (["news"], 1))
        self.assertEqual(self.store.find("news").id, segment.id)

    def test_not_before_it_is_on_disk(self) -> None:
        """Nobody sees a segment, nor its end, before that is on disk."""
        made = self.store.create("news")
        self.assertNoResult(made)
        self.assertRaises(NoSuchSegment, self.store.find, "news")
        self.writer.run()
        segment = self.successResultOf(made)
        gone = self.store.delete(segment)
        self.assertIs(self.store.find("news"), segment)
        self.assertNoResult(gone)
        self.writer.run()
        self.successResultOf(gone)
        self.assertRaises(NoSuchSegment, self.store.find, "news")

    def test_names(self) -> None:
        """Names are listed in the order of creation, whatever happened in between."""
        first, *_ = self.create("c", "a", "b")
        self.do(self.store.delete, first)
        self.create("c")
        self.assertEqual(self.store.names(), ["a", "b", "c"])
        self.reopen()
        self.assertEqual(self.store.names(), ["a", "b", "c"])

    def test_good_names(self) -> None:
        """A name is any text of 1 to 255 bytes without control characters, and stays what it is."""
        names = [
            "x",
            "ü/ñ",
            "a b",
            "\u2028",
            "n" * 255,
            "é" * 127,
            "faststream/0",
            "faststream/4294967295",
            "faststream",
        ]
        self.create(*names)
        self.reopen()
        self.assertEqual(self.store.names(), names)

    def test_bad_names(self) -> None:
        """Every other name is refused, and changes nothing."""
        bad = ["", "n" * 256, "é" * 128, "a\nb", "\0", "\x7f", "\x85", "\ud800"]
        bad += [f"faststream/{number}" for number in ("", "01", "-1", "x", "4294967296", "1/2", " 1", "\u0661")]
        for name in bad:
            self.refuses(BadName, self.store.create, name)
        self.assertEqual(self.store.names(), [])

    def test_exists(self) -> None:
        """A name that is taken, or being taken, is refused; in the second case when that is certain."""
        first = self.store.create("news")
        second = self.store.create("news")
        self.assertNoResult(second)
        self.writer.run()
        self.successResultOf(first)
        self.failureResultOf(second, SegmentExists)
        self.refuses(SegmentExists, self.store.create, "news")

    def test_delete(self) -> None:
        """A deleted segment is gone for everybody who still holds it, and after a restart."""
        (segment,) = self.create("news")
        self.append(segment, b"x")
        self.do(self.store.delete, segment)
        one = Batch.of([b"y"])
        for operation, arguments in (
            (self.store.delete, ()),
            (self.store.seal, ()),
            (self.store.truncate, (1,)),
            (self.store.append, (one,)),
            (self.store.set_group, ("g", 0)),
            (self.store.acknowledge, ("g", [])),
            (self.store.drop_group, ("g",)),
            (self.store.set_attribute, (b"k", b"v")),
            (self.store.read, (0,)),
        ):
            more = {"bytes_max": 1} if operation == self.store.read else {}
            self.refuses(NoSuchSegment, operation, segment, *arguments, **more)
        self.reopen()
        self.assertEqual(self.store.names(), [])

    def test_delete_pending(self) -> None:
        """What is asked of a segment whose end is pending is refused when that is on disk, not before."""
        (segment,) = self.create("news")
        told = Told()
        told.when("deleted", self.store.delete(segment))
        told.when("append", self.store.append(segment, Batch.of([b"x"])))
        told.when("delete", self.store.delete(segment))
        self.assertEqual(told.results, [])
        self.writer.run()
        self.assertEqual(told.names, ["deleted", "append", "delete"])
        self.assertEqual([type(result) for _, result in told.results[1:]], [NoSuchSegment] * 2)

    def test_recreated(self) -> None:
        """A segment made again under the same name is another one: nothing of the old one is in it."""
        (old,) = self.create("news")
        self.append(old, b"old", writer=b"w" * 16, expected=0, level=5)
        self.do(self.store.set_group, old, "g", 1)
        self.do(self.store.set_attribute, old, b"k", b"v")
        # All at once, in one commit behind another.
        told = Told()
        told.when(1, self.store.append(old, Batch.of([b"more"])))
        told.when(2, self.store.delete(old))
        told.when(3, self.store.create("news"))
        self.writer.run()
        self.assertEqual(told.names, [1, 2, 3])
        new = told.results[2][1]
        self.assertIs(self.store.find("news"), new)
        self.assertGreater(new.id, old.id)
        self.refuses(NoSuchSegment, self.store.append, old, Batch.of([b"x"]))
        expected: Contents = {"news": ((0, 0, 0, 0, False), (), {}, {}, {})}
        self.assertEqual(contents(self.store), expected)
        self.reopen()
        self.assertEqual(contents(self.store), expected)
        self.assertEqual(self.store.find("news").id, new.id)

    def test_seal(self) -> None:
        """A sealed segment is read and cut, and takes no record; sealing it again changes nothing."""
        (segment,) = self.create("news")
        self.append(segment, b"x", b"y")
        told = Told()
        told.when("seal", self.store.seal(segment))
        told.when("append", self.store.append(segment, Batch.of([b"z"])))
        told.when("again", self.store.seal(segment))
        self.assertEqual(told.results, [])
        self.writer.run()
        self.assertEqual([(name, type(result)) for name, result in told.results[1:2]], [("append", SegmentSealed)])
        self.assertEqual(told.names, ["seal", "append", "again"])
        self.refuses(SegmentSealed, self.store.append, segment, Batch.of([b"z"]))
        self.assertEqual(self.successResultOf(self.store.seal(segment)), None)
        self.reopen()
        segment = self.store.find("news")
        self.assertTrue(segment.sealed)
        self.refuses(SegmentSealed, self.store.append, segment, Batch.of([b"z"]))
        self.do(self.store.truncate, segment, 1)
        self.assertEqual(self.records("news"), [b"y"])

    def test_close(self) -> None:
        """Closing writes what is pending, takes nothing more, and gives the directory back; also when done twice."""
        (segment,) = self.create("news")
        told = Told()
        told.when("one", self.store.append(segment, Batch.of([b"1"])))
        told.when("two", self.store.append(segment, Batch.of([b"2"])))
        told.when("close", self.store.close())
        told.when("again", self.store.close())
        self.refuses(StoreReadOnly, self.store.append, segment, Batch.of([b"3"]))
        self.refuses(StoreReadOnly, self.store.delete, segment)
        self.writer.run()
        self.assertEqual(told.names, ["one", "two", "close", "again"])
        self.open()
        self.assertEqual(self.records("news"), [b"1", b"2"])

    def test_close_when_told(self) -> None:
        """Who is told of the last commit may close the store."""
        told = Told()
        made = self.store.create("news")
        made.addCallback(lambda _: told.when("close", self.store.close()))
        self.writer.run()
        self.assertEqual(told.names, ["close"])
        self.open()


class AppendTests(StoreCase):
    """Records get their place at once and are seen when they are on disk."""

    def test_places(self) -> None:
        """Each append says where it went: numbers count records, offsets their bytes and 8 for each that is not raw."""
        (segment,) = self.create("news")
        answers = [
            self.store.append(segment, Batch.of([b"abc", b""])),
            self.store.append(segment, Batch.of([b"de"]), tag=TAG_RAW),
            self.store.append(segment, Batch.of([b"f"]), tag=3),
        ]
        self.writer.run()
        self.assertEqual([self.successResultOf(each)[:2] for each in answers], [(0, 0), (2, 19), (3, 21)])
        self.assertEqual((segment.number, segment.offset), (4, 30))
        runs = result_of(self.store.read(segment, 0, bytes_max=100))
        self.assertEqual([(run.number, run.offset, run.tag) for run in runs], [(0, 0, 0), (2, 19, TAG_RAW), (3, 21, 3)])

    def test_never_uncommitted(self) -> None:
        """A reader sees a record when its commit is on disk, not when it is gathered and not when it is written."""
        (segment,) = self.create("news")
        seen: list[int] = []
        self.store.append(segment, Batch.of([b"1"]))
        self.store.append(segment, Batch.of([b"2"]))
        self.disk.observer = lambda call, after: seen.append(len(self.records(segment)))
        self.writer.step()
        self.assertEqual((seen, self.records(segment)), ([0] * 4, [b"1"]))
        self.writer.step()
        self.assertEqual((seen, self.records(segment)), ([0] * 4 + [1] * 4, [b"1", b"2"]))

    def test_told_in_order(self) -> None:
        """Deferreds fire in the order of the requests, and each when what it asked for can be read."""
        a, b = self.create("a", "b")
        seen: list[tuple[int, int, int]] = []
        for number in range(20):
            segment = (a, b)[number % 2]
            deferred: Deferred[Any] = self.store.append(segment, Batch.of([b"%d" % number]))
            deferred.addCallback(lambda _, asked: seen.append((asked, a.number, b.number)), number)
        self.writer.run()
        # The first flew alone, the others were gathered behind it.
        self.assertEqual(seen, [(0, 1, 0)] + [(number, 10, 10) for number in range(1, 20)])

    def test_one_entry(self) -> None:
        """What goes to one segment in a commit is one entry, whoever sent it and whatever else is in the commit."""
        a, b = self.create("a", "b")
        self.store.append(a, Batch.of([b"flies alone"]))
        for number in range(50):
            self.store.append(a, Batch.of([b"a%d" % number, b""]))
            self.store.append(b, Batch.of([b"b%d" % number]))
            self.store.set_attribute(a, b"k", b"%d" % number)
        self.writer.run()
        headers = self.frames()[-1].headers
        found = [(header.segment, header.count) for header in headers if header.kind == Kind.APPEND]
        self.assertEqual(found, [(a.id, 100), (b.id, 50)])
        expected = [record for number in range(50) for record in (b"a%d" % number, b"")]
        self.assertEqual(self.records(a)[1:], expected)
        self.reopen()
        self.assertEqual(self.records("a")[1:], expected)

    def test_append_for(self) -> None:
        """Who brings its own waiter is told that it is done, in the same order, and refused for the same reasons."""
        (segment,) = self.create("news")
        told = Told()

        def append(name: str, *records: bytes) -> None:
            waiter: Deferred[Any] = Deferred()
            told.when(name, waiter)
            self.store.append_for(waiter, segment, Batch.of(records))

        append("first", b"1", b"2")
        told.when("second", self.store.append(segment, Batch.of([b"3"])))
        append("large", bytes(300_000), b"")
        append("empty", b"")
        told.when("seal", self.store.seal(segment))
        append("refused", b"4")
        self.assertEqual(told.names, [])
        self.writer.run()
        self.assertEqual(told.names, ["first", "second", "large", "empty", "seal", "refused"])
        self.assertEqual([result for _, result in told.results[:4:2]], [None, None])
        self.assertEqual((told.results[1][1].number, type(told.results[5][1])), (2, SegmentSealed))
        self.assertRaises(SegmentSealed, append, "again", b"5")
        self.do(self.store.delete, segment)
        self.assertRaises(NoSuchSegment, append, "again", b"5")
        self.assertEqual(len(told.results), 6)

    def test_nothing(self) -> None:
        """Appending no records is acknowledged at once, alone, and stores nothing."""
        (segment,) = self.create("news")
        calls = self.disk.calls
        self.assertEqual(self.append(segment)[:2], (0, 0))
        self.assertEqual(self.disk.calls, calls)

    def test_split(self) -> None:
        """No entry holds more than 256 KiB or one record, whatever is appended; it is read back as one whole."""
        sizes = {
            "empty": [0] * 200_000,
            "tiny": [1] * 150_000,
            "small": [100] * 6_000,
            "mixed": [200_000, 5, 300_000, 0, 0, 255_000, 7],
            "limit": [(256 << 10) - 4, (256 << 10) - 4],
            "huge": [1 << 20],
        }
        for name, lengths in sizes.items():
            (segment,) = self.create(name)
            records = [bytes([65 + at % 26]) * length for at, length in enumerate(lengths)]
            self.append(segment, *records)
            headers = [header for frame in self.frames() for header in frame.headers if header.segment == segment.id]
            for header in headers:
                self.assertTrue(header.length <= 256 << 10 or header.count == 1, (name, header))
            self.assertEqual(self.records(segment), records)
            self.assertEqual(segment.offset, sum(lengths) + 8 * len(lengths))
        self.reopen()
        self.assertEqual([len(self.records(name)) for name in sizes], list(map(len, sizes.values())))

    def test_too_large(self) -> None:
        """An append over the limit of a frame is refused before anything is claimed."""
        (segment,) = self.create("news")
        batch = Batch.of([bytes((256 << 20) - 3)])
        self.refuses(RequestTooLarge, self.store.append, segment, batch)
        self.refuses(RequestTooLarge, self.store.fan_out, [segment], batch)
        self.assertEqual(self.append(segment, b"x")[:2], (0, 0))

    def test_time(self) -> None:
        """Timestamps never go back, though the clock does, and a restart does."""
        (segment,) = self.create("news")
        for now in (5_000_000, 7_000_000, 3, 6_999_999, 8_000_000):
            self.writer.now = now - 1
            self.append(segment, b"x")
        self.close()
        self.open()
        self.writer.now = 10
        segment = self.store.find("news")
        self.append(segment, b"x")
        self.kill()
        segment = self.store.find("news")
        self.append(segment, b"x")
        runs = result_of(self.store.read(segment, 0, bytes_max=100))
        expected = [5_000_000, 7_000_000, 7_000_000, 7_000_000, 8_000_000, 8_000_000, 8_000_000]
        self.assertEqual([run.timestamp for run in runs], expected)
        self.assertEqual(segment.modified, 8_000_000)
