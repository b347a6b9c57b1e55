"""One batch for many segments: each receives it as often as it stands there, and it costs what it should."""

from __future__ import annotations

from random import Random

from streamd.batch import Batch
from streamd.store import RequestTooLarge, Segment
from streamd.store.commit.fanout import ROWS_MAX, parts_of
from streamd.store.journal.frame import ENTRY_BYTES_MAX
from tests.rigs.store.folded import FoldCase
from tests.rigs.store.model import contents

HALF = ENTRY_BYTES_MAX // 2


class FanOutTests(FoldCase):
    """Fan-outs with segments that stand more than once."""

    def index_rows(self) -> int:
        """Rows of all indexes together."""
        return sum(len(each.index or ()) for each in self.store._segments.by_id.values())

    def check(self, segments: list[Segment], expected: list[list[bytes]]) -> None:
        """What they hold, as it is, after a fold, and after a start."""
        names = [segment.name for segment in segments]
        self.assertEqual([self.records(name) for name in names], expected)
        held = contents(self.store)
        for change in (self.kill, self.fold, self.reopen):
            change()
            self.assertEqual(contents(self.store), held)

    def test_any_number(self) -> None:
        """However often a segment stands there, and whatever is sent, it receives that, between what is its own."""
        for records in ([b""], [b"x"], [b"x" * 1000], [b"a", b"", b"c" * 50], [b"y" * HALF], [b"z" * 3 * HALF]):
            for times in ([1], [2, 1], [255, 1, 2], [256, 1], [300, 5, 1, 0], [1000, 777]):
                if len(records[0]) * max(times) > 100 << 20:
                    continue
                self.setUp()
                segments = self.create("a", "faststream/1", "c", "d")
                self.append(segments[0], b"before")
                self.do(self.store.fan_out, dict(zip(segments, times, strict=False)), Batch.of(records), tag=9)
                self.append(segments[0], b"behind")
                expected = [records * count for count in (*times, 0, 0, 0, 0)[: len(segments)]]
                expected[0] = [b"before", *expected[0], b"behind"]
                self.check(segments, expected)

    def test_pieces(self) -> None:
        """Records that take more than an entry are received in order, as often as it is asked for."""
        records = [bytes([65 + at]) * 100_000 for at in range(5)]
        a, b = self.create("a", "b")
        self.do(self.store.fan_out, {a: 3, b: 1}, Batch.of(records))
        self.check([a, b], [records * 3, records])

    def test_cost(self) -> None:
        """A million copies of a small record are some hundred rows, and less than a megabyte."""
        a, b = self.create("a", "b")
        before = self.store.unfolded_bytes
        self.do(self.store.fan_out, {a: 1_000_000, b: 2}, Batch.of([b"x"]))
        self.assertEqual((a.number, a.offset, b.number), (1_000_000, 9_000_000, 2))
        self.assertLess(self.index_rows(), 100)
        self.assertLess(self.store.unfolded_entries, 200)
        self.assertLess(self.store.unfolded_bytes - before, 1 << 20)
        self.fold()
        self.assertEqual(len(self.records("a")), 1_000_000)

    def test_too_many(self) -> None:
        """More rows than one request may add are refused before anything is claimed."""
        (a,) = self.create("a")
        for batch, most in ((Batch.of([bytes(HALF)]), ROWS_MAX), (Batch.of([bytes(HALF)] * 4), ROWS_MAX // 4)):
            self.assertRaises(RequestTooLarge, self.store.fan_out, {a: most + 1}, batch)
            self.assertEqual((a.next_number, a.next_offset, a.claims), (0, 0, None))
            self.assertEqual(sum(len(part.receivers) for part in parts_of(batch, {a: most})), ROWS_MAX)
        streams = self.create(*[f"faststream/{number}" for number in range(ROWS_MAX + 1)])
        self.assertRaises(RequestTooLarge, self.store.fan_out, streams, Batch.of([b"x"]))
        self.create("faststream/4000000000")
        self.assertRaises(RequestTooLarge, self.store.broadcast, Batch.of([b"x"]), without=streams)
        self.do(self.store.fan_out, streams[1:], Batch.of([b"x"]))
        self.do(self.store.broadcast, Batch.of([b"y"]), without=streams[1:])
        self.assertEqual(
            [self.records(f"faststream/{number}") for number in (0, 1, ROWS_MAX)], [[b"y"], [b"x"], [b"x"]]
        )

    def test_parts(self) -> None:
        """Whatever the numbers are, the parts give each segment what it is to receive, in few rows."""
        random = Random(3)
        segments = [Segment(number, str(number)) for number in range(20)]
        for _ in range(300):
            size = random.choice((0, 1, 60, 5000, HALF, 2 * HALF))
            batch = Batch.of([bytes(size)])
            times = {each: random.choice((1, 1, 2, 7, 100, 3000)) for each in random.sample(segments, 10)}
            try:
                parts = parts_of(batch, times)
            except RequestTooLarge:
                self.assertGreater(sum(times.values()) * max(size, 20), ENTRY_BYTES_MAX)
                continue
            received = dict.fromkeys(times, 0)
            for part in parts:
                self.assertTrue(part.batch.count == 1 or part.batch.size + 4 * part.batch.count <= ENTRY_BYTES_MAX)
                self.assertEqual(bytes(part.batch.payload), bytes(size * part.batch.count))
                for segment in part.receivers:
                    received[segment] += part.batch.count
            self.assertEqual(received, times)

    def test_breaks(self) -> None:
        """A large one takes effect in several turns, and who waits for it, or for what comes behind, is told then."""
        streams = self.create(*[f"faststream/{number}" for number in range(2000)])
        told: list[object] = []
        self.store.fan_out(streams, Batch.of([b"x"])).addCallback(told.append)
        self.append_later(streams[0], b"y", told)
        steps = 0
        while len(self.writer):
            self.assertEqual(len(told), 0 if steps < 4 else len(told))
            self.writer.step()
            steps += 1
        self.assertGreater(steps, 4)
        self.assertEqual(len(told), 2)
        self.assertEqual(self.records("faststream/0"), [b"x", b"y"])
        self.assertEqual({stream.number for stream in streams[1:]}, {1})

    def append_later(self, segment: Segment, record: bytes, told: list[object]) -> None:
        self.store.append(segment, Batch.of([record])).addCallback(told.append)
