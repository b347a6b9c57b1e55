"""Reader groups and attributes: small state of a segment that outlives the process."""

from __future__ import annotations

from streamd.batch import Batch
from streamd.store import AttributeMismatch, BadName, RequestTooLarge, Segment, StoreError
from tests.rigs.store.case import StoreCase, Told


class GroupTests(StoreCase):
    """A group is a position, and what is acknowledged above it."""

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("news")
        self.append(self.segment, *[b"x"] * 20)

    def group(self, name: str = "g", segment: Segment | None = None) -> tuple[int, list[tuple[int, int]]]:
        groups = (segment or self.store.find("news")).groups
        assert groups is not None
        return groups[name].position, groups[name].ranges

    def acknowledge(self, *ranges: tuple[int, int], group: str = "g") -> None:
        self.do(self.store.acknowledge, self.segment, group, ranges)

    def test_acknowledge(self) -> None:
        """A new group begins at the first record; what is acknowledged in any order adds up; also after restarts."""
        steps: list[tuple[list[tuple[int, int]], tuple[int, list[tuple[int, int]]]]] = [
            ([(3, 5)], (0, [(3, 5)])),
            ([(8, 9), (5, 6)], (0, [(3, 6), (8, 9)])),
            ([(0, 2)], (2, [(3, 6), (8, 9)])),
            ([(2, 3)], (6, [(8, 9)])),
            ([(0, 7), (4, 8)], (9, [])),
            ([(19, 20)], (9, [(19, 20)])),
            ([(9, 20)], (20, [])),
        ]
        for ranges, expected in steps:
            self.acknowledge(*ranges)
            self.assertEqual(self.group(), expected)
            self.reopen()
            self.segment = self.store.find("news")
            self.assertEqual(self.group(), expected)

    def test_set(self) -> None:
        """A group can be put anywhere, forward and back; what was acknowledged above is forgotten."""
        self.acknowledge((3, 5))
        for position in (10, 2, 20, 0):
            self.do(self.store.set_group, self.segment, "g", position)
            self.kill()
            self.segment = self.store.find("news")
            self.assertEqual(self.group(), (position, []))

    def test_drop(self) -> None:
        """A dropped group is gone, and begins anew when it comes again."""
        self.do(self.store.drop_group, self.segment, "never there")
        self.acknowledge((0, 5))
        self.acknowledge((7, 8), group="h")
        self.do(self.store.drop_group, self.segment, "g")
        self.reopen()
        self.segment = self.store.find("news")
        self.assertEqual(list(self.segment.groups or ()), ["h"])
        self.acknowledge((4, 5))
        self.assertEqual(self.group(), (0, [(4, 5)]))

    def test_truncate(self) -> None:
        """What is truncated needs no acknowledgement, for groups that are there and for such that come."""
        self.acknowledge((3, 5), (8, 9), (12, 14))
        self.do(self.store.truncate, self.segment, 8)
        self.acknowledge((15, 16), group="later")
        self.do(self.store.set_group, self.segment, "back", 2)
        for _ in range(2):
            self.assertEqual(self.group(), (9, [(12, 14)]))
            self.assertEqual(self.group("later"), (8, [(15, 16)]))
            self.assertEqual(self.group("back"), (8, []))
            self.reopen()

    def test_not_before_it_is_on_disk(self) -> None:
        """A position is seen when it is on disk."""
        answer = self.store.acknowledge(self.segment, "g", [(0, 1)])
        self.assertFalse(self.segment.groups)
        self.writer.run()
        self.successResultOf(answer)
        self.assertEqual(self.group(), (1, []))

    def test_refused(self) -> None:
        """Records that nobody can have seen are not acknowledged, pending ones included; nor are too many ranges."""
        self.store.append(self.segment, Batch.of([b"pending"]))
        self.refuses(StoreError, self.store.acknowledge, self.segment, "g", [(20, 21)])
        self.refuses(RequestTooLarge, self.store.acknowledge, self.segment, "g", [(0, 1)] * 20_000)
        for name in ("", "x" * 256, "a\0"):
            self.refuses(BadName, self.store.acknowledge, self.segment, name, [(0, 1)])
            self.refuses(BadName, self.store.set_group, self.segment, name, 0)
            self.refuses(BadName, self.store.drop_group, self.segment, name)
        self.assertFalse(self.segment.groups)


class AttributeTests(StoreCase):
    """Small values with compare-and-set."""

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("news")

    def put(self, key: bytes, value: bytes | None, **more: bytes | None) -> None:
        self.do(self.store.set_attribute, self.segment, key, value, **more)

    def test_set(self) -> None:
        """Set, changed, removed, also to an empty value; what is there outlives the process."""
        self.put(b"a", b"1")
        self.put(b"b", b"")
        self.put(b"c", b"3")
        self.put(b"a", b"\0" * 4096)
        self.put(b"c", None)
        self.put(b"never there", None)
        self.put(b"k" * 255, b"long")
        for _ in range(2):
            found = self.store.find("news").attributes
            self.assertEqual(found, {b"a": b"\0" * 4096, b"b": b"", b"k" * 255: b"long"})
            self.reopen()

    def test_compare_and_set(self) -> None:
        """It is set only where the value is the expected one; None is a value that is not there."""
        self.put(b"a", b"1", expected=None)
        for expected in (None, b"", b"2"):
            error = self.refuses(
                AttributeMismatch, self.store.set_attribute, self.segment, b"a", b"x", expected=expected
            )
            self.assertEqual(error.stored, b"1")
        self.put(b"a", b"2", expected=b"1")
        self.put(b"a", None, expected=b"2")
        self.put(b"a", b"", expected=None)
        self.put(b"a", b"3", expected=b"")
        self.assertEqual(self.segment.attributes, {b"a": b"3"})

    def test_pending(self) -> None:
        """What is pending counts, and a refusal that rests on it is told when that is on disk."""
        told = Told()
        for name, value, expected in (("set", b"1", None), ("bad", b"2", None), ("next", b"2", b"1")):
            told.when(name, self.store.set_attribute(self.segment, b"a", value, expected=expected))
        self.assertEqual((told.results, self.segment.attributes), ([], None))
        self.writer.run()
        self.assertEqual(told.names, ["set", "bad", "next"])
        self.assertIsInstance(dict(told.results)["bad"], AttributeMismatch)
        self.assertEqual(self.segment.attributes, {b"a": b"2"})

    def test_limits(self) -> None:
        """Keys of 1 to 255 bytes, values up to 4096."""
        for key, value in ((b"", b""), (b"k" * 256, b""), (b"k", bytes(4097))):
            self.refuses(RequestTooLarge, self.store.set_attribute, self.segment, key, value)
        self.assertFalse(self.segment.attributes)
