"""The laws of a reader group: each record to one member, in order, and what is acknowledged never again."""

from __future__ import annotations

import random

from streamd.batch import Batch
from streamd.groups import Group, Range
from streamd.store import NoSuchSegment, Segment, StoreError
from tests.rigs.store.case import StoreCase

MANY = 10_000


class GroupCase(StoreCase):
    """A segment, and one group of it."""

    consumes = False

    def setUp(self) -> None:
        super().setUp()
        (self.segment,) = self.create("a")
        self.group = self.make()

    def make(self) -> Group:
        """The group as a new process knows it."""
        self.segment = self.store.find("a")
        return Group(self.store, self.segment, "g", consumes=self.consumes)

    def add(self, count: int) -> None:
        """So many more records, each with its number."""
        first = self.segment.number
        self.append(self.segment, *[b"%d" % number for number in range(first, first + count)])

    def acknowledge(self, *ranges: Range) -> None:
        """Acknowledge, and let it come to the disk."""
        for first, end in ranges:
            self.do(self.group.acknowledge, first, end)
        self.writer.run()

    def take_all(self, count: int = 1) -> list[Range]:
        """All that can be taken, so many at a time."""
        found: list[Range] = []
        while (taken := self.group.take(count)) is not None:
            found.append(taken)
        return found

    def restart(self) -> None:
        """The process ends in order, and another one begins."""
        self.reopen()
        self.group = self.make()

    def crash(self) -> None:
        """The process ends, and another one begins with what is on the disk."""
        self.kill()
        self.group = self.make()


class TakeTests(GroupCase):
    """Who takes gets what nobody has."""

    def test_in_order(self) -> None:
        """Records are taken in order, as many as asked for or as there are, and none twice."""
        self.add(10)
        self.assertEqual([self.group.take(count) for count in (1, 3, 100, 1)], [(0, 1), (1, 4), (4, 10), None])
        self.add(2)
        self.assertEqual([self.group.take(1) for _ in range(3)], [(10, 11), (11, 12), None])

    def test_committed(self) -> None:
        """What is not on disk yet is not there."""
        self.add(1)
        self.store.append(self.segment, Batch.of([b"pending"]))
        self.assertEqual([self.group.take(5), self.group.take(5)], [(0, 1), None])
        self.writer.run()
        self.assertEqual(self.group.take(5), (1, 2))

    def test_truncated(self) -> None:
        """What somebody has dropped is not given out, neither new nor given back."""
        self.add(20)
        self.assertEqual(self.group.take(8), (0, 8))
        self.group.give_back(2, 8)
        self.do(self.store.truncate, self.segment, 5)
        self.assertEqual([self.group.take(2), self.group.take(9)], [(5, 7), (7, 8)])
        self.do(self.store.truncate, self.segment, 12)
        self.assertEqual([self.group.take(100), self.group.take(1)], [(12, 20), None])

    def test_truncated_before(self) -> None:
        """A group that is new begins with the first record there is."""
        self.add(20)
        self.do(self.store.truncate, self.segment, 7)
        self.group = self.make()
        self.assertEqual(self.group.take(100), (7, 20))

    def test_two_groups(self) -> None:
        """Each group has all the records for itself."""
        self.add(3)
        other = Group(self.store, self.segment, "h")
        self.assertEqual([self.group.take(2), other.take(2), self.group.take(2)], [(0, 2), (0, 2), (2, 3)])
        self.acknowledge((0, 3))
        self.restart()
        self.assertIsNone(self.group.take(5))
        self.assertEqual(Group(self.store, self.segment, "h").take(5), (0, 3))


class GiveBackTests(GroupCase):
    """What is given back is the next to be taken."""

    def test_in_order(self) -> None:
        """In the order of the records, whoever gave them back first, before all that nobody had yet."""
        self.add(20)
        self.take_all_up_to(12)
        for first, end in ((9, 11), (1, 2), (4, 7)):
            self.group.give_back(first, end)
        numbers = [number for first, end in self.take_all() for number in range(first, end)]
        self.assertEqual(numbers, [1, 4, 5, 6, 9, 10, *range(12, 20)])

    def take_all_up_to(self, count: int) -> None:
        self.assertEqual(self.group.take(count), (0, count))

    def test_in_part(self) -> None:
        """Who asks for less leaves the rest where it was."""
        self.add(10)
        self.take_all_up_to(10)
        self.group.give_back(2, 9)
        self.assertEqual([self.group.take(3), self.group.take(3), self.group.take(3)], [(2, 5), (5, 8), (8, 9)])
        self.assertIsNone(self.group.take(1))

    def test_nothing(self) -> None:
        """To give back nothing is nothing."""
        self.add(2)
        self.take_all_up_to(2)
        self.group.give_back(1, 1)
        self.assertIsNone(self.group.take(1))

    def test_again(self) -> None:
        """A record may come back any number of times."""
        self.add(1)
        for _ in range(5):
            self.take_all_up_to(1)
            self.group.give_back(0, 1)


class AcknowledgeTests(GroupCase):
    """What is acknowledged is done with, for all processes to come."""

    def test_restart(self) -> None:
        """What was taken and not acknowledged is taken again, in order; the rest is not."""
        self.add(10)
        self.assertEqual(len(self.take_all()), 10)
        self.acknowledge((0, 2), (4, 5), (7, 10))
        self.add(2)
        for restart in (self.restart, self.crash, self.restart):
            restart()
            numbers = [number for first, end in self.take_all(3) for number in range(first, end)]
            self.assertEqual(numbers, [2, 3, 5, 6, 10, 11])

    def test_not_on_disk(self) -> None:
        """An acknowledgement that is not on disk when the power fails has not been."""
        self.add(3)
        self.take_all()
        self.acknowledge((0, 1))
        answer = self.group.acknowledge(1, 2)
        self.assertNoResult(answer)
        self.crash()
        self.assertEqual(self.group.take(5), (1, 3))

    def test_deleted(self) -> None:
        """In a segment that is deleted nothing is acknowledged, and nothing else happens."""
        self.add(3)
        self.take_all()
        self.do(self.store.delete, self.segment)
        self.assertRaises(NoSuchSegment, self.do, self.group.acknowledge, 0, 1)

    def test_any_history(self) -> None:
        """Members that take, give back and acknowledge at random, over restarts and crashes.

        No record is with two members, none that is acknowledged is given again, none is passed over.
        """
        for seed in range(20):
            chance = random.Random(seed)
            self.setUp()
            held: dict[int, Range] = {}
            acknowledged: set[int] = set()
            for step in range(300):
                action = chance.choice("aattttggkkkkr" if step < 290 else "k")
                if action == "a":
                    self.add(chance.randint(1, 9))
                elif action == "t":
                    taken = self.group.take(chance.randint(1, 6))
                    out = {number for first, end in held.values() for number in range(first, end)}
                    waiting = set(range(self.segment.number)) - out - acknowledged
                    if taken is None:
                        self.assertEqual(waiting, set())
                    else:
                        self.assertEqual(min(waiting), taken[0])
                        self.assertLessEqual(set(range(*taken)), waiting)
                        held[step] = taken
                elif action == "r":
                    chance.choice((self.restart, self.crash))()
                    held.clear()
                elif held:
                    first, end = held.pop(chance.choice(list(held)))
                    middle = chance.randint(first, end)
                    self.group.give_back(middle, end)
                    if action == "g":
                        self.group.give_back(first, middle)
                    elif first < middle:
                        self.acknowledge((first, middle))
                        acknowledged.update(range(first, middle))
            self.restart()
            left = [number for first, end in self.take_all(7) for number in range(first, end)]
            self.assertEqual(left, sorted(set(range(self.segment.number)) - acknowledged))


class ConsumeTests(GroupCase):
    """A group that consumes: what is acknowledged from the beginning on goes from the segment."""

    consumes = True

    def test_all(self) -> None:
        """When all is acknowledged all is gone, however little it was, and new records have new numbers."""
        for count in (1, 5, 1):
            self.add(count)
            self.take_all()
            self.acknowledge((self.segment.number - count, self.segment.number))
            self.assertEqual(self.segment.first_number, self.segment.number)
            self.assertEqual(self.records(self.segment), [])
        self.restart()
        self.assertEqual((self.segment.first_number, self.segment.number), (7, 7))
        self.assertIsNone(self.group.take(1))

    def test_some(self) -> None:
        """While there are others, many go at once, and what is not acknowledged stays."""
        self.add(MANY)
        for first, end in self.take_all(100)[:-1]:
            self.acknowledge((first, end))
        self.assertGreater(self.segment.first_number, 4096)
        self.assertLessEqual(self.segment.first_number, MANY - 100)
        left = self.records(self.segment)
        self.assertEqual(left, [b"%d" % number for number in range(self.segment.first_number, MANY)])
        self.crash()
        self.assertEqual(self.group.take(MANY), (MANY - 100, MANY))

    def test_hole(self) -> None:
        """A record that is not acknowledged holds all behind it; when it is, they go together."""
        self.add(MANY)
        self.take_all(MANY)
        self.acknowledge((1, MANY))
        self.assertEqual(self.segment.first_number, 0)
        self.acknowledge((0, 1))
        self.assertEqual(self.segment.first_number, MANY)

    def test_at_once(self) -> None:
        """Acknowledgements in one commit, in any order, and one truncation in progress: all goes in the end."""
        self.add(MANY)
        ranges = self.take_all(10)
        random.Random(1).shuffle(ranges)
        answers = [self.group.acknowledge(first, end) for first, end in ranges]
        self.writer.run()
        for answer in answers:
            self.successResultOf(answer)
        self.assertEqual(self.segment.first_number, MANY)

    def test_deleted_meanwhile(self) -> None:
        """A segment that is deleted while its acknowledgement is on the way to the disk: that is all."""
        self.add(3)
        self.take_all()
        answer = self.group.acknowledge(0, 3)
        gone = self.store.delete(self.segment)
        self.writer.run()
        self.successResultOf(answer)
        self.successResultOf(gone)
        self.assertRaises(StoreError, self.store.find, "a")

    def test_other_readers(self) -> None:
        """It removes what it has acknowledged, whoever else reads."""
        self.add(3)
        other = Group(self.store, self.segment, "h")
        self.take_all()
        self.acknowledge((0, 3))
        self.assertIsNone(other.take(1))


class MemoryTests(GroupCase):
    """Memory follows what is outstanding, not what has been."""

    consumes = True

    def test_bounded(self) -> None:
        """Many records through, a few out at a time, in any order: nothing piles up."""
        chance = random.Random(1)

        def through(count: int) -> None:
            out: list[Range] = []
            for _ in range(count):
                self.add(50)
                while (taken := self.group.take(chance.randint(1, 10))) is not None:
                    out.append(taken)
                chance.shuffle(out)
                while len(out) > 20:
                    first, end = out.pop()
                    if chance.random() < 0.2:
                        self.group.give_back(first, end)
                    else:
                        self.acknowledge((first, end))
            for first, end in out:
                self.group.give_back(first, end)

        through(20)
        held = self.held()
        through(300)
        self.assertLess(self.held() - held, 100)

    def held(self) -> int:
        """What the group and its segment keep, counted in ranges and rows."""
        known: Segment = self.segment
        group = (known.groups or {})["g"]
        index = len(known.index) if known.index is not None else 0
        return len(self.group._returned) + len(self.group._done) + len(group.ranges) + index
